"""The APDUs that a client sends and hears: Init, Search, and their responses (wais page, section 4).

Octets first, meaning after: an APDU is a header of known length (type, fixed fields, tagged elements) and
at most one element behind it. Requests are written as the old clients wrote them, in their order; in
responses elements may come in any order and unknown ones are passed over.
"""

from __future__ import annotations

from collections.abc import Iterable

from protocols.errors import ProtocolError, Refused
from protocols.values import NamedTuple
from protocols.wais.element import (
    contents,
    encode_element,
    encode_number,
    parse_number,
    take_element,
)

_INIT, _INIT_RESPONSE, _SEARCH, _SEARCH_RESPONSE = 20, 21, 22, 23

_REFERENCE_ID, _VERSION, _OPTIONS, _PREFERRED_SIZE, _MAXIMUM_SIZE = 2, 3, 4, 5, 6
_RESULT_SET_NAME, _DATABASE_NAMES, _ELEMENT_SET_NAMES, _QUERY_TYPE = 17, 18, 19, 20
_QUERY, _ATTRIBUTES, _TERM, _OPERATOR = 21, 44, 45, 46
_USER_INFORMATION, _SEED_WORDS, _DATE_FACTOR, _MOST_DOCUMENTS = 99, 106, 111, 114
_DOCUMENT_ID, _TYPE = 116, 133

#: Small-Set-Upper-Bound, Large-Set-Lower-Bound, Medium-Set-Present-Number, Replace-Indicator: no server
#: heeds them, and every client sends these.
_WORD_SEARCH_BOUNDS = bytes.fromhex("00001e 001388 00001e 01")
_RETRIEVAL_BOUNDS = bytes.fromhex("00000a 000010 00000f 01")
_DOCUMENT_TEXT = b" \x1fDocument Text"
_OUR_REFERENCE = b"3"
_BIT_0 = b"\x80"

#: What each part of a request has room for (wais page, section 14).
_LONGEST = {"database name": 255, "search": 4000, "type": 64, "document id": 2048}


class RelevantDocument(NamedTuple):
    """A document that is like what is looked for: its id, and one of its types."""

    document_id: bytes
    wtype: bytes


class InitResponse(NamedTuple):
    """`size` is what the server wants messages to be at most; None where it does not say."""

    accepted: bool
    size: int | None


class SearchResponse(NamedTuple):
    """`records` are the octets of a group of records. Status and counts are not kept: they are wrong."""

    records: bytes = b""


def encode_init(size: int) -> bytes:
    """Init: version 1, search only, messages of at most `size` octets. Nothing is said about the user."""
    number = encode_number(size)
    return _encode(
        _INIT,
        encode_element(_VERSION, _BIT_0),
        encode_element(_OPTIONS, _BIT_0),
        encode_element(_PREFERRED_SIZE, number),
        encode_element(_MAXIMUM_SIZE, number),
    )


def encode_word_search(
    database: bytes, words: bytes, most: int, relevant: Iterable[RelevantDocument] = ()
) -> bytes:
    """Search for words, and for what is like the `relevant` documents; neither asks for the
    description of the database. At most `most` hits.

    Raises `Refused` (S02), as does `encode_retrieval`.
    """
    _check_length("search", words)
    question = (
        encode_element(_SEED_WORDS, words)
        + b"".join(map(_encode_relevant, relevant))
        + encode_element(_DATE_FACTOR, encode_number(1))
        + encode_element(_MOST_DOCUMENTS, encode_number(most))
    )
    header = _encode_search(_WORD_SEARCH_BOUNDS, b"", database, b"3")
    return header + encode_element(_USER_INFORMATION, question)


def _encode_relevant(document: RelevantDocument) -> bytes:
    _check_length("document id", document.document_id)
    _check_length("type", document.wtype)
    return encode_element(_DOCUMENT_ID, document.document_id) + encode_element(_TYPE, document.wtype)


def encode_retrieval(database: bytes, document_id: bytes, wtype: bytes, start: int, end: int) -> bytes:
    """Search for the octets from `start` up to and without `end` of one document: the one query that no
    known server dies of."""
    _check_length("document id", document_id)
    _check_length("type", wtype)
    assert 0 <= start < end, "a reversed range kills the server"
    question = (
        _encode_term(b"un re", document_id)
        + _encode_term(b"wt re", wtype)
        + encode_element(_OPERATOR, b"a")
        + _encode_term(b"wb ro", b"%d" % start)
        + encode_element(_OPERATOR, b"a")
        + _encode_term(b"wb rl", b"%d" % end)
        + encode_element(_OPERATOR, b"a")
    )
    header = _encode_search(
        _RETRIEVAL_BOUNDS,
        b"FOO",
        database,
        b"1",
        encode_element(_ELEMENT_SET_NAMES, _DOCUMENT_TEXT),
        encode_element(_REFERENCE_ID, _OUR_REFERENCE),
    )
    return header + encode_element(_QUERY, question)


def _encode_term(use_and_relation: bytes, value: bytes) -> bytes:
    return encode_element(_ATTRIBUTES, use_and_relation + b" ig ig ig ig") + encode_element(_TERM, value)


def _encode_search(
    bounds: bytes, result_set: bytes, database: bytes, query_type: bytes, *more: bytes
) -> bytes:
    _check_database(database)
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


def _check_database(database: bytes) -> None:
    """An `@` makes the server pass the request on to a host of the URL's choosing (rule S02)."""
    _check_length("database name", database)
    for octet in b"@\x1f\0":
        if octet in database:
            raise Refused("S02", f"octet {octet:02X} may not be in the name of a database")


def _check_length(what: str, octets: bytes) -> None:
    if len(octets) > _LONGEST[what]:
        raise Refused("S02", f"a {what} of {len(octets)} octets; wais takes {_LONGEST[what]}")


def parse_init_response(apdu: bytes) -> InitResponse:
    """Raises `ProtocolError`."""
    fixed, found, behind = _parse(apdu, _INIT_RESPONSE, 1)
    contents(_take_information(behind))  # says nothing that is needed, but has to be sound
    sizes = [parse_number(found[tag]) for tag in (_PREFERRED_SIZE, _MAXIMUM_SIZE) if tag in found]
    return InitResponse(accepted=fixed != b"\0", size=min(sizes, default=None))


def parse_search_response(apdu: bytes) -> SearchResponse:
    """Raises `ProtocolError`. A reference id tells nothing: there is one request at a time."""
    _, _, behind = _parse(apdu, _SEARCH_RESPONSE, 10)
    return SearchResponse(_take_information(behind))


def _take_information(behind: bytes) -> bytes:
    """The user information, a group: nothing, or all that stands behind the header."""
    if not behind:
        return b""
    tag, content, octets = take_element(behind, 0)
    if tag != _USER_INFORMATION or len(octets) != len(behind):
        raise ProtocolError(f"behind the header of an APDU not one group, but element {tag} and more")
    return content


def _parse(apdu: bytes, kind: int, fixed_length: int) -> tuple[bytes, dict[int, bytes], bytes]:
    """Fixed fields, tagged elements, and what stands behind the header."""
    end = 2 + int.from_bytes(apdu[:2], "big")
    fields = 3 + fixed_length
    if len(apdu) < fields or not fields <= end <= len(apdu):
        raise ProtocolError(f"an APDU of {len(apdu)} octets whose header ends at {end}")
    if apdu[2] != kind:
        raise ProtocolError(f"an APDU of type {apdu[2]} where type {kind} has to come")
    return apdu[3:fields], contents(apdu[fields:end]), apdu[end:]
