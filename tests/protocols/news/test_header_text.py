"""Header values for a reader: charsets, encoded words, and never an exception."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.news.article import declared_charset, decode_field, decode_words, known_charset

FIELDS: list[tuple[bytes, str | None, str]] = [
    (b"plain", None, "plain"),
    (b"  blanks round it \t", None, "blanks round it"),
    ("Grüße — 日本語".encode(), None, "Grüße — 日本語"),
    (b"caf\xe9", None, "café"),
    (b"\xcf\xf0\xe8\xe2\xe5\xf2", "windows-1251", "Привет"),
    ("Grüße".encode(), "windows-1251", "Grüße"),  # UTF-8 comes first
    (b"\x81", "shift_jis", "\x81"),  # not that charset either
    (b"=?utf-8?q?Gr=C3=BC=C3=9Fe?=", None, "Grüße"),
]

WORDS = [
    ("=?ISO-8859-1?Q?caf=E9?=", "café"),
    ("=?iso-8859-1?q?a_b?=", "a b"),
    ("=?utf-8?B?R3LDvMOfZQ==?=", "Grüße"),
    ("=?utf-8?b?R3LDvMOfZQ?=", "Grüße"),  # padding forgotten
    ("=?utf-8*de?q?x?=", "x"),  # RFC 2231 5
    ("a =?utf-8?q?b?= c", "a b c"),
    ("=?utf-8?q?a?= =?utf-8?q?b?=", "ab"),
    ("=?utf-8?q?a?=  \t =?iso-8859-1?q?=E9?=", "aé"),
    ("=?utf-8?q?=C3?= =?utf-8?q?=BC?=", "ü"),  # a character cut in two
    ("=?utf-8?q?=C3?= =?utf-8?b?vA==?=", "ü"),
    ("=?utf-8?q?a_?= b", "a  b"),
    ("=?utf-8?q??=", ""),
    # left as they are written
    ("=?klingon?q?a?=", "=?klingon?q?a?="),
    ("=?utf-8?b?!!!?=", "=?utf-8?b?!!!?="),
    ("=?utf-8?b?A?=", "=?utf-8?b?A?="),
    ("=?utf-8?q?=ZZ?=", "=?utf-8?q?=ZZ?="),
    ("=?utf-8?q?a=?=", "=?utf-8?q?a=?="),
    ("=?utf-8?x?a?=", "=?utf-8?x?a?="),
    ("=?utf-8?q?a b?=", "=?utf-8?q?a b?="),
    ("=?utf-8?q?a", "=?utf-8?q?a"),
    ("=?utf-8?q?a?= =?klingon?q?b?= =?utf-8?q?c?=", "a =?klingon?q?b?= c"),
    ("=?undefined?q?a?=", "=?undefined?q?a?="),
    ("=?hex?q?6161?=", "=?hex?q?6161?="),
    ("=?idna?q?a?=", "=?idna?q?a?="),
    ("=??q?a?=", "=??q?a?="),
]

TYPES = [
    ("text/plain; charset=utf-8", "utf-8"),
    ('text/plain;format=flowed; Charset = "ISO-8859-15" ; x=y', "ISO-8859-15"),
    ("text/plain; charset=klingon", None),
    ("text/plain; charset=", None),
    ("text/plain", None),
    ("charset=utf-8", None),
    (None, None),
]


@pytest.mark.parametrize(("octets", "charset", "text"), FIELDS)
def test_a_field(octets: bytes, charset: str | None, text: str) -> None:
    assert decode_field(octets, charset) == text


@pytest.mark.parametrize(("written", "text"), WORDS)
def test_encoded_words(written: str, text: str) -> None:
    assert decode_words(written) == text


@pytest.mark.parametrize(("content_type", "charset"), TYPES)
def test_the_declared_charset(content_type: str | None, charset: str | None) -> None:
    assert declared_charset(content_type) == charset


@pytest.mark.parametrize("name", ["", "utf\0", "ü", "x" * 41, "unicode_escape", "rot13", "zip", "../utf-8"])
def test_what_is_no_charset(name: str) -> None:
    assert known_charset(name) is None


@pytest.mark.parametrize("name", ["us-ascii", "UTF-8", "utf-16", "koi8-r", "gb2312", "iso-2022-jp", "utf-7"])
def test_charsets(name: str) -> None:
    assert known_charset(name) == name


@given(st.binary(max_size=200), st.sampled_from([None, "koi8-r", "utf-16", "iso-2022-jp"]))
def test_any_octets_are_text(octets: bytes, charset: str | None) -> None:
    decode_field(octets, charset)


@given(st.lists(st.sampled_from(["=?", "?=", "utf-8", "?q?", "?b?", "=C3", "=BC", " ", "A", "\t", "koi8-r"])))
def test_any_text_has_its_words(pieces: list[str]) -> None:
    decode_words("".join(pieces))
