"""Init, Search and their responses (wais page, sections 4 and 12)."""

from __future__ import annotations

import pytest

from fixtures.wais.coding import write_element
from protocols.wais.apdu import (
    InitResponse,
    RelevantDocument,
    SearchResponse,
    encode_init,
    encode_retrieval,
    encode_word_search,
    parse_init_response,
    parse_search_response,
)
from resolver import ProtocolError, Refused

DOCUMENT_ID = b"\x02\x04demo\x03\x050 9 x"


def test_init_says_nothing_of_the_user() -> None:
    octets = bytes.fromhex("0011 14 030180 040180 05030186a0 06030186a0")
    assert encode_init(100_000) == octets


def test_a_word_search() -> None:
    """The one of section 12."""
    assert encode_word_search(b"demo", b"ferries", 40) == bytes.fromhex(
        "0016 16 00001e 001388 00001e 01 1100 120464656d6f 140133630f 6a0766657272696573 6f0101 720128"
    )


def test_a_search_for_what_is_like_documents() -> None:
    """Each behind the words: its id, and then its type (wais page, section 4.4)."""
    marked = [RelevantDocument(b"id", b"TEXT"), RelevantDocument(b"other", b"GIF")]
    assert encode_word_search(b"demo", b"ferries", 40, marked) == bytes.fromhex(
        "0016 16 00001e 001388 00001e 01 1100 120464656d6f 140133 6327 6a0766657272696573"
        "74026964 81050454455854 74056f74686572 810503474946 6f0101 720128"
    )


def test_a_retrieval() -> None:
    """The one of section 12, with a shorter id."""
    assert encode_retrieval(b"demo", DOCUMENT_ID, b"TEXT", 0, 107) == (
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
        (b"demo@other.example", b"", b"", b""),  # the server would pass the request on
        (b"demo\x1fother", b"", b"", b""),
        (b"demo\0", b"", b"", b""),
        (b"d" * 256, b"", b"", b""),
        (b"demo", b"w" * 4_001, b"i" * 2_049, b""),
        (b"demo", b"w" * 4_001, b"", b"T" * 65),
    ],
)
def test_what_is_never_sent(database: bytes, words: bytes, document_id: bytes, wtype: bytes) -> None:
    with pytest.raises(Refused) as search:
        encode_word_search(database, words, 40)
    with pytest.raises(Refused) as retrieval:
        encode_retrieval(database, document_id, wtype, 0, 1)
    assert (search.value.rule, retrieval.value.rule) == ("S02", "S02")


def test_what_is_as_long_as_it_may_be() -> None:
    assert b"d" * 255 in encode_word_search(b"d" * 255, b"w" * 4_000, 40)
    assert b"i" * 2_048 in encode_retrieval(b"d" * 255, b"i" * 2_048, b"T" * 64, 10**15, 10**16)


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5), (-1, 5)])
def test_a_range_that_kills_the_server_is_misuse(start: int, end: int) -> None:
    with pytest.raises(AssertionError):
        encode_retrieval(b"demo", DOCUMENT_ID, b"TEXT", start, end)


def init_response(*parts: bytes, behind: bytes = b"") -> bytes:
    return counted(b"\x15" + b"".join(parts)) + behind


def search_response(*parts: bytes, behind: bytes = b"") -> bytes:
    return counted(b"\x17" + bytes(10) + b"".join(parts)) + behind


def counted(header: bytes) -> bytes:
    return len(header).to_bytes(2, "big") + header


SIZES = write_element(5, b"\x07\xd0") + write_element(6, b"\x03\xe8")
INFORMATION = write_element(99, b"\x64\x01\x00")

INIT_RESPONSES = [
    (init_response(b"\1", SIZES), InitResponse(True, 1_000)),
    (init_response(b"\1", SIZES, behind=INFORMATION), InitResponse(True, 1_000)),
    (init_response(b"\1"), InitResponse(True, None)),
    (init_response(b"\0", SIZES), InitResponse(False, 1_000)),
    (init_response(b"\1", write_element(200, b"?"), write_element(6, b"\x01")), InitResponse(True, 1)),
    (init_response(b"\1", write_element(6, b"\x02"), write_element(3, b"\x80")), InitResponse(True, 2)),
    # The example of the specification's appendix B has other tags; they are passed over.
    (init_response(b"\1", b"\x10\x012", SIZES), InitResponse(True, 1_000)),
]


@pytest.mark.parametrize(("octets", "value"), INIT_RESPONSES)
def test_init_responses(octets: bytes, value: InitResponse) -> None:
    assert parse_init_response(octets) == value


SEARCH_RESPONSES = [
    (search_response(), SearchResponse(b"")),
    (search_response(behind=b"\x63\x00"), SearchResponse(b"")),
    (search_response(b"\x1b\x01\x00", behind=b"\x63\x02ab"), SearchResponse(b"ab")),
    (search_response(b"\x02\x013", b"\x1a\x01\x00", behind=b"\x63\x01a"), SearchResponse(b"a")),
    (search_response(b"\x02\x014", behind=b"\x63\x01a"), SearchResponse(b"a")),  # a reference id not of ours
    (search_response(b"\x81\x48\x01\x00", behind=b"\x63\x80\x01a"), SearchResponse(b"a")),
]


@pytest.mark.parametrize(("octets", "value"), SEARCH_RESPONSES)
def test_search_responses(octets: bytes, value: SearchResponse) -> None:
    assert parse_search_response(octets) == value


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"\0",
        b"\0\x01\x17",  # no fixed fields
        b"\0\x0a\x17" + bytes(9),  # one of them cut
        b"\0\x0c\x17" + bytes(10),  # a header that reaches beyond the message
        b"\xff\xff\x17" + bytes(10),
        b"\0\x05\x17" + bytes(10),  # a header that ends inside the fixed fields
        counted(b"\x15" + bytes(10)),  # an Init-Response
        counted(b"\x16" + bytes(10)),
        search_response(b"\x1b\x02\x00"),  # an element that reaches beyond the header
        search_response(behind=b"\x63\x02a"),  # a group that reaches beyond the message
        search_response(behind=b"\x63\x01aX"),  # more than one thing behind the header
        search_response(behind=b"\x15\x01a"),  # not a group of records
        search_response(behind=b"\x80\x80"),
    ],
)
def test_what_is_no_search_response(octets: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_search_response(octets)


@pytest.mark.parametrize(
    "octets",
    [
        b"\0\x01\x15",
        search_response(),
        init_response(b"\1", b"\x05\x00"),  # a number without octets
        init_response(b"\1", b"\x05\x05\0\0\0\0\1"),
        init_response(b"\1", SIZES[:-1]),
        init_response(b"\1", SIZES, behind=b"\x63\x02\x64\x01"),  # user information that does not fit
        init_response(b"\1", SIZES, behind=INFORMATION + b"X"),
    ],
)
def test_what_is_no_init_response(octets: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_init_response(octets)
