"""What the answers of a server tell of a document, a result list or a database, before its body is read."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from protocols.errors import ProtocolError
from protocols.location import Finding, JsonValue, Kind
from protocols.reply import Reply
from protocols.wais.document_id import parse_wpath
from protocols.wais.entries import HitReader, document_url, hits_in, substitute_in
from protocols.wais.media_types import SOURCE, SOURCE_MEDIA_TYPE, media_type_of
from protocols.wais.record import WaisRecords
from protocols.wais.retrieval import Chunk
from protocols.wais.source_description import parse_source_description
from protocols.wais.url import WaisUrl

#: With less room left in an answer than one more record may need, one may have been dropped: than the
#: largest of those that came, or this part of an answer of the usual size.
_LEFT_OUT = 0.015


def of_database(url: WaisUrl, records: WaisRecords) -> Reply:
    """A database is both: its source description, and the records that a search without words finds."""
    return Reply(
        kind=Kind.SEARCH,
        media_type=SOURCE_MEDIA_TYPE,
        listing=HitReader(url),
        records=records.octets,
        extra={"records": len(records.headers)},
    )


def of_results(url: WaisUrl, records: WaisRecords, agreed: int, most: int) -> Reply:
    """A result list, in an answer of at most `agreed` octets, where `most` hits were asked for."""
    hits = hits_in(records)
    return Reply(
        kind=Kind.DIRECTORY,
        listing=HitReader(url),
        extra={"hits": len(hits)},
        findings=list(_oddities(url, records, agreed, len(hits), most)),
        verified={"length"},
    )


def of_document(url: WaisUrl, wtype: bytes, first: Chunk) -> Reply:
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
    elif agreed - len(records.octets) < max(_LEFT_OUT * agreed, _largest(records)):
        yield Finding("wais:dropped", "warn", "the answer is as large as it may be; there may be more hits")


def _largest(records: WaisRecords) -> int:
    return max(map(len, map(itemgetter(0), records.headers)))  # their octets: there may be thousands
