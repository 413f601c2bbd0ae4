"""The order of hosts and the sizes of their shares, without I/O; and the waiting requests.

Hosts belong to partitions, and a partition has at most one share under way. So a limit of one host holds for
the whole cluster, whichever worker does the shares, without communication. The next share is of the free
partition that has the most seconds of work left: the longest must not wait, and all others fill the remaining
workers. In it every host gets the requests that it can answer within `box` seconds, hosts with the most
seconds left first, and all of them concurrently.

The rate of requests to a host is the user's setting, or a polite default. Its speed is assumed until its
first share is over, and then learned: too many requests for the time only cost their transport, and too few
leave a host idle that could have been asked. So unfinished requests tell exactly how fast a host is, and
where all of them were done while another host was awaited, twice the speed is tried next.

Requests that another run has done need none, and tell nothing of a host: where most of a share was done, the
next one of its partition has many times as much.

The machine holds some forty bytes for each host, and nothing for a request.
"""

from __future__ import annotations

import heapq
import json
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from protocols.errors import LocalError
from resolver.bulk.messages import BulkRequest

#: Enough that of some thousand hosts few share one, and few enough that each may have a file.
PARTITIONS = 1_024

#: Seconds that a share takes at most.
BOX = 60.0

#: Requests of one share at most: what is in flight stands in the memory of who sends it.
MOST = 2_000

#: As exact as seconds are here: 120 requests at 2 a second are a minute.
_EXACT = 1e-9

#: What took no longer than this times as long as was thought took as long as was thought.
_ABOUT = 1.1

#: So many times as much is sent where most of it needs no asking.
_LEAP = 16

#: Nobody answers sooner: what was learned of a host that refuses everything at once.
_SOONEST = 1e-4


class HostPace(NamedTuple):
    """How fast hosts are asked. `rate` is how many requests begin a second at each, if that is bounded, and
    `per_host` how many one has under way, where it is not what is polite for its scheme. `each` is how many
    seconds a request takes, which is a guess, and `at_once` how many a share has under way."""

    rate: float | None = None
    per_host: int | None = None
    each: float = 1.0
    at_once: int = 64

    def compute_interval(self, cap: int | None) -> float:
        """Seconds for each request of a host that may have `cap` under way; None: as many as a share has, and
        it has no rate."""
        if cap is None:
            return self.each / self.at_once
        return max(self.each / min(cap, self.at_once), 0.0 if self.rate is None else 1 / self.rate)


class HostShare(NamedTuple):
    """Hosts and how many requests of each, those with the most seconds before them first. `last`: nothing of
    the partition waits behind it. `seconds` is how long it will take, as far as that is
    known."""

    partition: int
    number: int
    counts: tuple[tuple[int, int], ...]
    last: bool
    seconds: float


class BulkScheduler:
    """The shares of all that was added, each request once, and what was given back once more."""

    def __init__(self, pace: HostPace, *, partitions: int = PARTITIONS, box: float = BOX) -> None:
        self._pace = pace
        self._box = box
        self._partition = array("l")  # of each host
        self._cap = array("l")  # how many it may have under way; 0: as many as there are
        self._asked = array("q")  # all its requests
        self._waiting = array("q")  # those that no share has
        self._between = array("d")  # seconds for each, as far as is known
        self._hosts = [array("l") for _ in range(partitions)]  # those that have some waiting
        self._each = array(
            "d", [pace.each] * partitions
        )  # seconds that a request takes, where many are there
        self._shares = array("l", [0] * partitions)  # so far
        self._before = array("d", [0.0] * partitions)  # seconds, as the heap has it
        self._heap: list[tuple[float, int]] = []
        self._changed: set[int] = set()
        self._under_way: dict[int, HostShare] = {}
        self._done_before: set[int] = set()  # partitions, most of which needs no asking
        self.waiting = 0

    def copy(self) -> BulkScheduler:
        """Of what waits, as if nothing were under way; it shares nothing with this one."""
        twin = BulkScheduler(self._pace, partitions=len(self._hosts), box=self._box)
        twin._partition, twin._cap = self._partition[:], self._cap[:]
        twin._asked, twin._waiting = self._waiting[:], self._waiting[:]
        twin._between, twin._each = self._between[:], self._each[:]
        twin._hosts = [hosts[:] for hosts in self._hosts]
        twin._changed = {partition for partition, hosts in enumerate(twin._hosts) if hosts}
        twin.waiting = self.waiting
        return twin

    # -- what there is to do

    def add_host(self, partition: int, cap: int | None) -> int:
        """The number of another one, from 0. `cap` is how many it may have under way; None: it has no
        bound."""
        self._partition.append(partition)
        self._cap.append(cap or 0)
        self._asked.append(0)
        self._waiting.append(0)
        self._between.append(self._pace.compute_interval(cap))
        return len(self._partition) - 1

    def lower(self, host: int, cap: int | None) -> None:
        """It is also asked for something of which it may have no more than this under way."""
        if cap is not None and not 0 < self._cap[host] <= cap:
            self._cap[host] = cap
            self._between[host] = self._pace.compute_interval(cap)

    def add(self, host: int) -> None:
        """One request more."""
        self._asked[host] += 1
        self._wait(host, 1)
        self._changed.add(self._partition[host])

    def _wait(self, host: int, count: int) -> None:
        if count and not self._waiting[host]:
            self._hosts[self._partition[host]].append(host)
        self._waiting[host] += count
        self.waiting += count

    # -- shares

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def seconds_before(self, partition: int) -> float:
        """What waits of it needs so long, as far as is known."""
        slowest, count = 0.0, 0
        for host in self._hosts[partition]:
            waiting = self._waiting[host]
            count += waiting
            slowest = max(slowest, waiting * self._between[host])
        return max(slowest, count * self._each[partition] / self._pace.at_once)

    def seconds_between(self, host: int) -> float:
        """For each of its requests, as far as is known."""
        return self._between[host]

    def take(self) -> HostShare | None:
        """The next one; None where nothing waits that nobody is at."""
        for partition in self._changed - self._under_way.keys():
            self._stand(partition)
        self._changed.clear()  # those under way stand in line again when that is over
        while self._heap:
            before, partition = heapq.heappop(self._heap)
            if partition not in self._under_way and -before == self._before[partition]:
                return self._share_of(partition)
        return None

    def urgency(self, share: HostShare) -> float:
        """Seconds that its partition needs with it: of the shares that wait for a worker the one with the
        most is to be first."""
        return share.seconds + self.seconds_before(share.partition)

    def _stand(self, partition: int) -> None:
        """Stand in line, if it has anything to do there."""
        self._before[partition] = self.seconds_before(partition)
        if self._hosts[partition]:
            heapq.heappush(self._heap, (-self._before[partition], partition))

    def _share_of(self, partition: int) -> HostShare:
        counts = self._count_requests(partition)
        for host, count in counts:
            self._waiting[host] -= count
            self.waiting -= count
        self._hosts[partition] = array("l", (host for host in self._hosts[partition] if self._waiting[host]))
        share = HostShare(
            partition,
            self._shares[partition],
            tuple(counts),
            last=not self._hosts[partition],
            seconds=self._seconds_of(partition, counts),
        )
        self._shares[partition] += 1
        self._under_way[partition] = share
        return share

    def _count_requests(self, partition: int) -> list[tuple[int, int]]:
        """How many of each host."""
        waiting, between = self._waiting, self._between
        slowest = sorted(self._hosts[partition], key=lambda host: (-waiting[host] * between[host], host))
        seconds = self._box * (_LEAP if partition in self._done_before else 1)
        wanted = sum(self._count_within(seconds, host) for host in slowest)
        most_together = self._pace.at_once / self._each[partition]  # a second
        if wanted > MOST:  # less time for all of them, but not less than so many take in any case
            seconds = max(seconds * MOST / wanted, min(seconds, MOST / most_together))
        room = max(1, min(MOST, int(seconds * most_together + _EXACT)))
        counts = []
        for host in slowest:
            count = min(self._count_within(seconds, host), room)
            counts.append((host, count))
            room -= count
            if not room:
                break
        return counts

    def _count_within(self, seconds: float, host: int) -> int:
        """So many can be asked for in that time, of those that wait. One in any case."""
        return min(self._waiting[host], max(1, int(seconds / self._between[host] + _EXACT)))

    def _seconds_of(self, partition: int, counts: Sequence[tuple[int, int]]) -> float:
        together = sum(count for _, count in counts) * self._each[partition] / self._pace.at_once
        alone = max(count * self._between[host] for host, count in counts)
        found = max(self._pace.each, together, alone)
        return min(found, self._box) if partition in self._done_before else found

    def end(
        self, share: HostShare, left: Iterable[tuple[int, int]], seconds: float, *, idle: int = 0
    ) -> None:
        """It is over, after so many seconds. `left` is how many of which host were not begun, `idle` how
        many of all others needed no asking. Raises `ValueError` for one that is not under way."""
        if self._under_way.get(share.partition) is not share:
            raise ValueError(f"share {share.number} of partition {share.partition} is not under way")
        del self._under_way[share.partition]
        not_begun = dict(left)
        begun = sum(count for _, count in share.counts) - sum(not_begun.values())
        if begun and 2 * idle >= begun:
            self._done_before.add(share.partition)
        elif begun and seconds > 0:
            self._done_before.discard(share.partition)
            self._learn(share, not_begun, begun, seconds)
        for host, count in not_begun.items():
            self._wait(host, count)
        self._stand(share.partition)

    # -- how fast they are

    def _learn(self, share: HostShare, left: dict[int, int], begun: int, seconds: float) -> None:
        until = min(seconds, self._box)  # when nothing more was begun
        for host, count in share.counts:
            not_begun = left.get(host, 0)
            if not_begun == count:
                continue
            found = until / (count - not_begun) if not_begun else self._not_slower(host, count, seconds)
            self._between[host] = max(found, self._compute_interval(host), _SOONEST)
        crowded = any(left.get(host) == count for host, count in share.counts)  # they had no turn at all
        found = (until if crowded else seconds) * self._pace.at_once / begun
        each = found if crowded else min(found, self._each[share.partition])
        self._each[share.partition] = max(each, _SOONEST)

    def _not_slower(self, host: int, count: int, seconds: float) -> float:
        """It did all of it in that time, in which others perhaps did more."""
        known = self._between[host]
        return known / 2 if seconds > known * count * _ABOUT else min(known, seconds / count)

    def _compute_interval(self, host: int) -> float:
        """Seconds for each request that no answer makes fewer."""
        return 1 / self._pace.rate if self._pace.rate is not None and self._cap[host] else 0.0

    # -- what it comes to

    def find_slowest(self, most: int) -> list[tuple[int, int, float]]:
        """The hosts that need longest, as far as is known before anything was asked for: their requests, and
        seconds. Those without a bound are not among them."""
        numbers = (host for host, cap in enumerate(self._cap) if cap and self._asked[host])
        found = heapq.nsmallest(most, numbers, key=lambda host: (-self._seconds_of_all(host), host))
        return [(host, self._asked[host], self._seconds_of_all(host)) for host in found]

    def _seconds_of_all(self, host: int) -> float:
        return self._asked[host] * self._pace.compute_interval(self._cap[host] or None)

    def histogram(self) -> list[tuple[int, int]]:
        """How many hosts have 1 to 9 requests, 10 to 99, and so on, each with the least; as far as there
        are any."""
        lengths = Counter(
            len(str(asked)) for host, asked in enumerate(self._asked) if asked and self._cap[host]
        )
        return [(10 ** (length - 1), lengths[length]) for length in range(1, max(lengths, default=0) + 1)]

    @property
    def ended(self) -> int:
        """Partitions of which nothing is left."""
        there = {partition for partition, asked in zip(self._partition, self._asked, strict=True) if asked}
        return sum(not self._hosts[each] and each not in self._under_way for each in there)


# Waiting requests, by their hosts: in a temporary database, so that memory does not grow with them.
#
# The file has no name, is private, and is gone with the connection. A request stays in it until it was begun,
# so a request that a worker holds is still there, and needs no action to be returned.

#: Requests that are put down together, and hosts whose numbers are held in memory.
_TOGETHER = 1_000
_MOST_HELD = 20_000

_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -16384;
CREATE TABLE item (number INTEGER PRIMARY KEY, host INTEGER NOT NULL, url TEXT, path TEXT, more TEXT);
CREATE TABLE host (number INTEGER PRIMARY KEY, name TEXT NOT NULL, partition INTEGER NOT NULL);
CREATE UNIQUE INDEX named ON host (name, partition);
BEGIN;
"""


class NumberedRequest(NamedTuple):
    """A request and its place among all."""

    number: int
    item: BulkRequest


class PendingRequests:
    """Raises `LocalError` where the database does not work: a full disk. It is for one thread at a time."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], int] = {}
        self._new: list[tuple[int, str, str, str | None]] = []
        self._is_in_order = False
        with _faults():
            self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            self._database.executescript(_SCHEMA)

    def close(self) -> None:
        self._database.close()

    # -- hosts

    def host(self, name: str, partition: int) -> int | None:
        """Its number; None for one that is new."""
        found = self._held.get((name, partition))
        if found is None:
            query = "SELECT number FROM host WHERE name = ? AND partition = ?"
            with _faults():
                row = self._database.execute(query, (name, partition)).fetchone()
            if row is None:
                return None
            found = self._hold(name, partition, int(row[0]))
        return found

    def add_host(self, number: int, name: str, partition: int) -> None:
        with _faults():
            self._database.execute("INSERT INTO host VALUES (?, ?, ?)", (number, name, partition))
        self._hold(name, partition, number)

    def name(self, host: int) -> str:
        with _faults():
            [name] = self._database.execute("SELECT name FROM host WHERE number = ?", (host,)).fetchone()
        return str(name)

    def _hold(self, name: str, partition: int, number: int) -> int:
        if len(self._held) >= _MOST_HELD:
            self._held.clear()
        self._held[name, partition] = number
        return number

    # -- requests

    def add(self, host: int, item: BulkRequest) -> None:
        more = None if item.more is None else json.dumps(dict(item.more))
        self._new.append((host, item.url, item.path, more))
        if len(self._new) >= _TOGETHER:
            self._put_down()

    def _put_down(self) -> None:
        insert = "INSERT INTO item (host, url, path, more) VALUES (?, ?, ?, ?)"
        with _faults():
            self._database.executemany(insert, self._new)
        self._new.clear()

    def find_first(self, host: int, count: int) -> list[NumberedRequest]:
        """The first that wait of it, in the order in which they came."""
        self._put_in_order()
        query = "SELECT number, url, path, more FROM item WHERE host = ? ORDER BY number LIMIT ?"
        with _faults():
            rows = self._database.execute(query, (host, count)).fetchall()
        return [
            NumberedRequest(number, BulkRequest(url, path, None if more is None else json.loads(more)))
            for number, url, path, more in rows
        ]

    def _put_in_order(self) -> None:
        """All that came, by hosts: made once, where it costs a tenth of what it costs with each request."""
        if self._new:
            self._put_down()
        if not self._is_in_order:
            with _faults():
                self._database.execute("CREATE INDEX turn ON item (host, number)")
            self._is_in_order = True

    def forget(self, numbers: Iterable[int]) -> None:
        """They were begun."""
        with _faults():
            self._database.executemany("DELETE FROM item WHERE number = ?", ((each,) for each in numbers))


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise LocalError(f"what is to be fetched cannot be kept in a temporary database: {error}") from error
