"""Hits of a WAIS search as entries with URLs, and the facts of a reply (wais page, section 11).

Our own builder writes a URL, from the host and database of the search, a type and an id. It has the spelling
of the RFC; the spelling of browsers is an extra, for readers that know no other.
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

# media types: What a document type says of the octets (wais page, section 9).

#: The type of a source description.
SOURCE = b"WSRC"
#: The headline of such a hit is a URL, and there is nothing to retrieve; or it is a title, and there is.
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
    """Of an unknown type nothing is known but that it has octets."""
    return _MEDIA_TYPES.get(wtype.upper(), "application/octet-stream")


#: Rule S20: the schemes that a server's text may lead to.
_LINKED_SCHEMES = frozenset({"http", "https", "ftp", "gopher", "news", "nntp", "wais", "telnet"})
_URL = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*):[\x21-\x7e]+")
#: What a request has room for: an id or type beyond that leads nowhere.
_LONGEST_ID, _LONGEST_TYPE = 2048, 64
_NO_RESULT = b"Search produced no result."
#: Two-digit years from here on are of the last century: no server is older.
_PIVOT = 70


class HitReader:
    """An `EntryReader` for the records that a search of `place` found; `place` is the URL searched.

    Records are read when the last octet has come: they are one message.
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
    """The catalogue that a server gives in place of hits where there are none, else None."""
    return records.headers[0] if len(records.headers) == 1 and _is_catalogue(records.headers[0]) else None


def _is_catalogue(only: DocumentHeader) -> bool:
    return only.score == 0 and (only.headline or b"").startswith(_NO_RESULT)


def hits_in(records: WaisRecords) -> tuple[DocumentHeader, ...]:
    """What was found: a catalogue in place of hits is none."""
    return records.headers if substitute_in(records) is None else ()


def read_hits(group: bytes) -> Iterator[DocumentHeader]:
    """The same out of the octets of the records, one after the other."""
    headers = (record for record in read_records(group) if isinstance(record, DocumentHeader))
    first = list(islice(headers, 2))
    if len(first) != 1 or not _is_catalogue(first[0]):
        yield from first
        yield from headers


def hit_entry(hit: DocumentHeader, place: WaisUrl) -> Entry:
    """The entry of a hit. Of a hit of type URL the headline is the address; it is told, never followed. A
    headline that is no such address is the title of a document, which has a URL as every other."""
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
    """Return the address in the headline of a hit of type URL; None for every other hit."""
    return linked_url(hit.headline or b"") if wtype.upper() == LINK else None


def _url_in(hit: DocumentHeader, wtype: bytes, place: WaisUrl) -> str | None:
    """Where the hit is had in one of its types: as type URL, where its headline says."""
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
    """The headline as a URL as it stands, if it may be one and of a scheme that is offered; else None."""
    found = _URL.fullmatch(headline)
    offered = found is not None and found[1].decode("ascii").lower() in _LINKED_SCHEMES
    return headline.decode("ascii") if offered else None


def document_url(hit: DocumentHeader, wtype: bytes, place: WaisUrl) -> str | None:
    """The URL of a document in one of its types; None where no request has room for what it names."""
    if len(hit.document_id) > _LONGEST_ID or len(wtype) > _LONGEST_TYPE:
        return None
    return _build(place, wtype, write_opaque(hit.document_id))


def libwww_url(hit: DocumentHeader, place: WaisUrl) -> str | None:
    """The URL as browsers wrote it; None where they could not have."""
    path = write_fields(hit.document_id, hit.length)
    return None if path is None or len(hit.document_id) > _LONGEST_ID else _build(place, hit.best_type, path)


def _build(place: WaisUrl, wtype: bytes, wpath: str) -> BuiltUrl:
    return BuiltUrl(f"{_build_database(place)}/{build_document(wtype, wpath)}")


@lru_cache(maxsize=1)  # the hits of a search are of one database
def _build_database(place: WaisUrl) -> str:
    database = replace(place, search=None, wtype=None, wpath=None)
    return build(replace(database, fragment=None, user=None, password=None))


def parse_date(date: bytes) -> datetime | None:
    """`yymmdd`, as servers send it, or `yyyymmdd`, as they were meant to; None for anything else."""
    if not (date.isdigit() and len(date) in (6, 8)):
        return None
    year = int(date[:-4])
    if len(date) == 6:
        year += 1900 if year >= _PIVOT else 2000
    try:
        return datetime(year, int(date[-4:-2]), int(date[-2:]), tzinfo=UTC)
    except ValueError:
        return None


#: With less room left in an answer than one more record may need, one may have been dropped: than the
#: largest of those that came, or this part of an answer of the usual size.
_LEFT_OUT = 0.015


def make_database_reply(url: WaisUrl, records: WaisRecords) -> Reply:
    """A database is both: its source description, and the records that a search without words finds."""
    return Reply(
        kind=Kind.SEARCH,
        media_type=SOURCE_MEDIA_TYPE,
        listing=HitReader(url),
        records=records.octets,
        extra={"records": len(records.headers)},
    )


def make_results_reply(url: WaisUrl, records: WaisRecords, agreed: int, most: int) -> Reply:
    """A result list, in an answer of at most `agreed` octets, where `most` hits were asked for."""
    hits = hits_in(records)
    return Reply(
        kind=Kind.DIRECTORY,
        listing=HitReader(url),
        extra={"hits": len(hits)},
        findings=list(_oddities(url, records, agreed, len(hits), most)),
        verified={"length"},
    )


def make_document_reply(url: WaisUrl, wtype: bytes, first: Chunk) -> Reply:
    """A document, of which the first chunk is here."""
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
    """A source description that is all in one chunk, read; None where it is not, or is none."""
    if chunk.ending is None:
        return None
    try:
        return parse_source_description(chunk.octets).as_json()
    except ProtocolError:
        return None


def _oddities(url: WaisUrl, records: WaisRecords, agreed: int, hits: int, most: int) -> Iterator[Finding]:
    """What a number of hits does not tell. Nothing says so when hits are left out of an answer."""
    catalogue = substitute_in(records)
    if catalogue is not None:
        there = document_url(catalogue, catalogue.best_type, url)
        yield Finding("wais:no-result", "allow", f"nothing was found; the catalogue is {there}")
    elif hits == 0:
        yield Finding("wais:no-result", "allow", "nothing was found")
    elif hits >= most:
        yield Finding("wais:more", "allow", f"{hits} hits came, as many as were asked for (--entries)")
    elif agreed - len(records.octets) < max(_LEFT_OUT * agreed, _find_largest(records)):
        yield Finding("wais:dropped", "warn", "the answer is as large as it may be; there may be more hits")


def _find_largest(records: WaisRecords) -> int:
    return max(map(len, map(itemgetter(0), records.headers)))  # their octets: there may be thousands
