"""Status lines: read whole, octet by octet, with something behind them; and what they may answer."""

from __future__ import annotations

import pytest

from protocols.news.response import (
    GroupSelection,
    NntpCommand,
    NntpResponse,
    NntpVerb,
    message_id_of,
    parse_selected,
    read_response,
    read_status,
    response_to,
)
from protocols.wire import Buffer, run_reader
from resolver import Disconnected, LimitExceeded, ProtocolError, Truncated

GOOD = [
    (b"200 ready\r\n", NntpResponse(200, b"ready")),
    (b"200\r\n", NntpResponse(200)),
    (b"200 \r\n", NntpResponse(200)),
    (b"200 old\n", NntpResponse(200, b"old")),  # some old servers
    (b"423 a\rb\r\n", NntpResponse(423, b"a\rb")),  # CR alone ends nothing
    (b"500 \xe9\xff\r\n", NntpResponse(500, b"\xe9\xff")),
    (b"211  3 1 2  x\r\n", NntpResponse(211, b" 3 1 2  x")),
]
BAD = [b"", b"20", b"20 x", b"2000 x", b"200-x", b"200\tx", b"600 x", b"099 x", b"+OK", b"abc", b"200 \0"]


@pytest.mark.parametrize(("line", "answer"), GOOD)
def test_a_status_line(line: bytes, answer: NntpResponse) -> None:
    assert run_reader(read_status(100), line) == answer
    assert run_reader(read_status(100), *(line[i : i + 1] for i in range(len(line)))) == answer


@pytest.mark.parametrize(("line", "answer"), GOOD)
def test_what_follows_is_left(line: bytes, answer: NntpResponse) -> None:
    buffer = Buffer()
    buffer.feed(line + b".\r\nmore")
    with pytest.raises(StopIteration) as done:
        next(read_status(100)(buffer))
    assert done.value.value == answer
    assert buffer.take() == b".\r\nmore"


@pytest.mark.parametrize("line", BAD)
def test_what_is_none(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        run_reader(read_status(100), line + b"\r\n")


def test_the_limit_is_the_line_with_its_end() -> None:
    assert run_reader(read_status(12), b"200 1234567\n").code == 200
    for chunks in ([b"200 12345678\n"], [b"200 123", b"45678", b"9"]):
        with pytest.raises(LimitExceeded) as caught:
            run_reader(read_status(12), *chunks)
        assert (caught.value.limit, caught.value.exit_code) == ("line", 7)


def test_ends() -> None:
    with pytest.raises(Disconnected):
        run_reader(read_status(100))
    with pytest.raises(Truncated) as caught:
        run_reader(read_status(100), b"20")
    assert caught.value.received == 2


#: Section 5 of the news page, for what this client says: code, verb, block or None for "cannot be".
BLOCKS = [
    (101, NntpVerb.CAPABILITIES, True),
    (215, NntpVerb.LIST_ACTIVE, True),
    (215, NntpVerb.LIST_NEWSGROUPS, True),
    (220, NntpVerb.ARTICLE, True),
    (221, NntpVerb.HEAD, True),
    (224, NntpVerb.OVER, True),
    (224, NntpVerb.XOVER, True),
    (211, NntpVerb.LISTGROUP, True),
    (211, NntpVerb.GROUP, False),
    (223, NntpVerb.STAT, False),
    (200, NntpVerb.MODE_READER, False),
    (201, NntpVerb.MODE_READER, False),
    (281, NntpVerb.AUTHINFO_USER, False),
    (381, NntpVerb.AUTHINFO_USER, False),
    (281, NntpVerb.AUTHINFO_PASS, False),
    (382, NntpVerb.STARTTLS, False),
    (206, NntpVerb.COMPRESS_DEFLATE, False),
    (205, NntpVerb.QUIT, False),
    (220, NntpVerb.HEAD, None),
    (220, NntpVerb.GROUP, None),
    (224, NntpVerb.ARTICLE, None),
    (215, NntpVerb.LISTGROUP, None),
    (381, NntpVerb.AUTHINFO_PASS, None),
    (340, NntpVerb.ARTICLE, None),
    (100, NntpVerb.LIST_ACTIVE, None),
    (299, NntpVerb.ARTICLE, None),  # listed nowhere, and an article has a block
    (199, NntpVerb.GROUP, None),
    (299, NntpVerb.GROUP, False),  # listed nowhere, and GROUP never has a block
    (250, NntpVerb.AUTHINFO_PASS, None),  # RFC 2980 has it for another command
    (400, NntpVerb.ARTICLE, False),
    (423, NntpVerb.ARTICLE, False),
    (499, NntpVerb.LIST_ACTIVE, False),
    (599, NntpVerb.LISTGROUP, False),
]


@pytest.mark.parametrize(("code", "verb", "block"), BLOCKS)
def test_whether_a_block_follows(code: int, verb: NntpVerb, block: bool | None) -> None:
    line = b"%d text\r\n" % code
    if block is None:
        with pytest.raises(ProtocolError, match=verb.value):
            run_reader(read_response(NntpCommand(verb), 100), line)
    else:
        assert run_reader(read_response(NntpCommand(verb), 100), line) == NntpResponse(code, b"text", block)


def test_every_verb_can_be_granted() -> None:
    assert {verb for code, verb, block in BLOCKS if block is not None and code < 400} == set(NntpVerb)


SELECTED = [
    (b"3 10 12 a.b", GroupSelection(3, 10, 12), False),
    (b"3 10 12", GroupSelection(3, 10, 12), False),
    (b"0003 0010 0012 a.b more", GroupSelection(3, 10, 12), False),
    (b"0 4000 3999 a.b", GroupSelection(0, 4000, 3999), True),
    (b"0 0 0 a.b", GroupSelection(0, 0, 0), True),
    (b"0 5 5 a.b", GroupSelection(0, 5, 5), True),
    (b"7 5 4 a.b", GroupSelection(7, 5, 4), True),
    (b"1 9999999999999999 9999999999999999", GroupSelection(1, 10**16 - 1, 10**16 - 1), False),
]


@pytest.mark.parametrize(("text", "selected", "empty"), SELECTED)
def test_a_group(text: bytes, selected: GroupSelection, empty: bool) -> None:
    assert parse_selected(NntpResponse(211, text)) == selected
    assert selected.is_empty is empty


@pytest.mark.parametrize("text", [b"", b"3 10", b"a b c", b"-1 2 3", b"1 2 +3", b"1 2 " + b"9" * 17])
def test_no_group(text: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_selected(NntpResponse(211, text))


IDS = [
    (b"0 <a@b> article", b"a@b"),
    (b"12 <a@b>", b"a@b"),
    (b"12 <0>", None),
    (b"12 <>", None),
    (b"12 a@b", None),
    (b"12", None),
    (b"", None),
]


@pytest.mark.parametrize(("text", "message_id"), IDS)
def test_the_message_id_of_an_answer(text: bytes, message_id: bytes | None) -> None:
    assert message_id_of(NntpResponse(220, text)) == message_id


def test_a_message_shows_no_control() -> None:
    assert NntpResponse(500, b"\x1b[2J\xe9").shown == "'500 \\x1b[2J\\xe9'"


def test_settling_keeps_what_is_refused() -> None:
    answer = NntpResponse(480, b"log in")
    assert response_to(NntpCommand(NntpVerb.ARTICLE, b"1"), answer) is answer
