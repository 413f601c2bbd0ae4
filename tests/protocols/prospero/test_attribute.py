"""Attributes: their types, which of several counts, and the values that mean something (page 7.2, 7.3)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.prospero.objects import (
    Attribute,
    describe,
    first_word,
    parse_attribute,
    read_modified,
    read_size,
    values_of,
)


def read(line: bytes) -> Attribute | None:
    return parse_attribute(tuple(line.split()))


#: The tokens behind ATTRIBUTE; the type of the value and its tokens, None for a line that is none.
TYPES: list[tuple[bytes, tuple[bytes, tuple[bytes, ...]] | None]] = [
    (b"CACHED FIELD ACCESS-METHOD AFTP x", (b"SEQUENCE", (b"AFTP", b"x"))),
    (b"LINK FIELD ID SEQUENCE REMOTE 99", (b"SEQUENCE", (b"REMOTE", b"99"))),
    (b"LINK FIELD ID ASCII REMOTE 99", (b"ASCII", (b"REMOTE", b"99"))),
    (b"LINK FIELD OWNER LINK x", (b"SEQUENCE", (b"LINK", b"x"))),  # not the known type of that field
    (b"LINK FIELD CLOSURE LINK L F n T h A x 0", (b"LINK", (b"L", b"F", b"n", b"T", b"h", b"A", b"x", b"0"))),
    (b"LINK FIELD CLOSURE LINK L F", (b"SEQUENCE", (b"LINK", b"L", b"F"))),  # too few tokens for a link
    (b"LINK FIELD FORWARDING-POINTER LINK 1 2 3 4 5 6 7", (b"LINK", tuple(b"%d" % i for i in range(1, 8)))),
    (
        b"LINK FIELD FILTER FILTER DIRECTORY CLIENT POST X",
        (b"FILTER", (b"DIRECTORY", b"CLIENT", b"POST", b"X")),
    ),
    (b"LINK FIELD FILTER FILTER DIRECTORY", (b"SEQUENCE", (b"FILTER", b"DIRECTORY"))),
    (b"LINK FIELD FILTER LINK 1 2 3 4 5 6 7 8", (b"SEQUENCE", (b"LINK", *(b"%d" % i for i in range(1, 9))))),
    (b"LINK FIELD EMPTY", (b"SEQUENCE", ())),
    (b"OBJECT INTRINSIC SIZE SEQUENCE 9", (b"SEQUENCE", (b"9",))),
    (b"OBJECT APPLICATION EMPTY SEQUENCE", (b"SEQUENCE", ())),
    (b"LINK APPLICATION RELATED LINK L x", (b"LINK", (b"L", b"x"))),
    (b"OBJECT INTRINSIC SIZE 9", None),
    (b"OBJECT INTRINSIC SIZE", None),
    (b"OBJECT FIELD", None),
    (b"", None),
]


@pytest.mark.parametrize(("line", "read_as"), TYPES)
def test_the_type_of_a_value_may_be_missing_for_fields(
    line: bytes, read_as: tuple[bytes, tuple[bytes, ...]] | None
) -> None:
    attribute = read(line)
    assert (attribute and (attribute.value_type, attribute.values)) == read_as


def some(*lines: bytes) -> list[Attribute]:
    found = [read(line) for line in lines]
    assert None not in found
    return [attribute for attribute in found if attribute is not None]


#: What is kept with a link, and what counts of it.
COUNTING: list[tuple[list[bytes], list[bytes]]] = [
    ([b"CACHED", b"CACHED"], [b"0", b"1"]),
    ([b"CACHED", b"OBJECT", b"OBJECT"], [b"1", b"2"]),
    ([b"OBJECT", b"REPLACEMENT"], [b"1"]),
    ([b"ADDITIONAL", b"OBJECT"], [b"1", b"0"]),
    ([b"ADDITIONAL", b"CACHED"], [b"1", b"0"]),
    ([b"LINK", b"OBJECT"], [b"1"]),
    ([b"LINK"], []),
]


@pytest.mark.parametrize(("kinds", "expected"), COUNTING)
def test_what_is_kept_with_a_link_counts_by_its_kind(kinds: list[bytes], expected: list[bytes]) -> None:
    attributes = some(*(b"%s FIELD N SEQUENCE %d" % (kind, index) for index, kind in enumerate(kinds)))
    assert [values[0] for values in values_of(attributes, b"N")] == expected
    assert values_of(attributes, b"M") == []


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ((b"1234 bytes",), 1234),
        ((b"1 byte",), 1),
        ((b"1234",), 1234),
        ((b"1234", b"bytes"), 1234),
        ((b"0 Bytes",), 0),
        ((b"12 pages",), None),
        ((b"-1 bytes",), None),
        ((b"9" * 16 + b" bytes",), None),
        ((b"\xb2 bytes",), None),
        ((), None),
    ],
)
def test_a_size_is_a_number_of_octets(values: tuple[bytes, ...], size: int | None) -> None:
    assert read_size([Attribute(b"OBJECT", b"SIZE", b"SEQUENCE", values)]) == size


@pytest.mark.parametrize(
    ("values", "moment"),
    [
        ((b"19940301120000Z",), datetime(1994, 3, 1, 12, tzinfo=UTC)),
        ((b"20000229235959Z",), datetime(2000, 2, 29, 23, 59, 59, tzinfo=UTC)),
        ((b"19940301120000",), None),
        ((b"19941301120000Z",), None),
        ((b"00000000000000Z",), None),
        ((b"19940301", b"120000Z"), None),
        ((b"1994030112000 Z",), None),
        ((), None),
    ],
)
def test_a_time_is_in_utc(values: tuple[bytes, ...], moment: datetime | None) -> None:
    assert read_modified([Attribute(b"OBJECT", b"LAST-MODIFIED", b"SEQUENCE", values)]) == moment


def test_the_first_value_that_can_be_read_counts() -> None:
    attributes = some(b"OBJECT INTRINSIC SIZE SEQUENCE x", b"OBJECT INTRINSIC SIZE SEQUENCE 5")
    assert read_size(attributes) == 5


def test_attributes_are_described_but_for_ways_and_contents() -> None:
    attributes = some(
        b"OBJECT INTRINSIC SIZE SEQUENCE 9 bytes",
        b"OBJECT FIELD ACCESS-METHOD AFTP",
        b"OBJECT INTRINSIC CONTENTS SEQUENCE DATA x",
        b"LINK APPLICATION RELATED LINK L x",
        b"OBJECT APPLICATION KEYWORDS SEQUENCE gr\xfcn",
    )
    assert list(describe(attributes)) == [("SIZE", "9 bytes"), ("KEYWORDS", "grün")]
    assert first_word(attributes, b"NONE", b"SIZE") == b"9"
    assert first_word(attributes, b"NONE") is None
