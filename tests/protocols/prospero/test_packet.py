"""Datagrams of ARDP version 0, and what is none (protocol page, sections 2 and 3)."""

from __future__ import annotations

import pytest

from protocols.prospero.ardp import (
    ArdpOption,
    ArdpPacket,
    KnownVersions,
    decode_packet,
    decode_queue,
    decode_redirect,
    encode_acknowledgement,
    encode_cancel,
    encode_piece,
)
from protocols.wire import encode_commands, encode_datagram, split_message
from resolver import Refused

#: A datagram in hex, and what it says: the shapes that occur (2.2), then fields that are cut off.
DECODED: list[tuple[str, ArdpPacket]] = [
    ("01 74", ArdpPacket(text=b"t")),
    ("03 1101 74", ArdpPacket(connection=0x1101, text=b"t")),
    ("07 1104 0001 0000 74", ArdpPacket(connection=0x1104, total=0, text=b"t")),
    ("07 1104 0003 0003", ArdpPacket(connection=0x1104, number=3, total=3)),
    (
        "09 1104 0000 0000 0010",
        ArdpPacket(connection=0x1104, number=0, total=0, received_through=16),
    ),
    (
        "0b f35a 0000 0000 0000 0003",
        ArdpPacket(connection=0xF35A, number=0, total=0, received_through=0, wait=3),
    ),
    (
        "0c 1ea1 0001 0001 0001 0000 80 74",
        ArdpPacket(connection=0x1EA1, received_through=1, wait=0, acknowledge=True, text=b"t"),
    ),
    (
        "0d 488b 0000 0000 0000 0000 00 01",
        ArdpPacket(
            connection=0x488B, number=0, total=0, received_through=0, wait=0, option=ArdpOption.REFUSED
        ),
    ),
    (
        "13 25ea 0000 0000 0000 0000 00 04 7f000001 3b93",
        ArdpPacket(
            connection=0x25EA,
            number=0,
            total=0,
            received_through=0,
            wait=0,
            option=ArdpOption.REDIRECT,
            data=bytes.fromhex("7f0000013b93"),
        ),
    ),
    # a length that ends inside a field leaves the field out
    ("02 11 74", ArdpPacket(text=b"t")),
    ("04 1101 00 74", ArdpPacket(connection=0x1101, text=b"t")),
    ("06 1101 0002 00 74", ArdpPacket(connection=0x1101, number=2, total=0, text=b"t")),
    ("08 1101 0002 0003 00", ArdpPacket(connection=0x1101, number=2, total=3)),
    ("0a 1101 0002 0003 0001 00", ArdpPacket(connection=0x1101, number=2, total=3, received_through=1)),
    # a control packet with a number has no part in the message
    (
        "0c 1101 0002 0003 0001 0000 40 74",
        ArdpPacket(connection=0x1101, number=2, total=3, received_through=1, wait=0),
    ),
    # data for flags stands before data for the option, lowest bit first
    (
        "1d 1101 0000 0000 0000 0000 0f 04 00 02 aabb 0001 0002 0003 7f000001 3b93",
        ArdpPacket(
            connection=0x1101,
            number=0,
            total=0,
            received_through=0,
            wait=0,
            option=ArdpOption.REDIRECT,
            data=bytes.fromhex("7f0000013b93"),
        ),
    ),
    (
        "0e 1101 0000 0000 0000 0000 01 04 00",
        ArdpPacket(
            connection=0x1101, number=0, total=0, received_through=0, wait=0, option=ArdpOption.REDIRECT
        ),
    ),
]


@pytest.mark.parametrize(("datagram", "packet"), DECODED)
def test_a_packet_is_read_as_far_as_its_header_goes(datagram: str, packet: ArdpPacket) -> None:
    assert decode_packet(bytes.fromhex(datagram)) == packet


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\x09\0\1",  # shorter than its header
        b"\x20" + bytes(40),  # 32 and more: plain text of the time before ARDP
        b"VERSION 5\n",
        b"\x81\0\0\0\x0b" + bytes(20),  # version 1
        b"\xff",
    ],
)
def test_what_is_not_for_us_is_nothing(datagram: bytes) -> None:
    assert decode_packet(datagram) is None


def test_a_list_of_versions_is_known_in_any_version() -> None:
    assert decode_packet(b"\0\1\2") == KnownVersions((1, 2))
    assert decode_packet(b"\0") == KnownVersions(())


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ("7f000001 3b93", ("127.0.0.1", 15251)),
        ("c0000201 0000 ff", ("192.0.2.1", 0)),
        ("7f000001 3b", None),
        ("", None),
    ],
)
def test_a_redirect_names_a_place(data: str, place: tuple[str, int] | None) -> None:
    assert decode_redirect(bytes.fromhex(data)) == place


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("03 0003 00000014", "place 3 in the queue, 20 s to go"),
        ("01 0003", "place 3 in the queue"),
        ("02 00000014", "20 s to go"),
        ("00", ""),
        ("", ""),
        ("03 00", ""),
        ("03 0003 0000", "place 3 in the queue"),
    ],
)
def test_a_place_in_a_queue_is_put_in_words(data: str, words: str) -> None:
    assert decode_queue(bytes.fromhex(data)) == words


def test_packets_are_written_in_the_shapes_of_a_client() -> None:
    message = encode_commands((b"A",))
    assert encode_piece(0x1101, 1, 2, 3, message, acknowledge=False).octets == (
        bytes.fromhex("09 1101 0001 0002 0003") + b"A\n"
    )
    assert encode_piece(0x1101, 1, 2, 3, message, acknowledge=True).octets == (
        bytes.fromhex("0c 1101 0001 0002 0003 0000 80") + b"A\n"
    )
    assert encode_acknowledgement(0x1104, 16).octets == bytes.fromhex("09 1104 0000 0000 0010")
    assert encode_cancel(0x78A6).octets == bytes.fromhex("0d 78a6 0000 0000 0000 0000 00 01")


def test_a_message_is_lines_of_words_and_goes_out_in_pieces() -> None:
    message = encode_commands((b"VERSION", b"5", b"x"), (b"LIST", b"''"))
    assert message.octets == message.shown == b"VERSION 5 x\nLIST ''\n"
    pieces = split_message(message, 9)
    assert [piece.octets for piece in pieces] == [b"VERSION 5", b" x\nLIST '", b"'\n"]
    assert encode_datagram(b"\x01", pieces[2]).octets == b"\x01'\n"
    assert encode_datagram(b"\x01").octets == b"\x01"


@pytest.mark.parametrize("word", [b"a\nb", b"a\rb", b"a\0b", b"'a\nb'"])
def test_no_word_ends_a_line_even_inside_quotes(word: bytes) -> None:
    with pytest.raises(Refused) as raised:
        encode_commands((b"A", word))
    assert raised.value.rule == "S02"
