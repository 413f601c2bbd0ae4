"""The context of a running task. A retrieval uses it to report to the work queue of its host.

`current` returns the `TaskContext` from a context variable, or None outside a batch. If a host reports too
many requests, the retrieval raises `Requeue`. The batch engine then runs other tasks, and later restarts this
task. `memory` stores the state of the task until the restart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar

from protocols.errors import Declined, ResolveError, TryLater
from protocols.location import Url

#: Reply codes for too many connections or requests (rate limiting): FTP 421, FTP 425 (Pure-FTPd: all data
#: ports are busy), FTP 530 with a matching text (RFC 959), NNTP 400 (RFC 3977), HTTP 429 and HTTP 503. The
#: other codes of `TryLater` are about a single object.
_OVERLOAD_CODES = frozenset({"400", "421", "425", "429", "503", "530"})

#: The maximum number of times that a task is queued again. A server may report "too many requests" for one
#: object forever.
_MAX_REQUEUES = 10

#: Maximum pause in seconds that a server may request (Retry-After). If a server requests a longer pause, all
#: requests to the host fail immediately until the end of the pause.
MAX_WAIT = 600.0


class Requeue(Exception):
    """A request to queue the task again, which does not count as a failure."""


class HostRefusals:
    """The refusals of one host in a batch.

    - `pause` is a time and an error. Until this time, all tasks of the host fail with this error.
    - `errors` are the errors of refused logins by the hash of the login, so that no password is stored.
    - `has_answered` is whether the host answered a request. A refused login may then be temporary.
    """

    pause: tuple[float, TryLater] | None = None
    has_answered = False

    def __init__(self) -> None:
        self.errors: dict[int, Declined] = {}


def _hash_login(url: Url) -> int:
    login = (getattr(url, name, None) for name in ("scheme", "port", "user", "password"))
    return hash(tuple(login))


class TaskContext(ABC):
    """The context of a task. All restarts of the task have the same context.

    The batch engine implements the abstract methods.

    Attributes:
        memory: for each URL, the number of attempts, the number of consecutive failed attempts, and the
            transfer number of its events.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._requeue_count = 0
        self._position: Callable[[], int] | None = None
        self._previous: tuple[Callable[[], int] | None, int | None] = None, None
        self.memory: dict[str, tuple[int, int, int]] = {}

    @property
    @abstractmethod
    def refusals(self) -> HostRefusals:
        """Return the refusals of the task's host."""

    @property
    @abstractmethod
    def max_idle(self) -> int | None:
        """Return the maximum number of idle connections to the host in the pool, or None without a limit."""

    @property
    @abstractmethod
    def is_alone(self) -> bool:
        """Return whether no other task uses the host."""

    def follow(self, position: Callable[[], int]) -> None:
        """Set the function that returns the number of received bytes, to detect a stalled task."""
        self._position = position

    def has_moved(self) -> bool:
        """Return whether data arrived since the previous call."""
        before, position = self._previous, self._position
        reached = None
        with suppress(OSError):  # A closed file has no position.
            reached = None if position is None else position()
        self._previous = position, reached
        return self._previous != before

    @abstractmethod
    def release_host(self) -> None:
        """Report that the task waits only for the disk now, so that another task may use the host."""

    def counts_as_failure(self) -> bool:
        """Return whether a "too many requests" response counts as a failure of this task.

        The response counts if no other task uses the host. It also counts if the task was queued again
        `_MAX_REQUEUES` times.
        """
        return self.is_alone or self._requeue_count >= _MAX_REQUEUES

    @abstractmethod
    def reduce_concurrency(self) -> bool:
        """Reduce the number of concurrent tasks, because this machine lacks resources.

        Returns:
            True if the task can run again with fewer concurrent tasks. False if it started as the only task.
        """

    def push_back(self, pause: float) -> None:
        """Report that the host requests a lower request rate, and a pause of `pause` seconds (backoff)."""
        self._requeue_count += 1

    def refuse_until(self, error: TryLater, pause: float) -> None:
        """Report that the host requests a pause above `MAX_WAIT`."""
        self.refusals.pause = self._now() + pause, error

    def refuse_login(self, error: Declined, url: Url) -> None:
        """Report that the host refused the login of a URL, because some servers ban a client after a few."""
        self.refusals.errors[_hash_login(url)] = error

    def refusal(self, url: Url) -> Declined | None:
        """Return the error for a request with a refused login, or during a long pause of the host."""
        refusals = self.refusals
        if refusals.errors and not refusals.has_answered and (login := _hash_login(url)) in refusals.errors:
            return refusals.errors[login].at(url.shown)
        pause = refusals.pause
        if pause is None or pause[0] <= self._now():
            return None
        until, error = pause
        words = f"not requested: the host asked for a pause: {error.message}"
        return TryLater(words, code=error.code, text=error.text, url=url.shown, after=until - self._now())


_CURRENT: ContextVar[TaskContext | None] = ContextVar("resolver.transfer.batch", default=None)


#: Return the context of the running task. The result is `None` outside a batch.
current: Callable[[], TaskContext | None] = _CURRENT.get


def enter(context: TaskContext | None) -> None:
    """Set the context of the current task. With None, the task is not queued again."""
    _CURRENT.set(context)


def is_push_back(error: ResolveError, pause: float | None) -> bool:
    """Return whether the error means an overloaded host, and is not about a single object."""
    return isinstance(error, TryLater) and (pause is not None or error.code in _OVERLOAD_CODES)
