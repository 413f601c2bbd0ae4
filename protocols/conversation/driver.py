"""The driver of dialogues, which performs their steps on connections of the network gateway.

`protocols.step` defines the steps and the type of a dialogue. A conversation first performs the steps before
`StartBody`. Later steps are performed only while the caller reads the body.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import TracebackType

from protocols.contract import Gate, Reply, Sink
from protocols.conversation.performer import CopiedBodyStream, EmittedBody, Performer
from protocols.errors import Disconnected, LocalError, ResolveError
from protocols.step import (
    CloseData,
    CopyBody,
    Dialogue,
    EmitBody,
    Peek,
    PlanNote,
    Receive,
    StartBody,
    StartRequest,
    StartResponse,
    Step,
)
from protocols.wire import Rest

_BODY_STEPS = frozenset({StartBody, EmitBody, CopyBody})
#: Steps that only wait, and steps that may be repeated after a cancellation.
_REPEATABLE = (Receive, Peek, StartResponse, StartRequest, CloseData, PlanNote, Rest)


class Conversation:
    """A dialogue in progress, on connections that the network gateway opens.

    `async with` performs the steps up to `StartBody`. Afterwards, the conversation is the body of the reply:
    it can be iterated or moved into a file. At the end of `async with`, all connections are closed.

    States of the body:
    - `_next`: the next step of the body. It is performed when the caller continues to read.
    - `_part`: the current step of the body (`EmitBody` or `CopyBody`).
    - `_broken_off`: the step that was cancelled during a read. The next read repeats the step if no data is
      lost. Otherwise, `Disconnected` is raised in the dialogue.
    - `_failure`: the error that ended the body. Each further read raises this error again.
    """

    def __init__(self, dialogue: Dialogue[object], gate: Gate) -> None:
        self._dialogue = dialogue
        self._next: Step | None = None
        self._broken_off: Step | None = None
        self._part: EmittedBody | CopiedBodyStream | None = None
        self._failure: ResolveError | None = None
        self._performer = Performer(gate)

    async def __aenter__(self) -> Reply:
        """Perform the steps up to `StartBody`, and return the reply.

        This conversation is the body of the reply.

        If no steps follow `StartBody`, the dialogue ends here, even if the caller never reads the body.
        """
        try:
            step = await self._advance(partial(self._dialogue.send, None))
            while type(step) is CopyBody:
                step = await self._advance(await self._take_in(step))
            assert type(step) is StartBody, "a dialogue must yield StartBody"
            self._begin_body()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return step.reply.with_body(self)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._dialogue.close()
        await self._performer.aclose()

    async def _take_in(self, step: CopyBody) -> Callable[[], Step]:
        part = CopiedBodyStream(step, *self._performer.source_of(step))
        try:
            octets = await part.read_next()
        except ResolveError as error:
            return partial(self._dialogue.throw, error)
        assert not octets, "before StartBody the filter must keep all bytes"
        return partial(self._dialogue.send, part.answer)

    def _begin_body(self) -> None:
        """Continue after the step `StartBody`.

        The next step, or its error, is stored.

        The stored step is performed when the caller reads the body.
        """
        try:
            self._take_up(self._dialogue.send(None))
        except StopIteration as done:
            if done.value is not None:
                self._performer.keep(done.value)
        except ResolveError as error:
            self._failure = error

    def __aiter__(self) -> Conversation:
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes of the body."""
        while (part := self._part or await self._next_part()) is not None:
            try:
                octets = await part.read_next()
            except ResolveError as error:
                await self._go_on(partial(self._dialogue.throw, error))
                continue
            if octets:
                return octets
            await self._go_on(partial(self._dialogue.send, part.answer))
        raise StopAsyncIteration

    async def drain(self, sink: Sink) -> int:
        """Move the remaining body into `sink`, in bulk if the bytes are not converted."""
        count = 0
        while (part := self._part or await self._next_part()) is not None:
            before = part.delivered
            try:
                await part.drain(sink)
                advance = partial(self._dialogue.send, part.answer)
            except LocalError:
                raise
            except ResolveError as error:
                advance = partial(self._dialogue.throw, error)
            count += part.delivered - before
            await self._go_on(advance)
        return count

    async def _next_part(self) -> EmittedBody | CopiedBodyStream | None:
        """Return the next segment of the body.

        The result is `None` at the end of the body.

        An earlier error is raised again.
        """
        if self._failure is not None:
            raise self._failure
        if (step := self._next) is not None:
            self._next = None
            await self._go_on(lambda: step)
        elif self._broken_off is not None:
            await self._go_on(self._make_retry(self._broken_off))
        return self._part

    async def _go_on(self, advance: Callable[[], Step]) -> None:
        """Advance to the next part of the body.

        Between two `EmitBody` steps, other tasks run (S16, resource limits).
        """
        before, self._part = self._part, None
        try:
            step = await self._advance(advance)
        except ResolveError as error:
            self._broken_off, self._failure = None, error
            raise
        if step is not None:
            self._take_up(step)
        if type(before) is EmittedBody and isinstance(self._part, EmittedBody):
            await self._performer.rest()

    def _take_up(self, step: Step) -> None:
        match step:
            case CopyBody():
                self._part = self._performer.body_of(step)
            case EmitBody(octets=octets):
                self._part = EmittedBody(octets)
            case _:
                self._next = step

    def _make_retry(self, step: Step) -> Callable[[], Step]:
        """Return a function that repeats the cancelled step and then continues.

        The function repeats a step that only waits. For any other step, the function raises an error, because
        the step may have been performed partially.
        """
        if isinstance(step, _REPEATABLE):
            return lambda: step
        return partial(self._dialogue.throw, Disconnected("a cancellation interrupted the dialogue"))

    async def _advance(self, advance: Callable[[], Step]) -> Step | None:
        """Perform steps up to the next step of the body.

        The result is `None` at the end of the dialogue.
        """
        while True:
            try:
                step = advance()
            except StopIteration as done:
                if done.value is not None:
                    self._performer.keep(done.value)
                return None
            if type(step) in _BODY_STEPS:
                return step
            self._broken_off = step
            try:
                advance = partial(self._dialogue.send, await self._performer.perform(step))
            except ResolveError as error:
                advance = partial(self._dialogue.throw, error)
            self._broken_off = None


#: A function that returns the reply of a dialogue, as an async context manager. The body of the reply
#: performs the later steps of the dialogue. At the end of `async with`, all connections are closed. If the
#: dialogue returned a state, its connection returns to the pool instead.
hold: Callable[[Dialogue[object], Gate], AbstractAsyncContextManager[Reply]] = Conversation
