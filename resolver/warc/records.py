"""A WARC from one end to the other: each record that is whole, and each place where none is.

A record counts as whole when its block has the length that it says, CR LF CR LF follows, and what it was
packed in has come to its end. What is damaged is named, and reading goes on where the next record begins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from protocols.errors import LocalError
from protocols.values import dataclass
from resolver.warc.head import RecordHead, read_head
from resolver.warc.stretch import (
    AT_FIRST,
    AT_ONCE,
    GZIP,
    Budget,
    DamagedRecord,
    GzipMember,
    RecordSource,
    RecordStream,
    open_stretch,
)

_END = b"\r\n\r\n"
_FIRST = b"WARC/1."
#: How a record begins where nothing is packed: behind the end of another one. Some end lines with LF alone.
_BEGINS = (b"\r\n\r\n" + _FIRST, b"\n\n" + _FIRST)


class WarcReader(Protocol):
    """Who takes the octets of a block, as they come."""

    def take(self, octets: bytes, /) -> None: ...


R = TypeVar("R", bound=WarcReader)


@dataclass(frozen=True, slots=True)
class WarcRecord(Generic[R]):
    """A whole one. `offset`: where it, or what it is packed in, begins in the file; `end`: how far the file
    was read for it, which is its end, or that of its member. `shares`: another record follows in the same
    member, which may turn out to be damaged. `reader` has taken its block."""

    offset: int
    end: int
    head: RecordHead
    reader: R
    shares: bool


@dataclass(frozen=True, slots=True)
class DamagedSpan:
    """What is no record, from `offset` on. `resumes`: where the next record begins, None if there is no
    other. `is_cut`: the file only ends too early."""

    offset: int
    message: str
    resumes: int | None
    is_cut: bool


def read_records(
    source: RecordSource, reader_of: Callable[[RecordHead], R], offset: int = 0
) -> Iterator[WarcRecord[R] | DamagedSpan]:
    """All that is in a file from `offset` on, where a record begins or should; in order. What a record's
    block holds goes to the reader that `reader_of` makes for it, as it comes. Raises `LocalError` for a file
    of another format, and where its `Budget` is spent."""
    budget = Budget(offset)
    packed = source.read_at(offset, len(GZIP)) == GZIP
    begun: int | None = offset
    while begun is not None and (stretch := open_stretch(source, begun, budget)) is not None:
        try:
            if isinstance(stretch, GzipMember) != packed:
                raise DamagedRecord("what is packed and what is not are in one file")
            while (record := _read_record(stretch, begun, reader_of)) is not None:
                yield record
                begun = begun if packed else stretch.end
            begun = stretch.end
        except DamagedRecord as error:
            if error.is_other and begun == 0:
                raise LocalError(str(error)) from error
            search = _next_member if packed else _next_plain
            resumes = search(source, begun + 1, budget)
            yield DamagedSpan(begun, str(error), resumes, error.is_cut and resumes is None)
            begun = resumes


def read_one(source: RecordSource, offset: int, reader_of: Callable[[RecordHead], R]) -> WarcRecord[R]:
    """The record that begins at `offset`, as somebody said. Raises `DamagedRecord` where none does, or it is
    not whole; so may the reader, to have no more of it."""
    stretch = open_stretch(source, offset, Budget(offset))
    record = None if stretch is None else _read_record(stretch, offset, reader_of)
    if record is None:
        raise DamagedRecord("the file ends before that")
    return record


def _read_record(
    stretch: RecordStream, begun: int, reader_of: Callable[[RecordHead], R]
) -> WarcRecord[R] | None:
    """The next one, known to be whole; None at the end."""
    head = read_head(stretch)
    if head is None:
        return None
    reader = reader_of(head)
    left = head.length
    while left:
        octets = stretch.read(min(left, AT_ONCE))
        if not octets:
            raise DamagedRecord(f"the file ends {left} octets before the end of a block", is_cut=True)
        left -= len(octets)
        reader.take(octets)
    end = stretch.read_all(len(_END))
    if end != _END:
        raise DamagedRecord(
            "no CR LF CR LF follows a block, so its length is wrong", is_cut=_END.startswith(end)
        )
    shares = isinstance(stretch, GzipMember) and not stretch.is_at_end()
    return WarcRecord(begun, stretch.end, head, reader, shares)


def _next_member(source: RecordSource, offset: int, budget: Budget) -> int | None:
    """Where the next member begins that holds a record."""
    for place, _ in _places(source, offset, (GZIP,), budget):
        with suppress(DamagedRecord):
            if GzipMember(source, place, budget).read_all(len(_FIRST)) == _FIRST:
                return place
    return None


def _next_plain(source: RecordSource, offset: int, budget: Budget) -> int | None:
    """Where the next record begins that follows the end of another."""
    for place, found in _places(source, offset, _BEGINS, budget):
        return place + len(found) - len(_FIRST)
    return None


def _places(
    source: RecordSource, offset: int, wanted: Sequence[bytes], budget: Budget
) -> Iterator[tuple[int, bytes]]:
    """Where these octets are, and which, in order; none overlap."""
    pattern = re.compile(b"|".join(map(re.escape, wanted)))
    overlap = max(map(len, wanted)) - 1
    size = AT_FIRST
    while octets := source.read_at(offset, size):
        budget.take(offset, offset + len(octets), 0)
        for found in pattern.finditer(octets):
            yield offset + found.start(), found[0]
        if len(octets) <= overlap:
            return
        offset += len(octets) - overlap
        size = min(2 * size, AT_ONCE)
