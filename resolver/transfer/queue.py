"""The queue of a batch: a machine without I/O that is given the time and decides which task may start.

Tasks of one host start in the order in which they came, except for lanes (below), as many at once as its cap
allows, and no sooner than the host accepts another request. Among hosts that may start one, the host with the
fewest running tasks has the turn, and among several the one whose last turn is longest ago: a slow host
delays no other.

The cap is that of the task's scheme, or the host's where it is lower. A host that pushes back has its cap
halved, and a success there raises it by one now and then, the more rarely the more often that happened. Tasks
that were running when it was lowered do not count: a burst is pushed back as a whole.

Caps alone do not keep hosts that hang from holding every place of a batch until they time out: two of ftp
hold four. Nor could places that are reserved for hosts that answered: the hanging ones would hold the others,
and a host that has not answered yet may be about to. Only time tells. So where others wait, the owner of the
tasks checks now and then whether they progress: a host of which none progressed and none ended since
`SILENCE` is silent. It starts no more tasks until it answers again, and its running ones are `lent`: others
may start in their places.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from protocols.errors import TryLater

# The waiting tasks of one host, and which of them is next: the one that came first, except for lanes.
#
# Tasks of one lane run best in sequence: where one has just ended the next one of its lane follows; otherwise
# one of a lane in which none is running, or the fewest are. Concurrent tasks are in different lanes as far as
# there are enough. Tasks without a lane keep their order.


class QueueEntry(Protocol):
    """`number` is its place in the order in which all came; `lane` None where it has none."""

    @property
    def number(self) -> int: ...
    @property
    def lane(self) -> Hashable: ...


Q = TypeVar("Q", bound=QueueEntry)


class HostQueue(Generic[Q]):
    def __init__(self) -> None:
        self._lanes: dict[Hashable, deque[Q]] = {}
        self._busy: Counter[Hashable] = Counter()
        self._ended: list[Hashable] = []  # and nothing has taken its place since
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def first(self) -> Q:
        """The next one; there has to be one."""
        return self._lanes[self._next][0]

    def add(self, each: Q) -> None:
        self._lanes.setdefault(each.lane, deque()).append(each)
        self._count += 1

    def clear(self) -> None:
        """Nothing waits any more."""
        self._lanes.clear()
        self._count = 0

    def take(self) -> Q:
        """The next one, which is under way then until `leave`."""
        lane = self._next
        waiting = self._lanes[lane]
        each = waiting.popleft()
        self._count -= 1
        if not waiting:
            del self._lanes[lane]
        if lane is not None:
            self._busy[lane] += 1
            if self._ended:
                del self._ended[self._ended.index(lane) if lane in self._ended else 0]
        return each

    def leave(self, each: Q) -> None:
        """It is under way no more."""
        lane = each.lane
        if lane is None:
            return
        self._busy[lane] -= 1
        if not self._busy[lane]:
            del self._busy[lane]
        self._ended.append(lane)

    def put_back(self, each: Q) -> None:
        """It waits once more, where it was among those of its lane."""
        waiting = self._lanes.setdefault(each.lane, deque())
        behind = next((at for at, other in enumerate(waiting) if other.number > each.number), len(waiting))
        waiting.insert(behind, each)
        self._count += 1

    @property
    def _next(self) -> Hashable:
        """The lane of the next one."""
        for lane in reversed(self._ended):
            if lane in self._lanes:
                return lane
        for lane in self._lanes:
            if lane not in self._busy:
                return lane
        return min(self._lanes, key=self._busy.__getitem__)


T = TypeVar("T")

#: What has to succeed before the cap is raised by one: at first, and at most.
_SLOWLY, _MOST_SLOWLY = 10, 1_000

#: Seconds after which a host is silent of which nothing came. Longer than a login takes, or a second try;
#: much shorter than a time limit.
SILENCE = 5.0

#: How many tasks of a scheme one host may have under way, where so many more wait for it; None: as many as
#: there may be at all.
CapOf = Callable[[str, int], int | None]


@dataclass(slots=True, eq=False)
class HostState:
    """What is known of one host. `ready` is the time before which nothing starts there;
    where it is `closed`, all that starts is told the same until then. `heard` is when something moved there
    last, or began where nothing was under way."""

    name: str
    queue: HostQueue[QueuedTask[object]] = field(default_factory=HostQueue)
    under_way: int = 0
    cap: int | None = None
    successes: int = 0
    needed: int = _SLOWLY
    ready: float = float("-inf")
    lowered: int = 0
    last_turn: int = 0
    offer: int = 0
    closed: tuple[float, TryLater] | None = None
    pause: float = 0.0
    heard: float = float("-inf")
    silent: bool = False

    @property
    def is_forgotten(self) -> bool:
        """Is there nothing to remember of it, but when it was asked last?"""
        return not (self.queue or self.under_way or self.pause or self.cap is not None or self.closed)


@dataclass(slots=True, eq=False)
class QueuedTask(Generic[T]):
    """A task in the queue of its host; or, once it was taken, under way. `number` is its place in the order
    in which all came, `begun` in which they started."""

    place: HostState
    scheme: str
    task: T
    number: int
    lane: Hashable = None
    begun: int = 0


class HostScheduler(Generic[T]):
    """`rate` is how many tasks start a second at each host, if that is bounded. A host without a name, which
    is this machine, has no bounds. `lane_of` says of a task which others it best comes behind."""

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
        self._looked = float("-inf")
        self._any_silent = False  # at the last look, which alone makes one silent
        self.waiting = 0

    def add(self, host: str, scheme: str, task: T) -> None:
        """It waits, behind those of its host."""
        place = self._places.get(host)
        if place is None:
            place = self._places[host] = HostState(host)
        lane = None if self._lane_of is None else self._lane_of(task)
        place.queue.add(QueuedTask(place, scheme, task, next(self._serial), lane))
        self.waiting += 1
        if len(place.queue) == 1 or self._lets_more(place, scheme):
            self._offer(place)

    def _lets_more(self, place: HostState, scheme: str) -> bool:
        """Has its cap just risen, by one more that waits?"""
        count = len(place.queue)
        return self._cap_of(scheme, count) != self._cap_of(scheme, count - 1)

    def take(self, now: float) -> QueuedTask[T] | None:
        """The one that starts now, if any may: it is under way then, until `end` or `put_back`."""
        self._wake(now)
        while self._offers:
            *_, offer, place = heapq.heappop(self._offers)
            if offer != place.offer or not place.queue or self._is_full(place):
                continue
            if place.ready > now:
                heapq.heappush(self._paused, (place.ready, next(self._serial), place))
                continue
            return self._start(place, now)
        return None

    @property
    def lent(self) -> int:
        """How many are under way at hosts that are silent."""
        return sum(place.under_way for place in self._busy if place.silent) if self._any_silent else 0

    def look_at(self, now: float) -> float:
        """When it is to be looked again whether they move."""
        self._looked = max(self._looked, now - SILENCE)
        return self._looked + SILENCE

    def look(self, now: float, moved: Iterable[QueuedTask[T]]) -> None:
        """These moved since the last look, of all that are under way."""
        self._looked = now
        for task in moved:
            self._hear(task.place, now)
        for place in self._busy:
            place.silent = now - place.heard >= SILENCE
        self._any_silent = any(place.silent for place in self._busy)

    def ready_at(self) -> float | None:
        """When the next one may start that waits for nothing but time; None where none does."""
        return self._paused[0][0] if self._paused else None

    def cap(self, host: str, scheme: str) -> int | None:
        """How many may be under way there, as far as is known."""
        place = self._places.get(host)
        return self._cap_of(scheme, 0) if place is None else self._cap(place, scheme)

    def is_alone(self, task: QueuedTask[T]) -> bool:
        """Is no other of its host under way?"""
        return task.place.under_way == 1

    def room(self, task: QueuedTask[T]) -> int | None:
        """How many more of its host might be under way."""
        cap = self._cap(task.place, task.scheme)
        return None if cap is None else max(0, cap - task.place.under_way)

    def push_back(self, task: QueuedTask[T], now: float, pause: float = 0.0) -> None:
        """Its host wants less of us, and for so many seconds nothing."""
        place = task.place
        if not place.name:
            return
        place.ready = max(place.ready, now + pause)
        if task.begun > place.lowered:
            cap = self._cap(place, task.scheme)
            most = place.under_way if cap is None else min(cap, place.under_way)
            place.cap = max(1, most // 2)
            place.successes, place.needed = 0, min(_MOST_SLOWLY, 2 * place.needed)
            place.lowered = next(self._serial)
        task.begun = next(self._serial)  # what it meets from now on is new

    def slow_down(self, host: str, pause: float) -> None:
        """The host wants so many seconds between two starts, or more."""
        place = self._places.get(host)
        if place is None:
            place = self._places[host] = HostState(host)
        place.pause = max(place.pause, pause)

    def leave_alone(self, host: str, until: float) -> None:
        """The host has told somebody before that it wants nothing until then."""
        place = self._places.get(host)
        if place is None:
            place = self._places[host] = HostState(host)
        place.ready = max(place.ready, until)

    def pauses(self, now: float) -> dict[str, float]:
        """The seconds that are left for which each host wants nothing, of those that do."""
        return {name: place.ready - now for name, place in self._places.items() if place.ready > now}

    def drop(self) -> None:
        """What waits is none of ours any more."""
        for place in self._places.values():
            place.queue.clear()
        self._offers.clear()
        self.waiting = 0

    def end(self, task: QueuedTask[T], now: float, *, succeeded: bool) -> None:
        """It is over."""
        place = task.place
        if succeeded and place.cap is not None:
            self._raise(place, task.scheme)
        self._leave(task, now)

    def put_back(self, task: QueuedTask[T], now: float) -> None:
        """It waits once more, where it was in the order of its host."""
        task.place.queue.put_back(task)  # type: ignore[arg-type]
        self.waiting += 1
        self._leave(task, now)

    def _start(self, place: HostState, now: float) -> QueuedTask[T]:
        task: QueuedTask[T] = place.queue.take()  # type: ignore[assignment]
        self.waiting -= 1
        task.begun = place.last_turn = next(self._serial)
        if place.name and not place.under_way:
            self._busy.add(place)
            place.heard = now
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
        place.heard, place.silent = now, False
        if place.is_forgotten and place.ready <= now:
            self._forget(place)
        elif place.is_forgotten:
            heapq.heappush(self._paused, (place.ready, next(self._serial), place))
        self._offer(place)

    def _hear(self, place: HostState, now: float) -> None:
        place.heard = now
        if place.silent:
            place.silent = False
            self._offer(place)

    def _wake(self, now: float) -> None:
        while self._paused and self._paused[0][0] <= now:
            place = heapq.heappop(self._paused)[2]
            if place.is_forgotten and place.ready <= now:
                self._forget(place)
            self._offer(place)

    def _forget(self, place: HostState) -> None:
        if self._places.get(place.name) is place:
            del self._places[place.name]

    def _offer(self, place: HostState) -> None:
        """It may be its turn, unless it is full; what was offered of it before counts no more."""
        if place.queue and not self._is_full(place):
            place.offer = next(self._serial)
            heapq.heappush(self._offers, (place.under_way, place.last_turn, place.offer, place))

    def _is_full(self, place: HostState) -> bool:
        if place.silent:
            return True
        cap = self._cap(place, place.queue.first.scheme)
        return cap is not None and place.under_way >= cap

    def _cap(self, place: HostState, scheme: str) -> int | None:
        own = self._cap_of(scheme, len(place.queue)) if place.name else None
        return own if place.cap is None else place.cap if own is None else min(own, place.cap)

    def _raise(self, place: HostState, scheme: str) -> None:
        assert place.cap is not None
        own = self._cap_of(scheme, len(place.queue))
        place.successes += 1
        if place.successes >= place.needed and (own is None or place.cap < own):
            place.cap, place.successes = place.cap + 1, 0
