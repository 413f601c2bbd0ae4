"""Message headers and what follows them (wais page, section 2)."""

from __future__ import annotations

import pytest

from protocols.wais.apdu import HEADER_LENGTH, LARGEST, read_message
from protocols.wire import Buffer, encode_message
from resolver import Disconnected, ProtocolError, Refused
from tests.protocols.wais.pieces import SIZES, feed

HEADER = b"0000000003z2wais        0"

GOOD = [
    (HEADER + b"abc", b"abc"),
    (b"         3z2wais        0abc", b"abc"),  # leading blanks
    (b"0000000003Z2WAIS        0abc", b"abc"),  # letters without regard to case
    (b"0000000003z1wais        0abc", b"abc"),  # an echo of another version
    (b"0000000003z2anybody     Xabc", b"abc"),  # name and checksum say nothing
    (b"0000000000z2wais        0", b""),  # "I cannot answer this"
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("octets", "apdu"), GOOD)
def test_messages(octets: bytes, apdu: bytes, size: int | None) -> None:
    assert feed(read_message(LARGEST), octets + b"the next", size, ends=False) == (apdu, b"the next")


BAD = [
    b"220 ftp.example ready\r\n",  # not even 25 octets, and no more will come
    b"\x80\x00\x00\x01",
    b"1 2",
    b"          z2wais        0",  # ten blanks
    b"-000000003z2wais        0abc",
    b"0000000003a2wais        0abc",  # ACK
    b"0000000003n2wais        0abc",  # NAK
    b"0000000003z2wais      u 0abc",  # compressed
    b"0000000003z2wais       h0abc",  # in armour
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("octets", BAD)
def test_what_is_no_message_is_told_at_once(octets: bytes, size: int | None) -> None:
    """No wait for 25 octets that a server of another protocol will never send."""
    with pytest.raises(ProtocolError):
        feed(read_message(LARGEST), octets, size, ends=False)


@pytest.mark.parametrize("size", SIZES)
def test_no_more_than_was_agreed_on(size: int | None) -> None:
    assert feed(read_message(3), HEADER + b"abc", size) == (b"abc", b"")
    with pytest.raises(ProtocolError, match="at most 2 "):
        feed(read_message(2), HEADER, size, ends=False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("octets", [HEADER[:1], HEADER[:24], HEADER, HEADER + b"ab"])
def test_a_message_that_ends_early(octets: bytes, size: int | None) -> None:
    with pytest.raises(Disconnected, match=f"after {len(octets)} octets") as caught:
        feed(read_message(LARGEST), octets, size)
    assert caught.value.retryable


def test_no_message_at_all() -> None:
    """The real server's process ends over some requests; that looks like a connection that broke."""
    with pytest.raises(Disconnected, match="answer") as caught:
        feed(read_message(LARGEST), b"", None)
    assert caught.value.retryable


def test_nothing_is_taken_before_all_is_there() -> None:
    buffer = Buffer()
    buffer.feed(HEADER + b"ab")
    next(waiting := read_message(LARGEST)(buffer))
    assert len(buffer) == HEADER_LENGTH + 2
    buffer.feed(b"c")
    with pytest.raises(StopIteration):
        next(waiting)


def test_what_a_client_sends() -> None:
    assert encode_message(b"abc").octets == b"0000000003z2wais        0abc"
    assert len(encode_message(bytes(10_000)).octets) == HEADER_LENGTH + 10_000
    with pytest.raises(Refused) as caught:
        encode_message(bytes(10_001))
    assert caught.value.rule == "S02"
