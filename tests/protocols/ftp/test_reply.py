"""Tests of FTP replies: complete, byte by byte, followed by more bytes, and malformed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.ftp.reply import (
    REPLY_LIMIT,
    ControlReply,
    PassiveReply,
    parse_extended,
    parse_passive,
    parse_path,
    parse_size,
    parse_time,
    read_offer,
    read_reply,
    shown_text,
)
from protocols.wire import Buffer, run_reader
from resolver import Disconnected, LimitExceeded, Limits, ProtocolError, ResolveError

LIMITS = Limits()

GOOD = [
    ("one line", b"220 ready\r\n", ControlReply(220, (b"ready",))),
    ("bare LF", b"220 ready\n", ControlReply(220, (b"ready",))),
    ("code and blank", b"220 \r\n", ControlReply(220, (b"",))),
    ("code alone", b"220\r\n", ControlReply(220, (b"",))),
    ("code alone, bare LF", b"220\n", ControlReply(220, (b"",))),
    ("lines", b"230-a\r\nb\r\n230 c\r\n", ControlReply(230, (b"a", b"b", b"c"))),
    ("1yz in lines: Pure-FTPd", b"150-ok\r\n150 8 kbytes\r\n", ControlReply(150, (b"ok", b"8 kbytes"))),
    ("other codes", b"230-a\r\n226 b\r\n2301\r\n230 d\n", ControlReply(230, (b"a", b"226 b", b"2301", b"d"))),
    ("the same code and a hyphen", b"211-a\r\n211-b\r\n211 c\r\n", ControlReply(211, (b"a", b"211-b", b"c"))),
    ("the same code alone is no end", b"211-a\r\n211\r\n211 c\r\n", ControlReply(211, (b"a", b"211", b"c"))),
    ("nothing in the middle", b"211-\r\n\r\n\r\n211 \r\n", ControlReply(211, (b"", b"", b"", b""))),
    ("mixed line ends", b"211-a\nb\r\n211 c\n", ControlReply(211, (b"a", b"b", b"c"))),
    ("CR in the text stays", b"220 a\rb\r\n", ControlReply(220, (b"a\rb",))),
    ("IAC doubled: vsftpd", b"250 \xff\xff\r\n", ControlReply(250, (b"\xff",))),
    ("IAC single is kept: Pure-FTPd", b"250 a\xff.txt\r\n", ControlReply(250, (b"a\xff.txt",))),
    ("IAC single before the line end", b"250 a\xff\r\n", ControlReply(250, (b"a\xff",))),
    ("IAC IAC DO is no DO", b"250 \xff\xff\xfd\x01\r\n", ControlReply(250, (b"\xff\xfd\x01",))),
    ("DO", b"220 a\xff\xfd\x06b\r\n", ControlReply(220, (b"ab",), ((0xFD, 6),))),
    ("WILL, WONT", b"\xff\xfb\x01220\xff\xfc\x02 a\r\n", ControlReply(220, (b"a",), ((0xFB, 1), (0xFC, 2)))),
    ("an option that is LF", b"220 a\xff\xfd\nb\r\n", ControlReply(220, (b"ab",), ((0xFD, 10),))),
    ("an option that is CR", b"220 a\xff\xfd\rb\r\n", ControlReply(220, (b"ab",), ((0xFD, 13),))),
    ("an option that is NUL", b"220 a\xff\xfd\0b\r\n", ControlReply(220, (b"ab",), ((0xFD, 0),))),
    ("Telnet NOP and data mark", b"220 a\xff\xf1b\xff\xf2\r\n", ControlReply(220, (b"ab",))),
    ("17,000 octets", b"220 " + b"x" * 17_000 + b"\r\n", ControlReply(220, (b"x" * 17_000,))),
    ("300 lines", b"220-a\r\n" + b"b\r\n" * 298 + b"220 c\n", ControlReply(220, (b"a", *[b"b"] * 298, b"c"))),
]  # fmt: skip
IDS = [case[0] for case in GOOD]


@pytest.mark.parametrize(("why", "octets", "reply"), GOOD, ids=IDS)
def test_read_reply_parses_complete_and_single_bytes(why: str, octets: bytes, reply: ControlReply) -> None:
    assert run_reader(read_reply(LIMITS), octets) == reply
    assert run_reader(read_reply(LIMITS), *(octets[at : at + 1] for at in range(len(octets)))) == reply


@pytest.mark.parametrize(("why", "octets", "reply"), GOOD, ids=IDS)
def test_read_reply_leaves_following_bytes(why: str, octets: bytes, reply: ControlReply) -> None:
    buffer = Buffer()
    buffer.feed(octets + b"226 next\r\n22")
    for expected in (reply, ControlReply(226, (b"next",))):
        with pytest.raises(StopIteration) as done:
            next(read_reply(LIMITS)(buffer))
        assert done.value.value == expected
    assert buffer.take() == b"22"


BAD: list[tuple[str, bytes, type[ResolveError]]] = [
    ("no digits", b"hello\r\n", ProtocolError),
    ("nothing", b"\r\n", ProtocolError),
    ("two digits", b"22 a\r\n", ProtocolError),
    ("four digits", b"2200 a\r\n", ProtocolError),
    ("another mark behind the code", b"220:a\r\n", ProtocolError),
    ("0yz", b"020 a\r\n", ProtocolError),
    ("6yz: protected replies are not spoken here", b"631 abc\r\n", ProtocolError),
    ("a sign", b"+20 a\r\n", ProtocolError),
    ("digits of another script", "２２０ a\r\n".encode(), ProtocolError),
    ("a blank first", b" 220 a\r\n", ProtocolError),
    ("NUL", b"220 a\0b\r\n", ProtocolError),
    ("NUL behind CR", b"220 a\r\0\r\n", ProtocolError),
    ("NUL in the middle", b"220-a\r\n\0\r\n220 b\r\n", ProtocolError),
    ("ended at once", b"", Disconnected),
    ("ended inside a line", b"220 rea", Disconnected),
    ("ended between lines", b"220-a\r\n", Disconnected),
    ("the code never comes again", b"220-a\r\n226 b\r\n", Disconnected),
    ("a line too long", b"220 " + b"x" * LIMITS.line + b"\r\n", LimitExceeded),
    ("a line without end", b"220 " + b"x" * 2 * LIMITS.line, LimitExceeded),
    ("a later line too long", b"220-a\r\n" + b"x" * 2 * LIMITS.line, LimitExceeded),
    ("options without end", b"\xff\xfd\n" * LIMITS.line, LimitExceeded),
    ("too many lines", b"220-a\r\n" + b"\r\n" * LIMITS.lines + b"220 b\r\n", LimitExceeded),
    ("too long in all", b"220-a\r\n" + (b"x" * 60_000 + b"\n") * (REPLY_LIMIT // 60_000 + 1), LimitExceeded),
]  # fmt: skip


@pytest.mark.parametrize(("why", "octets", "error"), BAD, ids=[case[0] for case in BAD])
def test_read_reply_malformed_raises(why: str, octets: bytes, error: type[ResolveError]) -> None:
    pieces = [octets[at : at + 4096] for at in range(0, len(octets), 4096)]
    for chunks in ([octets] if octets else [], pieces):
        with pytest.raises(error) as raised:
            run_reader(read_reply(LIMITS), *chunks)
        assert type(raised.value) is error


def test_read_reply_limit_error_names_the_limit() -> None:
    with pytest.raises(LimitExceeded) as raised:
        run_reader(read_reply(Limits(line=10)), b"220 much too long\r\n")
    assert raised.value.limit == "line"
    with pytest.raises(LimitExceeded) as raised:
        run_reader(read_reply(Limits(lines=2)), b"220-a\r\nb\r\n220 c\r\n")
    assert raised.value.limit == "lines"


SHOWN = [
    (b"plain \xc3\xa9", "plain é"),
    (b"latin \xe9", "latin \\xe9"),
    (b"\x1b]0;title\x07", "\\x1b]0;title\\x07"),
    (b"a\rb\x7f", "a\\x0db\\x7f"),
    ("\u202eabc\x9b".encode(), "\\u202eabc\\x9b"),
    (b"two\nlines\t", "two\nlines\t"),
]


@pytest.mark.parametrize(("octets", "shown"), SHOWN)
def test_reply_text_escapes_control_characters(octets: bytes, shown: str) -> None:
    assert shown_text(octets) == shown
    assert ControlReply(220, (octets,)).text == shown


# Values parsed from the text of a reply; an invalid text gives None.

SIZES = [
    (b"0", 0),
    (b"8388608", 8388608),
    (b" 12 ", 12),
    (b"9223372036854775807", 2**63 - 1),
    (b"9223372036854775808", None),
    (b"9" * 10_000, None),
    (b"-1", None),
    (b"12 octets", None),
    ("\u0661".encode(), None),
    (b"", None),
]


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_parse_size_of_reply(text: bytes, size: int | None) -> None:
    assert parse_size(ControlReply(213, (text,))) == size


TIMES = [
    (b"20010909014640", datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)),
    (b"20010909014640.123", datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)),
    (b"191010909014640", None),  # year 2000 bug: 19 followed by 101
    (b"19100909014640", None),
    (b"20011309014640", None),
    (b"20010909014661", None),
    (b"00000000000000", None),
    (b"2001-09-09", None),
    (b"", None),
]


@pytest.mark.parametrize(("text", "moment"), TIMES)
def test_parse_time_of_reply(text: bytes, moment: datetime | None) -> None:
    assert parse_time(text) == moment


PATHS = [
    (b'"/home/bob" is the current directory', b"/home/bob"),
    (b'"/"', b"/"),
    (b'Path is "/a b/caf\xe9"', b"/a b/caf\xe9"),
    (b'"/quo""te" is it', b'/quo"te'),
    (b'"a""""b"', b'a""b'),
    (b'"quo"te dir" is it', b"quo"),  # Pure-FTPd does not double quotes; CWD and PWD show the difference
    (b'"/open', None),
    (b'"/open""', None),
    (b'""', None),
    (b'"a\tb"', None),
    (b"no path", None),
]


@pytest.mark.parametrize(("text", "path"), PATHS)
def test_parse_path_of_reply(text: bytes, path: bytes | None) -> None:
    assert parse_path(ControlReply(257, (text,))) == path


# The port of a 229 or 227 reply; the rest of the reply is ignored.

EXTENDED: list[tuple[bytes, int | None]] = [
    (b"Entering Extended Passive Mode (|||6446|)", 6446),
    (b"(|||1|)", 1),
    (b"(|||65535|)", 65535),
    (b"(!!!21!) any delimiter", 21),
    (b"(~~~21~)", 21),
    (b"other (words) (|||80|)", 80),
    (b"(|||0|)", None),
    (b"(|||65536|)", None),
    (b"(|||99999999999999999999|)", None),
    (b"(|||-1|)", None),
    (b"(||||)", None),
    (b"(|1|127.0.0.1|6446|)", None),  # a protocol and an address, which the client must not follow
    (b"(|2||6446|)", None),
    (b"(||::1|6446|)", None),
    (b"(||!6446|)", None),
    (b"(\x1f\x1f\x1f80\x1f)", None),
    (b"(   80 )", None),  # a space is byte 32
    (b"|||6446|", None),
    ("(|||\u0661\u0662|)".encode(), None),
    (b"", None),
]


@pytest.mark.parametrize(("text", "port"), EXTENDED)
def test_parse_extended_takes_only_the_port(text: bytes, port: int | None) -> None:
    reply = ControlReply(229, (text,))
    if port is None:
        with pytest.raises(ProtocolError):
            parse_extended(reply)
    else:
        assert parse_extended(reply) == port


PASSIVE: list[tuple[bytes, int | None]] = [
    (b"Entering Passive Mode (127,0,0,1,200,10).", 51210),
    (b"Entering Passive Mode 127,0,0,1,200,10", 51210),  # RFC 1123: the parentheses may be missing
    (b"=127,0,0,1,200,10", 51210),
    (b"(10,0,0,5,0,22)", 22),  # the host is ignored; the gate refuses the low port
    (b"v2 is (1,2,3,4,5,6)", 1286),
    (b"(255,255,255,255,255,255)", 65535),
    (b"(0,0,0,0,0,1)", 1),
    (b"(127,0,0,1,0,0)", None),
    (b"(256,0,0,1,4,1)", None),
    (b"(127,0,0,1,256,1)", None),
    (b"(127,0,0,1,4,999)", None),
    (b"(1270,0,0,1,4,1)", None),
    (b"(127,0,0,1,4)", None),
    (b"(1,127,0,0,1,4,1)", None),
    (b"(127, 0, 0, 1, 4, 1)", None),
    (b"(-127,0,0,1,4)", None),
    (b"", None),
]


@pytest.mark.parametrize(("text", "port"), PASSIVE)
def test_parse_passive_takes_only_the_port(text: bytes, port: int | None) -> None:
    reply = ControlReply(227, (text,))
    if port is None:
        with pytest.raises(ProtocolError):
            parse_passive(reply)
    else:
        assert parse_passive(reply) == port


def test_parse_passive_uses_all_lines() -> None:
    assert parse_passive(ControlReply(227, (b"soon", b"(1,2,3,4,5,6)", b"there"))) == 1286


def test_read_offer_of_refusal_has_no_port() -> None:
    reader = read_offer(read_reply(Limits()), parse_extended)
    assert run_reader(reader, b"500 what?\r\n") == PassiveReply(ControlReply(500, (b"what?",)), None)
    assert run_reader(reader, b"229 (|||7000|)\r\n").port == 7000
