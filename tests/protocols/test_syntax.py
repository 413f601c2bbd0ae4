"""Tests of character classes, percent-encoding and positions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.contract import ComponentSpan, UrlText
from protocols.syntax import (
    NATIONAL,
    RESERVED,
    UNRESERVED,
    build_url,
    decode,
    encode,
    encode_written,
    find,
    find_position,
    invalid,
    note_characters,
    position_at,
    take,
)
from resolver import InvalidUrl, Url


def url_text(text: str) -> UrlText:
    return UrlText(text, "x", 0, len(text), None)


def test_character_classes_partition_printable_ascii() -> None:
    classes = [UNRESERVED, RESERVED, NATIONAL, '%#<>"']
    assert sorted("".join(classes)) == [chr(octet) for octet in range(0x21, 0x7F)]


@pytest.mark.parametrize(
    ("encoded", "octets"),
    [
        ("", b""),
        ("abc", b"abc"),
        ("%2541", b"%41"),  # decoded once
        ("a+b", b"a+b"),  # never a space
        ("%00%ff%Fe", b"\x00\xff\xfe"),
        ("%41%42C%44", b"ABCD"),
        ("%250", b"%0"),
    ],
)
def test_decode_decodes_escapes_once(encoded: str, octets: bytes) -> None:
    assert decode(encoded) == octets


@pytest.mark.parametrize(
    ("octets", "also", "encoded"),
    [
        (b"", "", ""),
        (UNRESERVED.encode(), "", UNRESERVED),
        (b"a/b;c", "", "a%2Fb%3Bc"),
        (b"a/b;c", "/", "a/b%3Bc"),
        (b"~ %\x00\xff", "", "%7E%20%25%00%FF"),  # upper-case hex; `~` is encoded too
    ],
)
def test_encode_escapes_all_but_unreserved(octets: bytes, also: str, encoded: str) -> None:
    assert encode(octets, also) == encoded


@given(st.binary(), st.sampled_from(["", RESERVED, "/", ";:@&="]))
def test_encode_decode_roundtrip(octets: bytes, also: str) -> None:
    encoded = encode(octets, also)
    assert decode(encoded) == octets
    assert set(encoded) <= set(UNRESERVED + also + "%")


def test_encode_written_keeps_escapes() -> None:
    assert encode_written("path", "a/%7e~b[%41]", "/") == "a/%7e%7Eb%5B%41%5D"


@pytest.mark.parametrize(
    ("written", "kind", "position"),
    [
        ("a b", "bad-char", 1),
        ("a\r\nb", "bad-char", 1),
        ("a?b", "bad-char", 1),
        ("a#b", "bad-char", 1),
        ("ab%4", "bad-escape", 2),
        ("%", "bad-escape", 0),
        ("%41é", "non-ascii", 3),
        ("/" * 60_000 + '"', "bad-char", 60_000),
    ],
)
def test_encode_written_refuses_invalid_text(written: str, kind: str, position: int) -> None:
    with pytest.raises(InvalidUrl) as caught:
        encode_written("path", written, "/")
    assert (caught.value.kind, caught.value.position) == (kind, position)
    assert len(caught.value.message) < 100


@pytest.mark.parametrize(
    ("text", "data", "findings"),
    [
        ("abc%7E%3B", "", {}),
        ("a;b", ";", {}),
        ("a;b;c", "", {"reserved-char": 1}),
        ("a~b^c", "", {"unsafe-char": 1}),
        ("a~b;c", "", {"unsafe-char": 1, "reserved-char": 3}),
        ("a;b~c", "", {"reserved-char": 1, "unsafe-char": 3}),  # in the order of the text
        ("a;b~c", RESERVED, {"unsafe-char": 3}),
    ],
)
def test_note_characters_records_first_positions(text: str, data: str, findings: dict[str, int]) -> None:
    noted = url_text(text)
    note_characters(noted, 0, len(text), data)
    assert list(noted.findings.items()) == list(findings.items())


@pytest.mark.parametrize("character", NATIONAL)
def test_note_characters_national_is_unsafe(character: str) -> None:
    noted = url_text(f"a{character}")
    note_characters(noted, 0, 2, RESERVED)
    assert noted.findings == {"unsafe-char": 1}


def test_finding_keeps_first_position() -> None:
    text = url_text("abc")
    text.note("x", 1)
    text.note("x", 2)
    assert text.findings == {"x": 1}


def test_take_decodes_and_records_place() -> None:
    text = url_text("ab%20cd")
    assert take(text, "name", 1, 6) == b"b c"
    assert text.places == [ComponentSpan("name", 1, 6)]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PluginUrl(Url):
    """A URL class as docs/how-to/add-a-scheme.md recommends it."""

    name: str


def test_common_gives_attributes_of_plugin_url() -> None:
    text = url_text("x:name")
    text.fragment = "part"
    url = PluginUrl(name=text.cut("name", 2, 6), **text.common())
    assert (url.text, url.fragment, url.places) == ("x:name", "part", tuple(text.places))


def test_find_missing_gives_end() -> None:
    text = UrlText("x:a/b/c", "x", 2, 6, None)
    assert [find(text, "/", 2), find(text, "/", 4), find(text, "c", 2), find(text, "/", 4, 5)] == [3, 5, 6, 5]


@pytest.mark.parametrize(
    ("text", "octets", "position"),
    [
        ("xxab%0D%0Ac", b"\r\n", 4),
        ("xxab%0d%0Ac", b"\n", 7),
        ("xxab%61c", b"a", 2),
        ("xx%61a", b"a", 2),
        ("xx%41%0A", b"0", 2),  # the digits of an escape are not bytes of the component
        ("xxabc", b"\n", 2),  # not found: the start of the component
    ],
)
def test_position_of_finds_byte_in_component(text: str, octets: bytes, position: int) -> None:
    assert find_position(text, ComponentSpan("p", 2, len(text)), octets) == position


@given(st.binary(min_size=1, max_size=30), st.data())
def test_position_at_decoded_index(octets: bytes, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(octets) - 1))
    encoded = encode(octets)
    at = position_at("xx" + encoded, 2, index) - 2
    assert decode(encoded[:at]) == octets[:index]


def test_build_url_appends_fragment() -> None:
    assert build_url(Url(scheme="x"), "a") == "x:a"
    assert build_url(Url(scheme="x", fragment=""), "a") == "x:a#"
    assert build_url(Url(scheme="x", fragment="a/b?#c"), "") == "x:#a/b?#c"
    with pytest.raises(InvalidUrl, match="fragment"):
        build_url(Url(scheme="x", fragment="a b"), "")


def test_invalid_message_does_not_quote_password() -> None:
    text = "ftp://u:secret@host/x y"
    assert "secret" not in str(invalid(text, "bad-char", "text", 8))
    assert str(invalid(text, "bad-char", "text", 21)) == "bad-char: text, at position 21: ' y'"
    assert len(str(invalid("x" * 60_000, "bad-char", "text", 1))) < 100
