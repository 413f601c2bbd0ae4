"""A reply while its connection lives, for a thread that waits: its facts, and its body, once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Generic, Protocol, TypeVar

from protocols.contract import Entry
from protocols.errors import ResolveError
from protocols.values import dataclass, fields
from resolver.portal import OpenResource, PortalBody
from resolver.retrieval.listing import Line, listing_line
from resolver.retrieval.streaming import LiveFacts, StreamingResponse

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Entries, or pieces of lines, that cross at once.
_MOST = 1_000


class _RecordStream(Protocol[T_co]):
    """What gives one after the other."""

    @property
    def at_hand(self) -> bool: ...

    def __aiter__(self) -> AsyncIterator[T_co]: ...

    async def __anext__(self) -> T_co: ...


class BlockingIterator(Generic[T]):
    """What a listing gives, one after the other, as it comes."""

    def __init__(self, stream: _RecordStream[T], held: OpenResource) -> None:
        self._stream = stream
        self._held = held
        self._found: list[T] = []
        self._next: Iterator[T] = iter(())
        self._failure: ResolveError | None = None

    def __iter__(self) -> BlockingIterator[T]:
        return self

    def __next__(self) -> T:
        for found in self._next:
            return found
        if self._failure is None:
            self._held.check_open()
            self._held.portal.run(self._collect)
        if not self._found and self._failure is not None:
            raise self._failure
        self._next, self._found = iter(self._found), []
        return next(self._next)

    async def _collect(self) -> None:
        """What can be had without waiting, behind the first; a failure comes behind what was found before."""
        try:
            while not self._found or (self._stream.at_hand and len(self._found) < _MOST):
                self._found.append(await anext(self._stream))
        except StopAsyncIteration:
            pass
        except ResolveError as error:
            self._failure = error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LiveReply(LiveFacts):
    """A reply whose connection still lives: facts, and a body that can be taken once, by one thread."""

    body: PortalBody
    _live: StreamingResponse
    _opened: OpenResource

    @classmethod
    def of(cls, reply: StreamingResponse, held: OpenResource) -> LiveReply:
        facts: dict[str, Any] = {each.name: getattr(reply, each.name) for each in fields(LiveFacts)}
        return cls(**facts, body=PortalBody(reply.body, held), _live=reply, _opened=held)

    @property
    def elapsed(self) -> float:
        async def elapsed() -> float:
            return self._live.elapsed

        return self._opened.portal.run(elapsed)

    def read(self, count: int = -1) -> bytes:
        """The next `count` octets of the body, fewer only at its end; without a count all that are left."""
        return self.body.read(count)

    def iter_bytes(self, size: int) -> Iterator[bytes]:
        """The body in pieces of so many octets; the last one may have fewer."""
        while octets := self.body.read(size):
            yield octets

    def entries(self) -> BlockingIterator[Entry]:
        """The entries of a listing. Raises `Declined` when the URL names no listing."""
        return BlockingIterator(self._live.entries(), self._opened)

    def lines(self, line: Line = listing_line) -> BlockingIterator[bytes]:
        """The same as lines for people, in UTF-8, each as `line` makes it; some in a piece."""
        return BlockingIterator(self._live.lines(line), self._opened)
