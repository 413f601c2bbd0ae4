"""The segments of an object for concurrent requests, and their connections per host. No I/O.

Segments get smaller towards the end, so that all connections finish at about the same time, however fast each
of them is: a segment is half of an equal share of the rest, and at least `LEAST`.

A peer that is not told where a segment ends (REST of RFC 3659) sends on until the connection is closed: as
much as the buffers of two sockets hold, behind each segment. There a segment is a whole share of the rest,
and at least `LEAST_WITHOUT_END`.
"""

from __future__ import annotations

from collections import Counter

from protocols.contract import Url, Validators
from resolver.files.part_state import Range, Ranges, find_missing
from resolver.policy.schemes import at_once
from resolver.policy.subject import host_key

#: Octets of a piece at least. Less is not worth a request, nor a login of FTP: at 100 Mbit/s it takes 0.08 s.
LEAST = 1_048_576

#: The same where the peer is not told where it ends: vsftpd on loopback sends 3 to 5 MB behind each piece.
LEAST_WITHOUT_END = 33_554_432


def least_piece(*, stops: bool) -> int:
    """Return the octets of a piece at least; `stops`: the peer is told where it ends."""
    return LEAST if stops else LEAST_WITHOUT_END


class SegmentPlan:
    """What is missing of an object of `size` octets, for `count` to bring."""

    def __init__(self, size: int, whole: Ranges, count: int) -> None:
        self._gaps = list(find_missing(whole, size))
        self._count = self._shares = count

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def take(self, *, stops: bool = True) -> Range | None:
        """The next piece, which is nobody else's now; None where nothing is left. `stops`: the peer is told
        where it ends."""
        if not self._gaps:
            return None
        begin, end = self._gaps.pop(0)
        left = end - begin + sum(behind - first for first, behind in self._gaps)
        least = least_piece(stops=stops)
        if stops:
            most = max(least, left // (2 * self._count))
        else:
            most = max(least, left // self._shares)
            self._shares = max(1, self._shares - 1)
        if end - begin >= most + least:
            self._gaps.insert(0, (begin + most, end))
            end = begin + most
        return begin, end

    def give_back(self, begin: int, end: int) -> None:
        """So much of a piece did not come."""
        if begin < end:
            self._gaps.insert(0, (begin, end))


def can_detect_change(known: Validators) -> bool:
    """Would another object be found out by these?"""
    return known.size is not None and (known.etag is not None or known.modified is not None)


def is_same(known: Validators, there: Validators, *, proved: bool) -> bool:
    """Has another place the object that is known? Of the same size, and with the same strong tag or the same
    time; where a digest will show it (`proved`) the size is enough. Tags are each server's own, so that
    another tag means nothing where the time is the same."""
    if known.size is None or known.size != there.size:
        return False
    same_tag = known.etag is not None and known.etag == there.etag
    same_time = known.modified is not None and known.modified == there.modified
    return proved or same_tag or same_time


# The segment connections per host, counted over all objects of a session.
#
# An object in one stream has one connection, counted by the caller that starts it. A segmented object has
# that one in any case, and more as long as its hosts have room: `at_once` gives the number.


class HostConnectionCounter:
    """Those of one session. `wanted` at one host, None for as many as are polite."""

    def __init__(self, wanted: int | None) -> None:
        self._wanted = wanted
        self._there: Counter[str] = Counter()

    def has_room(self, url: Url) -> bool:
        """May one more ask there?"""
        most = self.max_connections(url)
        return most is None or self._there[host_key(url)] < most

    def max_connections(self, url: Url) -> int | None:
        """How many may ask there at once; None: as many as there are."""
        return at_once(url.scheme, wanted=self._wanted)

    def enter(self, url: Url) -> None:
        """One more asks there."""
        self._there[host_key(url)] += 1

    def leave(self, url: Url) -> None:
        """One less does."""
        self._there[host_key(url)] -= 1
