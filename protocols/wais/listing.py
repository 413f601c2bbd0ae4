"""Hits of a WAIS search as entries with URLs, and the metadata of a reply (wais page, section 11).

The URL of a hit consists of the host and database of the search, a type and an id. It has the spelling of the
RFC. Some clients know only the spelling that browsers used; that spelling is added to the entry's extra
metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from operator import itemgetter

from protocols.contract import BuiltUrl, Entry, Reply
from protocols.errors import ProtocolError
from protocols.location import Finding, JsonValue, Kind
from protocols.wais.apdu import display_text
from protocols.wais.record import DocumentHeader, WaisRecords, read_records
from protocols.wais.retrieval import Chunk
from protocols.wais.source_description import parse_source_description
from protocols.wais.url import WaisUrl, build, build_document, parse_wpath, write_fields, write_opaque

# Media types: the media type of each document type (wais page, section 9).

#: The type of a source description.
SOURCE = b"WSRC"
#: The type of a hit whose headline is a URL, without a document to retrieve. The headline may also be a
#: title, with a document.
LINK = b"URL"

SOURCE_MEDIA_TYPE = "application/x-wais-source"

_MEDIA_TYPES: dict[bytes, str] = {
    b"DVI": "application/x-dvi",
    b"GIF": "image/gif",
    b"HTML": "text/html",
    b"JFIF": "image/jpeg",
    b"JPEG": "image/jpeg",
    b"PICT": "image/pict",
    b"PS": "application/postscript",
    b"TEXT": "text/plain",
    b"TIFF": "image/tiff",
    b"WCAT": "text/plain",
    SOURCE: SOURCE_MEDIA_TYPE,
}


def media_type_of(wtype: bytes) -> str:
    """Return the media type of a document type; an unknown document type is application/octet-stream."""
    return _MEDIA_TYPES.get(wtype.upper(), "application/octet-stream")


#: The schemes to which a server's text may lead (rule S20, links from servers).
_LINKED_SCHEMES = frozenset({"http", "https", "ftp", "gopher", "news", "nntp", "wais", "telnet"})
_URL = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):[\x21-\x7e]+")
#: The maximum size of an id and a type in a request, in bytes. A hit with a longer id or type gets no URL.
_LONGEST_ID, _LONGEST_TYPE = 2048, 64
_NO_RESULT = b"Search produced no result."
#: The first two-digit year that belongs to the 20th century: no server is older than 1970.
_PIVOT = 70


class HitReader:
    """An `EntryReader` for the records that a search found; `place` is the URL of the search.

    All records are one message, so they are parsed after the last byte.
    """

    def __init__(self, place: WaisUrl) -> None:
        self._place = place
        self._octets = bytearray()

    def feed(self, octets: bytes) -> Iterator[Entry]:
        self._octets += octets
        return iter(())

    def finish(self) -> Iterator[Entry]:
        return (hit_entry(header, self._place) for header in read_hits(bytes(self._octets)))


def substitute_in(records: WaisRecords) -> DocumentHeader | None:
    """Return the catalog that a server gives in place of hits, or None if there are hits."""
    return records.headers[0] if len(records.headers) == 1 and _is_catalog(records.headers[0]) else None


def _is_catalog(only: DocumentHeader) -> bool:
    return only.score == 0 and (only.headline or b"").startswith(_NO_RESULT)


def hits_in(records: WaisRecords) -> tuple[DocumentHeader, ...]:
    """Return the hits; a catalog in place of hits is not a hit."""
    return records.headers if substitute_in(records) is None else ()


def read_hits(group: bytes) -> Iterator[DocumentHeader]:
    """Yield the hits in the bytes of the records."""
    headers = (record for record in read_records(group) if isinstance(record, DocumentHeader))
    first = list(islice(headers, 2))
    if len(first) != 1 or not _is_catalog(first[0]):
        yield from first
        yield from headers


def hit_entry(hit: DocumentHeader, place: WaisUrl) -> Entry:
    """Return the entry of a hit.

    For a hit of type URL, the headline is a URL, which is reported but never followed. If the headline is not
    a valid URL, it is the title of a document, and the document's own URL is used as for other hits.
    """
    is_link = _link_in(hit, hit.best_type) is not None
    return Entry(
        name=display_text(hit.headline or hit.document_id),
        url=_url_in(hit, hit.best_type, place),
        kind=Kind.LINK if is_link else Kind.DOCUMENT,
        size=hit.length,
        modified=parse_date(hit.date or b""),
        raw=hit.octets,
        extra=_describe_hit(hit, place),
    )


def _link_in(hit: DocumentHeader, wtype: bytes) -> str | None:
    """Return the URL in the headline of a hit of type URL; None for every other hit."""
    return linked_url(hit.headline or b"") if wtype.upper() == LINK else None


def _url_in(hit: DocumentHeader, wtype: bytes, place: WaisUrl) -> str | None:
    """Return the URL of the hit in one of its types; for type URL, the URL in its headline."""
    return _link_in(hit, wtype) or document_url(hit, wtype, place)


def _describe_hit(hit: DocumentHeader, place: WaisUrl) -> dict[str, JsonValue]:
    types = hit.types or (b"TEXT",)
    is_link = _link_in(hit, hit.best_type) is not None
    return {
        "score": hit.score,
        "best_match": hit.best_match,
        "lines": hit.lines,
        "types": [display_text(each) for each in types],
        "media_type": None if is_link else media_type_of(hit.best_type),
        "date": _show_text(hit.date),
        "source": _show_text(hit.source),
        "city": _show_text(hit.city),
        "stock_codes": _show_text(hit.stock_codes),
        "company_codes": _show_text(hit.company_codes),
        "industry_codes": _show_text(hit.industry_codes),
        "other_types": [_url_in(hit, each, place) for each in types[1:]],
        "libwww_url": None if is_link else libwww_url(hit, place),
    }


def _show_text(octets: bytes | None) -> str | None:
    return None if octets is None else display_text(octets)


def linked_url(headline: bytes) -> str | None:
    """Return the headline, unchanged, if it is a URL with an allowed scheme; else None."""
    found = _URL.fullmatch(headline)
    offered = found is not None and found[1].decode("ascii").lower() in _LINKED_SCHEMES
    return headline.decode("ascii") if offered else None


def document_url(hit: DocumentHeader, wtype: bytes, place: WaisUrl) -> str | None:
    """Return the URL of a document in one of its types; None if its id or type is too long for a request."""
    if len(hit.document_id) > _LONGEST_ID or len(wtype) > _LONGEST_TYPE:
        return None
    return _build(place, wtype, write_opaque(hit.document_id))


def libwww_url(hit: DocumentHeader, place: WaisUrl) -> str | None:
    """Return the URL in the browsers' spelling; None if the browsers could not write such a URL."""
    path = write_fields(hit.document_id, hit.length)
    return None if path is None or len(hit.document_id) > _LONGEST_ID else _build(place, hit.best_type, path)


def _build(place: WaisUrl, wtype: bytes, wpath: str) -> BuiltUrl:
    return BuiltUrl(f"{_build_database(place)}/{build_document(wtype, wpath)}")


@lru_cache(maxsize=1)  # All hits of a search are in one database.
def _build_database(place: WaisUrl) -> str:
    database = replace(place, search=None, wtype=None, wpath=None)
    return build(replace(database, fragment=None, user=None, password=None))


def parse_date(date: bytes) -> datetime | None:
    """Parse `yymmdd`, as servers send it, or `yyyymmdd`, as the specification says; None for other text."""
    if not (date.isdigit() and len(date) in (6, 8)):
        return None
    year = int(date[:-4])
    if len(date) == 6:
        year += 1900 if year >= _PIVOT else 2000
    try:
        return datetime(year, int(date[-4:-2]), int(date[-2:]), tzinfo=UTC)
    except ValueError:
        return None


#: A server leaves out hits that do not fit into its response, without a report. A hit may be missing if the
#: free space is smaller than one more record may need: the largest record received, or this fraction of the
#: usual maximum size of a response.
_LEFT_OUT = 0.015


def make_database_reply(url: WaisUrl, records: WaisRecords) -> Reply:
    """Return the reply of a database: its source description, and the records of an empty search."""
    return Reply(
        kind=Kind.SEARCH,
        media_type=SOURCE_MEDIA_TYPE,
        listing=HitReader(url),
        records=records.octets,
        extra={"records": len(records.headers)},
    )


def make_results_reply(url: WaisUrl, records: WaisRecords, agreed: int, most: int) -> Reply:
    """Return the reply of a result list.

    `agreed` is the maximum size of a response in bytes, `most` the requested number of hits.
    """
    hits = hits_in(records)
    return Reply(
        kind=Kind.DIRECTORY,
        listing=HitReader(url),
        extra={"hits": len(hits)},
        findings=list(_oddities(url, records, agreed, len(hits), most)),
        verified={"length"},
    )


def make_document_reply(url: WaisUrl, wtype: bytes, first: Chunk) -> Reply:
    """Return the reply of a document from its first chunk."""
    extra: dict[str, JsonValue] = {"type": wtype.decode("latin-1")}
    announced = parse_wpath(url.wpath or "").length
    if announced is not None:
        extra["announced_length"] = announced
    if wtype == SOURCE and not first.at:
        extra["description"] = describe(first)
    return Reply(
        kind=Kind.DOCUMENT,
        media_type=media_type_of(wtype),
        size=None if first.ending is None else first.at + len(first.octets),
        start=first.at,
        extra=extra,
    )


def describe(chunk: Chunk) -> JsonValue:
    """Parse a source description; return None if it is not complete in one chunk, or is malformed."""
    if chunk.ending is None:
        return None
    try:
        return parse_source_description(chunk.octets).as_json()
    except ProtocolError:
        return None


def _oddities(url: WaisUrl, records: WaisRecords, agreed: int, hits: int, most: int) -> Iterator[Finding]:
    """Report that hits may be missing, because the server does not report that it left out hits."""
    catalog = substitute_in(records)
    if catalog is not None:
        there = document_url(catalog, catalog.best_type, url)
        yield Finding("wais:no-result", "allow", f"no hits; the catalog is {there}")
    elif hits == 0:
        yield Finding("wais:no-result", "allow", "no hits")
    elif hits >= most:
        yield Finding(
            "wais:more", "allow", f"{hits} hits received, as many as requested (entries); there may be more"
        )
    elif agreed - len(records.octets) < max(_LEFT_OUT * agreed, _find_largest(records)):
        yield Finding("wais:dropped", "warn", "the answer has its maximum size; there may be more hits")


def _find_largest(records: WaisRecords) -> int:
    # The records are measured by the length of their bytes, because there may be thousands of them.
    return max(map(len, map(itemgetter(0), records.headers)))
