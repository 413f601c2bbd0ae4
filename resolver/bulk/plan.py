"""What a cluster is asked for next: all requests, by hosts, in slices of which no host is in two at once.

It is filled first, and then asked. `BulkScheduler` decides, and knows numbers only; what is asked for stands
in a temporary database (`PendingRequests`). Of slices that wait for a worker the one with the greatest
`urgency` is to be first: it is of the hosts that the end waits for.

    with Plan(Pace(rate=2.0)) as plan:
        plan.add(item, host, scheme)
        while (slice := plan.take()) is not None: ...  # None: whatever is left is of partitions under way
        plan.end(slice, left, seconds)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from types import TracebackType

from resolver.bulk.item import BulkRequest, RequestSlice
from resolver.bulk.turns import BOX, PARTITIONS, BulkScheduler, HostPace, HostShare
from resolver.bulk.waiting import PendingRequests
from resolver.policy.schemes import MANY, at_once

__all__ = ["BOX", "PARTITIONS", "BulkPlan", "HostPace", "partition_of"]

#: What is shown for files of this machine, which have no host.
_NO_HOST = "files"


def partition_of(host: str, partitions: int = PARTITIONS) -> int:
    """The same everywhere and always: by its number a partition's files are found again."""
    digest = blake2b(host.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % partitions


class BulkPlan:
    """A context manager; for one thread at a time. Raises `LocalError` where its database does not work."""

    def __init__(self, pace: HostPace, *, partitions: int = PARTITIONS, box: float = BOX) -> None:
        self.pace = pace
        self._partitions = partitions
        self._turns = BulkScheduler(pace, partitions=partitions, box=box)
        self._waiting = PendingRequests()
        self._under_way: dict[int, tuple[HostShare, list[tuple[int, int, BulkRequest]]]] = {}
        self._schemes: dict[str, int | None] = {}
        self.requests = 0
        self.hosts = 0

    def __enter__(self) -> BulkPlan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._waiting.close()

    def add(self, item: BulkRequest, host: str, scheme: str) -> None:
        """One request more. `host` is what `policy.host_key` says; without one it has no bounds, and may
        be in any partition, which its URL says."""
        partition = partition_of(host or item.url, self._partitions)
        number = self._waiting.host(host, partition)
        if number is None:
            number = self._turns.add_host(partition, self._cap(scheme) if host else None)
            self._waiting.add_host(number, host, partition)
            self.hosts += bool(host)
        elif host:
            self._turns.lower(number, self._cap(scheme))
        self._turns.add(number)
        self._waiting.add(number, item)
        self.requests += 1

    def _cap(self, scheme: str) -> int | None:
        if scheme not in self._schemes:
            self._schemes[scheme] = at_once(scheme, MANY, wanted=self.pace.per_host)
        return self._schemes[scheme]

    # -- slices

    def take(self) -> RequestSlice | None:
        """The next one, of the free partition that needs longest. None where nothing is left, or all of it is
        of partitions that are under way."""
        share = self._turns.take()
        if share is None:
            return None
        held = self._held(share)
        self._under_way[share.partition] = share, held
        others = len(share.counts) - 1
        name = self._waiting.name(share.counts[0][0]) or _NO_HOST
        return RequestSlice(
            partition=share.partition,
            number=share.number,
            label=f"{name} +{others}" if others else name,
            items=tuple(item for _, _, item in held),
            last=share.last,
            seconds=share.seconds,
        )

    def _held(self, share: HostShare) -> list[tuple[int, int, BulkRequest]]:
        """Its requests, with their hosts and numbers, in the order in which they can be begun."""
        held = []
        for host, count in share.counts:
            between = self._turns.seconds_between(host)
            for place, (number, item) in enumerate(self._waiting.first(host, count)):
                held.append((place * between, number, host, item))
        held.sort(key=lambda each: each[:2])
        return [(number, host, item) for _, number, host, item in held]

    def end(
        self, slice: RequestSlice, left: Sequence[BulkRequest] = (), seconds: float = 0.0, *, idle: int = 0
    ) -> None:
        """It is over after so many seconds, and what is `left` was not begun: all of it where it was lost.
        That is handed out again, before all others of its hosts. How fast hosts are is learned of it, unless
        the `seconds` are 0, or most of what was begun needed no asking: so many are `idle`, for another run
        has done them.

        Raises `ValueError` for a slice that is not under way, and for what was not in it."""
        found = self._under_way.get(slice.partition)
        if found is None or found[0].number != slice.number:
            raise ValueError(f"slice {slice.number} of partition {slice.partition} is not under way")
        share, held = found
        missing = Counter((item.url, item.path) for item in left)
        begun, not_begun = list[int](), Counter[int]()
        for number, host, item in reversed(held):  # of those that are alike the first were begun
            if missing[item.url, item.path]:
                missing[item.url, item.path] -= 1
                not_begun[host] += 1
            else:
                begun.append(number)
        if missing.total():
            raise ValueError(f"{missing.total()} of what is left were not in slice {slice.number}")
        self._waiting.forget(begun)
        del self._under_way[slice.partition]
        self._turns.end(share, not_begun.items(), seconds, idle=idle)

    # -- figures

    def urgency(self, slice: RequestSlice) -> float:
        """Seconds that its partition needs with it: of those that wait for a worker the one with most is
        to be first."""
        return self._turns.urgency(self._under_way[slice.partition][0])

    @property
    def left(self) -> int:
        """Requests that are in no slice under way."""
        return self._turns.waiting

    @property
    def in_flight(self) -> int:
        """Slices that are under way."""
        return self._turns.under_way

    @property
    def ended(self) -> int:
        """Partitions of which nothing is left."""
        return self._turns.ended

    @property
    def bound(self) -> float:
        """Seconds that it takes at least, however many workers there are: what the host needs that is
        slowest, by its rate or else by what it may have under way."""
        return max((seconds for _, _, seconds in self._turns.slowest(1)), default=0.0)

    def largest(self, most: int) -> list[tuple[str, int, float]]:
        """The hosts that need longest, with their requests and seconds."""
        found = self._turns.slowest(most)
        return [(self._waiting.name(host), requests, seconds) for host, requests, seconds in found]

    def histogram(self) -> list[tuple[int, int]]:
        """How many hosts have 1 to 9 requests, 10 to 99 and so on: the least, and the hosts."""
        return self._turns.histogram()

    def turns(self) -> BulkScheduler:
        """A copy of what decides, of all that is left: to be played through."""
        return self._turns.copy()
