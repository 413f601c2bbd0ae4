"""The segments (byte ranges) of an object, and the number of connections per host. No I/O.

Segments become smaller towards the end of the object, so that all connections finish at about the same time
despite different speeds. With N connections, a segment has 1/(2N) of the remaining bytes, but at least
`MIN_SEGMENT` bytes.

FTP's REST command (RFC 3659) has only a start offset. The server sends data until the client closes the
connection. After each segment, the client discards the bytes that the socket buffers already contain.
Therefore FTP segments are larger. With N connections, an FTP segment has 1/N of the remaining bytes, but at
least `MIN_OPEN_SEGMENT` bytes.
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
MIN_SEGMENT = 1_048_576

#: The minimum size of a segment in bytes if the request cannot include an end offset. vsftpd on loopback
#: sends 3 to 5 MB after the end of a segment.
MIN_OPEN_SEGMENT = 33_554_432


def min_size(*, stops: bool) -> int:
    """Return the minimum segment size in bytes. `stops`: range requests include the end offset."""
    return MIN_SEGMENT if stops else MIN_OPEN_SEGMENT


def find_missing(ranges: Ranges, size: int) -> Iterator[Range]:
    """Yield the ranges that are missing in a file of `size` bytes."""
    covered = 0
    for begin, end in (*ranges, (size, size)):
        if covered < begin:
            yield covered, begin
        covered = end


class SegmentPlan:
    """The missing ranges of an object of `size` bytes, divided for `count` connections."""

    def __init__(self, size: int, completed: Ranges, count: int) -> None:
        self._gaps = list(find_missing(completed, size))
        self._count = self._share_count = count

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def take(self, *, stops: bool = True) -> Range | None:
        """Return the next segment and reserve it, or return None if no range is missing.

        `stops` is whether range requests include the end offset.
        """
        if not self._gaps:
            return None
        begin, end = self._gaps.pop(0)
        remaining = end - begin + sum(stop - first for first, stop in self._gaps)
        smallest = min_size(stops=stops)
        if stops:
            largest = max(smallest, remaining // (2 * self._count))
        else:
            largest = max(smallest, remaining // self._share_count)
            self._share_count = max(1, self._share_count - 1)
        if end - begin >= largest + smallest:
            self._gaps.insert(0, (begin + largest, end))
            end = begin + largest
        return begin, end

    def give_back(self, begin: int, end: int) -> None:
        """Put the missing bytes of a failed segment back into the plan."""
        if begin < end:
            self._gaps.insert(0, (begin, end))


def can_detect_change(validators: Validators) -> bool:
    """Return whether these validators can distinguish two versions of the object."""
    return validators.size is not None and (validators.strong_etag or validators.modified) is not None


def is_same(expected: Validators, other: Validators, *, proved: bool) -> bool:
    """Return whether another location has the same object, by its validators.

    The sizes must be equal. In addition, the strong entity tags or the modification times must be equal. If a
    digest will verify the complete object (`proved`), equal sizes are sufficient. Each server has its own
    entity tags, so different tags are ignored if the times are equal.
    """
    if expected.size is None or expected.size != other.size:
        return False
    same_tag = expected.strong_etag is not None and expected.etag == other.etag
    same_time = expected.modified is not None and expected.modified == other.modified
    return proved or same_tag or same_time


# The number of segment connections per host, counted over all objects of a session.
#
# Connections that retrieve a complete object are not counted here. A segmented download always has at least
# one connection. Further connections are opened within the limits per host (`max_connections`).


class HostConnectionCounter:
    """The counter of segment connections per host, over all objects of a session.

    `setting` is the maximum per host, or None for the default of the scheme.
    """

    def __init__(self, setting: int | None) -> None:
        self._setting = setting
        self._count_by_host: Counter[str] = Counter()

    def has_room(self, url: Url) -> bool:
        """Return whether one more connection to the host is allowed."""
        maximum = self.max_connections(url)
        return maximum is None or self._count_by_host[host_key(url)] < maximum

    def max_connections(self, url: Url) -> int | None:
        """Return the maximum number of concurrent connections to the host, or None for no limit."""
        return max_connections(url.scheme, setting=self._setting)

    def enter(self, url: Url) -> None:
        """Count a new connection to the host."""
        self._count_by_host[host_key(url)] += 1

    def leave(self, url: Url) -> None:
        """Count the end of a connection to the host."""
        self._count_by_host[host_key(url)] -= 1
