"""Which octets of an object are to be asked for next, where several ask at once. No I/O.

Pieces get smaller towards the end, so that all who ask are done at about the same time, however fast each of
them is: a piece is half of what everybody's share of the rest would be, and at least `LEAST`.
"""

from __future__ import annotations

from protocols.contract import Validators
from resolver.disk.ranges import Range, Ranges, missing

#: Octets of a piece at least. Less is not worth a request, nor a login of FTP: at 100 Mbit/s it takes 0.08 s.
LEAST = 1_048_576


class Pieces:
    """What is missing of an object of `size` octets, for `count` to bring."""

    def __init__(self, size: int, whole: Ranges, count: int) -> None:
        self._gaps = list(missing(whole, size))
        self._count = count

    def __bool__(self) -> bool:
        return bool(self._gaps)

    def take(self) -> Range | None:
        """The next piece, which is nobody else's now; None where nothing is left."""
        if not self._gaps:
            return None
        begin, end = self._gaps.pop(0)
        left = end - begin + sum(behind - first for first, behind in self._gaps)
        most = max(LEAST, left // (2 * self._count))
        if end - begin >= most + LEAST:
            self._gaps.insert(0, (begin + most, end))
            end = begin + most
        return begin, end

    def give_back(self, begin: int, end: int) -> None:
        """So much of a piece did not come."""
        if begin < end:
            self._gaps.insert(0, (begin, end))


def tells(known: Validators) -> bool:
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
