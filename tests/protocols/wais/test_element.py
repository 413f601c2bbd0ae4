"""Compressed integers, elements, numbers (wais page, section 3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.wais.apdu import (
    contents,
    elements,
    encode_compressed,
    encode_element,
    encode_number,
    parse_number,
    take_compressed,
    take_element,
)
from resolver import ProtocolError

COMPRESSED = [
    (0, "00"),
    (127, "7f"),
    (128, "8100"),
    (130, "8102"),
    (150, "8116"),
    (266, "820a"),
    (100_000, "868d20"),
]


@pytest.mark.parametrize(("value", "octets"), COMPRESSED)
def test_compressed_integers(value: int, octets: str) -> None:
    written = bytes.fromhex(octets)
    assert encode_compressed(value) == written
    assert take_compressed(written + b"\xff", 0) == (value, len(written))


@settings(max_examples=40)
@given(st.integers(0, 2**35 - 1))
def test_a_compressed_integer_reads_back(value: int) -> None:
    octets = encode_compressed(value)
    assert take_compressed(b"\x00" + octets, 1) == (value, 1 + len(octets))


@pytest.mark.parametrize("octets", ["8001", "808001", "80808001", "8080808001"])
def test_leading_80_is_padding(octets: str) -> None:
    assert take_compressed(bytes.fromhex(octets), 0) == (1, len(octets) // 2)


@pytest.mark.parametrize("octets", ["", "80", "8181", "808080808001", "ffffffffff00"])
def test_compressed_integers_that_do_not_end(octets: str) -> None:
    with pytest.raises(ProtocolError, match="compressed integer"):
        take_compressed(bytes.fromhex(octets), 0)


NUMBERS = [(0, "00"), (1, "01"), (255, "ff"), (256, "0100"), (100_000, "0186a0"), (2**32 - 1, "ffffffff")]


@pytest.mark.parametrize(("value", "octets"), NUMBERS)
def test_numbers(value: int, octets: str) -> None:
    assert encode_number(value) == bytes.fromhex(octets)
    assert parse_number(bytes.fromhex(octets)) == value


@pytest.mark.parametrize("octets", ["", "0000000001"])
def test_what_is_no_number(octets: str) -> None:
    with pytest.raises(ProtocolError, match="number"):
        parse_number(bytes.fromhex(octets))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=200))))
def test_a_group_reads_back(items: list[tuple[int, bytes]]) -> None:
    group = b"".join(encode_element(tag, content) for tag, content in items)
    found = list(elements(group))
    assert [(each.tag, each.content) for each in found] == items
    assert b"".join(each.octets for each in found) == group
    assert contents(group) == dict(reversed(items))


def test_an_element_leaves_what_is_behind_it() -> None:
    assert take_element(b"\x74\x02abXY", 0) == (116, b"ab", b"\x74\x02ab")


@pytest.mark.parametrize(
    "group",
    [
        "7402616274",  # a tag and nothing more
        "74026162740361",  # a length that reaches beyond the group
        "740261628105",  # a two-octet tag and nothing more
        "81",
    ],
)
def test_a_group_is_used_up_exactly(group: str) -> None:
    with pytest.raises(ProtocolError):
        list(elements(bytes.fromhex(group)))
