"""wais URLs (RFC 1738 3.9): a database, and a search in it or a document of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from protocols.authority import build_login, parse_hostport
from protocols.errors import ProtocolError
from protocols.location import HostUrl, UrlText
from protocols.syntax import (
    RESERVED,
    build_url,
    decode,
    encode,
    encode_written,
    find,
    invalid,
    note_characters,
    take,
)
from protocols.wais.apdu import Element, elements, encode_element

_SEARCH_DATA = ";:@&="


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WaisUrl(HostUrl):
    """The URL of a WAIS database, search or document.

    A search URL has `search`; a document URL has `wtype` and `wpath`. `wpath` stays percent-encoded, because
    the form of old browsers must be parsed before decoding.

    Examples:
        >>> url = resolver.parse("wais://h.example/db?harbour")
        >>> url.database, url.search
        (b'db', b'harbour')
    """

    database: bytes = b""
    search: bytes | None = None
    wtype: bytes | None = None
    wpath: str | None = None


def parse(text: UrlText) -> WaisUrl:
    """Parse a wais URL. A slash after the database, before any `?`, means a document."""
    login, start = parse_hostport(text)
    if start == text.end:
        raise invalid(text.text, "missing-path", "database", start)
    start += 1
    question = find(text, "?", start)
    slash = find(text, "/", start, question)
    database = take(text, "database", start, min(slash, question))
    if slash < question:
        wtype, wpath = _parse_document(text, start, slash)
        return WaisUrl(**login, database=database, wtype=wtype, wpath=wpath, **text.common())
    note_characters(text, start, question, "")
    if question == text.end:
        return WaisUrl(**login, database=database, **text.common())
    note_characters(text, question + 1, text.end, _SEARCH_DATA)
    search = take(text, "search", question + 1, text.end)
    return WaisUrl(**login, database=database, search=search, **text.common())


def _parse_document(text: UrlText, start: int, slash: int) -> tuple[bytes, str]:
    """Parse the type and the path of a document. `slash` is the index of the slash before the type."""
    second = find(text, "/", slash + 1)
    if second == text.end:
        raise invalid(text.text, "missing-path", "document path", second)
    for begin, end in ((start, slash), (slash + 1, second), (second + 1, text.end)):
        note_characters(text, begin, end, "")
    return take(text, "wtype", slash + 1, second), text.cut("wpath", second + 1, text.end)


def build(url: WaisUrl) -> str:
    """Return the URL as text.

    Raises:
        InvalidUrl: `wpath` is not encoded as part of a URL.
    """
    return build_url(url, f"{build_login(url)}/{encode(url.database)}{_build_path(url)}")


def build_document(wtype: bytes, wpath: str) -> str:
    """Return the URL's part for a document: the type and the path after the database.

    Raises:
        InvalidUrl: `wpath` is not encoded as part of a URL.
    """
    return f"{encode(wtype)}/{encode_written('wpath', wpath, RESERVED)}"


def _build_path(url: WaisUrl) -> str:
    if url.wtype is not None or url.wpath is not None:
        return f"/{build_document(url.wtype or b'', url.wpath or '')}"
    return "" if url.search is None else f"?{encode(url.search, _SEARCH_DATA)}"


# Document ids and their two forms in a URL (wais page, sections 6 and 11).
#
# A document id is an opaque string: the client sends the id to the server unchanged. The form of RFC 1738 is
# the percent-encoded id. Old browsers wrote another form. The other form has the length of the document, then
# the fields of a freeWAIS id, each as `tag=value;`. The browsers' form must be parsed before
# percent-decoding, because an encoded `;` belongs to a value.

_FIELDS_FORM = re.compile(r"(?:([0-9]+)/)?((?:[0-9]+=[^;]*;)*[0-9]+=[^;]*;?)")
_FIELD = re.compile(r"([0-9]+)=([^;]*);?")
#: The largest tag of one byte, and the largest tag that freeWAIS and libwww use.
_MAX_TAG, _MAX_SHARED_TAG = 127, 10
_MAX_DIGITS = 18
_COPYRIGHT = 7
#: The characters that libwww did not percent-encode.
_LIBWWW_PLAIN = re.compile(rb"[A-Za-z0-9./_$-]")


class WrittenId(NamedTuple):
    """A document id that was parsed from a URL.

    Attributes:
        octets: The document id.
        in_fields: Whether the URL has the form that old browsers used.
        length: The length of the document in the browsers' form, in bytes; None if it is missing.
    """

    octets: bytes
    in_fields: bool = False
    length: int | None = None


def parse_wpath(wpath: str) -> WrittenId:
    """Parse a percent-encoded path into a document id.

    A path with a field tag larger than one byte is parsed in the form of RFC 1738.
    """
    match = _FIELDS_FORM.fullmatch(wpath)
    fields = [] if match is None else [(_parse_tag(tag), value) for tag, value in _FIELD.findall(match[2])]
    if match is None or not all(1 <= tag <= _MAX_TAG for tag, _ in fields):
        return WrittenId(decode(wpath))
    octets = b"".join(encode_element(tag, _decode_value(tag, value)) for tag, value in fields)
    length = match[1] if match[1] is not None and len(match[1]) <= _MAX_DIGITS else None
    return WrittenId(octets, in_fields=True, length=None if length is None else int(length))


def _parse_tag(digits: str) -> int:
    return int(digits[-4:]) if not digits[:-4].strip("0") else _MAX_TAG + 1


def _decode_value(tag: int, written: str) -> bytes:
    """Decode the value of a field, and add the NUL that some browsers removed from the last field."""
    value = decode(written)
    return b"\0" if tag == _COPYRIGHT and not value else value


def parse_fields(document_id: bytes) -> tuple[Element, ...] | None:
    """Return the fields of a freeWAIS document id, or None if the id lacks a field of the browsers' form."""
    try:
        fields = tuple(elements(document_id))
    except ProtocolError:
        return None
    is_known = bool(fields) and all(1 <= field.tag <= _MAX_SHARED_TAG for field in fields)
    return fields if is_known else None


def write_fields(document_id: bytes, length: int | None) -> str | None:
    """Return a document id in the browsers' form, or None without such a form or without a length."""
    fields = parse_fields(document_id)
    if fields is None or length is None:
        return None
    written = "".join(f"{field.tag}={_encode_value(field.content)};" for field in fields)
    wpath = f"{length}/{written}"
    return wpath if parse_wpath(wpath).octets == document_id else None


def _encode_value(value: bytes) -> str:
    octets = (value[index : index + 1] for index in range(len(value)))
    return "".join(
        octet.decode("ascii") if _LIBWWW_PLAIN.match(octet) else f"%{octet.hex().upper()}" for octet in octets
    )


def with_search(url: WaisUrl, words: str) -> WaisUrl:
    """Return the URL of a search for `words`, encoded as UTF-8, in the database of `url`."""
    return replace(url, search=words.encode(), wtype=None, wpath=None, text="", places=(), findings=())
