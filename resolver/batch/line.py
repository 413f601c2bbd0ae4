"""The tasks of one host that wait, and which of them is the next: the one that came first, but for lanes.

Tasks of one lane are at their best one behind the other: where one has just ended the next one of its lane
follows, and where none has, one of a lane in which none is under way, or the fewest are. So many at once are
each in a lane of their own, as far as there are as many. Tasks without a lane keep to their order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar


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
