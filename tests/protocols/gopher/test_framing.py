"""Header lines: five shapes, and everything that only resembles one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from protocols.gopher.content import (
    HEADER_LIMIT,
    DataEnding,
    GopherPlusHeader,
    read_header,
    read_promised_header,
)
from protocols.wire import Buffer, run_reader
from resolver import Disconnected, ProtocolError
from resolver.testing import one_by_one

COUNT, PERIOD, CLOSE = DataEnding.COUNT, DataEnding.PERIOD, DataEnding.CLOSE

HEADERS: list[tuple[bytes, GopherPlusHeader]] = [
    (b"+0\r\n", GopherPlusHeader(COUNT, 0)),
    (b"+525\r\n", GopherPlusHeader(COUNT, 525)),
    (b"+999999999999999999\r\n", GopherPlusHeader(COUNT, 999_999_999_999_999_999)),
    (b"+007\n", GopherPlusHeader(COUNT, 7)),
    (b"+-1\r\n", GopherPlusHeader(PERIOD)),
    (b"+-2\n", GopherPlusHeader(CLOSE)),
    (b"+-1 \t\r\n", GopherPlusHeader(PERIOD)),
    (b"+5" + b" " * 60 + b"\r\n", GopherPlusHeader(COUNT, 5)),
    (b"-78\r\n", GopherPlusHeader(COUNT, 78, refused=True)),
    (b"--1\r\n", GopherPlusHeader(PERIOD, refused=True)),
    (b"--2\r\n", GopherPlusHeader(CLOSE, refused=True)),
]

#: What is no header, and the number of its first octets that show it (0: only the end does).
UNFRAMED: list[tuple[bytes, int]] = [
    (b"Welcome\r\n", 1),
    (b"\r\n", 1),
    (b"\n+-1\r\n", 1),
    (b"+INFO: 0x\r\n", 2),
    (b"+44 20 7946 0000\r\n", 5),
    (b"+-3\r\n", 3),
    (b"+-\r\n", 3),
    (b"+\r\n", 2),
    (b"+-10\r\n", 4),
    (b"+1-\r\n", 3),
    (b"++1\r\n", 2),
    (b"+1\rx", 4),
    (b"+1\r\r\n", 4),
    (b"+9999999999999999999\r\n", 20),
    (b"+5" + b" " * 62 + b"\r\n", HEADER_LIMIT),
    (b"+5", 0),
    (b"+-", 0),
    (b"+-1\r", 0),
]


def hear(pieces: Iterable[bytes]) -> tuple[GopherPlusHeader | None, int, Buffer]:
    """What the reader makes of it, after how many pieces, and the buffer then. The end is a piece."""
    buffer = Buffer()
    waiting = read_header(buffer)
    for number, piece in enumerate([*pieces, b"", b""]):
        try:
            next(waiting)
        except StopIteration as done:
            return done.value, number, buffer
        assert not buffer.at_end, "asked for more after the end"
        buffer.feed(piece)
    raise AssertionError("never made up its mind")


@pytest.mark.parametrize(("line", "header"), HEADERS)
@pytest.mark.parametrize("rest", [b"", b"+-1\r\n.\r\n", b"\n"])
def test_a_header_is_taken_and_nothing_behind_it(line: bytes, header: GopherPlusHeader, rest: bytes) -> None:
    heard, _, buffer = hear([line + rest])
    assert (heard, buffer.take()) == (header, rest)
    heard, pieces, buffer = hear(one_by_one(line + rest))
    assert (heard, pieces, buffer.take()) == (header, len(line), b"")


@pytest.mark.parametrize(("octets", "enough"), UNFRAMED)
def test_what_is_no_header_stays_where_it_is(octets: bytes, enough: int) -> None:
    heard, pieces, buffer = hear(one_by_one(octets))
    assert (heard, pieces) == (None, enough or len(octets) + 1)
    assert buffer.take() == octets[:pieces]


def test_nothing_at_all_is_no_answer_to_gopherplus() -> None:
    assert run_reader(read_header, b"") is None
    with pytest.raises(ProtocolError, match=r"Gopher\+"):
        run_reader(read_promised_header, b"")
    assert run_reader(read_promised_header, b"x") is None


@pytest.mark.parametrize("octets", [b"+", b"-", b"+5", b"+-", b"--1", b"+-1\r", b"+12 "])
def test_an_answer_to_gopherplus_that_ends_inside_its_header_was_cut_off(octets: bytes) -> None:
    with pytest.raises(Disconnected, match="header line"):
        run_reader(read_promised_header, octets)


@pytest.mark.parametrize(("line", "header"), HEADERS)
def test_a_header_is_written_as_it_was_read(line: bytes, header: GopherPlusHeader) -> None:
    assert run_reader(read_header, header.written.encode() + b"\n") == header
