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
or ended for `SILENCE` seconds. Then no further task of the host starts until the host responds again. For
each task at a silent host (`silent_count`), an additional task of another host may start.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from resolver.network.task import HostRefusals

# The work queue of one host. Tasks start in the order of arrival, except for tasks with lanes.
#
# A lane is a group of tasks that should run in sequence on one connection, such as the files of one ftp
# directory. After a task ends, the next task of the same lane starts. If this lane is empty, a task of the
# lane with the fewest running tasks starts. So concurrent tasks are in different lanes if there are enough
# lanes. Tasks without a lane start in the order of arrival.


T = TypeVar("T")


class HostQueue(Generic[T]):
    """The work queue of one host. It groups the waiting tasks by lane (tasks that run in sequence)."""

    def __init__(self) -> None:
        self._lanes: dict[Hashable, deque[QueuedTask[T]]] = {}
        self._busy: Counter[Hashable] = Counter()
        self._ended: list[Hashable] = []  # lanes (groups) of ended tasks, from which the next task is taken
        self.count = 0

    @property
    def first(self) -> QueuedTask[T]:
        """Return the next task. The queue must not be empty."""
        return self._lanes[self._next_lane][0]

    def add(self, task: QueuedTask[T]) -> None:
        self._lanes.setdefault(task.lane, deque()).append(task)
        self.count += 1

    def clear(self) -> None:
        """Remove all waiting tasks."""
        self._lanes.clear()
        self.count = 0

    def take(self) -> QueuedTask[T]:
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

    def leave(self, task: QueuedTask[T]) -> None:
        """End a running task."""
        lane = task.lane
        if lane is None:
            return
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]
        self._ended.append(lane)

    def put_back(self, task: QueuedTask[T]) -> None:
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


#: The number of successful tasks after which the connection limit of a host rises by one. The first value is
#: the initial number, and the second value is the maximum number.
MIN_SUCCESSES, MAX_SUCCESSES = 10, 1_000

#: The seconds without progress after which a host is silent. A login or a retry takes less time, and the
#: timeouts of a retrieval are much longer.
SILENCE = 5.0

#: A function that returns the connection limit of a host, which is the maximum number of running tasks. The
#: arguments are a scheme and the number of waiting tasks. The result None means no limit.
CapOf = Callable[[str, int], int | None]


class HostState(Generic[T]):
    """The scheduling state of one host.

    - `ready` is the time until which the host is paused.
    - `offer` is the number of the offer that waits for `take`, or 0.
    - `last_progress` is the time of the last progress. The start of a task also counts as progress if the
      host had no other running task.
    """

    running = successes = lowered = last_start = offer = 0
    cap: int | None = None
    needed_successes = MIN_SUCCESSES
    ready = last_progress = float("-inf")
    pause = 0.0
    is_silent = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: HostQueue[T] = HostQueue()
        self.refusals = HostRefusals()

    @property
    def is_forgotten(self) -> bool:
        """Return whether the state of the host can be discarded.

        If the state is discarded, only the position of the host in the order of starts is lost.
        """
        refuses = self.refusals.pause or self.refusals.errors
        return not (self.queue.count or self.running or self.pause or self.cap is not None or refuses)


@dataclass(slots=True, eq=False, repr=False)
class QueuedTask(Generic[T]):
    """A waiting or running task.

    `number` is the position of the task in the order of arrival, and `start_number` the position in the order
    of starts. `lane` identifies a group of tasks (lane) that should run in sequence on one connection. A task
    without a lane has the value None.
    """

    state: HostState[T]
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
        get_lane: a function that returns the lane of a task (a group of tasks that should run in sequence).
    """

    def __init__(
        self,
        cap_of: CapOf,
        *,
        rate: float | None = None,
        get_lane: Callable[[T], Hashable] | None = None,
    ) -> None:
        self._get_lane = get_lane
        self._cap_of = cap_of
        self._pause = 0.0 if rate is None else 1 / rate
        self._states: dict[str, HostState[T]] = {}
        self._offers: list[tuple[int, int, int, HostState[T]]] = []
        self._paused: list[tuple[float, int, HostState[T]]] = []
        self._serial = itertools.count(1)
        self._busy: set[HostState[T]] = set()
        self._last_check = float("-inf")
        self.has_silent = False  # whether the last call of `check_progress` found a silent host
        self.waiting = 0

    def add(self, host: str, scheme: str, task: T) -> None:
        """Append a task to the queue of its host."""
        state = self._states.get(host)
        if state is None:
            state = self._states[host] = HostState(host)
        lane = None if self._get_lane is None else self._get_lane(task)
        state.queue.add(QueuedTask(state, scheme, task, next(self._serial), lane))
        self.waiting += 1
        if not state.offer:
            self._offer(state)

    def take(self, now: float) -> QueuedTask[T] | None:
        """Start and return the next task, which runs until `end` or `put_back`, or return None."""
        if self._paused:
            self._end_pauses(now)
        while self._offers:
            *_, offer, state = heapq.heappop(self._offers)
            if offer != state.offer:
                continue
            if state.ready > now:  # the offer waits until the pause ends, so `add` does not repeat it
                heapq.heappush(self._paused, (state.ready, next(self._serial), state))
                continue
            state.offer = 0
            if state.queue.count and not self._is_full(state):
                return self._start(state, now)
        return None

    @property
    def silent_count(self) -> int:
        """Return the number of running tasks at silent hosts."""
        return sum(state.running for state in self._busy if state.is_silent) if self.has_silent else 0

    def next_check_at(self, now: float) -> float:
        """Return the time of the next progress check."""
        self._last_check = max(self._last_check, now - SILENCE)
        return self._last_check + SILENCE

    def check_progress(self, now: float, moved: Iterable[QueuedTask[T]]) -> None:
        """Find the silent hosts. `moved` are the running tasks that have progressed since the last check."""
        self._last_check = now
        for state in [task.state for task in moved]:
            state.last_progress = now
            if state.is_silent:
                state.is_silent = False
                self._offer(state)
        for state in self._busy:
            state.is_silent = now - state.last_progress >= SILENCE
        self.has_silent = any(state.is_silent for state in self._busy)

    def ready_at(self) -> float | None:
        """Return the earliest time at which a paused host may start a task, or None if no host is paused."""
        return self._paused[0][0] if self._paused else None

    def cap(self, host: str, scheme: str) -> int | None:
        """Return the maximum number of tasks that may run at the host now."""
        state = self._states.get(host)
        return self._cap_of(scheme, 0) if state is None else self._cap(state, scheme)

    def is_alone(self, task: QueuedTask[T]) -> bool:
        """Return whether no other task of the same host is running."""
        return task.state.running == 1

    def room(self, task: QueuedTask[T]) -> int | None:
        """Return how many further tasks of the host may start now, or None for no limit."""
        cap = self._cap(task.state, task.scheme)
        return None if cap is None else max(0, cap - task.state.running)

    def push_back(self, task: QueuedTask[T], now: float, pause: float = 0.0) -> None:
        """Lower the connection limit of a host after a rejection, and pause it for `pause` seconds."""
        state = task.state
        if not state.name:
            return
        state.ready = max(state.ready, now + pause)
        if task.start_number > state.lowered:
            cap = self._cap(state, task.scheme)
            count = state.running if cap is None else min(cap, state.running)
            state.cap = max(1, count // 2)
            state.successes, state.needed_successes = 0, min(MAX_SUCCESSES, 2 * state.needed_successes)
            state.lowered = next(self._serial)
        task.start_number = next(self._serial)  # if this task is rejected later, the limit is lowered again

    def slow_down(self, host: str, pause: float) -> None:
        """Raise the minimum time between two starts at a host to `pause` seconds."""
        state = self._states.setdefault(host, HostState(host))
        state.pause = max(state.pause, pause)

    def pause_until(self, host: str, until: float) -> None:
        """Pause a host until a time that its server requested (`Retry-After`)."""
        state = self._states.setdefault(host, HostState(host))
        state.ready = max(state.ready, until)

    def pauses(self, now: float) -> dict[str, float]:
        """Return the remaining seconds of each paused host."""
        return {name: state.ready - now for name, state in self._states.items() if state.ready > now}

    def clear(self) -> None:
        """Remove all waiting tasks."""
        for state in self._states.values():
            state.queue.clear()
        self._offers.clear()
        self.waiting = 0

    def end(self, task: QueuedTask[T], now: float, *, succeeded: bool) -> None:
        state = task.state
        if succeeded and state.cap is not None:
            setting = self._cap_of(task.scheme, state.queue.count)
            state.successes += 1
            if state.successes >= state.needed_successes and (setting is None or state.cap < setting):
                state.cap, state.successes = state.cap + 1, 0
        self._leave(task, now)

    def put_back(self, task: QueuedTask[T], now: float) -> None:
        """Put a running task back at its position in the queue of its host."""
        task.state.queue.put_back(task)
        self.waiting += 1
        self._leave(task, now)

    def _start(self, state: HostState[T], now: float) -> QueuedTask[T]:
        task = state.queue.take()
        self.waiting -= 1
        task.start_number = state.last_start = next(self._serial)
        if state.name and not state.running:
            self._busy.add(state)
            state.last_progress = now
        state.running += 1
        pause = max(self._pause, state.pause)
        if state.name and pause:
            state.ready = max(state.ready, now + pause)
        self._offer(state)
        return task

    def _leave(self, task: QueuedTask[T], now: float) -> None:
        state = task.state
        state.queue.leave(task)
        state.running -= 1
        if not state.running:
            self._busy.discard(state)
        state.last_progress, state.is_silent = now, False
        if not state.is_forgotten:
            self._offer(state)
        elif state.ready <= now:
            self._forget(state)
        else:
            heapq.heappush(self._paused, (state.ready, next(self._serial), state))

    def _end_pauses(self, now: float) -> None:
        while self._paused and self._paused[0][0] <= now:
            state = heapq.heappop(self._paused)[2]
            state.offer = 0
            if state.is_forgotten and state.ready <= now:
                self._forget(state)
            self._offer(state)

    def _forget(self, state: HostState[T]) -> None:
        if self._states.get(state.name) is state:
            del self._states[state.name]

    def _offer(self, state: HostState[T]) -> None:
        """Add the host to the candidates for the next start; `take` checks its connection limit."""
        if state.queue.count:
            state.offer = next(self._serial)
            heapq.heappush(self._offers, (state.running, state.last_start, state.offer, state))

    def _is_full(self, state: HostState[T]) -> bool:
        if state.is_silent:
            return True
        cap = self._cap(state, state.queue.first.scheme)
        return cap is not None and state.running >= cap

    def _cap(self, state: HostState[T], scheme: str) -> int | None:
        setting = self._cap_of(scheme, state.queue.count) if state.name else None
        return setting if state.cap is None else state.cap if setting is None else min(setting, state.cap)
