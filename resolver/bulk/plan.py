"""The plan of a run: all requests, by hosts, in slices of which no host is in two at once; and its forecast.

The plan is filled first, and queried then. `BulkScheduler` decides on numbers alone; the requests are in a
temporary database (`PendingRequests`). Of slices that wait for a worker the one with the greatest `urgency`
is first: it has the hosts that decide when the run ends.

    with BulkPlan(HostPace(rate=2.0)) as plan:
        plan.add(item, host, scheme)
        while (slice := plan.take()) is not None: ...  # None: whatever is left is of partitions under way
        plan.end(slice, left, seconds)
"""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar

from protocols.errors import ResolveError
from protocols.location import JsonValue, Url
from resolver.bulk.messages import BulkRequest, RequestSlice
from resolver.bulk.queue import BOX, PARTITIONS, BulkScheduler, HostPace, HostShare, PendingRequests
from resolver.policy.schemes import MANY, at_once
from resolver.policy.subject import host_key
from resolver.transfer.many import SaveRequest
from resolver.transfer.naming import local_file_name
from resolver.transfer.verification import Checksum
from resolver.url.parsing import UrlLike, redact, url_of

if TYPE_CHECKING:
    from distributed import Client


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
        held = self._list_requests(share)
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

    def _list_requests(self, share: HostShare) -> list[tuple[int, int, BulkRequest]]:
        """Its requests, with their hosts and numbers, in the order in which they can be begun."""
        held = []
        for host, number_of in share.counts:
            between = self._turns.seconds_between(host)
            for place, (number, item) in enumerate(self._waiting.find_first(host, number_of)):
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
        return max((seconds for _, _, seconds in self._turns.find_slowest(1)), default=0.0)

    def find_largest(self, most: int) -> list[tuple[str, int, float]]:
        """The hosts that need longest, with their requests and seconds."""
        found = self._turns.find_slowest(most)
        return [(self._waiting.name(host), requests, seconds) for host, requests, seconds in found]

    def histogram(self) -> list[tuple[int, int]]:
        """How many hosts have 1 to 9 requests, 10 to 99 and so on: the least, and the hosts."""
        return self._turns.histogram()

    def turns(self) -> BulkScheduler:
        """A copy of what decides, of all that is left: to be played through."""
        return self._turns.copy()


#: Octets of a name that stand behind its digest: with all that stands beside it while it is written, it is
#: one that every file system takes.
_LONGEST = 120

#: The directory for bodies of this machine's own files.
_HERE = "local"

#: What a run may be given: URLs and `SaveRequest`s, or a collection of Dask that has them: a bag, or a column
#: of a dataframe.
Given: TypeAlias = "Iterable[UrlLike | SaveRequest] | Any"


class PlannedRequest(NamedTuple):
    """A request, and whom it will ask: a name without a host is of this machine, or of nobody."""

    item: BulkRequest
    host: str
    scheme: str


def place_request(request: UrlLike | SaveRequest) -> PlannedRequest:
    """What is no URL has a place, too: it fails where all others do, and is told of with them."""
    wanted = request if isinstance(request, SaveRequest) else SaveRequest(request)
    text = _text(wanted.url)
    try:
        url = url_of(wanted.url, origin=wanted.origin)
    except ResolveError:
        return PlannedRequest(
            BulkRequest(text, wanted.path or _place_below(_HERE, text), _encode_options(wanted)), "", ""
        )
    host = host_key(url)
    return PlannedRequest(
        BulkRequest(text, wanted.path or _place(url, host, text), _encode_options(wanted)), host, url.scheme
    )


def request_of(item: BulkRequest) -> SaveRequest:
    """What was asked for, as the worker hears of it."""
    more: dict[str, Any] = dict(item.more or {})
    for name in ("mirrors", "referrer"):
        if name in more:
            more[name] = tuple(more[name])
    return SaveRequest(item.url, item.path, **more)


def _encode_options(request: SaveRequest) -> dict[str, JsonValue] | None:
    more: dict[str, JsonValue] = {}
    if request.mirrors:
        more["mirrors"] = [_text(each) for each in request.mirrors]
    if request.checksum is not None:
        told = request.checksum
        more["checksum"] = _words(told) if isinstance(told, Checksum) else told
    if request.size is not None:
        more["size"] = request.size
    if request.origin != "user":
        more["origin"] = request.origin
    if request.referrer is not None:
        more["referrer"] = list(request.referrer)
    return more or None


def _words(checksum: Checksum) -> str:
    return f"{checksum.algorithm}:{checksum.digest}" if checksum.digest else checksum.algorithm


def _text(url: UrlLike) -> str:
    return url.text if isinstance(url, Url) else str(url)


def _place(url: Url, host: str, text: str) -> str:
    """One name for one URL, whatever else there is and however often it is asked for: a digest, and behind it
    what people know it by."""
    place = _place_below(host.removesuffix(":") or _HERE, text)
    try:
        name = local_file_name(url)
        return f"{place}-{name}" if len(name.encode()) <= _LONGEST else place
    except (ResolveError, UnicodeEncodeError):
        return place


def _place_below(directory: str, text: str) -> str:
    """By a digest of the URL as it is shown: no password is guessed by it."""
    digest = hashlib.blake2b(redact(text).encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return f"{directory}/{digest[:2]}/{digest}"


def iterate_requests(given: Given, client: Client | None) -> Iterator[UrlLike | SaveRequest]:
    """One by one. Of a collection of Dask a partition is brought here at a time."""
    if not hasattr(given, "__dask_graph__"):
        yield from given
        return
    collection: Any = given
    for part in collection.to_delayed():
        yield from part.compute() if client is None else client.compute(part).result()


# The forecast of a run: the plan itself, simulated in virtual time.
#
# The scheduler of a real run decides (`BulkScheduler`), on a copy of its numbers; only the workers are
# simulated, and every slice takes the estimated time. So a forecast knows the limits of hosts and the
# capacity of a cluster, and guesses the speed of hosts.

#: For so many workers it is said how long it will take.
WORKERS = (1, 4, 16)

#: Slices that are handed out for each slot. With none at hand a slot is idle for as long as a message takes,
#: once a minute. With more, those of the slowest host wait behind those of others: with two it takes a fifth
#: longer where a cluster is as large as it can be of use (`python -m bench.bulk_plan`).
AHEAD = 1.0

#: Seconds that a slice takes besides its requests: to be handed out, to connect, to be accounted for.
BESIDES = 0.2

#: Hosts that are told one by one.
_MOST = 10


class ForecastTask(Protocol):
    """A slice, or a share: how long it will take."""

    @property
    def seconds(self) -> float: ...


T = TypeVar("T", bound=ForecastTask)


class Planner(Protocol[T]):
    """What decides: a `BulkPlan`, or its `Turns`."""

    def take(self) -> T | None: ...

    def end(self, task: T, left: Sequence[Any], seconds: float, /) -> None: ...

    def urgency(self, task: T, /) -> float: ...


class SimulatedRun(NamedTuple):
    """What came of it: seconds until the last slice was over, how many there were, how many of them at most
    had been handed out at once, and for how many seconds slots were busy, all together."""

    makespan: float
    slices: int
    most_in_flight: int
    work: float


class Forecast(NamedTuple):
    """`bound` are the seconds that it takes at least, for the host `bound_by`; `expected` those for so many
    workers. `largest` are the hosts that need longest, with their requests and seconds; `histogram` says how
    many hosts have 1 to 9 requests, 10 to 99 and so on: the least, and the hosts. `iterate_requests` is how
    many seconds a request is thought to take."""

    requests: int
    hosts: int
    slices: int
    bound: float
    bound_by: str | None
    expected: Mapping[int, float]
    largest: tuple[tuple[str, int, float], ...]
    histogram: tuple[tuple[int, int], ...]
    each: float = 1.0


def forecast(plan: BulkPlan, *, threads: int = 1) -> Forecast:
    """What is before a plan, which stays as it is. `threads` are those of each worker."""
    played = {workers: simulate(plan.turns(), workers * threads) for workers in WORKERS}
    largest = plan.find_largest(_MOST)
    return Forecast(
        requests=plan.requests,
        hosts=plan.hosts,
        slices=played[WORKERS[0]].slices,
        bound=plan.bound,
        bound_by=largest[0][0] if largest else None,
        expected={workers: each.makespan for workers, each in played.items()},
        largest=tuple(largest),
        histogram=tuple(plan.histogram()),
        each=plan.pace.each,
    )


def as_thought(task: ForecastTask) -> tuple[Sequence[Any], float]:
    """All of it was done, in the time that was thought of."""
    return (), task.seconds + BESIDES


def simulate(
    planner: Planner[T],
    slots: int,
    *,
    perform: Callable[[T], tuple[Sequence[Any], float]] = as_thought,
    ahead: float = AHEAD,
) -> SimulatedRun:
    """Play it to its end, with so many slots. `perform` says of a slice what would be left of it, and
    how long it would take. `ahead` slices are handed out for each slot; a slot that is free begins the
    most urgent of them, and only then does anybody hear that its last one is over."""
    now, work, number, most = 0.0, 0.0, count(), 0
    at_hand: list[tuple[float, int, T]] = []
    running: list[tuple[float, int, T, Sequence[Any], float]] = []
    room = max(slots, int(slots * ahead))

    def begin() -> None:
        nonlocal work
        while at_hand and len(running) < slots:
            _, each, task = heapq.heappop(at_hand)
            left, seconds = perform(task)
            work += seconds
            heapq.heappush(running, (now + seconds, each, task, left, seconds))

    while True:
        begin()
        while len(running) + len(at_hand) < room and (task := planner.take()) is not None:
            heapq.heappush(at_hand, (-planner.urgency(task), next(number), task))
        most = max(most, len(running) + len(at_hand))
        begin()
        if not running:
            return SimulatedRun(now, next(number), most, work)
        now, _, ended, left, seconds = heapq.heappop(running)
        begin()
        planner.end(ended, left, seconds)
