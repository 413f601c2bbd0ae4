"""Which octets of a file are there: ranges `(first, behind the last)`, in order and apart. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

Range: TypeAlias = "tuple[int, int]"
Ranges: TypeAlias = "tuple[Range, ...]"


def parse_ranges(value: object) -> Ranges | None:
    """As they stand in JSON. None for what is none: not in order, not apart, empty, below 0."""
    if not isinstance(value, list):
        return None
    found: list[Range] = []
    behind = -1
    for each in value:
        match each:
            case [int(begin), int(end)] if behind < begin < end and type(begin) is type(end) is int:
                found.append((begin, end))
                behind = end
            case _:
                return None
    return tuple(found)


def joined(ranges: list[Range]) -> Ranges:
    """In order, and those that touch as one."""
    found: list[Range] = []
    for begin, end in sorted(ranges):
        if begin >= end:
            continue
        if found and begin <= found[-1][1]:
            begin, end = found[-1][0], max(end, found.pop()[1])
        found.append((begin, end))
    return tuple(found)


def within(ranges: Ranges, size: int) -> Ranges:
    """What of them there is in a file of that size."""
    return tuple((begin, min(end, size)) for begin, end in ranges if begin < size)


def missing(ranges: Ranges, size: int) -> Iterator[Range]:
    """What there is not, of a file of that size."""
    behind = 0
    for begin, end in (*ranges, (size, size)):
        if behind < begin:
            yield behind, begin
        behind = end


def octets_of(ranges: Ranges) -> int:
    """How many octets there are."""
    return sum(end - begin for begin, end in ranges)


def prefix_of(ranges: Ranges) -> int:
    """How many octets there are from the first on."""
    return ranges[0][1] if ranges and not ranges[0][0] else 0
