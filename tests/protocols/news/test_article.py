"""Article heads: fields, look-ahead reading, dates, charsets and encoded-words."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.news.article import (
    HEAD_LIMIT,
    ArticleHead,
    choose_charset,
    declared_charset,
    decode_field,
    decode_words,
    parse_date,
    parse_head,
    read_head,
    strip_brackets,
)
from protocols.news.response import read_block
from protocols.wire import Buffer, run_reader
from resolver import LimitExceeded, Limits
from tests.protocols.news.test_response import feed

HEADS: list[tuple[bytes, list[tuple[str, bytes]]]] = [
    (b"", []),
    (b"A: b\r\n", [("A", b"b")]),
    (b"A: b\r\n\r\nC: d\r\n", [("A", b"b")]),
    (b"A: b", [("A", b"b")]),
    (b"A:b\r\nA:  c \r\na:\r\n", [("A", b"b"), ("A", b" c "), ("a", b"")]),
    (b"A: b\r\n c\r\n\td\r\n", [("A", b"b c\td")]),  # unfolding removes the line end and keeps the blank
    (b"A : b\r\n", [("A", b"b")]),  # RFC 5322 4.5
    (b"A: b:c\r\n", [("A", b"b:c")]),
    (b"A: \xe9\xff\0\r\n", [("A", b"\xe9\xff\0")]),
    (b"A: b\nC: d\r\n", [("A", b"b\nC: d")]),  # LF alone ends no line
    (b"A: b\rC: d\r\n", [("A", b"b\rC: d")]),
    # no fields
    (b"no field\r\nA: b\r\n", [("", b"no field"), ("A", b"b")]),
    (b": x\r\n", [("", b": x")]),
    (b" folded first\r\n", [("", b" folded first")]),
    (b"From someone Mon Jan 6 10:00\r\n", [("", b"From someone Mon Jan 6 10:00")]),
    (b"\xe9: x\r\n", [("", b"\xe9: x")]),
    (b"no field\r\n more\r\n", [("", b"no field more")]),
]


@pytest.mark.parametrize(("octets", "fields"), HEADS)
def test_parse_head_splits_fields(octets: bytes, fields: list[tuple[str, bytes]]) -> None:
    head = parse_head(octets)
    assert [*head.fields] == fields
    assert [name for name, _ in head.pairs] == [name for name, _ in fields if name]


def test_parse_head_of_many_continuation_lines_takes_linear_time() -> None:
    """An article is read without a limit for its lines. Quadratic work would take 15 s."""
    lines, length = 40_000, 100
    began = time.process_time()
    head = parse_head(b"A: x\r\n" + (b" " + b"y" * length + b"\r\n") * lines)
    assert time.process_time() - began < 4
    assert len(head.get_first("a") or b"") == 1 + lines * (1 + length)


@pytest.mark.parametrize("unit", [b"=?x?q?y?= ", b"=?x?q?y?= =?utf-8?q?y?= ", b"=?utf-8?q?y?= "])
def test_decode_field_of_many_encoded_words_takes_linear_time(unit: bytes) -> None:
    """An article may consist of one field. Quadratic work would take 40 s."""
    began = time.process_time()
    assert decode_field(unit * (4_000_000 // len(unit))).count("y") >= 4_000_000 // len(unit)
    assert time.process_time() - began < 4


def test_head_properties_decode_fields() -> None:
    head = parse_head(
        b"subject: =?utf-8?q?=C3=BC?=\r\nSubject: second\r\nDate: Mon, 06 Jan 2025 10:00:24 +0000\r\n"
        b"Message-ID:  <a@b> \r\nContent-Type: text/plain; charset=koi8-r\r\nFrom: \xf0\xd2\r\n"
    )
    assert head.get_first("subject") == b"=?utf-8?q?=C3=BC?="
    assert head.decode_first("subject") == "ü"
    assert head.decode_first("from") == "Пр"
    assert head.decode_first("absent") is None
    assert head.charset == "koi8-r"
    assert head.message_id == b"a@b"
    assert head.date is not None
    assert head.date.isoformat() == "2025-01-06T10:00:24+00:00"


def test_empty_head_has_no_properties() -> None:
    assert (ArticleHead().date, ArticleHead().charset, ArticleHead().message_id, ArticleHead().pairs) == (
        None,
        None,
        None,
        (),
    )


@pytest.mark.parametrize(
    ("octets", "inner"), [(b"<a@b>", b"a@b"), (b" <a> ", b"a"), (b"a@b", None), (b"<>", None), (b"<", None)]
)
def test_strip_brackets_needs_both_brackets(octets: bytes, inner: bytes | None) -> None:
    assert strip_brackets(octets) == inner


BLOCKS = [
    (b"A: b\r\n\r\nbody\r\n.\r\n", [("A", b"b")]),
    (b"A: b\r\n\r\n.\r\n", [("A", b"b")]),
    (b"A: b\r\n.\r\n", [("A", b"b")]),
    (b".\r\n", []),
    (b"\r\nA: b\r\n.\r\n", []),
    (b"..A: b\r\n..c: d\r\n\r\n.\r\n", [(".A", b"b"), (".c", b"d")]),
    (b"A: b\n\nc: d\r\n\r\n.\r\n", [("A", b"b\n\nc: d")]),
]


@pytest.mark.parametrize(("sent", "fields"), BLOCKS)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_read_head_leaves_block_in_buffer(sent: bytes, fields: list[tuple[str, bytes]], size: int) -> None:
    pieces = iter([(sent + b"200 next\r\n")[start : start + size] for start in range(0, 200, size)])
    buffer = Buffer()
    head = feed(read_head(Limits()), buffer, pieces)
    assert isinstance(head, ArticleHead)
    assert list(head.fields) == fields
    content = feed(read_block(1000), buffer, pieces)
    assert content == run_reader(read_block(1000), sent)


@pytest.mark.parametrize("sent", [b"A: b\r\nC", b"A: b\r\n", b"", b"\r", b"."])
def test_read_head_of_truncated_block_returns_fields(sent: bytes) -> None:
    head = run_reader(read_head(Limits()), sent)
    assert head.get_first("a") in (b"b", None)


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        (b"A: b\r\n" * 11 + b"\r\n", "lines"),
        (b"A: " + b"b" * 50 + b"\r\n\r\n", "line"),
        (b"A: b" + b"c" * HEAD_LIMIT, "lines"),
    ],
)
def test_read_head_over_limit_raises(sent: bytes, limit: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        run_reader(read_head(Limits(line=50, lines=10)), sent)
    assert caught.value.limit == limit


def test_read_head_at_limit_succeeds() -> None:
    sent = b"A: b\r\n" * 9 + b"C: " + b"d" * 47 + b"\r\n\r\nbody longer than that\r\n.\r\n"
    assert len(run_reader(read_head(Limits(line=50, lines=10)), sent).fields) == 10


# Date formats found in articles, and invalid dates.

ONE = datetime(2025, 1, 6, 10, 0, 24, tzinfo=UTC)
OLD = datetime(1982, 11, 19, 21, 14, 55, tzinfo=UTC)

DATES = [
    ("Mon, 06 Jan 2025 10:00:24 +0000", ONE),
    ("6 Jan 2025 10:00:24 GMT", ONE),
    ("Mon,  6 Jan 2025 12:00:24 +0200 (EET)", ONE),
    ("Mon, 6 Jan 2025 05:00:24 EST", ONE),
    ("Mon, 6 Jan 2025 11:00:24 MEZ", ONE),
    ("06 Jan 25 10:00:24 UT", ONE),  # two digits
    ("Mon, 6 Jan 125 10:00:24 Z", ONE),  # three digits: a program that printed years since 1900 in 2025
    ("Mon, 6 January 2025 10:00:24 +0000", ONE),
    ("Monday, 06-Jan-25 10:00:24 GMT", ONE),  # RFC 850
    ("Mon Jan  6 10:00:24 2025", ONE),  # asctime() of the C library
    ("Mon Jan 6 05:00:24 EST 2025", ONE),
    ("mon, 6 jan 2025 10:00:24 utc", ONE),
    ("Mon, 6 Jan 2025 10:00 +0000", ONE.replace(second=0)),
    ("Mon, 6 Jan 2025 10:00:24", ONE),  # no zone
    ("Mon, 6 Jan 2025 10:00:24 XYZ", ONE),  # RFC 5322 4.3: an unknown zone is UTC
    ("Mon, 6 Jan 2025 10:00:24 -0000", ONE),
    ("Mon, 6 Jan 2025 10:00:24.123 +0000", ONE),
    ("Mon (a (day)) , 6 Jan 2025 10:00:24 +0000", ONE),
    ("Fri, 19-Nov-82 16:14:55 EST", OLD),  # RFC 1036
    ("Fri, 19 Nov 82 16:14:55 EST", OLD),
    ("Sat, 31 Dec 2016 23:59:60 +0000", datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("Mon, 6 Jan 1950 00:00:00 +0000", datetime(1950, 1, 6, tzinfo=UTC)),
    ("6 Jan 49 00:00:00", datetime(2049, 1, 6, tzinfo=UTC)),
    ("6 Jan 50 00:00:00", datetime(1950, 1, 6, tzinfo=UTC)),
]
NONE = [
    "",
    "yesterday",
    "Mon, 06 Jan 2025",
    "10:00:24",
    "32 Jan 2025 10:00:00",
    "29 Feb 2025 10:00:00",
    "6 Foo 2025 10:00:00",
    "6 Jan 2025 25:00:00",
    "6 Jan 2025 10:60:00",
    "6 Jan 0000 10:00:00",
    "1 Jan 0001 00:00:00 +2300",
    "31 Dec 9999 23:59:59 -2300",
    "6 Jan 2025 10:00:00 +9999",
    "x" * 1000 + " 6 Jan 2025 10:00:00",
]


@pytest.mark.parametrize(("text", "moment"), DATES)
def test_parse_date_accepts_format(text: str, moment: datetime) -> None:
    assert parse_date(text) == moment


@pytest.mark.parametrize("text", NONE)
def test_parse_date_of_invalid_text_returns_none(text: str) -> None:
    assert parse_date(text) is None


@given(st.text(alphabet="0123456789:+-JanFebEST (),", max_size=40) | st.text(max_size=300))
def test_parse_date_of_random_text_never_raises(text: str) -> None:
    parse_date(text)


# Header values as text: charsets and encoded-words. Decoding never raises an exception.

FIELDS: list[tuple[bytes, str | None, str]] = [
    (b"plain", None, "plain"),
    (b"  blanks round it \t", None, "blanks round it"),
    ("Grüße — 日本語".encode(), None, "Grüße — 日本語"),
    (b"caf\xe9", None, "café"),
    (b"\xcf\xf0\xe8\xe2\xe5\xf2", "windows-1251", "Привет"),
    ("Grüße".encode(), "windows-1251", "Grüße"),  # UTF-8 is tried first
    (b"\x81", "shift_jis", "\x81"),  # not valid in Shift_JIS either
    (b"=?utf-8?q?Gr=C3=BC=C3=9Fe?=", None, "Grüße"),
]

WORDS = [
    ("=?ISO-8859-1?Q?caf=E9?=", "café"),
    ("=?iso-8859-1?q?a_b?=", "a b"),
    ("=?utf-8?B?R3LDvMOfZQ==?=", "Grüße"),
    ("=?utf-8?b?R3LDvMOfZQ?=", "Grüße"),  # missing padding
    ("=?utf-8*de?q?x?=", "x"),  # RFC 2231 5
    ("a =?utf-8?q?b?= c", "a b c"),
    ("=?utf-8?q?a?= =?utf-8?q?b?=", "ab"),
    ("=?utf-8?q?a?=  \t =?iso-8859-1?q?=E9?=", "aé"),
    ("=?utf-8?q?=C3?= =?utf-8?q?=BC?=", "ü"),  # a character split over two encoded-words
    ("=?utf-8?q?=C3?= =?utf-8?b?vA==?=", "ü"),
    ("=?utf-8?q?a_?= b", "a  b"),
    ("=?utf-8?q??=", ""),
    # left unchanged
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
def test_decode_field_uses_charset(octets: bytes, charset: str | None, text: str) -> None:
    assert decode_field(octets, charset) == text


@pytest.mark.parametrize(("written", "text"), WORDS)
def test_decode_words_decodes_encoded_words(written: str, text: str) -> None:
    assert decode_words(written) == text


@pytest.mark.parametrize(("content_type", "charset"), TYPES)
def test_declared_charset_reads_content_type(content_type: str | None, charset: str | None) -> None:
    assert declared_charset(content_type) == charset


@pytest.mark.parametrize("name", ["", "utf\0", "ü", "x" * 41, "unicode_escape", "rot13", "zip", "../utf-8"])
def test_choose_charset_of_unknown_name_returns_none(name: str) -> None:
    assert choose_charset(name) is None


@pytest.mark.parametrize("name", ["us-ascii", "UTF-8", "utf-16", "koi8-r", "gb2312", "iso-2022-jp", "utf-7"])
def test_choose_charset_accepts_known_name(name: str) -> None:
    assert choose_charset(name) == name


@given(st.binary(max_size=200), st.sampled_from([None, "koi8-r", "utf-16", "iso-2022-jp"]))
def test_decode_field_of_random_bytes_never_raises(octets: bytes, charset: str | None) -> None:
    decode_field(octets, charset)


@given(st.lists(st.sampled_from(["=?", "?=", "utf-8", "?q?", "?b?", "=C3", "=BC", " ", "A", "\t", "koi8-r"])))
def test_decode_words_of_random_text_never_raises(pieces: list[str]) -> None:
    decode_words("".join(pieces))
