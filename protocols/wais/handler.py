"""Opening a wais URL: where the pure parts meet a connection."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from protocols.body import Octets
from protocols.contract import Finding, Gate, JsonValue, Kind, Reply
from protocols.conversation import Conversation
from protocols.errors import Declined, ProtocolError
from protocols.wais.chunks import ChunkBody
from protocols.wais.dialogue import Found, converse, count_of, document_of
from protocols.wais.document_id import parse_wpath
from protocols.wais.entries import HitReader, document_url, hits_in, substitute_in
from protocols.wais.media_types import SOURCE, SOURCE_MEDIA_TYPE, media_type_of
from protocols.wais.record import Records
from protocols.wais.retrieval import Chunk
from protocols.wais.source_description import parse_source_description
from protocols.wais.url import WaisUrl

#: With less room left in an answer than one more record may need, one may have been dropped: than the
#: largest of those that came, or this part of an answer of the usual size.
_LEFT_OUT = 0.015


@asynccontextmanager
async def open_wais(url: WaisUrl, gate: Gate) -> AsyncIterator[Reply]:
    """The reply to a wais URL, while its connection lives: a document, a result list, or a database,
    which is both: its source description, and the records that a search without words finds.

    Raises `Declined` by the server's diagnostics, `ProtocolError`, and `Disconnected` where the server
    hangs up without an answer. A document that ends early is `Truncated`, by its body.
    """
    options = gate.options
    async with Conversation(converse(url, hits=options.entries, start=options.start), gate) as conversation:
        handed = await conversation.run()
        if isinstance(handed, Found):
            if url.search is None:
                yield await _database(url, handed.records, conversation, gate)
            else:
                yield _listing(url, handed, gate)
        else:
            assert isinstance(handed, Chunk)
            yield _document(url, handed, conversation)


async def _database(url: WaisUrl, records: Records, conversation: Conversation[None], gate: Gate) -> Reply:
    reply = Reply(
        kind=Kind.SEARCH,
        body=Octets(),
        media_type=SOURCE_MEDIA_TYPE,
        listing=HitReader(url),
        records=Octets(records.octets),
        extra={"records": len(records.headers)},
    )
    if gate.options.want == "facts":
        reply.extra = {**(reply.extra or {}), "description": await _description(conversation)}
    else:
        reply.body = ChunkBody(conversation, None, reply.findings, reply.verified)
    return reply


async def _description(conversation: Conversation[None]) -> JsonValue:
    """What the source description says, if the server has one and it is short enough for one answer."""
    try:
        chunk = await conversation.resume(None)
    except Declined:
        return None
    assert isinstance(chunk, Chunk)
    return describe(chunk)


def describe(chunk: Chunk) -> JsonValue:
    """A source description that is all in one chunk, read; None where it is not, or is none."""
    if chunk.ending is None:
        return None
    try:
        return parse_source_description(chunk.octets).as_json()
    except ProtocolError:
        return None


def _listing(url: WaisUrl, found: Found, gate: Gate) -> Reply:
    hits = hits_in(found.records)
    return Reply(
        kind=Kind.DIRECTORY,
        body=Octets(found.records.octets),
        listing=HitReader(url),
        extra={"hits": len(hits)},
        findings=list(_oddities(url, found, len(hits), count_of(gate.options.entries))),
        verified={"length"},
    )


def _oddities(url: WaisUrl, found: Found, hits: int, most: int) -> Iterator[Finding]:
    """What a number of hits does not tell. Nothing says so when hits are left out of an answer."""
    catalogue = substitute_in(found.records)
    if catalogue is not None:
        there = document_url(catalogue, catalogue.best_type, url)
        yield Finding("wais:no-result", "allow", f"nothing was found; the catalogue is {there}")
    elif hits == 0:
        yield Finding("wais:no-result", "allow", "nothing was found")
    elif hits >= most:
        yield Finding("wais:more", "allow", f"{hits} hits came, as many as were asked for (--entries)")
    elif found.agreed - len(found.records.octets) < max(_LEFT_OUT * found.agreed, _largest(found.records)):
        yield Finding("wais:dropped", "warn", "the answer is as large as it may be; there may be more hits")


def _largest(records: Records) -> int:
    return max(len(header.octets) for header in records.headers)


def _document(url: WaisUrl, first: Chunk, conversation: Conversation[None]) -> Reply:
    wtype = document_of(url).wtype
    extra: dict[str, JsonValue] = {"type": wtype.decode("latin-1")}
    announced = parse_wpath(url.wpath or "").length
    if announced is not None:
        extra["announced_length"] = announced
    if wtype == SOURCE and not first.at:
        extra["description"] = describe(first)
    reply = Reply(
        kind=Kind.DOCUMENT,
        body=Octets(),
        media_type=media_type_of(wtype),
        size=None if first.ending is None else first.at + len(first.octets),
        start=first.at,
        extra=extra,
    )
    reply.body = ChunkBody(conversation, first, reply.findings, reply.verified)
    return reply
