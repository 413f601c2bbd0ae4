"""Heads of articles: their fields, and reading them ahead."""

from __future__ import annotations

import pytest

from protocols.news.article import HEAD_LIMIT, ArticleHead, HeaderField, parse_head, read_head, strip_brackets
from protocols.news.response import read_block
from protocols.wire import Buffer, Reader, run_reader
from resolver import LimitExceeded, Limits

HEADS: list[tuple[bytes, list[tuple[str, bytes]]]] = [
    (b"", []),
    (b"A: b\r\n", [("A", b"b")]),
    (b"A: b\r\n\r\nC: d\r\n", [("A", b"b")]),
    (b"A: b", [("A", b"b")]),
    (b"A:b\r\nA:  c \r\na:\r\n", [("A", b"b"), ("A", b" c "), ("a", b"")]),
    (b"A: b\r\n c\r\n\td\r\n", [("A", b"b c\td")]),  # folds: the line end goes, the blank stays
    (b"A : b\r\n", [("A", b"b")]),  # RFC 5322 4.5
    (b"A: b:c\r\n", [("A", b"b:c")]),
    (b"A: \xe9\xff\0\r\n", [("A", b"\xe9\xff\0")]),
    (b"A: b\nC: d\r\n", [("A", b"b\nC: d")]),  # LF ends nothing
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
def test_the_fields(octets: bytes, fields: list[tuple[str, bytes]]) -> None:
    head = parse_head(octets)
    assert [(field.name, field.raw) for field in head.fields] == fields
    assert head.strays == sum(not name for name, _ in fields)
    assert [name for name, _ in head.pairs] == [name for name, _ in fields if name]


def test_what_a_head_says() -> None:
    head = parse_head(
        b"subject: =?utf-8?q?=C3=BC?=\r\nSubject: second\r\nDate: Mon, 06 Jan 2025 10:00:24 +0000\r\n"
        b"Message-ID:  <a@b> \r\nContent-Type: text/plain; charset=koi8-r\r\nFrom: \xf0\xd2\r\n"
    )
    assert head.first("subject") == b"=?utf-8?q?=C3=BC?="
    assert head.decoded("subject") == "ü"
    assert head.decoded("from") == "Пр"
    assert head.decoded("absent") is None
    assert head.charset == "koi8-r"
    assert head.message_id == b"a@b"
    assert head.date is not None
    assert head.date.isoformat() == "2025-01-06T10:00:24+00:00"


def test_an_empty_head_says_nothing() -> None:
    assert (ArticleHead().date, ArticleHead().charset, ArticleHead().message_id, ArticleHead().pairs) == (
        None,
        None,
        None,
        (),
    )


@pytest.mark.parametrize(
    ("octets", "inner"), [(b"<a@b>", b"a@b"), (b" <a> ", b"a"), (b"a@b", None), (b"<>", None), (b"<", None)]
)
def test_brackets(octets: bytes, inner: bytes | None) -> None:
    assert strip_brackets(octets) == inner


BLOCKS = [
    (b"A: b\r\n\r\nbody\r\n.\r\n", [HeaderField("A", b"b")]),
    (b"A: b\r\n\r\n.\r\n", [HeaderField("A", b"b")]),
    (b"A: b\r\n.\r\n", [HeaderField("A", b"b")]),
    (b".\r\n", []),
    (b"\r\nA: b\r\n.\r\n", []),
    (b"..A: b\r\n..c: d\r\n\r\n.\r\n", [HeaderField(".A", b"b"), HeaderField(".c", b"d")]),
    (b"A: b\n\nc: d\r\n\r\n.\r\n", [HeaderField("A", b"b\n\nc: d")]),
]


@pytest.mark.parametrize(("sent", "fields"), BLOCKS)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_looking_ahead_takes_nothing(sent: bytes, fields: list[HeaderField], size: int) -> None:
    pieces = iter([(sent + b"200 next\r\n")[start : start + size] for start in range(0, 200, size)])
    buffer = Buffer()
    head = drive(read_head(Limits()), buffer, pieces)
    assert isinstance(head, ArticleHead)
    assert list(head.fields) == fields
    content = drive(read_block(1000), buffer, pieces)
    assert content == run_reader(read_block(1000), sent)


def drive(reader: Reader[object], buffer: Buffer, pieces: object) -> object:
    waiting = reader(buffer)
    while True:
        try:
            next(waiting)
        except StopIteration as done:
            return done.value
        buffer.feed(next(pieces))  # type: ignore[call-overload]


@pytest.mark.parametrize("sent", [b"A: b\r\nC", b"A: b\r\n", b"", b"\r", b"."])
def test_a_cut_is_not_its_to_report(sent: bytes) -> None:
    head = run_reader(read_head(Limits()), sent)
    assert head.first("a") in (b"b", None)


@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        (b"A: b\r\n" * 11 + b"\r\n", "lines"),
        (b"A: " + b"b" * 50 + b"\r\n\r\n", "line"),
        (b"A: b" + b"c" * HEAD_LIMIT, "lines"),
    ],
)
def test_a_head_beyond_limits(sent: bytes, limit: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        run_reader(read_head(Limits(line=50, lines=10)), sent)
    assert caught.value.limit == limit


def test_a_head_at_its_limits() -> None:
    sent = b"A: b\r\n" * 9 + b"C: " + b"d" * 47 + b"\r\n\r\nbody longer than that\r\n.\r\n"
    assert len(run_reader(read_head(Limits(line=50, lines=10)), sent).fields) == 10
