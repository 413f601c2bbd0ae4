"""Status lines, blocks, listing lines and commands of NNTP.

Each reader gets its input in one chunk, in small chunks, and followed by other data.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TypeVar

import pytest

from protocols.news.response import (
    COMMAND_LIMIT,
    BlockLines,
    DataBlock,
    GroupSelection,
    NntpCommand,
    NntpResponse,
    NntpVerb,
    emit_block,
    find_message_id,
    parse_selected,
    read_block,
    read_status,
    response_to,
    skip_block,
)
from protocols.step import Dialogue, receive
from protocols.wire import Buffer, Reader, Secret, run_reader
from resolver import Disconnected, LimitExceeded, ProtocolError, Refused, Truncated
from tests.protocols.conversation.test_performer import LINE, WAYS, Pieces, PiecesGate, begun, take
from tests.protocols.news.captures import bytes_of_side

GOOD = [
    (b"200 ready\r\n", NntpResponse(200, b"ready")),
    (b"200\r\n", NntpResponse(200)),
    (b"200 \r\n", NntpResponse(200)),
    (b"200 old\n", NntpResponse(200, b"old")),  # line end of some old servers
    (b"423 a\rb\r\n", NntpResponse(423, b"a\rb")),  # CR alone does not end the line
    (b"500 \xe9\xff\r\n", NntpResponse(500, b"\xe9\xff")),
    (b"211  3 1 2  x\r\n", NntpResponse(211, b" 3 1 2  x")),
]
BAD = [b"", b"20", b"20 x", b"2000 x", b"200-x", b"200\tx", b"600 x", b"099 x", b"+OK", b"abc", b"200 \0"]


@pytest.mark.parametrize(("line", "answer"), GOOD)
def test_read_status_parses_line(line: bytes, answer: NntpResponse) -> None:
    assert run_reader(read_status(100), line) == answer
    assert run_reader(read_status(100), *(line[i : i + 1] for i in range(len(line)))) == answer


@pytest.mark.parametrize(("line", "answer"), GOOD)
def test_read_status_leaves_following_bytes(line: bytes, answer: NntpResponse) -> None:
    buffer = Buffer()
    buffer.feed(line + b".\r\nmore")
    with pytest.raises(StopIteration) as done:
        next(read_status(100)(buffer))
    assert done.value.value == answer
    assert buffer.take() == b".\r\nmore"


@pytest.mark.parametrize("line", BAD)
def test_read_status_of_invalid_line_raises(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        run_reader(read_status(100), line + b"\r\n")


def test_read_status_limit_includes_line_end() -> None:
    assert run_reader(read_status(12), b"200 1234567\n").code == 200
    for chunks in ([b"200 12345678\n"], [b"200 123", b"45678", b"9"]):
        with pytest.raises(LimitExceeded) as caught:
            run_reader(read_status(12), *chunks)
        assert (caught.value.limit, caught.value.exit_code) == ("line", 7)


def test_read_status_at_end_of_stream_raises() -> None:
    with pytest.raises(Disconnected):
        run_reader(read_status(100))
    with pytest.raises(Truncated) as caught:
        run_reader(read_status(100), b"20")
    assert caught.value.received == 2


#: Page "news", section 5, for the commands of this client: code, verb, and whether a block follows. None
#: means that the code is an error.
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
    (299, NntpVerb.ARTICLE, None),  # an unknown code, and an article has a block
    (199, NntpVerb.GROUP, None),
    (299, NntpVerb.GROUP, False),  # an unknown code, and GROUP never has a block
    (250, NntpVerb.AUTHINFO_PASS, None),  # RFC 2980 defines this code for another command
    (400, NntpVerb.ARTICLE, False),
    (423, NntpVerb.ARTICLE, False),
    (499, NntpVerb.LIST_ACTIVE, False),
    (599, NntpVerb.LISTGROUP, False),
]


@pytest.mark.parametrize(("code", "verb", "block"), BLOCKS)
def test_read_status_knows_whether_block_follows(code: int, verb: NntpVerb, block: bool | None) -> None:
    line = b"%d text\r\n" % code
    if block is None:
        with pytest.raises(ProtocolError, match=verb.value):
            run_reader(read_status(100, NntpCommand(verb)), line)
    else:
        assert run_reader(read_status(100, NntpCommand(verb)), line) == NntpResponse(code, b"text", block)


def test_block_table_covers_every_verb() -> None:
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
def test_parse_selected_reads_group(text: bytes, selected: GroupSelection, empty: bool) -> None:
    assert parse_selected(NntpResponse(211, text)) == selected
    assert selected.is_empty is empty


@pytest.mark.parametrize("text", [b"", b"3 10", b"a b c", b"-1 2 3", b"1 2 +3", b"1 2 " + b"9" * 17])
def test_parse_selected_of_invalid_text_raises(text: bytes) -> None:
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
def test_message_id_of_reads_answer(text: bytes, message_id: bytes | None) -> None:
    assert find_message_id(NntpResponse(220, text)) == message_id


def test_response_shown_escapes_control_characters() -> None:
    assert NntpResponse(500, b"\x1b[2J\xe9").shown == "'500 \\x1b[2J\\xe9'"


def test_response_to_refusal_is_unchanged() -> None:
    answer = NntpResponse(480, b"log in")
    assert response_to(NntpCommand(NntpVerb.ARTICLE, b"1"), answer) is answer


# Block framing, for every way the bytes are split.

T = TypeVar("T")

#: The bytes on the wire and their content.
BLOCK_CASES = [
    (b".\r\n", b""),
    (b"\r\n.\r\n", b"\r\n"),
    (b"a\r\n.\r\n", b"a\r\n"),
    (b"a\r\n\r\n\r\n.\r\n", b"a\r\n\r\n\r\n"),
    (b"..\r\n.\r\n", b".\r\n"),
    (b"...\r\n.\r\n", b"..\r\n"),
    (b".x\r\n.\r\n", b"x\r\n"),  # the server did not double the dot; the line is accepted
    (b"a\r\n.x\r\n..\r\n.\r\n", b"a\r\nx\r\n.\r\n"),
    (b". \r\n.\t\r\n.\r\n", b" \r\n\t\r\n"),
    (b"a\n.\nb\r\n.\r\n", b"a\n.\nb\r\n"),
    (b"a\n.\r\nb\r\n.\r\n", b"a\n.\r\nb\r\n"),
    (b"a\r\n.\nb\r\n.\r\n", b"a\r\n\nb\r\n"),  # a line that begins with a dot and continues after LF
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


@pytest.mark.parametrize(("sent", "content"), BLOCK_CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1 << 20])
def test_read_block_decodes_content(sent: bytes, content: bytes, size: int) -> None:
    if size == 1 and len(sent) > 1000:
        sent, content = sent[-1000:], content[-997:]
    pieces = [sent[start : start + size] for start in range(0, len(sent), size)]
    assert run_reader(read_block(1 << 20), *pieces) == content


@pytest.mark.parametrize(("sent", "content"), BLOCK_CASES)
def test_block_readers_leave_following_bytes(sent: bytes, content: bytes) -> None:
    for reader, value in ((read_block(1 << 20), content), (skip_block(1 << 20), None)):
        buffer = Buffer()
        buffer.feed(sent + b".\r\n200 next\r\n.\r\n")
        with pytest.raises(StopIteration) as done:
            next(reader(buffer))
        assert done.value.value == value
        assert buffer.take() == b".\r\n200 next\r\n.\r\n"


@pytest.mark.parametrize(("sent", "content"), BLOCK_CASES)
def test_read_block_truncated_raises(sent: bytes, content: bytes) -> None:
    for length in range(min(len(sent), 40)):
        with pytest.raises(Truncated) as caught:
            run_reader(read_block(1 << 20), sent[:length])
        held_back = 5 + sent[:length].count(b".")
        assert length - held_back <= caught.value.received <= min(length, len(content))


def test_block_readers_over_limit_raise() -> None:
    assert run_reader(read_block(3), b"a\r\n.\r\n") == b"a\r\n"
    for reader in (read_block(2), skip_block(2)):
        with pytest.raises(LimitExceeded) as caught:
            run_reader(reader, b"a\r\n.\r\n")
        assert caught.value.limit == "lines"
    with pytest.raises(LimitExceeded):  # no end of the block so far
        run_reader(read_block(100), *[b"x" * 60] * 3)


def naive(octets: bytes) -> tuple[bytes, bytes]:
    """Split the content from the bytes after the block, line by line."""
    content = b""
    while True:
        line, end, octets = octets.partition(b"\r\n")
        assert end
        if line == b".":
            return content, octets
        content += line.removeprefix(b".") + end


def feed(reader: Reader[T], buffer: Buffer, pieces: Iterator[bytes]) -> T:
    """Return the reader's result; take only the chunks that it requests."""
    waiting = reader(buffer)
    while True:
        try:
            next(waiting)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        buffer.feed(next(pieces))


def test_read_block_agrees_with_naive_reader() -> None:
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
def test_read_block_of_smuggled_answers_is_correct(size: int) -> None:
    """Four bodies of a real server, and its answer to the next command."""
    octets = bytes_of_side("bare_lf_article", "server")
    octets = octets[octets.index(b"222 0 <lf.1") :]
    buffer = Buffer()
    pieces = iter([octets[start : start + size] for start in range(0, len(octets), size)])
    for message_id, content in SMUGGLED:
        answer = feed(read_status(512), buffer, pieces)
        assert (answer.code, answer.text) == (222, b"0 <%s@example.test> body" % message_id)
        assert feed(read_block(1 << 20), buffer, pieces) == content
    assert feed(read_status(512), buffer, pieces).code == 111


def test_read_block_keeps_bare_lf_that_misleads_nntplib() -> None:
    octets = bytes_of_side("bare_lf_article_nntplib", "server")
    start = octets.index(b"222 0")
    block = octets[octets.index(b"\r\n", start) + 2 :]
    buffer = Buffer()
    buffer.feed(block)
    with pytest.raises(StopIteration) as done:
        next(read_block(1 << 20)(buffer))
    assert done.value.value == b"before\n.\n200 fake\nafter\r\n"


@WAYS
@pytest.mark.parametrize(("sent", "content"), BLOCK_CASES)
async def test_give_block_emits_content(way: str, sent: bytes, content: bytes) -> None:
    def dialogue() -> Dialogue[bytes]:
        yield from emit_block(DataBlock(), "a block")
        return (yield from receive(LINE, "the next answer", b""))

    gate = PiecesGate(Pieces(sent[:2], sent[2:] + b"200 next\r\n"))
    assert await take(begun(dialogue()), gate, way) == content
    assert gate.loans[0].kept == b"200 next"


@WAYS
@pytest.mark.parametrize("error", [None, Disconnected("reset")])
@pytest.mark.parametrize("given", [0, 3])
@pytest.mark.parametrize("sent", [b"", b"ab", b"ab\r\n"])
async def test_give_block_truncated_raises(
    way: str, sent: bytes, given: int, error: Disconnected | None
) -> None:
    pieces = Pieces(*([sent] if sent else []), error=error)
    with pytest.raises(Truncated if sent or given else Disconnected) as caught:
        await take(begun(emit_block(DataBlock(), "a block", given)), PiecesGate(pieces), way)
    if isinstance(caught.value, Truncated):
        assert caught.value.received == len(sent.rstrip())


# -- lines of a listing: only CR LF ends a line

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
def test_block_lines_split_at_crlf(octets: bytes, expected: list[bytes], size: int) -> None:
    lines = BlockLines(100)
    found = []
    for start in range(0, len(octets), size):
        found += lines.feed(octets[start : start + size])
    assert found + lines.finish() == expected
    assert lines.finish() == []


@pytest.mark.parametrize("pieces", [[b"abcd\r\n"], [b"ab", b"cd"], [b"a\r\nb\r\nabcd"], [b"abcd\r\na\r\n"]])
def test_block_lines_over_limit_raise(pieces: list[bytes]) -> None:
    lines = BlockLines(3)
    with pytest.raises(LimitExceeded) as caught:
        list(map(lines.feed, pieces))
    assert caught.value.limit == "line"


def test_block_lines_at_limit_are_accepted() -> None:
    assert BlockLines(3).feed(b"abc\r\nabc\r\n") == [b"abc", b"abc"]


# Commands on the wire, and invalid commands.

SENT = [
    (NntpCommand(NntpVerb.GROUP, b"comp.misc"), b"GROUP comp.misc\r\n"),
    (NntpCommand(NntpVerb.MODE_READER), b"MODE READER\r\n"),
    (NntpCommand(NntpVerb.ARTICLE, b"<a%b@c>"), b"ARTICLE <a%b@c>\r\n"),
    (NntpCommand(NntpVerb.ARTICLE, b"7"), b"ARTICLE 7\r\n"),
    (NntpCommand(NntpVerb.OVER, b"1-9999999999999999"), b"OVER 1-9999999999999999\r\n"),
    (NntpCommand(NntpVerb.AUTHINFO_PASS, Secret(b"p")), b"AUTHINFO PASS p\r\n"),
]


@pytest.mark.parametrize(("command", "octets"), SENT)
def test_command_is_encoded_as_line(command: NntpCommand, octets: bytes) -> None:
    assert command.line.octets == octets


def test_command_repr_hides_password() -> None:
    command = NntpCommand(NntpVerb.AUTHINFO_PASS, Secret(b"hunter2"))
    assert "hunter2" not in f"{command} {command!r}" + repr(command.line.shown)


@pytest.mark.parametrize("octet", [b"\r", b"\n", b"\0", b"\r\nQUIT"])
@pytest.mark.parametrize("verb", NntpVerb)
def test_command_with_line_end_is_refused(verb: NntpVerb, octet: bytes) -> None:
    with pytest.raises(Refused) as caught:
        NntpCommand(verb, b"a" + octet)
    assert caught.value.rule == "S02"


@pytest.mark.parametrize("verb", NntpVerb)
def test_command_over_512_bytes_is_refused(verb: NntpVerb) -> None:
    room = COMMAND_LIMIT - len(verb) - 3
    assert len(NntpCommand(verb, b"a" * room).line.octets) == 512
    with pytest.raises(Refused):
        NntpCommand(verb, b"a" * (room + 1))


def test_command_fits_longest_names_of_url() -> None:
    for verb in (NntpVerb.LIST_NEWSGROUPS, NntpVerb.LISTGROUP, NntpVerb.GROUP):
        NntpCommand(verb, b"g" * 494)
    NntpCommand(NntpVerb.ARTICLE, b"<%s>" % (b"m" * 248))


def test_verbs_exclude_posting_commands() -> None:
    assert not {"POST", "IHAVE", "TAKETHIS", "XGTITLE", "CHECK"} & {verb.value for verb in NntpVerb}
