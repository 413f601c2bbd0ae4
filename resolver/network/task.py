"""The link of a running task to its host's queue, for questions and reports anywhere in a retrieval.

`current` finds the link by the context of the task; it returns None outside a batch. Retrieval code knows
about batches only through this link. If the host asks for fewer requests, its task raises `Requeue`. Another
task may run, and the first task starts again when its host allows it. `memory` keeps the state for that next
start.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Protocol

from protocols.errors import ResolveError, TryLater

#: Codes for too many connections or requests: FTP 421, 530 with a matching text (RFC 959), NNTP 400 (RFC
#: 3977), HTTP 429 and 503. Other codes of `TryLater` concern one object.
_TOO_MANY = frozenset({"400", "421", "429", "503", "530"})

#: Maximum number of requeues because of other tasks, because a server may report "too many" for one object
#: forever.
_MOST_OFTEN = 10

#: Maximum pause in seconds. If a server asks for a longer pause, all requests to its host fail immediately
#: until the pause ends.
LONGEST_WAIT = 600.0


class Requeue(Exception):
    """The task must be queued again; it has not failed."""


class TaskState(Protocol):
    """The engine's view of the task."""

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
    """A task from its first start to its end.

    `memory` is kept over all restarts. It holds for each URL the number of tries, the number of consecutive
    failed tries, and the transfer number of its events.
    """

    def __init__(self, bench: TaskState, now: Callable[[], float]) -> None:
        self._bench = bench
        self._now = now
        self._gave_way = 0
        self._position: Callable[[], int] | None = None
        self._seen: tuple[Callable[[], int] | None, int | None] = None, None
        self.memory: dict[str, tuple[int, int, int]] = {}

    @property
    def room(self) -> int | None:
        """Return how many idle connections its host may have; None without a limit."""
        return self._bench.room

    def follow(self, position: Callable[[], int]) -> None:
        """Set the function that returns the number of received bytes."""
        self._position = position

    def has_moved(self) -> bool:
        """Return whether data arrived since the previous call."""
        before, position = self._seen, self._position
        reached = None
        with suppress(OSError):  # a closed file has no position
            reached = None if position is None else position()
        self._seen = position, reached
        return self._seen != before

    def rest(self) -> None:
        """Report that the task only waits for the disk: another task may use the host."""
        self._bench.rest()

    def counts(self) -> bool:
        """Return whether a request to slow down counts as this task's own failure.

        It counts if no other task uses the host, or after `_MOST_OFTEN` requeues.
        """
        return self._bench.is_alone or self._gave_way >= _MOST_OFTEN

    def lower(self) -> bool:
        """Reduce the number of concurrent tasks, because this machine lacks resources.

        Returns:
            Whether fewer tasks help; False if this task is the only one.
        """
        return self._bench.lower()

    def push_back(self, pause: float) -> None:
        """Report that the host asks for fewer requests, and for a pause of so many seconds."""
        self._gave_way += 1
        self._bench.push_back(pause)

    def close(self, error: TryLater, pause: float) -> None:
        """Report that the host asks for a pause longer than a task waits."""
        self._bench.close(self._now() + pause, error)

    def refusal(self, url: str) -> TryLater | None:
        """Return the error for all requests to a host that asked for a long pause, or None."""
        closed = self._bench.closed()
        if closed is None or closed[0] <= self._now():
            return None
        until, error = closed
        words = f"not requested: the host asked for a pause: {error.message}"
        return TryLater(words, code=error.code, text=error.text, url=url, after=until - self._now())


_TURN: ContextVar[TaskContext | None] = ContextVar("resolver.transfer.batch", default=None)


#: The turn of the running task; None outside a batch.
current: Callable[[], TaskContext | None] = _TURN.get


def enter(turn: TaskContext) -> None:
    """Assign the current task of the loop to `turn`."""
    _TURN.set(turn)


def is_push_back(error: ResolveError, pause: float | None) -> bool:
    """Return whether the error concerns the load on the host, not one object."""
    return isinstance(error, TryLater) and (pause is not None or error.code in _TOO_MANY)
