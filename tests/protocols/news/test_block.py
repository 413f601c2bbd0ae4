"""Blocks: framing to the letter, however the octets are cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeVar

import pytest

from protocols.news.response import BlockLines, DataBlock, give_block, read_block, read_status, skip_block
from protocols.step import Dialogue, receive
from protocols.wire import Buffer, Reader, run_reader
from resolver import Disconnected, LimitExceeded, Truncated
from tests.protocols.news.captures import said_by
from tests.protocols.test_body_of_a_dialogue import LINE, WAYS, Pieces, PiecesGate, begun, take

T = TypeVar("T")

#: What is sent, and what it says.
BLOCKS = [
    (b".\r\n", b""),
    (b"\r\n.\r\n", b"\r\n"),
    (b"a\r\n.\r\n", b"a\r\n"),
    (b"a\r\n\r\n\r\n.\r\n", b"a\r\n\r\n\r\n"),
    (b"..\r\n.\r\n", b".\r\n"),
    (b"...\r\n.\r\n", b"..\r\n"),
    (b".x\r\n.\r\n", b"x\r\n"),  # the server forgot to double it; it goes all the same
    (b"a\r\n.x\r\n..\r\n.\r\n", b"a\r\nx\r\n.\r\n"),
    (b". \r\n.\t\r\n.\r\n", b" \r\n\t\r\n"),
    (b"a\n.\nb\r\n.\r\n", b"a\n.\nb\r\n"),
    (b"a\n.\r\nb\r\n.\r\n", b"a\n.\r\nb\r\n"),
    (b"a\r\n.\nb\r\n.\r\n", b"a\r\n\nb\r\n"),  # a line that begins with a dot and goes on with LF
    (b"a\r.\rb\r\n.\r\n", b"a\r.\rb\r\n"),
    (b"a\r\r\n..\r\r\nb\r\n.\r\n", b"a\r\r\n.\r\r\nb\r\n"),
    (b"\n.\n200 fake\n\r\n.\r\n", b"\n.\n200 fake\n\r\n"),
    (b"a\0b\r\n.\r\n", b"a\0b\r\n"),
    (b"\r\r\n.\r\n", b"\r\r\n"),
    (b".\r.\r\n.\r\n", b"\r.\r\n"),
    (b"a\r\n.\r.\r\n.\r\n", b"a\r\n\r.\r\n"),
    (b"\r\n\r\n..\r\n.\r\n", b"\r\n\r\n.\r\n"),
    (b"x" * 70_000 + b"\r\n.\r\n", b"x" * 70_000 + b"\r\n"),
]


@pytest.mark.parametrize(("sent", "content"), BLOCKS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1 << 20])
def test_a_block(sent: bytes, content: bytes, size: int) -> None:
    if size == 1 and len(sent) > 1000:
        sent, content = sent[-1000:], content[-997:]
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
    assert run_reader(read_block(1 << 20), *pieces) == content


@pytest.mark.parametrize(("sent", "content"), BLOCKS)
def test_what_follows_is_left(sent: bytes, content: bytes) -> None:
    for reader, value in ((read_block(1 << 20), content), (skip_block(1 << 20), None)):
        buffer = Buffer()
        buffer.feed(sent + b".\r\n200 next\r\n.\r\n")
        with pytest.raises(StopIteration) as done:
            next(reader(buffer))
        assert done.value.value == value
        assert buffer.take() == b".\r\n200 next\r\n.\r\n"


@pytest.mark.parametrize(("sent", "content"), BLOCKS)
def test_an_end_too_early(sent: bytes, content: bytes) -> None:
    for length in range(min(len(sent), 40)):
        with pytest.raises(Truncated) as caught:
            run_reader(read_block(1 << 20), sent[:length])
        held_back = 5 + sent[:length].count(b".")
        assert length - held_back <= caught.value.received <= min(length, len(content))


def test_limits() -> None:
    assert run_reader(read_block(3), b"a\r\n.\r\n") == b"a\r\n"
    for reader in (read_block(2), skip_block(2)):
        with pytest.raises(LimitExceeded) as caught:
            run_reader(reader, b"a\r\n.\r\n")
        assert caught.value.limit == "lines"
    with pytest.raises(LimitExceeded):  # without an end in sight
        run_reader(read_block(100), *[b"x" * 60] * 3)


def naive(octets: bytes) -> tuple[bytes, bytes]:
    """Content and what follows, line by line."""
    content = b""
    while True:
        line, end, octets = octets.partition(b"\r\n")
        assert end
        if line == b".":
            return content, octets
        content += line.removeprefix(b".") + end


def feed(reader: Reader[T], buffer: Buffer, pieces: Iterator[bytes]) -> T:
    """What a reader makes of the octets to come; no more pieces are taken than it asks for."""
    waiting = reader(buffer)
    while True:
        try:
            next(waiting)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        buffer.feed(next(pieces))


def test_any_octets_as_a_plain_reader_sees_them() -> None:
    chance = random.Random(1738)
    for _ in range(3_000):
        octets = bytes(chance.choices(b"\r\n.x", k=chance.randrange(30))) + b"\r\n.\r\nrest"
        content, rest = naive(octets)
        size = chance.randrange(1, 6)
        pieces = iter([octets[start : start + size] for start in range(0, len(octets), size)])
        buffer = Buffer()
        assert feed(read_block(1 << 20), buffer, pieces) == content
        assert buffer.take() + b"".join(pieces) == rest


SMUGGLED = [
    (b"lf.1", b"before\n.\n200 fake\nafter\r\n"),
    (b"lflast.2", b"text\n.\r\nmore\r\n"),
    (b"cr.3", b"before\r.\rafter\r\n"),
    (b"crcrlf.4", b"text\r\r\n.\r\r\nmore\r\n"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 1 << 20])
def test_the_articles_that_would_pass_for_answers(size: int) -> None:
    """Four bodies of a real server, and behind them its answer to the next command."""
    octets = said_by("bare_lf_article", "server")
    octets = octets[octets.index(b"222 0 <lf.1") :]
    buffer = Buffer()
    pieces = iter([octets[start : start + size] for start in range(0, len(octets), size)])
    for message_id, content in SMUGGLED:
        answer = feed(read_status(512), buffer, pieces)
        assert (answer.code, answer.text) == (222, b"0 <%s@example.test> body" % message_id)
        assert feed(read_block(1 << 20), buffer, pieces) == content
    assert feed(read_status(512), buffer, pieces).code == 111


def test_the_article_that_nntplib_stumbles_over() -> None:
    octets = said_by("bare_lf_article_nntplib", "server")
    start = octets.index(b"222 0")
    block = octets[octets.index(b"\r\n", start) + 2 :]
    buffer = Buffer()
    buffer.feed(block)
    with pytest.raises(StopIteration) as done:
        next(read_block(1 << 20)(buffer))
    assert done.value.value == b"before\n.\n200 fake\nafter\r\n"


@WAYS
@pytest.mark.parametrize(("sent", "content"), BLOCKS)
async def test_a_body(way: str, sent: bytes, content: bytes) -> None:
    def dialogue() -> Dialogue[bytes]:
        yield from give_block(DataBlock(), "a block")
        return (yield from receive(LINE, "the next answer", b""))

    gate = PiecesGate(Pieces(sent[:2], sent[2:] + b"200 next\r\n"))
    assert await take(begun(dialogue()), gate, way) == content
    assert gate.loans[0].kept == b"200 next"


@WAYS
@pytest.mark.parametrize("error", [None, Disconnected("reset")])
@pytest.mark.parametrize("given", [0, 3])
@pytest.mark.parametrize("sent", [b"", b"ab", b"ab\r\n"])
async def test_a_body_that_is_cut(way: str, sent: bytes, given: int, error: Disconnected | None) -> None:
    pieces = Pieces(*([sent] if sent else []), error=error)
    with pytest.raises(Truncated if sent or given else Disconnected) as caught:
        await take(begun(give_block(DataBlock(), "a block", given)), PiecesGate(pieces), way)
    if isinstance(caught.value, Truncated):
        assert caught.value.received == len(sent.rstrip())


# -- lines of a listing: only CR LF ends one

LINES = [
    (b"", []),
    (b"a\r\n", [b"a"]),
    (b"a\r\nb", [b"a", b"b"]),
    (b"\r\n\r\n", [b"", b""]),
    (b"a\nb\rc\r\n", [b"a\nb\rc"]),
    (b"a\r\r\nb\n\r\n", [b"a\r", b"b\n"]),
]


@pytest.mark.parametrize(("octets", "expected"), LINES)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines(octets: bytes, expected: list[bytes], size: int) -> None:
    lines = BlockLines(100)
    found = []
    for start in range(0, len(octets), size):
        found += lines.feed(octets[start : start + size])
    assert found + lines.finish() == expected
    assert lines.finish() == []


@pytest.mark.parametrize("pieces", [[b"abcd\r\n"], [b"ab", b"cd"], [b"a\r\nb\r\nabcd"], [b"abcd\r\na\r\n"]])
def test_a_line_too_long(pieces: list[bytes]) -> None:
    lines = BlockLines(3)
    with pytest.raises(LimitExceeded) as caught:
        list(map(lines.feed, pieces))
    assert caught.value.limit == "line"


def test_as_long_as_may_be() -> None:
    assert BlockLines(3).feed(b"abc\r\nabc\r\n") == [b"abc", b"abc"]
