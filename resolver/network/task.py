"""The link of a running task to its host's queue, for questions and reports anywhere in a retrieval.

It is found by the context that the task runs in (`current`): what retrieves knows nothing of batches, and
without one there is none. A task whose host pushes back raises `Requeue`: its place is free for others, and
it is begun again when its host may have it. What it then has to know of itself is in `memory`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Protocol

from protocols.errors import ResolveError, TryLater

#: Codes by which a peer says that there are too many of us, or too many at all: FTP 421, 530 where words tell
#: (RFC 959), NNTP 400 (RFC 3977), HTTP 429 and 503. Others of `TryLater` are about one object.
_TOO_MANY = frozenset({"400", "421", "429", "503", "530"})

#: How often a task gives way for nothing but others: a peer may say "too many" of one object, for ever.
_MOST_OFTEN = 10

#: Seconds: who wants to be left alone for longer has said no for now, to whatever else there is of it.
LONGEST_WAIT = 600.0


class Requeue(Exception):
    """The task is to be put back; nothing of it has failed."""


class TaskState(Protocol):
    """What the engine knows of the task."""

    @property
    def is_alone(self) -> bool: ...

    @property
    def room(self) -> int | None: ...

    def lower(self) -> bool: ...

    def push_back(self, pause: float) -> None: ...

    def rest(self) -> None: ...

    def close(self, until: float, error: TryLater) -> None: ...

    def closed(self) -> tuple[float, TryLater] | None: ...


class TaskContext:
    """A task from when it first starts until it is over. `memory` is kept over all its turns: of each URL how
    many tries it had, and how many of them in a row were in vain."""

    def __init__(self, bench: TaskState, now: Callable[[], float]) -> None:
        self._bench = bench
        self._now = now
        self._gave_way = 0
        self._position: Callable[[], int] | None = None
        self._seen: tuple[Callable[[], int] | None, int | None] = None, None
        self.memory: dict[str, tuple[int, int, int]] = {}

    @property
    def room(self) -> int | None:
        """How many connections its host may have besides those that work; None: as many as there are."""
        return self._bench.room

    def follow(self, position: Callable[[], int]) -> None:
        """By this it can be told from now on whether anything comes."""
        self._position = position

    def has_moved(self) -> bool:
        """Has anything come since this was asked last?"""
        before, position = self._seen, self._position
        reached = None
        with suppress(OSError):  # a file that is closed has none
            reached = None if position is None else position()
        self._seen = position, reached
        return self._seen != before

    def rest(self) -> None:
        """It asks its host for nothing more, and only waits for a disk: others may begin in its place."""
        self._bench.rest()

    def counts(self) -> bool:
        """Is it this task's own doing where its host pushes back, as nobody else is there?"""
        return self._bench.is_alone or self._gave_way >= _MOST_OFTEN

    def lower(self) -> bool:
        """This machine has no room for as many tasks: fewer are under way from now on. Return whether that
        helps; it does not where this one is alone."""
        return self._bench.lower()

    def push_back(self, pause: float) -> None:
        """Its host wants less of us, and nothing for so many seconds."""
        self._gave_way += 1
        self._bench.push_back(pause)

    def close(self, error: TryLater, pause: float) -> None:
        """Its host wants nothing of us, for longer than anybody waits."""
        self._bench.close(self._now() + pause, error)

    def refusal(self, url: str) -> TryLater | None:
        """What its host said to all that is asked of it now."""
        closed = self._bench.closed()
        if closed is None or closed[0] <= self._now():
            return None
        until, error = closed
        words = f"not asked: the host wants to be left alone; it said {error.message}"
        return TryLater(words, code=error.code, text=error.text, url=url, after=until - self._now())


_TURN: ContextVar[TaskContext | None] = ContextVar("resolver.transfer.batch", default=None)


#: The turn of the task that this is done for, if it is one of a batch.
current: Callable[[], TaskContext | None] = _TURN.get


def enter(turn: TaskContext) -> None:
    """What this task of a loop does from now on belongs to it."""
    _TURN.set(turn)


def is_push_back(error: ResolveError, pause: float | None) -> bool:
    """Is it about how much is asked of a host, and not about one object?"""
    return isinstance(error, TryLater) and (pause is not None or error.code in _TOO_MANY)
