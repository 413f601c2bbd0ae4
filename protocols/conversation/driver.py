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
from protocols.conversation.performer import CopiedBodyStream, Performer
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
    - `_octets`: the received bytes that the caller has not read.
    - `_part`: the current `CopyBody` step.
    - `_resume`: the function that continues the dialogue after `_octets`. It is called when the caller
      continues to read. It is not set during `_part` and at the end of the dialogue.
    - `_emitted`: whether the last step of the body was an `EmitBody`.
    - `_cancelled`: the step that was cancelled during a read. The next read repeats the step if no data is
      lost. Otherwise, `Disconnected` is raised in the dialogue.
    - `_failure`: the error that ended the body. Each further read raises this error again.
    """

    def __init__(self, dialogue: Dialogue[object], gate: Gate) -> None:
        self._dialogue = dialogue
        self._octets = b""
        self._part: CopiedBodyStream | None = None
        self._resume: Callable[[], Step] | None = None
        self._emitted = False
        self._cancelled: Step | None = None
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
                step = await self._advance(await self._consume(step))
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

    async def _consume(self, step: CopyBody) -> Callable[[], Step]:
        part = CopiedBodyStream(step, *self._performer.find_source(step))
        try:
            octets = await part.read_next()
        except ResolveError as error:
            return partial(self._dialogue.throw, error)
        assert not octets, "before StartBody the filter must keep all bytes"
        return partial(self._dialogue.send, part.result)

    def _begin_body(self) -> None:
        """Continue after the step `StartBody`.

        The next step, or its error, is stored. The stored step is performed when the caller reads the body. A
        body that was received with its head needs no further step.
        """
        try:
            step = self._dialogue.send(None)
            if type(step) is CopyBody and (buffered := self._performer.take_buffered(step)) is not None:
                self._octets, result = buffered
                step = self._dialogue.send(result)
            if self._octets:
                self._resume = lambda: step
            else:
                self._begin_step(step)
        except StopIteration as done:
            if done.value is not None:
                self._performer.release(done.value)
        except ResolveError as error:
            self._failure = error

    def take_whole(self) -> bytes:
        """Return the body if the dialogue has ended. Otherwise return an empty value."""
        if self._resume or self._part or self._failure:
            return b""
        octets, self._octets = self._octets, b""
        return octets

    def __aiter__(self) -> Conversation:
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes of the body."""
        while not (octets := self._octets):
            if (part := self._part) is not None:
                try:
                    if octets := await part.read_next():
                        return octets
                    self._resume = partial(self._dialogue.send, part.result)
                except ResolveError as error:
                    self._resume = partial(self._dialogue.throw, error)
                self._part = None
            if not await self._continue_body():
                raise StopAsyncIteration
        self._octets = b""
        return octets

    async def drain(self, sink: Sink) -> int:
        """Move the remaining body into `sink`, in bulk if the bytes are not converted."""
        count = 0
        while True:
            if octets := self._octets:
                self._octets = b""
                sink.write(octets)
                count += len(octets)
            if (part := self._part) is not None:
                before = part.delivered
                try:
                    await part.drain(sink)
                    self._resume = partial(self._dialogue.send, part.result)
                except LocalError:
                    raise
                except ResolveError as error:
                    self._resume = partial(self._dialogue.throw, error)
                count += part.delivered - before
                self._part = None
            if not await self._continue_body():
                return count

    async def _continue_body(self) -> bool:
        """Advance to the next part of the body, or raise an earlier error. Return whether it continues.

        Between two `EmitBody` steps, other tasks run (S16, resource limits).
        """
        if self._failure is not None:
            raise self._failure
        resume, self._resume = self._resume, None
        if resume is None:
            if self._cancelled is None:
                return False
            resume = self._make_retry(self._cancelled)
        try:
            step = await self._advance(resume)
        except ResolveError as error:
            self._cancelled, self._failure = None, error
            raise
        if step is None:
            return False
        was_emitted = self._emitted
        self._begin_step(step)
        if was_emitted and self._emitted:
            await self._performer.rest()
        return True

    def _begin_step(self, step: Step) -> None:
        self._emitted = False
        match step:
            case CopyBody():
                self._part = CopiedBodyStream(step, *self._performer.find_source(step))
            case EmitBody(octets=octets):
                self._emitted = True
                self._octets, self._resume = octets, partial(self._dialogue.send, None)
            case _:
                self._resume = lambda: step

    def _make_retry(self, step: Step) -> Callable[[], Step]:
        """Return a function that repeats the cancelled step and then continues.

        The function repeats a step that only waits. For any other step, the function raises an error, because
        the step may have been performed partially.
        """
        if isinstance(step, _REPEATABLE):
            return lambda: step
        return partial(self._dialogue.throw, Disconnected("a cancellation interrupted the dialogue"))

    async def _advance(self, advance: Callable[[], Step]) -> Step | None:
        """Perform steps up to the next step of the body, or return None at the end of the dialogue."""
        dialogue, performer = self._dialogue, self._performer
        try:
            step = advance()
            while type(step) not in _BODY_STEPS:
                self._cancelled, failure = step, None
                try:
                    if type(step) is Receive:
                        result = await performer.receive(step)
                    else:
                        result = await performer.perform(step)
                except ResolveError as error:
                    failure = error
                self._cancelled = None
                step = dialogue.send(result) if failure is None else dialogue.throw(failure)
        except StopIteration as done:
            if done.value is not None:
                performer.release(done.value)
            return None
        return step


#: A function that returns the reply of a dialogue, as an async context manager. The body of the reply
#: performs the later steps of the dialogue. At the end of `async with`, all connections are closed. If the
#: dialogue returned a state, its connection returns to the pool instead.
hold: Callable[[Dialogue[object], Gate], AbstractAsyncContextManager[Reply]] = Conversation
