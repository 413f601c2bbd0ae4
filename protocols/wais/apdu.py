"""WAIS messages and their APDUs: Init, Search, and their responses (wais page, sections 2 to 4).

An APDU (application protocol data unit) consists of a header of known length (type, fixed fields, tagged
elements) and at most one element after the header. In requests, the elements have the same order as in the
requests of old clients. In responses, elements may have any order, and unknown elements are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from protocols.errors import Disconnected, ProtocolError, Refused
from protocols.text import decode_text
from protocols.wire import Buffer, Reader

# Tagged elements, the parts of an APDU and its records (wais page, section 3).
#
# An element is a type-length-value (TLV) encoding: a tag, a length, and the content. The tag and the length
# of an element are variable-length integers (varints), which WAIS calls compressed integers. A group is a
# sequence of elements. The encoding resembles ASN.1, but is not compatible with ASN.1.

#: The maximum size of a compressed integer (varint) in bytes. Five bytes are enough for the length of any
#: message.
_MAX_COMPRESSED = 5
#: The maximum size of a number in bytes. Known clients and servers do not send longer numbers.
_MAX_NUMBER = 4


class Element(NamedTuple):
    """A tagged element; `octets` has the complete element, including tag and length."""

    tag: int
    content: bytes
    octets: bytes


def encode_compressed(value: int) -> bytes:
    """Encode an integer as a compressed integer (variable-length integer, varint).

    The most significant group of 7 bits comes first. Bit 7 is set in every byte except the last.
    """
    octets = [value & 0x7F]
    while value := value >> 7:
        octets.append(value & 0x7F | 0x80)
    return bytes(reversed(octets))


def encode_number(value: int) -> bytes:
    """Encode the content of a number element in the fewest possible bytes, at least one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def encode_element(tag: int, content: bytes) -> bytes:
    return encode_compressed(tag) + encode_compressed(len(content)) + content


def take_compressed(octets: bytes, at: int) -> tuple[int, int]:
    """Decode the compressed integer (varint) at index `at`; return the integer and the next index.

    Leading bytes with the value 80 (hexadecimal) are padding.

    Raises:
        ProtocolError: The integer is truncated, or is longer than any valid integer.
    """
    value = 0
    for index in range(at, min(len(octets), at + _MAX_COMPRESSED)):
        value = value << 7 | octets[index] & 0x7F
        if octets[index] < 0x80:
            return value, index + 1
    raise ProtocolError(f"compressed integer does not end: offset {at} of {len(octets)} bytes")


def take_element(octets: bytes, at: int) -> Element:
    """Return the element at index `at`.

    Raises:
        ProtocolError: The element is truncated.
    """
    tag, middle = take_compressed(octets, at)
    length, start = take_compressed(octets, middle)
    if length > len(octets) - start:
        raise ProtocolError(f"element {tag} announces {length} bytes, got {len(octets) - start}")
    return Element(tag, octets[start : start + length], octets[at : start + length])


def elements(group: bytes) -> Iterator[Element]:
    """Yield the elements of a group.

    Raises:
        ProtocolError: An element is truncated, or bytes follow the last element.
    """
    at = 0
    while at < len(group):
        element = take_element(group, at)
        yield element
        at += len(element.octets)


def contents(group: bytes) -> dict[int, bytes]:
    """Return the contents of the elements by tag; if a tag occurs twice, use its first element.

    Raises:
        ProtocolError: The group is malformed.
    """
    by_tag: dict[int, bytes] = {}
    for element in elements(group):
        by_tag.setdefault(element.tag, element.content)
    return by_tag


def parse_number(content: bytes) -> int:
    """Return the value of a number element.

    Raises:
        ProtocolError: The content is empty or has more than four bytes.
    """
    if not 1 <= len(content) <= _MAX_NUMBER:
        raise ProtocolError(f"number must have 1 to 4 bytes, got {len(content)}")
    return int.from_bytes(content, "big")


_INIT, _INIT_RESPONSE, _SEARCH, _SEARCH_RESPONSE = 20, 21, 22, 23

_REFERENCE_ID, _VERSION, _OPTIONS, _PREFERRED_SIZE, _MAXIMUM_SIZE = 2, 3, 4, 5, 6
_RESULT_SET_NAME, _DATABASE_NAMES, _ELEMENT_SET_NAMES, _QUERY_TYPE = 17, 18, 19, 20
_QUERY, _ATTRIBUTES, _TERM, _OPERATOR = 21, 44, 45, 46
_USER_INFORMATION, _SEED_WORDS, _DATE_FACTOR, _MAX_DOCUMENTS = 99, 106, 111, 114
_DOCUMENT_ID, _TYPE = 116, 133

#: The encoded fields Small-Set-Upper-Bound, Large-Set-Lower-Bound, Medium-Set-Present-Number and
#: Replace-Indicator. A search must have these fields, but servers ignore their values.
_WORD_SEARCH_BOUNDS = bytes.fromhex("00001e 001388 00001e 01")
_RETRIEVAL_BOUNDS = bytes.fromhex("00000a 000010 00000f 01")
_DOCUMENT_TEXT = b" \x1fDocument Text"
_REFERENCE = b"3"
_BIT_0 = b"\x80"

#: The maximum sizes of the fields of a request, in bytes (wais page, section 14).
_MAX_LENGTHS = {"database name": 255, "search": 4000, "type": 64, "document id": 2048}


class WaisDocument(NamedTuple):
    """A document of a request: the database, the document id, and one of the document's types."""

    database: bytes
    document_id: bytes
    wtype: bytes


class InitResponse(NamedTuple):
    """The server's response to Init; `size` is the maximum size of a message in bytes, or None."""

    accepted: bool
    size: int | None


def encode_init(size: int) -> bytes:
    """Encode an Init request.

    The request announces version 1, the use of searches only, and messages of at most `size` bytes. The
    request does not contain data about the user.
    """
    number = encode_number(size)
    return _encode(
        _INIT,
        encode_element(_VERSION, _BIT_0),
        encode_element(_OPTIONS, _BIT_0),
        encode_element(_PREFERRED_SIZE, number),
        encode_element(_MAXIMUM_SIZE, number),
    )


def encode_word_search(
    database: bytes, words: bytes, max_hits: int, relevant: Iterable[WaisDocument] = ()
) -> bytes:
    """Encode a search for terms and for similar documents (relevance feedback).

    A search without terms and without documents asks for the description of the database.

    Args:
        database: The name of the database.
        words: The search terms, or empty bytes.
        max_hits: The maximum number of hits.
        relevant: The documents to which the hits should be similar.

    Raises:
        Refused: A field is too long, or the database name is not allowed (S02, command injection).
    """
    _check_length("search", words)
    question = (
        encode_element(_SEED_WORDS, words)
        + b"".join(map(_encode_relevant, relevant))
        + encode_element(_DATE_FACTOR, encode_number(1))
        + encode_element(_MAX_DOCUMENTS, encode_number(max_hits))
    )
    header = _encode_search(_WORD_SEARCH_BOUNDS, b"", database, b"3")
    return header + encode_element(_USER_INFORMATION, question)


def _encode_relevant(document: WaisDocument) -> bytes:
    _check_document(document)
    return encode_element(_DOCUMENT_ID, document.document_id) + encode_element(_TYPE, document.wtype)


def encode_retrieval(document: WaisDocument, start: int, end: int) -> bytes:
    """Encode a request for the bytes `start` to `end` (exclusive) of a document.

    The request is a search with a fixed form, because known servers crash on other forms of this query.

    Raises:
        Refused: A field is too long, or the database name is not allowed (S02, command injection).
    """
    _check_document(document)
    assert 0 <= start < end, "a reversed range kills the server"
    question = (
        _encode_term(b"un re", document.document_id)
        + _encode_term(b"wt re", document.wtype)
        + encode_element(_OPERATOR, b"a")
        + _encode_term(b"wb ro", b"%d" % start)
        + encode_element(_OPERATOR, b"a")
        + _encode_term(b"wb rl", b"%d" % end)
        + encode_element(_OPERATOR, b"a")
    )
    header = _encode_search(
        _RETRIEVAL_BOUNDS,
        b"FOO",
        document.database,
        b"1",
        encode_element(_ELEMENT_SET_NAMES, _DOCUMENT_TEXT),
        encode_element(_REFERENCE_ID, _REFERENCE),
    )
    return header + encode_element(_QUERY, question)


def _encode_term(use_and_relation: bytes, value: bytes) -> bytes:
    return encode_element(_ATTRIBUTES, use_and_relation + b" ig ig ig ig") + encode_element(_TERM, value)


def _encode_search(
    bounds: bytes, result_set: bytes, database: bytes, query_type: bytes, *more: bytes
) -> bytes:
    _check_length("database name", database)
    # A server would forward a request for a name with `@` to the host after the `@` (S02; SSRF).
    for octet in b"@\x1f\0":
        if octet in database:
            raise Refused("S02", f"byte {octet:02X} is not allowed in a database name")
    return _encode(
        _SEARCH,
        bounds,
        encode_element(_RESULT_SET_NAME, result_set),
        encode_element(_DATABASE_NAMES, database),
        encode_element(_QUERY_TYPE, query_type),
        *more,
    )


def _encode(kind: int, *parts: bytes) -> bytes:
    header = bytes((kind,)) + b"".join(parts)
    return len(header).to_bytes(2, "big") + header


def _check_document(document: WaisDocument) -> None:
    _check_length("document id", document.document_id)
    _check_length("type", document.wtype)


def _check_length(name: str, octets: bytes) -> None:
    if len(octets) > _MAX_LENGTHS[name]:
        raise Refused("S02", f"{name} of {len(octets)} bytes exceeds the limit of {_MAX_LENGTHS[name]}")


def parse_init_response(apdu: bytes) -> InitResponse:
    """Parse an Init response.

    Raises:
        ProtocolError: The APDU is malformed.
    """
    fixed, fields, trailer = _parse(apdu, _INIT_RESPONSE, 1)
    contents(_take_information(trailer))  # The user information is ignored, but must be well-formed.
    sizes = [parse_number(fields[tag]) for tag in (_PREFERRED_SIZE, _MAXIMUM_SIZE) if tag in fields]
    return InitResponse(accepted=fixed != b"\0", size=min(sizes, default=None))


def parse_search_response(apdu: bytes) -> bytes:
    """Return the undecoded group of records in a Search response.

    The reference id is ignored, because a connection never has more than one outstanding request. The status
    and the counts are ignored, because servers send wrong values.

    Raises:
        ProtocolError: The APDU is malformed.
    """
    _, _, trailer = _parse(apdu, _SEARCH_RESPONSE, 10)
    return _take_information(trailer)


def _take_information(trailer: bytes) -> bytes:
    """Return the user information after the header of an APDU (a group of elements), or empty bytes."""
    if not trailer:
        return b""
    tag, content, octets = take_element(trailer, 0)
    if tag != _USER_INFORMATION or len(octets) != len(trailer):
        raise ProtocolError(f"expected one group after the header of an APDU, got element {tag} and more")
    return content


def _parse(apdu: bytes, kind: int, fixed_length: int) -> tuple[bytes, dict[int, bytes], bytes]:
    """Parse an APDU; return its fixed fields, its tagged elements, and the bytes after the header."""
    end = 2 + int.from_bytes(apdu[:2], "big")
    fields = 3 + fixed_length
    if len(apdu) < fields or not fields <= end <= len(apdu):
        raise ProtocolError(f"APDU of {len(apdu)} bytes has a header that ends at {end}")
    if apdu[2] != kind:
        raise ProtocolError(f"got an APDU of type {apdu[2]}, expected type {kind}")
    return apdu[3:fields], contents(apdu[fields:end]), apdu[end:]


# Decoding of a server's text for display. WAIS does not specify a charset (wais page, section 9).

#: The replacement of control characters (C0, C1 and DEL). CR and LF are not replaced, because a listing
#: escapes them.
_CONTROLS = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\r\n"}


def display_text(octets: bytes) -> str:
    """Decode bytes for display, and replace control characters (prevents terminal escape injection)."""
    return decode_text(octets).translate(_CONTROLS)


# Messages from a server: a header of 25 printable bytes, then one APDU (wais page, section 2). A server sends
# a message of length 0 if it could not process the request.

HEADER_LENGTH = 25
#: The maximum size of an APDU in bytes before client and server have negotiated the message size.
MAX_APDU = 100_000

_COUNT_LENGTH = 10
_COUNT = re.compile(rb" *[0-9]+")
#: Matches the possibly incomplete byte count at the start of a header.
_COUNT_START = re.compile(rb" *[0-9]*")
_MESSAGE_TYPE, _CODINGS = slice(10, 11), slice(22, 24)


def read_message(limit: int) -> Reader[bytes]:
    """Return a reader for one message.

    The reader returns the APDU, or empty bytes for a message of length 0. The reader raises:

    - `ProtocolError` if the header is malformed, as soon as the first wrong byte arrives
    - `ProtocolError` if the APDU has more than `limit` bytes
    - `Disconnected` if the connection ends before the end of the message
    """

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        while len(buffer) < HEADER_LENGTH:
            if not _COUNT_START.fullmatch(count := buffer.peek(_COUNT_LENGTH)):
                raise ProtocolError(f"expected a message header, got {decode_text(count)!r}")
            _check_open(buffer, "header")
            yield
        length = parse_header(buffer.peek(HEADER_LENGTH))
        if length > limit:
            raise ProtocolError(f"message of {length} bytes exceeds the agreed limit of {limit}")
        while len(buffer) < HEADER_LENGTH + length:
            _check_open(buffer, "message")
            yield
        return buffer.take(HEADER_LENGTH + length)[HEADER_LENGTH:]

    return reader


def parse_header(header: bytes) -> int:
    """Return the size of the APDU from a message header; server name, version and checksum are ignored."""
    count = header[:_COUNT_LENGTH]
    if not _COUNT.fullmatch(count):
        raise ProtocolError(f"length in a message header must be a number, got {decode_text(count)!r}")
    if header[_MESSAGE_TYPE].lower() != b"z":
        raise ProtocolError(f"message of type {decode_text(header[_MESSAGE_TYPE])!r}, expected z")
    if header[_CODINGS] != b"  ":
        coding = decode_text(header[_CODINGS])
        raise ProtocolError(f"message in the unrequested coding {coding!r}, compressed or armored")
    return int(count)


def _check_open(buffer: Buffer, part: str) -> None:
    if not buffer.at_end:
        return
    if buffer:
        raise Disconnected(f"the connection ended inside the {part}, after {len(buffer)} bytes of it")
    raise Disconnected("the server closed the connection without an answer")
