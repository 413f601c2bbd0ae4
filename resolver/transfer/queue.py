"""The scheduler of a batch, without I/O and without a clock. It decides which task may start.

The caller passes the current time.

Order: tasks of one host start in the order of arrival, except for tasks with lanes (see `HostQueue`). The
connection limit of a host (`cap`) is its maximum number of running tasks. A host may also be paused after it
rejected a request. If tasks of several hosts may start, the host with the fewest running tasks is next. If
several hosts have the fewest running tasks, the host that has not started a task for the longest time is
next. So a slow host does not delay other hosts.

Connection limits: the lower of two limits applies, the limit of the scheme and the limit of the host. If a
host rejects requests (rate limit), its connection limit is halved. After 10 successful tasks, the connection
limit is raised by one. Each rejection doubles the number of successful tasks that are required before the
limit is raised (at most 1,000). If a server rejects several concurrent tasks, the limit is halved only once.

Silent hosts: a host that does not respond could occupy all slots of a batch until its tasks time out. For
example, two silent ftp hosts with two connections each occupy four slots. So while tasks wait, the batch
checks periodically whether the running tasks progress. A host is silent if no task of the host has progressed
or ended for `SILENCE` seconds. Then no further task of the host starts until the host responds again. The
slots of tasks at silent hosts are `lent`: the same number of additional tasks of other hosts may start.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from protocols.errors import TryLater

# The work queue of one host. Tasks start in the order of arrival, except for tasks with lanes.
#
# A lane is a group of tasks that should run in sequence on one connection, such as the files of one ftp
# directory. After a task ends, the next task of the same lane starts. If this lane is empty, a task of the
# lane with the fewest running tasks starts. So concurrent tasks are in different lanes if there are enough
# lanes. Tasks without a lane start in the order of arrival.


class QueueEntry(Protocol):
    """A task in the queue of a host.

    `number` is the position in the order of arrival. `lane` identifies a group of tasks (lane) that should
    run in sequence on one connection. A task without a lane has the value None.
    """

    @property
    def number(self) -> int: ...
    @property
    def lane(self) -> Hashable: ...


Q = TypeVar("Q", bound=QueueEntry)


class HostQueue(Generic[Q]):
    """The work queue of one host. It groups the waiting tasks by lane (tasks that run in sequence)."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, deque[Q]] = {}
        self._busy: Counter[Hashable] = Counter()
        self._ended: list[Hashable] = []  # lanes (groups) of ended tasks, from which the next task is taken
        self.count = 0

    @property
    def first(self) -> Q:
        """Return the next task. The queue must not be empty."""
        return self._lanes[self._next_lane][0]

    def add(self, task: Q) -> None:
        self._lanes.setdefault(task.lane, deque()).append(task)
        self.count += 1

    def clear(self) -> None:
        """Remove all waiting tasks."""
        self._lanes.clear()
        self.count = 0

    def take(self) -> Q:
        """Remove and return the next task. The task counts as running until `leave` is called."""
        lane = self._next_lane
        tasks = self._lanes[lane]
        task = tasks.popleft()
        self.count -= 1
        if not tasks:
            del self._lanes[lane]
        if lane is not None:
            self._busy[lane] += 1
            if self._ended:
                del self._ended[self._ended.index(lane) if lane in self._ended else 0]
        return task

    def leave(self, task: Q) -> None:
        """End a running task."""
        lane = task.lane
        if lane is None:
            return
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]
        self._ended.append(lane)

    def put_back(self, task: Q) -> None:
        """Put a task back at its original position in the work queue."""
        tasks = self._lanes.setdefault(task.lane, deque())
        index = next((at for at, other in enumerate(tasks) if other.number > task.number), len(tasks))
        tasks.insert(index, task)
        self.count += 1

    @property
    def _next_lane(self) -> Hashable:
        """Return the lane (group of tasks) of the next task."""
        for lane in reversed(self._ended):
            if lane in self._lanes:
                return lane
        for lane in self._lanes:
            if lane not in self._busy:
                return lane
        return min(self._lanes, key=self._busy.__getitem__)


T = TypeVar("T")

#: The number of successful tasks after which the connection limit of a host rises by one. The first value is
#: the initial number, and the second value is the maximum number.
_MIN_SUCCESSES, _MAX_SUCCESSES = 10, 1_000

#: The seconds without progress after which a host is silent. A login or a retry takes less time, and the
#: timeouts of a retrieval are much longer.
SILENCE = 5.0

#: A function that returns the connection limit of a host, which is the maximum number of running tasks. The
#: arguments are a scheme and the number of waiting tasks. The result None means no limit.
CapOf = Callable[[str, int], int | None]


class HostState:
    """The scheduling state of one host.

    - `ready` is the time until which the host is paused.
    - `offer` is the number of the offer that waits for `take`, or 0.
    - `closed` is a time and an error. Until this time, all tasks of the host fail with this error.
    - `last_progress` is the time of the last progress. The start of a task also counts as progress if the
      host had no other running task.
    """

    under_way = successes = lowered = last_turn = offer = 0
    cap: int | None = None
    needed_successes = _MIN_SUCCESSES
    ready = last_progress = float("-inf")
    closed: tuple[float, TryLater] | None = None
    pause = 0.0
    silent = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: HostQueue[QueuedTask[object]] = HostQueue()

    @property
    def is_forgotten(self) -> bool:
        """Return whether the state of the host can be discarded.

        If the state is discarded, only the position of the host in the order of starts is lost.
        """
        return not (self.queue.count or self.under_way or self.pause or self.cap is not None or self.closed)


@dataclass(slots=True, eq=False, repr=False)
class QueuedTask(Generic[T]):
    """A waiting or running task.

    `number` is the position of the task in the order of arrival, and `start_number` the position in the order
    of starts.
    """

    place: HostState
    scheme: str
    task: T
    number: int
    lane: Hashable = None
    start_number: int = 0


class HostScheduler(Generic[T]):
    """The scheduler of a batch, with a queue and a connection limit for each host.

    The host with an empty name is this machine, which does not have limits.

    Args:
        cap_of: a function that returns the maximum number of running tasks of a host.
        rate: the maximum number of tasks started per second at each host, or None for no limit.
        lane_of: a function that returns the lane of a task (a group of tasks that should run in sequence).
    """

    def __init__(
        self,
        cap_of: CapOf,
        *,
        rate: float | None = None,
        lane_of: Callable[[T], Hashable] | None = None,
    ) -> None:
        self._lane_of = lane_of
        self._cap_of = cap_of
        self._pause = 0.0 if rate is None else 1 / rate
        self._places: dict[str, HostState] = {}
        self._offers: list[tuple[int, int, int, HostState]] = []
        self._paused: list[tuple[float, int, HostState]] = []
        self._serial = itertools.count(1)
        self._busy: set[HostState] = set()
        self._last_check = float("-inf")
        self.any_silent = False  # whether the last call of `check_progress` found a silent host
        self.waiting = 0

    def add(self, host: str, scheme: str, task: T) -> None:
        """Append a task to the queue of its host."""
        place = self._places.get(host)
        if place is None:
            place = self._places[host] = HostState(host)
        lane = None if self._lane_of is None else self._lane_of(task)
        place.queue.add(QueuedTask(place, scheme, task, next(self._serial), lane))
        self.waiting += 1
        if not place.offer:
            self._offer(place)

    def take(self, now: float) -> QueuedTask[T] | None:
        """Start the next task, which runs until `end` or `put_back` is called, and return it.

        If no task may start now, the result is `None`.
        """
        if self._paused:
            self._end_pauses(now)
        while self._offers:
            *_, offer, place = heapq.heappop(self._offers)
            if offer != place.offer:
                continue
            if place.ready > now:  # the offer waits until the pause ends, so `add` does not repeat it
                heapq.heappush(self._paused, (place.ready, next(self._serial), place))
                continue
            place.offer = 0
            if place.queue.count and not self._is_full(place):
                return self._start(place, now)
        return None

    @property
    def lent(self) -> int:
        """Return the number of running tasks at silent hosts."""
        return sum(place.under_way for place in self._busy if place.silent) if self.any_silent else 0

    def next_check_at(self, now: float) -> float:
        """Return the time of the next progress check."""
        self._last_check = max(self._last_check, now - SILENCE)
        return self._last_check + SILENCE

    def check_progress(self, now: float, moved: Iterable[QueuedTask[T]]) -> None:
        """Find the silent hosts. `moved` are the running tasks that have progressed since the last check."""
        self._last_check = now
        for task in moved:
            self._record_progress(task.place, now)
        for place in self._busy:
            place.silent = now - place.last_progress >= SILENCE
        self.any_silent = any(place.silent for place in self._busy)

    def ready_at(self) -> float | None:
        """Return the earliest time at which a paused host may start a task, or None if no host is paused."""
        return self._paused[0][0] if self._paused else None

    def cap(self, host: str, scheme: str) -> int | None:
        """Return the maximum number of tasks that may run at the host now."""
        place = self._places.get(host)
        return self._cap_of(scheme, 0) if place is None else self._cap(place, scheme)

    def is_alone(self, task: QueuedTask[T]) -> bool:
        """Return whether no other task of the same host is running."""
        return task.place.under_way == 1

    def room(self, task: QueuedTask[T]) -> int | None:
        """Return how many further tasks of the host may start now, or None for no limit."""
        cap = self._cap(task.place, task.scheme)
        return None if cap is None else max(0, cap - task.place.under_way)

    def push_back(self, task: QueuedTask[T], now: float, pause: float = 0.0) -> None:
        """Lower the connection limit of a host after a rejection, and pause it for `pause` seconds."""
        place = task.place
        if not place.name:
            return
        place.ready = max(place.ready, now + pause)
        if task.start_number > place.lowered:
            cap = self._cap(place, task.scheme)
            running = place.under_way if cap is None else min(cap, place.under_way)
            place.cap = max(1, running // 2)
            place.successes, place.needed_successes = 0, min(_MAX_SUCCESSES, 2 * place.needed_successes)
            place.lowered = next(self._serial)
        task.start_number = next(self._serial)  # if this task is rejected later, the limit is lowered again

    def slow_down(self, host: str, pause: float) -> None:
        """Raise the minimum time between two starts at a host to `pause` seconds."""
        place = self._places.setdefault(host, HostState(host))
        place.pause = max(place.pause, pause)

    def pause_until(self, host: str, until: float) -> None:
        """Pause a host until a time that its server requested (`Retry-After`)."""
        place = self._places.setdefault(host, HostState(host))
        place.ready = max(place.ready, until)

    def pauses(self, now: float) -> dict[str, float]:
        """Return the remaining seconds of each paused host."""
        return {name: place.ready - now for name, place in self._places.items() if place.ready > now}

    def drop(self) -> None:
        """Remove all waiting tasks."""
        for place in self._places.values():
            place.queue.clear()
        self._offers.clear()
        self.waiting = 0

    def end(self, task: QueuedTask[T], now: float, *, succeeded: bool) -> None:
        """End a running task."""
        place = task.place
        if succeeded and place.cap is not None:
            self._raise(place, task.scheme)
        self._leave(task, now)

    def put_back(self, task: QueuedTask[T], now: float) -> None:
        """Put a running task back at its position in the queue of its host."""
        task.place.queue.put_back(task)  # type: ignore[arg-type]
        self.waiting += 1
        self._leave(task, now)

    def _start(self, place: HostState, now: float) -> QueuedTask[T]:
        task: QueuedTask[T] = place.queue.take()  # type: ignore[assignment]
        self.waiting -= 1
        task.start_number = place.last_turn = next(self._serial)
        if place.name and not place.under_way:
            self._busy.add(place)
            place.last_progress = now
        place.under_way += 1
        pause = max(self._pause, place.pause)
        if place.name and pause:
            place.ready = max(place.ready, now + pause)
        self._offer(place)
        return task

    def _leave(self, task: QueuedTask[T], now: float) -> None:
        place = task.place
        place.queue.leave(task)  # type: ignore[arg-type]
        place.under_way -= 1
        if not place.under_way:
            self._busy.discard(place)
        place.last_progress, place.silent = now, False
        if not place.is_forgotten:
            self._offer(place)
        elif place.ready <= now:
            self._forget(place)
        else:
            heapq.heappush(self._paused, (place.ready, next(self._serial), place))

    def _record_progress(self, place: HostState, now: float) -> None:
        place.last_progress = now
        if place.silent:
            place.silent = False
            self._offer(place)

    def _end_pauses(self, now: float) -> None:
        while self._paused and self._paused[0][0] <= now:
            place = heapq.heappop(self._paused)[2]
            place.offer = 0
            if place.is_forgotten and place.ready <= now:
                self._forget(place)
            self._offer(place)

    def _forget(self, place: HostState) -> None:
        if self._places.get(place.name) is place:
            del self._places[place.name]

    def _offer(self, place: HostState) -> None:
        """Add the host to the candidates for the next start; `take` checks its connection limit."""
        if place.queue.count:
            place.offer = next(self._serial)
            heapq.heappush(self._offers, (place.under_way, place.last_turn, place.offer, place))

    def _is_full(self, place: HostState) -> bool:
        if place.silent:
            return True
        cap = self._cap(place, place.queue.first.scheme)
        return cap is not None and place.under_way >= cap

    def _cap(self, place: HostState, scheme: str) -> int | None:
        setting = self._cap_of(scheme, place.queue.count) if place.name else None
        return setting if place.cap is None else place.cap if setting is None else min(setting, place.cap)

    def _raise(self, place: HostState, scheme: str) -> None:
        assert place.cap is not None
        setting = self._cap_of(scheme, place.queue.count)
        place.successes += 1
        if place.successes >= place.needed_successes and (setting is None or place.cap < setting):
            place.cap, place.successes = place.cap + 1, 0
