"""Tests of Gopher+ header lines, and of period unstuffing and the terminator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.gopher.content import (
    HEADER_LIMIT,
    DataEnding,
    GopherPlusHeader,
    PeriodUnstuffer,
    closing_period,
    read_header,
    read_promised_header,
)
from protocols.wire import Buffer, run_reader
from resolver import Disconnected, ProtocolError
from resolver.testing import CUTTERS, Cutter, one_by_one
from tests.sampled import examples

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
    (b"-78\r\n", GopherPlusHeader(COUNT, 78, is_error=True)),
    (b"--1\r\n", GopherPlusHeader(PERIOD, is_error=True)),
    (b"--2\r\n", GopherPlusHeader(CLOSE, is_error=True)),
]

#: Bytes that are not a header, and the number of bytes that suffice to see it (0: only at the end).
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


def read_in_pieces(pieces: Iterable[bytes]) -> tuple[GopherPlusHeader | None, int, Buffer]:
    """Return the header, the number of pieces read and the buffer; the end counts as a piece."""
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
def test_read_header_leaves_following_bytes(line: bytes, header: GopherPlusHeader, rest: bytes) -> None:
    heard, _, buffer = read_in_pieces([line + rest])
    assert (heard, buffer.take()) == (header, rest)
    heard, pieces, buffer = read_in_pieces(one_by_one(line + rest))
    assert (heard, pieces, buffer.take()) == (header, len(line), b"")


@pytest.mark.parametrize(("octets", "enough"), UNFRAMED)
def test_read_header_of_content_leaves_all_bytes(octets: bytes, enough: int) -> None:
    heard, pieces, buffer = read_in_pieces(one_by_one(octets))
    assert (heard, pieces) == (None, enough or len(octets) + 1)
    assert buffer.take() == octets[:pieces]


def test_read_promised_header_of_empty_reply_raises() -> None:
    assert run_reader(read_header, b"") is None
    with pytest.raises(ProtocolError, match=r"Gopher\+"):
        run_reader(read_promised_header, b"")
    assert run_reader(read_promised_header, b"x") is None


@pytest.mark.parametrize("octets", [b"+", b"-", b"+5", b"+-", b"--1", b"+-1\r", b"+12 "])
def test_read_promised_header_truncated_raises_disconnected(octets: bytes) -> None:
    with pytest.raises(Disconnected, match="header line"):
        run_reader(read_promised_header, octets)


# Lone periods: the machine against the rules applied to the complete reply, and its buffering limit.


def unstuff_by_rules(reply: bytes) -> bytes:
    """Apply section 5 of the Gopher+ page literally to a complete reply."""
    lines = re.findall(rb"[^\n]*\n|[^\n]+\Z", reply)
    bare = [re.sub(rb"\r?\n\Z", b"", line) for line in lines]
    if not bare or bare[-1] != b"." or lines[-1] == b".\r":
        return reply
    lines, bare = lines[:-1], bare[:-1]
    if b"." in bare:
        return b"".join(lines)
    single = any(re.match(rb"\.[^.]", line) for line in bare)
    cleaned = []
    for line, content in zip(lines, bare, strict=True):
        doubled = content == b".." or (content.startswith(b"..") and not single)
        cleaned.append(line[1:] if doubled else line)
    return b"".join(cleaned)


def clean(periods: PeriodUnstuffer, pieces: Iterator[bytes]) -> bytes:
    return b"".join([*(each for piece in pieces for each in periods.feed(piece)), *periods.finish()])


#: A reply and the reason for its row.
REPLIES: list[tuple[bytes, str]] = [
    (b"", "nothing"),
    (b".", "a terminator ended by the end of data"),
    (b".\r\n", "an empty text"),
    (b".\n", "an empty text, LF"),
    (b".\r", "no line end"),
    (b"..\r\n.\r\n", "one doubled period"),
    (b"..", "no terminator"),
    (b"a\r\n.\r\n", "a terminator"),
    (b"a.\r\n", "no terminator: glued on"),
    (b"a\r.\r\n", "CR alone ends no line"),
    (b"a\r\n.\r\nb\r\n", "a period inside, no terminator"),
    (b"a\r\n.\r\n..\r\n.\r\n", "a period inside: nothing is doubled"),
    (b"..\r\n.\r\nb\r\n.\r\n", "the same, after a line that might have been"),
    (b"..a\r\n..\r\n.\r\n", "both lose one"),
    (b"..a\r\n..\r\n.b\r\n.\r\n", "a single period shows that only lone ones are doubled"),
    (b".b\r\n..a\r\n..\r\n.\r\n", "the same, first"),
    (b"...\n....\n.\n", "more than two"),
    (b"..\r\r\n.\r\n", "two periods and a CR that is part of the line"),
    (b".\r\r\n.\r\n", "a period and such a CR: a longer line"),
    (b"..\r\n.\r\n\r\n", "the terminator is not the last line"),
    (b"..\n\n.\n.\n", "a lone period before the last one"),
    (b"..\r\n..", "a last line without an end"),
]


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize("reply", [row[0] for row in REPLIES], ids=[row[1] for row in REPLIES])
def test_period_unstuffer_follows_the_rules_for_every_split(reply: bytes, cutter: Cutter) -> None:
    periods = PeriodUnstuffer()
    cleaned = clean(periods, iter(cutter(reply)))
    assert cleaned == unstuff_by_rules(reply)
    assert periods.restore(cleaned) == reply
    assert not periods.is_over_limit


@given(
    st.lists(
        st.sampled_from([b".", b"..", b"\n", b"\r\n", b"\r", b"a", b"\n.\r\n", b"\n..\r\n"]), max_size=25
    ),
)
@settings(max_examples=examples(600))
@pytest.mark.slow
def test_period_unstuffer_follows_the_rules_for_any_reply(pieces: list[bytes]) -> None:
    reply = b"".join(pieces)
    periods = PeriodUnstuffer()
    cleaned = clean(periods, iter(pieces))
    assert cleaned == unstuff_by_rules(reply)
    assert periods.restore(cleaned) == reply
    assert clean(PeriodUnstuffer(), iter([reply])) == cleaned


def test_period_unstuffer_passes_text_without_doubled_periods() -> None:
    periods = PeriodUnstuffer()
    assert periods.feed(b"one\r\ntwo\r\n") == (b"one\r\ntwo\r\n",)
    assert periods.feed(b".three\r\n.") == (b".three\r\n",)
    assert periods.feed(b"four") == (b".four",)


def test_period_unstuffer_releases_decided_lines() -> None:
    periods = PeriodUnstuffer()
    assert periods.feed(b"one\r\n..two\r\nthree\r\n") == (b"one\r\n",)
    assert periods.feed(b".four\r\n") == (b"..two\r\nthree\r\n.four\r\n",)  # only lone periods are doubled
    assert periods.feed(b"..\r\nfive\r\n") == (b"",)
    assert periods.feed(b".\r\nsix") == (b"..\r\nfive\r\n.\r\nsix",)  # no period is doubled
    assert periods.feed(b"\r\n..\r\n..seven\r\n") == (b"\r\n..\r\n..seven\r\n",)
    assert periods.feed(b".\r\n") == (b"",)
    assert periods.finish() == (b"",)
    assert periods.terminator == b".\r\n"


def test_period_unstuffer_buffer_is_bounded() -> None:
    periods, reply = PeriodUnstuffer(limit=100), b"..\r\n" + b"x" * 60 + b"\r\n"
    assert periods.feed(reply) == (b"",)
    assert periods.feed(reply) == (reply * 2,)  # over the limit: passed unchanged
    assert periods.is_over_limit
    assert periods.feed(b"..y\r\n.\r\n") == (b"..y\r\n",)
    assert (periods.finish(), periods.terminator) == ((b"",), b".\r\n")
    assert periods.restore(reply * 2 + b"..y\r\n") == reply * 2 + b"..y\r\n.\r\n"


def test_period_unstuffer_abandon_returns_buffer_unchanged() -> None:
    periods = PeriodUnstuffer()
    assert periods.feed(b"a\r\n..\r\nb\r\n.\r\n") == (b"a\r\n",)
    assert periods.last_line == b".\r\n"
    assert periods.abandon() == (b"..\r\nb\r\n.\r\n",)
    assert periods.terminator == b""


def test_period_unstuffer_many_doubled_lines_are_fast() -> None:
    reply = b"..\r\n" * 200_000 + b".\r\n"
    periods = PeriodUnstuffer()
    assert (
        clean(periods, iter([reply[i : i + 1000] for i in range(0, len(reply), 1000)])) == b".\r\n" * 200_000
    )


@pytest.mark.parametrize(
    ("octets", "period"),
    [
        (b"", b""),
        (b".", b""),
        (b".\n", b".\n"),
        (b".\r\n", b".\r\n"),
        (b"a.\r\n", b""),
        (b"ab.\n", b""),
        (b"\n.\n", b".\n"),
        (b"a\r\n.\r\n", b".\r\n"),
        (b"a\r\n..\r\n", b""),
        (b"a\r\n.\r\nb", b""),
    ],
)
def test_closing_period_is_the_last_line(octets: bytes, period: bytes) -> None:
    assert closing_period(octets) == period
    periods = PeriodUnstuffer()
    periods.feed(octets)
    assert periods.last_line == period
