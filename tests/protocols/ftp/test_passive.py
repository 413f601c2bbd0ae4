"""The port of a 229 or a 227, and nothing else of it."""

from __future__ import annotations

import pytest

from protocols.ftp.reply import (
    ControlReply,
    PassiveReply,
    parse_extended,
    parse_passive,
    read_offer,
    read_reply,
)
from protocols.wire import run_reader
from resolver import Limits, ProtocolError

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
    (b"(|1|127.0.0.1|6446|)", None),  # a protocol and an address, which are not ours to follow
    (b"(|2||6446|)", None),
    (b"(||::1|6446|)", None),
    (b"(||!6446|)", None),
    (b"(\x1f\x1f\x1f80\x1f)", None),
    (b"(   80 )", None),  # a blank is octet 32
    (b"|||6446|", None),
    ("(|||\u0661\u0662|)".encode(), None),
    (b"", None),
]


@pytest.mark.parametrize(("text", "port"), EXTENDED)
def test_229(text: bytes, port: int | None) -> None:
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
    (b"(10,0,0,5,0,22)", 22),  # the host is never looked at; the low port is the gate's to refuse
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
def test_227(text: bytes, port: int | None) -> None:
    reply = ControlReply(227, (text,))
    if port is None:
        with pytest.raises(ProtocolError):
            parse_passive(reply)
    else:
        assert parse_passive(reply) == port


def test_the_text_of_a_reply_of_many_lines_counts() -> None:
    assert parse_passive(ControlReply(227, (b"soon", b"(1,2,3,4,5,6)", b"there"))) == 1286


def test_a_refusal_offers_nothing() -> None:
    reader = read_offer(read_reply(Limits()), parse_extended)
    assert run_reader(reader, b"500 what?\r\n") == PassiveReply(ControlReply(500, (b"what?",)), None)
    assert run_reader(reader, b"229 (|||7000|)\r\n").port == 7000
