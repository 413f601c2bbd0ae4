"""The segments (byte ranges) of an object, and the number of connections per host. No I/O.

Segments become smaller towards the end of the object, so that all connections finish at about the same time
despite different speeds. With N connections, a segment has 1/(2N) of the remaining bytes, but at least
`LEAST` bytes.

FTP's REST command (RFC 3659) has only a start offset. The server sends data until the client closes the
connection. After each segment, the client discards the bytes that the socket buffers already contain.
Therefore FTP segments are larger. With N connections, an FTP segment has 1/N of the remaining bytes, but at
least `LEAST_WITHOUT_END` bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocols.contract import Url, Validators
from resolver.policy.schemes import max_connections
from resolver.policy.subject import host_key

if TYPE_CHECKING:
    from resolver.files.part_state import Range, Ranges

#: Minimum segment size in bytes. 1 MiB takes 0.08 s at 100 Mbit/s. For a smaller segment, the request or the
#: FTP login takes longer than the transfer.
LEAST = 1_048_576

#: The minimum size of a segment in bytes if the request cannot include an end offset. vsftpd on loopback
#: sends 3 to 5 MB after the end of a segment.
LEAST_WITHOUT_END = 33_554_432


def least_piece(*, stops: bool) -> int:
    """Return the minimum segment size in bytes. `stops`: range requests include the end offset."""
    return LEAST if stops else LEAST_WITHOUT_END


def find_missing(ranges: Ranges, size: int) -> Iterator[Range]:
    """Yield the ranges that are missing in a file of `size` bytes."""
    behind = 0
    for begin, end in (*ranges, (size, size)):
        if behind < begin:
            yield behind, begin
        behind = end


class SegmentPlan:
    """The missing ranges of an object of `size` bytes, divided for `count` connections."""

    def __init__(self, size: int, whole: Ranges, count: int) -> None:
        self._gaps = list(find_missing(whole, size))
        self._count = self._shares = count

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def take(self, *, stops: bool = True) -> Range | None:
        """Return the next segment and reserve it, or return None if no range is missing.

        `stops` is whether range requests include the end offset.
        """
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
        """Put the missing bytes of a failed segment back into the plan."""
        if begin < end:
            self._gaps.insert(0, (begin, end))


def can_detect_change(known: Validators) -> bool:
    """Return whether these validators can distinguish two versions of the object."""
    return known.size is not None and (known.etag is not None or known.modified is not None)


def is_same(known: Validators, there: Validators, *, proved: bool) -> bool:
    """Return whether another location has the same object, by its validators.

    The sizes must be equal. In addition, the strong entity tags or the modification times must be equal. If a
    digest will verify the complete object (`proved`), equal sizes are sufficient. Each server has its own
    entity tags, so different tags are ignored if the times are equal.
    """
    if known.size is None or known.size != there.size:
        return False
    same_tag = known.etag is not None and known.etag == there.etag
    same_time = known.modified is not None and known.modified == there.modified
    return proved or same_tag or same_time


# The number of segment connections per host, counted over all objects of a session.
#
# Connections that retrieve a complete object are not counted here. A segmented download always has at least
# one connection. Further connections are opened within the limits per host (`max_connections`).


class HostConnectionCounter:
    """The counter of segment connections per host, over all objects of a session.

    `wanted` is the maximum number of connections per host. With None, the default of the scheme is used.
    """

    def __init__(self, wanted: int | None) -> None:
        self._wanted = wanted
        self._there: Counter[str] = Counter()

    def has_room(self, url: Url) -> bool:
        """Return whether one more connection to the host is allowed."""
        most = self.max_connections(url)
        return most is None or self._there[host_key(url)] < most

    def max_connections(self, url: Url) -> int | None:
        """Return the maximum number of concurrent connections to the host, or None for no limit."""
        return max_connections(url.scheme, setting=self._wanted)

    def enter(self, url: Url) -> None:
        """Count a new connection to the host."""
        self._there[host_key(url)] += 1

    def leave(self, url: Url) -> None:
        """Count the end of a connection to the host."""
        self._there[host_key(url)] -= 1
