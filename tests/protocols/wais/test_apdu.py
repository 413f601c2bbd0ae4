"""Init, Search, responses, integers, elements and headers (wais page, sections 2 to 4 and 12)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.wais.coding import write_element
from protocols.wais.apdu import (
    HEADER_LENGTH,
    MAX_APDU,
    InitResponse,
    WaisDocument,
    contents,
    elements,
    encode_compressed,
    encode_element,
    encode_init,
    encode_number,
    encode_retrieval,
    encode_word_search,
    parse_init_response,
    parse_number,
    parse_search_response,
    read_message,
    take_compressed,
    take_element,
)
from protocols.wire import Buffer, encode_message
from resolver import Disconnected, ProtocolError, Refused
from tests.protocols.wais.pieces import SIZES, feed

DOCUMENT_ID = b"\x02\x04demo\x03\x050 9 x"
DOCUMENT = WaisDocument(b"demo", DOCUMENT_ID, b"TEXT")


def test_encode_init_omits_user() -> None:
    octets = bytes.fromhex("0011 14 030180 040180 05030186a0 06030186a0")
    assert encode_init(100_000) == octets


def test_encode_word_search() -> None:
    """The example of section 12."""
    assert encode_word_search(b"demo", b"ferries", 40) == bytes.fromhex(
        "0016 16 00001e 001388 00001e 01 1100 120464656d6f 140133630f 6a0766657272696573 6f0101 720128"
    )


def test_encode_word_search_with_relevant_documents() -> None:
    """The id and then the type of each document follow the search text (wais page, section 4.4)."""
    marked = [WaisDocument(b"demo", b"id", b"TEXT"), WaisDocument(b"demo", b"other", b"GIF")]
    assert encode_word_search(b"demo", b"ferries", 40, marked) == bytes.fromhex(
        "0016 16 00001e 001388 00001e 01 1100 120464656d6f 140133 6327 6a0766657272696573"
        "74026964 81050454455854 74056f74686572 810503474946 6f0101 720128"
    )


def test_encode_retrieval() -> None:
    """The example of section 12, with a shorter id."""
    assert encode_retrieval(DOCUMENT, 0, 107) == (
        bytes.fromhex("002d 16 00000a 000010 00000f 01 1103464f4f 120464656d6f 140131")
        + b"\x13\x0f \x1fDocument Text\x02\x013\x15\x72"
        + b"\x2c\x11un re ig ig ig ig\x2d\x0d"
        + DOCUMENT_ID
        + b"\x2c\x11wt re ig ig ig ig\x2d\x04TEXT\x2e\x01a"
        + b"\x2c\x11wb ro ig ig ig ig\x2d\x010\x2e\x01a"
        + b"\x2c\x11wb rl ig ig ig ig\x2d\x03107\x2e\x01a"
    )


@pytest.mark.parametrize(
    ("database", "words", "document_id", "wtype"),
    [
        (b"demo@other.example", b"", b"", b""),  # the server would forward the request
        (b"demo\x1fother", b"", b"", b""),
        (b"demo\0", b"", b"", b""),
        (b"d" * 256, b"", b"", b""),
        (b"demo", b"w" * 4_001, b"i" * 2_049, b""),
        (b"demo", b"w" * 4_001, b"", b"T" * 65),
    ],
)
def test_encode_with_invalid_argument_is_refused(
    database: bytes, words: bytes, document_id: bytes, wtype: bytes
) -> None:
    with pytest.raises(Refused) as search:
        encode_word_search(database, words, 40)
    with pytest.raises(Refused) as retrieval:
        encode_retrieval(WaisDocument(database, document_id, wtype), 0, 1)
    assert (search.value.rule, retrieval.value.rule) == ("S02", "S02")


def test_encode_at_limits_succeeds() -> None:
    assert b"d" * 255 in encode_word_search(b"d" * 255, b"w" * 4_000, 40)
    largest = WaisDocument(b"d" * 255, b"i" * 2_048, b"T" * 64)
    assert b"i" * 2_048 in encode_retrieval(largest, 10**15, 10**16)


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 5)])
def test_encode_retrieval_of_empty_range_fails(start: int, end: int) -> None:
    with pytest.raises(AssertionError):
        encode_retrieval(DOCUMENT, start, end)


def init_response(*parts: bytes, behind: bytes = b"") -> bytes:
    return counted(b"\x15" + b"".join(parts)) + behind


def search_response(*parts: bytes, behind: bytes = b"") -> bytes:
    return counted(b"\x17" + bytes(10) + b"".join(parts)) + behind


def counted(header: bytes) -> bytes:
    return len(header).to_bytes(2, "big") + header


APDU_SIZES = write_element(5, b"\x07\xd0") + write_element(6, b"\x03\xe8")
INFORMATION = write_element(99, b"\x64\x01\x00")

INIT_RESPONSES = [
    (init_response(b"\1", APDU_SIZES), InitResponse(True, 1_000)),
    (init_response(b"\1", APDU_SIZES, behind=INFORMATION), InitResponse(True, 1_000)),
    (init_response(b"\1"), InitResponse(True, None)),
    (init_response(b"\0", APDU_SIZES), InitResponse(False, 1_000)),
    (init_response(b"\1", write_element(200, b"?"), write_element(6, b"\x01")), InitResponse(True, 1)),
    (init_response(b"\1", write_element(6, b"\x02"), write_element(3, b"\x80")), InitResponse(True, 2)),
    # The example in appendix B of the specification has other tags; they are skipped.
    (init_response(b"\1", b"\x10\x012", APDU_SIZES), InitResponse(True, 1_000)),
]


@pytest.mark.parametrize(("octets", "value"), INIT_RESPONSES)
def test_parse_init_response(octets: bytes, value: InitResponse) -> None:
    assert parse_init_response(octets) == value


SEARCH_RESPONSES = [
    (search_response(), b""),
    (search_response(behind=b"\x63\x00"), b""),
    (search_response(b"\x1b\x01\x00", behind=b"\x63\x02ab"), b"ab"),
    (search_response(b"\x02\x013", b"\x1a\x01\x00", behind=b"\x63\x01a"), b"a"),
    # a reference id that this client did not send
    (search_response(b"\x02\x014", behind=b"\x63\x01a"), b"a"),
    (search_response(b"\x81\x48\x01\x00", behind=b"\x63\x80\x01a"), b"a"),
]


@pytest.mark.parametrize(("octets", "value"), SEARCH_RESPONSES)
def test_parse_search_response(octets: bytes, value: bytes) -> None:
    assert parse_search_response(octets) == value


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\0",
        b"\0\x01\x17",  # no fixed fields
        b"\0\x0a\x17" + bytes(9),  # truncated fixed fields
        b"\0\x0c\x17" + bytes(10),  # a header that extends beyond the message
        b"\xff\xff\x17" + bytes(10),
        b"\0\x05\x17" + bytes(10),  # a header that ends inside the fixed fields
        counted(b"\x15" + bytes(10)),  # an Init-Response
        counted(b"\x16" + bytes(10)),
        search_response(b"\x1b\x02\x00"),  # an element that extends beyond the header
        search_response(behind=b"\x63\x02a"),  # a group that extends beyond the message
        search_response(behind=b"\x63\x01aX"),  # extra data after the header and the group
        search_response(behind=b"\x15\x01a"),  # not a group of records
        search_response(behind=b"\x80\x80"),
    ],
)
def test_parse_invalid_search_response_raises(octets: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_search_response(octets)


@pytest.mark.parametrize(
    "octets",
    [
        b"\0\x01\x15",
        search_response(),
        init_response(b"\1", b"\x05\x00"),  # a number without bytes
        init_response(b"\1", b"\x05\x05\0\0\0\0\1"),
        init_response(b"\1", APDU_SIZES[:-1]),
        init_response(b"\1", APDU_SIZES, behind=b"\x63\x02\x64\x01"),  # user information that does not fit
        init_response(b"\1", APDU_SIZES, behind=INFORMATION + b"X"),
    ],
)
def test_parse_invalid_init_response_raises(octets: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_init_response(octets)


# Compressed integers, elements and numbers (wais page, section 3).

COMPRESSED = [
    (0, "00"),
    (127, "7f"),
    (128, "8100"),
    (130, "8102"),
    (150, "8116"),
    (266, "820a"),
    (100_000, "868d20"),
]


@pytest.mark.parametrize(("value", "octets"), COMPRESSED)
def test_compressed_integer_is_encoded_and_decoded(value: int, octets: str) -> None:
    written = bytes.fromhex(octets)
    assert encode_compressed(value) == written
    assert take_compressed(written + b"\xff", 0) == (value, len(written))


@settings(max_examples=40)
@given(st.integers(0, 2**35 - 1))
def test_compressed_integer_round_trips(value: int) -> None:
    octets = encode_compressed(value)
    assert take_compressed(b"\x00" + octets, 1) == (value, 1 + len(octets))


@pytest.mark.parametrize("octets", ["8001", "808001", "80808001", "8080808001"])
def test_compressed_integer_skips_leading_80(octets: str) -> None:
    assert take_compressed(bytes.fromhex(octets), 0) == (1, len(octets) // 2)


@pytest.mark.parametrize("octets", ["", "80", "8181", "808080808001", "ffffffffff00"])
def test_unterminated_compressed_integer_raises(octets: str) -> None:
    with pytest.raises(ProtocolError, match="compressed integer"):
        take_compressed(bytes.fromhex(octets), 0)


NUMBERS = [(0, "00"), (1, "01"), (255, "ff"), (256, "0100"), (100_000, "0186a0"), (2**32 - 1, "ffffffff")]


@pytest.mark.parametrize(("value", "octets"), NUMBERS)
def test_number_is_encoded_and_decoded(value: int, octets: str) -> None:
    assert encode_number(value) == bytes.fromhex(octets)
    assert parse_number(bytes.fromhex(octets)) == value


@pytest.mark.parametrize("octets", ["", "0000000001"])
def test_parse_invalid_number_raises(octets: str) -> None:
    with pytest.raises(ProtocolError, match="number"):
        parse_number(bytes.fromhex(octets))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=200))))
def test_group_of_elements_round_trips(items: list[tuple[int, bytes]]) -> None:
    group = b"".join(encode_element(tag, content) for tag, content in items)
    found = list(elements(group))
    assert [(each.tag, each.content) for each in found] == items
    assert b"".join(each.octets for each in found) == group
    assert contents(group) == dict(reversed(items))


def test_take_element_leaves_following_bytes() -> None:
    assert take_element(b"\x74\x02abXY", 0) == (116, b"ab", b"\x74\x02ab")


@pytest.mark.parametrize(
    "group",
    [
        "7402616274",  # only a tag
        "74026162740361",  # a length that extends beyond the group
        "740261628105",  # only a two-byte tag
        "81",
    ],
)
def test_elements_of_incomplete_group_raise(group: str) -> None:
    with pytest.raises(ProtocolError):
        list(elements(bytes.fromhex(group)))


# Message headers and the data after them (wais page, section 2).

HEADER = b"0000000003z2wais        0"

GOOD = [
    (HEADER + b"abc", b"abc"),
    (b"         3z2wais        0abc", b"abc"),  # leading blanks
    (b"0000000003Z2WAIS        0abc", b"abc"),  # case-insensitive letters
    (b"0000000003z1wais        0abc", b"abc"),  # an echo of another version
    (b"0000000003z2anybody     Xabc", b"abc"),  # name and checksum are ignored
    (b"0000000000z2wais        0", b""),  # "I cannot answer this"
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("octets", "apdu"), GOOD)
def test_read_message_returns_apdu(octets: bytes, apdu: bytes, size: int | None) -> None:
    assert feed(read_message(MAX_APDU), octets + b"the next", size, ends=False) == (apdu, b"the next")


BAD = [
    b"220 ftp.example ready\r\n",  # fewer than 25 bytes, and the server sends no more
    b"\x80\x00\x00\x01",
    b"1 2",
    b"          z2wais        0",  # ten blanks
    b"-000000003z2wais        0abc",
    b"0000000003a2wais        0abc",  # ACK
    b"0000000003n2wais        0abc",  # NAK
    b"0000000003z2wais      u 0abc",  # compressed
    b"0000000003z2wais       h0abc",  # armored
]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("octets", BAD)
def test_read_message_of_invalid_header_raises_immediately(octets: bytes, size: int | None) -> None:
    """The reader does not wait for 25 bytes, which a server of another protocol never sends."""
    with pytest.raises(ProtocolError):
        feed(read_message(MAX_APDU), octets, size, ends=False)


@pytest.mark.parametrize("size", SIZES)
def test_read_message_over_limit_raises(size: int | None) -> None:
    assert feed(read_message(3), HEADER + b"abc", size) == (b"abc", b"")
    with pytest.raises(ProtocolError, match="limit of 2"):
        feed(read_message(2), HEADER, size, ends=False)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("octets", [HEADER[:1], HEADER[:24], HEADER, HEADER + b"ab"])
def test_read_message_truncated_raises(octets: bytes, size: int | None) -> None:
    with pytest.raises(Disconnected, match=f"after {len(octets)} bytes") as caught:
        feed(read_message(MAX_APDU), octets, size)
    assert caught.value.retryable


def test_read_message_of_closed_connection_raises() -> None:
    """For some requests the real server's process ends; the client sees a lost connection."""
    with pytest.raises(Disconnected, match="answer") as caught:
        feed(read_message(MAX_APDU), b"", None)
    assert caught.value.retryable


def test_read_message_takes_only_complete_message() -> None:
    buffer = Buffer()
    buffer.feed(HEADER + b"ab")
    next(waiting := read_message(MAX_APDU)(buffer))
    assert len(buffer) == HEADER_LENGTH + 2
    buffer.feed(b"c")
    with pytest.raises(StopIteration):
        next(waiting)


def test_encode_message_over_limit_is_refused() -> None:
    assert encode_message(b"abc").octets == b"0000000003z2wais        0abc"
    assert len(encode_message(bytes(10_000)).octets) == HEADER_LENGTH + 10_000
    with pytest.raises(Refused) as caught:
        encode_message(bytes(10_001))
    assert caught.value.rule == "S02"
