"""Records in an answer (wais page, section 5): headers of documents, texts, diagnostics.

The real server sends three kinds. The others are read by what is written of them; what is unknown is
passed over by its length.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from protocols.errors import ProtocolError
from protocols.values import NamedTuple
from protocols.wais import diagnostic
from protocols.wais.diagnostic import Diagnostic, take_diagnostic
from protocols.wais.element import contents, elements, parse_number, take_element
from protocols.wire import REST, Rest, run_reader

_HEADER, _SHORT_HEADER, _LONG_HEADER, _TEXT, _HEADLINE, _CODES = 150, 151, 152, 153, 154, 155
_OF_DOCUMENTS = (_HEADER, _SHORT_HEADER, _LONG_HEADER, _HEADLINE, _CODES)

#: Records that are read without a rest.
_AT_ONCE = 64

_DOCUMENT_ID, _SCORE, _BEST_MATCH, _LENGTH = 116, 118, 119, 120
_SOURCE, _DATE, _HEADLINE_TEXT, _CITY, _DOCUMENT_TEXT = 121, 122, 123, 124, 127
_STOCK, _COMPANY, _INDUSTRY, _LINES, _TYPE_BLOCK, _TYPE = 128, 129, 130, 131, 132, 133


class DocumentHeader(NamedTuple):
    """What an answer says of one document; None for what it does not say.

    `octets` are the whole record. `document_id` means something to its server alone. `types` are in the
    order of the server's preference; none means TEXT. `length` counts the octets of the first type.
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
    """The records of one answer, sorted by kind. `octets` are all of them as they came."""

    octets: bytes
    headers: tuple[DocumentHeader, ...]
    texts: tuple[bytes, ...]
    diagnostics: tuple[Diagnostic, ...]


def parse_records(group: bytes) -> WaisRecords:
    """The records in the user information of an answer. Raises `ProtocolError`."""
    return run_reader(lambda buffer: sort_records(group))


def sort_records(group: bytes) -> Generator[Rest, None, WaisRecords]:
    """The same with rests: an answer has room for thousands of records."""
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
        if number % _AT_ONCE == 0:
            yield REST
    return WaisRecords(group, tuple(headers), tuple(texts), tuple(diagnostics))


def read_records(group: bytes) -> Iterator[DocumentHeader | bytes | Diagnostic]:
    """The same, one after the other as they stand there."""
    at = 0
    while at < len(group):
        if group[at] == diagnostic.TAG:  # the one element that is not written like the others
            record, at = take_diagnostic(group, at)
            yield record
            continue
        tag, content, octets = take_element(group, at)
        at += len(octets)
        if tag in _OF_DOCUMENTS:
            yield _parse_header(content, octets)
        elif tag == _TEXT:
            yield _parse_text(content)


def _parse_header(group: bytes, octets: bytes) -> DocumentHeader:
    found = contents(group)
    return DocumentHeader(
        octets=octets,
        document_id=_required(found, _DOCUMENT_ID),
        score=_number(found, _SCORE),
        best_match=_number(found, _BEST_MATCH),
        length=_number(found, _LENGTH),
        lines=_number(found, _LINES),
        types=_types(found.get(_TYPE_BLOCK, b"")),
        source=found.get(_SOURCE),
        date=found.get(_DATE),
        headline=found.get(_HEADLINE_TEXT),
        city=found.get(_CITY),
        stock_codes=found.get(_STOCK),
        company_codes=found.get(_COMPANY),
        industry_codes=found.get(_INDUSTRY),
    )


def _parse_text(group: bytes) -> bytes:
    found = contents(group)
    _required(found, _DOCUMENT_ID)
    return found.get(_DOCUMENT_TEXT, b"")


def _required(found: dict[int, bytes], tag: int) -> bytes:
    if tag not in found:
        raise ProtocolError(f"a record without element {tag}")
    return found[tag]


def _number(found: dict[int, bytes], tag: int) -> int | None:
    return parse_number(found[tag]) if tag in found else None


def _types(block: bytes) -> tuple[bytes, ...]:
    return tuple(element.content for element in elements(block) if element.tag == _TYPE)
