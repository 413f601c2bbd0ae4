"""Records in a WAIS response (wais page, sections 5 and 8): document headers, texts, diagnostics.

Real servers send only document headers, texts and diagnostics. The parser also accepts the other kinds of
records in the specification, and skips unknown records.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from protocols.errors import AccessDenied, Declined, NotFound, ProtocolError, TryLater
from protocols.wais.apdu import contents, display_text, elements, parse_number, take_element
from protocols.wire import REST, Rest

# Diagnostics: the error messages of a server (wais page, section 8). The format of a diagnostic differs from
# the other records. A diagnostic has a code of two characters and an error text. The table has the meaning of
# each code of Z39.50-1988.

TAG = 28
#: The size of the tag, length and end marker around a diagnostic, in bytes.
_FRAME = 4
_MIN_LENGTH = 3
_END = b"\x1d"

OUT_OF_RANGE = "SF"

_MEANINGS: dict[str, str] = {
    "S1": "permanent system error",
    "S2": "temporary system error",
    "S3": "unsupported search",
    "S5": "only stop words",
    "S6": "too many words",
    "S7": "too many operators",
    "S8": "too many truncated words",
    "S9": "too many incomplete subfields",
    "SA": "truncated word too short",
    "SB": "bad record number",
    "SC": "search too long",
    "SD": "too many records",
    "SF": "request out of range",
    "SG": "system error in presenting records",
    "SH": "record not authorized",
    "SI": "record exceeds the preferred message size",
    "SJ": "record exceeds the maximum record size",
    "SK": "result set cannot be a search term",
    "SL": "only one result set",
    "SM": "only AND of result sets",
    "SN": "result set exists",
    "SO": "no named result sets",
    "SP": "databases cannot be combined",
    "SQ": "no element set names",
    "SR": "element set name invalid",
    "SS": "only one element set name",
    "ST": "result set deleted",
    "SU": "result set in use",
    "SV": "database locked",
    "SW": "ended, cannot be continued",
    "SX": "no such result set",
    "SY": "no results",
    "SZ": "unpredictable results",
    "T1": "valid subset",
    "T2": "access control failure",
    "T3": "security",
    "T4": "security",
}

_ERRORS: dict[str, type[Declined]] = {"T2": AccessDenied, "S2": TryLater}


class Diagnostic(NamedTuple):
    """An error message of a server. `text` is decoded for display."""

    code: str
    text: str

    @property
    def is_out_of_range(self) -> bool:
        """Return whether the code is `SF` (out of range), which may also mean a missing document."""
        return self.code == OUT_OF_RANGE

    @property
    def reports_end(self) -> bool:
        """Return whether the diagnostic reports the end of a document, and not a missing document."""
        return self.is_out_of_range and "out of range" in self.text.lower()


def take_diagnostic(group: bytes, at: int) -> tuple[Diagnostic, int]:
    """Parse a diagnostic and return it, with the index after the diagnostic.

    `at` is the index of its tag.

    The length field of a diagnostic is an uncompressed number of two bytes. The length in this field does not
    include the last byte of the diagnostic.

    Raises:
        ProtocolError: The diagnostic is malformed.
    """
    length = int.from_bytes(group[at + 1 : at + 3], "big")
    end = at + length + _FRAME
    if length < _MIN_LENGTH or end > len(group) or group[end - 1 : end] != _END:
        raise ProtocolError(f"diagnostic of {length} bytes lacks its end marker")
    code, text = group[at + 3 : at + 5], group[at + 5 : end - 2]
    return Diagnostic(display_text(code), display_text(text).strip()), end


def refusal(diagnostics: Sequence[Diagnostic], action: str) -> Declined:
    """Return the exception for diagnostics.

    Servers send `SF` (out of range) in addition to others, so the first other diagnostic has priority.
    """
    cause = next((diagnostic for diagnostic in diagnostics if not diagnostic.is_out_of_range), diagnostics[0])
    kind = _ERRORS.get(cause.code, Declined)
    return kind(f"{action}: {_show_diagnostic(cause)}", code=cause.code, text=cause.text)


def make_not_found(diagnostic: Diagnostic, action: str) -> NotFound:
    """Return the exception for a missing document.

    A server reports a missing document with an `SF` diagnostic before the first byte of the document. The
    text of the diagnostic distinguishes a missing document from an empty document.
    """
    reason = _show_diagnostic(diagnostic)
    return NotFound(f"{action}: no such document: {reason}", code=diagnostic.code, text=diagnostic.text)


def _show_diagnostic(diagnostic: Diagnostic) -> str:
    meaning = _MEANINGS.get(diagnostic.code, "unknown code")
    return f"the server declined with {diagnostic.code} ({meaning}): {diagnostic.text!r}"


_HEADER, _SHORT_HEADER, _LONG_HEADER, _TEXT, _HEADLINE, _CODES = 150, 151, 152, 153, 154, 155
_HEADER_TAGS = (_HEADER, _SHORT_HEADER, _LONG_HEADER, _HEADLINE, _CODES)

#: The number of records that are parsed before the parser yields to other tasks.
_BATCH = 64

_DOCUMENT_ID, _SCORE, _BEST_MATCH, _LENGTH = 116, 118, 119, 120
_SOURCE, _DATE, _HEADLINE_TEXT, _CITY, _DOCUMENT_TEXT = 121, 122, 123, 124, 127
_STOCK, _COMPANY, _INDUSTRY, _LINES, _TYPE_BLOCK, _TYPE = 128, 129, 130, 131, 132, 133


class DocumentHeader(NamedTuple):
    """The metadata of a document in a response; None for absent metadata.

    Attributes:
        octets: The complete record as received.
        document_id: The id of the document, an opaque string that only its server interprets.
        types: The types of the document, in the server's order of preference. A document without types has
            the type TEXT.
        length: The size of the document in its first type, in bytes.
    """

    octets: bytes
    document_id: bytes
    score: int | None = None
    best_match: int | None = None
    length: int | None = None
    lines: int | None = None
    types: tuple[bytes, ...] = ()
    source: bytes | None = None
    date: bytes | None = None
    headline: bytes | None = None
    city: bytes | None = None
    stock_codes: bytes | None = None
    company_codes: bytes | None = None
    industry_codes: bytes | None = None

    @property
    def best_type(self) -> bytes:
        return self.types[0] if self.types else b"TEXT"


class WaisRecords(NamedTuple):
    """The records of a response, grouped by kind. `octets` has all records as received."""

    octets: bytes
    headers: tuple[DocumentHeader, ...]
    texts: tuple[bytes, ...]
    diagnostics: tuple[Diagnostic, ...]


def sort_records(group: bytes) -> Generator[Rest, None, WaisRecords]:
    """Parse the records, and yield regularly to other tasks.

    A response may have thousands of records.

    Raises:
        ProtocolError: A record is malformed.
    """
    headers: list[DocumentHeader] = []
    texts: list[bytes] = []
    diagnostics: list[Diagnostic] = []
    for number, record in enumerate(read_records(group), 1):
        if isinstance(record, DocumentHeader):
            headers.append(record)
        elif isinstance(record, bytes):
            texts.append(record)
        else:
            diagnostics.append(record)
        if number % _BATCH == 0:
            yield REST
    return WaisRecords(group, tuple(headers), tuple(texts), tuple(diagnostics))


def read_records(group: bytes) -> Iterator[DocumentHeader | bytes | Diagnostic]:
    """Yield the records in the order received."""
    at = 0
    while at < len(group):
        if group[at] == TAG:  # A diagnostic is encoded differently from all other elements.
            record, at = take_diagnostic(group, at)
            yield record
            continue
        tag, content, octets = take_element(group, at)
        at += len(octets)
        if tag in _HEADER_TAGS:
            yield _parse_header(content, octets)
        elif tag == _TEXT:
            fields = contents(content)
            _require_element(fields, _DOCUMENT_ID)
            yield fields.get(_DOCUMENT_TEXT, b"")


def _parse_header(group: bytes, octets: bytes) -> DocumentHeader:
    fields = contents(group)
    return DocumentHeader(
        octets=octets,
        document_id=_require_element(fields, _DOCUMENT_ID),
        score=_get_number(fields, _SCORE),
        best_match=_get_number(fields, _BEST_MATCH),
        length=_get_number(fields, _LENGTH),
        lines=_get_number(fields, _LINES),
        types=tuple(part.content for part in elements(fields.get(_TYPE_BLOCK, b"")) if part.tag == _TYPE),
        source=fields.get(_SOURCE),
        date=fields.get(_DATE),
        headline=fields.get(_HEADLINE_TEXT),
        city=fields.get(_CITY),
        stock_codes=fields.get(_STOCK),
        company_codes=fields.get(_COMPANY),
        industry_codes=fields.get(_INDUSTRY),
    )


def _require_element(fields: dict[int, bytes], tag: int) -> bytes:
    if tag not in fields:
        raise ProtocolError(f"record lacks element {tag}")
    return fields[tag]


def _get_number(fields: dict[int, bytes], tag: int) -> int | None:
    return parse_number(fields[tag]) if tag in fields else None
