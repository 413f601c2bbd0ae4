"""How octets may come in pieces: a reader must not care, and neither may what becomes of a dialogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

Cutter: TypeAlias = Callable[[bytes], Iterable[bytes]]

#: What one receive gives at most.
MOST = 65_536


def whole(octets: bytes) -> Iterator[bytes]:
    """As much at once as a receive may bring."""
    for start in range(0, len(octets), MOST):
        yield octets[start : start + MOST]


def one_by_one(octets: bytes) -> Iterator[bytes]:
    """Octet by octet."""
    return (octets[index : index + 1] for index in range(len(octets)))


def oddly(octets: bytes) -> Iterator[bytes]:
    """Pieces of 1, 2, 3, 5, 7, 11 octets and again."""
    start, turn = 0, 0
    while start < len(octets):
        size = (1, 2, 3, 5, 7, 11)[turn % 6]
        yield octets[start : start + size]
        start, turn = start + size, turn + 1


#: Every way of cutting, by name: `@pytest.mark.parametrize("cutter", CUTTERS, ids=…)`.
CUTTERS: tuple[Cutter, ...] = (whole, one_by_one, oddly)


def cut_at(*places: int) -> Cutter:
    """A cutter that cuts behind so many octets, and nowhere else.

    Args:
        places: in rising order.

    Examples:
        >>> from resolver.testing import cut_at
        >>> list(cut_at(1, 3)(b"abcd"))
        [b'a', b'bc', b'd']
    """

    def cut(octets: bytes) -> Iterator[bytes]:
        ends = [place for place in places if 0 < place < len(octets)]
        for start, end in zip([0, *ends], [*ends, len(octets)], strict=True):
            yield octets[start:end]

    return cut


def chunkings(octets: bytes, most: int = 4_096) -> Iterator[list[bytes]]:
    """Every way to cut octets in pieces, where there are no more than `most` of them; else in one piece,
    octet by octet, and in two pieces at every place.

    Args:
        octets: what is cut.
        most: up to how many ways all are given.

    Examples:
        >>> from resolver.testing import chunkings
        >>> list(chunkings(b"abc"))
        [[b'abc'], [b'a', b'bc'], [b'ab', b'c'], [b'a', b'b', b'c']]
    """
    places = range(1, len(octets))
    if 1 << len(places) <= most:
        for chosen in range(1 << len(places)):
            yield [*cut_at(*(place for place in places if chosen >> (place - 1) & 1))(octets)]
        return
    yield [octets]
    yield [*one_by_one(octets)]
    for place in places:
        yield [octets[:place], octets[place:]]
