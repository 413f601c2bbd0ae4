"""Hits of a WAIS search as listing entries with URLs, and the metadata of a reply (wais page, section 11).

The URL of a hit has the form of RFC 1738. It contains the host and the database of the search, a type and a
document id. Some clients support only the form of old browsers. The URL in the browsers' form is added to the
entry's extra metadata.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import islice
from operator import itemgetter

from protocols.contract import BuiltUrl, Entry, Reply
from protocols.dates import in_utc
from protocols.errors import ProtocolError
from protocols.location import Finding, JsonValue, Kind
from protocols.syntax import encode
from protocols.wais.apdu import display_text
from protocols.wais.record import DocumentHeader, WaisRecords, read_records
from protocols.wais.retrieval import Chunk
from protocols.wais.source_description import parse_source_description
from protocols.wais.url import WaisUrl, build, build_document, parse_wpath, write_fields

# The media type of each WAIS document type (wais page, section 9).

#: The document type of a source description.
SOURCE = b"WSRC"
#: The document type of a hit whose headline is a URL. Some servers also use this type for a document whose
#: headline is a title.
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


def find_media_type(wtype: bytes) -> str:
    """Return the media type of a document type; an unknown document type is application/octet-stream."""
    return _MEDIA_TYPES.get(wtype.upper(), "application/octet-stream")


#: The URL schemes that are allowed in a headline (rule S20, links from servers).
_LINKED_SCHEMES = frozenset({"http", "https", "ftp", "gopher", "news", "nntp", "wais", "telnet"})
_URL = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):[\x21-\x7e]+")
#: The maximum size of a document id and of a type in a request, in bytes. A hit with a longer id or type does
#: not get a URL.
_MAX_ID, _MAX_TYPE = 2048, 64
_NO_RESULT = b"Search produced no result."
#: The pivot year: a two-digit year from 70 to 99 means 19yy, and a smaller year means 20yy. WAIS documents
#: are not older than 1970.
_PIVOT = 70


class HitReader:
    """An `EntryReader` for the records of a search. `search` is the URL of the search.

    All records are in one message, so parsing starts after the last byte of the message.
    """

    def __init__(self, search: WaisUrl) -> None:
        self._search = search
        self._octets = bytearray()

    def feed(self, octets: bytes) -> Iterator[Entry]:
        self._octets += octets
        return iter(())

    def finish(self) -> Iterator[Entry]:
        return (hit_entry(header, self._search) for header in read_hits(bytes(self._octets)))


def find_catalog(records: WaisRecords) -> DocumentHeader | None:
    """Return the catalog that some servers send instead of search results, or None."""
    return records.headers[0] if len(records.headers) == 1 and _is_catalog(records.headers[0]) else None


def _is_catalog(header: DocumentHeader) -> bool:
    return header.score == 0 and (header.headline or b"").startswith(_NO_RESULT)


def read_hits(group: bytes) -> Iterator[DocumentHeader]:
    """Parse the records, and yield the hits among them."""
    headers = (record for record in read_records(group) if isinstance(record, DocumentHeader))
    first = list(islice(headers, 2))
    if len(first) != 1 or not _is_catalog(first[0]):
        yield from first
        yield from headers


def hit_entry(hit: DocumentHeader, search: WaisUrl) -> Entry:
    """Return the listing entry of a hit.

    For a hit of type URL, the headline is the URL of the entry. The client never follows this URL. If the
    headline is not a valid URL, the hit is a document, and the entry has the URL of the document.
    """
    is_link = _link_in(hit, hit.best_type) is not None
    return Entry(
        name=display_text(hit.headline or hit.document_id),
        url=_url_in(hit, hit.best_type, search),
        kind=Kind.LINK if is_link else Kind.DOCUMENT,
        size=hit.length,
        modified=parse_date(hit.date or b""),
        raw=hit.octets,
        extra=_describe_hit(hit, search),
    )


def _link_in(hit: DocumentHeader, wtype: bytes) -> str | None:
    """Return the URL in the headline of a hit of type URL, or None for every other hit."""
    return linked_url(hit.headline or b"") if wtype.upper() == LINK else None


def _url_in(hit: DocumentHeader, wtype: bytes, search: WaisUrl) -> str | None:
    """Return the URL of a hit: its headline for type URL, or else the URL of the document of type `wtype`."""
    return _link_in(hit, wtype) or document_url(hit, wtype, search)


def _describe_hit(hit: DocumentHeader, search: WaisUrl) -> dict[str, JsonValue]:
    types = hit.types or (b"TEXT",)
    is_link = _link_in(hit, hit.best_type) is not None
    return {
        "score": hit.score,
        "best_match": hit.best_match,
        "lines": hit.lines,
        "types": [display_text(wtype) for wtype in types],
        "media_type": None if is_link else find_media_type(hit.best_type),
        "date": _show_text(hit.date),
        "source": _show_text(hit.source),
        "city": _show_text(hit.city),
        "stock_codes": _show_text(hit.stock_codes),
        "company_codes": _show_text(hit.company_codes),
        "industry_codes": _show_text(hit.industry_codes),
        "other_types": [_url_in(hit, wtype, search) for wtype in types[1:]],
        "libwww_url": None if is_link else libwww_url(hit, search),
    }


def _show_text(octets: bytes | None) -> str | None:
    return None if octets is None else display_text(octets)


def linked_url(headline: bytes) -> str | None:
    """Return the headline if it is a URL of an allowed scheme, or else None."""
    match = _URL.fullmatch(headline)
    is_allowed = match is not None and match[1].decode("ascii").lower() in _LINKED_SCHEMES
    return headline.decode("ascii") if is_allowed else None


def document_url(hit: DocumentHeader, wtype: bytes, search: WaisUrl) -> str | None:
    """Return the URL of a document of type `wtype`, or None if its id or the type is too long."""
    if len(hit.document_id) > _MAX_ID or len(wtype) > _MAX_TYPE:
        return None
    return _build(search, wtype, encode(hit.document_id))


def libwww_url(hit: DocumentHeader, search: WaisUrl) -> str | None:
    """Return the URL of a hit in the form of old browsers, or None if the hit has no such form."""
    path = write_fields(hit.document_id, hit.length)
    return None if path is None or len(hit.document_id) > _MAX_ID else _build(search, hit.best_type, path)


def _build(search: WaisUrl, wtype: bytes, wpath: str) -> BuiltUrl:
    return BuiltUrl(f"{_build_database(search)}/{build_document(wtype, wpath)}")


@lru_cache(maxsize=1)  # All hits of a search are in one database.
def _build_database(search: WaisUrl) -> str:
    database = replace(search, search=None, wtype=None, wpath=None)
    return build(replace(database, fragment=None, user=None, password=None))


def parse_date(date: bytes) -> datetime | None:
    """Parse a date as `yymmdd` (servers) or `yyyymmdd` (specification); return None for invalid text."""
    if not (date.isdigit() and len(date) in (6, 8)):
        return None
    year = int(date[:-4])
    if len(date) == 6:
        year += 1900 if year >= _PIVOT else 2000
    return in_utc((year, date[-4:-2], date[-2:], 0, 0, 0))


#: A fraction of the maximum size of a response. A server silently drops hits that do not fit into a response.
#: The client warns of dropped hits if the unused space in the response is smaller than this fraction, or
#: smaller than the largest received record.
_MIN_UNUSED = 0.015


def make_database_reply(url: WaisUrl, records: WaisRecords) -> Reply:
    """Return the source description and the records of an empty search as the reply for a database."""
    return Reply(
        kind=Kind.SEARCH,
        media_type=SOURCE_MEDIA_TYPE,
        listing=HitReader(url),
        records=records.octets,
        extra={"records": len(records.headers)},
    )


def make_results_reply(url: WaisUrl, records: WaisRecords, max_size: int, max_hits: int) -> Reply:
    """Return the reply for a result list.

    Args:
        url: The URL of the search.
        records: The records of the response.
        max_size: The maximum size of a response in bytes.
        max_hits: The requested number of hits.
    """
    hits = len(records.headers) if find_catalog(records) is None else 0
    return Reply(
        kind=Kind.DIRECTORY,
        listing=HitReader(url),
        extra={"hits": hits},
        findings=list(_hit_findings(url, records, max_size, hits, max_hits)),
        verified={"length"},
    )


def make_document_reply(url: WaisUrl, wtype: bytes, first: Chunk) -> Reply:
    """Return the reply for a document. The first chunk contains the metadata."""
    extra: dict[str, JsonValue] = {"type": wtype.decode("latin-1")}
    announced = parse_wpath(url.wpath or "").length
    if announced is not None:
        extra["announced_length"] = announced
    if wtype == SOURCE and not first.start:
        extra["description"] = describe(first)
    return Reply(
        kind=Kind.DOCUMENT,
        media_type=find_media_type(wtype),
        size=None if first.ending is None else first.start + len(first.octets),
        start=first.start,
        extra=extra,
    )


def describe(chunk: Chunk) -> JsonValue:
    """Parse a source description; return None if it is malformed or longer than one chunk."""
    if chunk.ending is None:
        return None
    try:
        return parse_source_description(chunk.octets)
    except ProtocolError:
        return None


def _hit_findings(
    url: WaisUrl, records: WaisRecords, max_size: int, hits: int, limit: int
) -> Iterator[Finding]:
    """Yield a finding for no hits, or for possibly more hits than the server sent."""
    catalog = find_catalog(records)
    if catalog is not None:
        catalog_url = document_url(catalog, catalog.best_type, url)
        yield Finding("wais:no-result", "allow", f"no hits; the catalog is {catalog_url}")
    elif hits == 0:
        yield Finding("wais:no-result", "allow", "no hits")
    elif hits >= limit:
        yield Finding(
            "wais:more", "allow", f"{hits} hits received, as many as requested (entries); there may be more"
        )
    else:
        # `itemgetter` is faster than an attribute; a response may have thousands of records.
        largest = max(map(len, map(itemgetter(0), records.headers)))
        if max_size - len(records.octets) < max(_MIN_UNUSED * max_size, largest):
            yield Finding("wais:dropped", "warn", "the answer has its maximum size; there may be more hits")
