"""The protocol exchange for a wais URL: connect, negotiate the message size, then search or retrieve.

- A search URL needs one search request; the response is the list of hits.
- A document URL needs one request for each range of the document.
- A database URL needs an empty search. The response lists documents about the database. One of these
  documents, the source description, is the body of the reply. The client retrieves the source description
  only if the caller requests the body.
"""

from __future__ import annotations

from dataclasses import replace

from protocols.errors import Declined, InvalidUrl, NotFound, TimedOut
from protocols.location import JsonValue
from protocols.options import Limits, Options
from protocols.step import Connect, Dialogue, EmitBody, PlanNote, StartBody
from protocols.wais.apdu import WaisDocument, encode_retrieval, encode_word_search
from protocols.wais.listing import (
    SOURCE,
    describe,
    make_database_reply,
    make_document_reply,
    make_results_reply,
)
from protocols.wais.record import DocumentHeader, WaisRecords
from protocols.wais.retrieval import DocumentChunks, emit_chunks, negotiate_size, search
from protocols.wais.url import WaisUrl, parse_wpath

#: The default of Max-Documents-Retrieved, the value of old WAIS clients.
DEFAULT_HITS = 40
#: The value of Max-Documents-Retrieved that requests all hits: more hits than fit into a response.
_ALL_HITS = 1_000

#: The maximum number of documents for relevance feedback; more documents do not improve the search.
_MAX_RELEVANT = 16

_NO_RECORDS = WaisRecords(b"", (), (), ())
_RECORDS = "the records as a listing"


def converse(url: WaisUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[None]:
    """Return the dialogue that retrieves a document, a result list, or a database.

    The reply for a database has the source description of the database, and the records found by an empty
    search.

    Raises:
        InvalidUrl: The document's id is empty.
        Refused: The request is unsafe (S02, command injection). No connection was made.
        Declined: The server sends a diagnostic.
        ProtocolError: A response is malformed.
        Disconnected: The server closes the connection without a response.
    """
    options = options or Options()
    if url.wpath is not None:
        yield from _retrieve(url, make_document(url), options.start)
        return
    max_hits = choose_max_documents(options.entries)
    request = encode_word_search(url.database, url.search or b"", max_hits, _parse_relevant(options))
    yield Connect()
    max_size = yield from negotiate_size()
    if url.search is None:
        yield from _describe_database(url, request, max_size, options)
        return
    records = yield from search(request, max_size, _NO_RECORDS)
    yield StartBody(make_results_reply(url, records, max_size, max_hits))
    yield EmitBody(records.octets, _RECORDS)


def _retrieve(url: WaisUrl, document: WaisDocument, start: int) -> Dialogue[None]:
    _check_named(url, document)
    encode_retrieval(document, 0, 1)
    yield Connect()
    chunks = DocumentChunks(document, (yield from negotiate_size()), start)
    first = yield from chunks.fetch_first()
    reply = make_document_reply(url, document.wtype, first)
    yield StartBody(reply)
    yield from emit_chunks(chunks, first, reply)


def _check_named(url: WaisUrl, document: WaisDocument) -> None:
    """Check that the document id is not empty.

    RFC 1738 allows an empty document id, but a server crashes when it receives an empty id.
    """
    if not document.document_id:
        place = url.place("wpath")
        where = len(url.text) if place is None else place.start
        raise InvalidUrl("missing-path", where, "cannot request a document without an id (nothing is sent)")


def _parse_relevant(options: Options) -> list[WaisDocument]:
    """Return the documents for relevance feedback.

    Raises:
        InvalidUrl: A URL in `options.relevant` is not the URL of a WAIS document.
    """
    documents: list[WaisDocument] = []
    for url in options.relevant[:_MAX_RELEVANT]:
        if not isinstance(url, WaisUrl):
            raise InvalidUrl("missing-path", len(url.text), "relevant documents must be wais URLs")
        document = make_document(url)
        _check_named(url, document)
        documents.append(document)
    return documents


def _describe_database(url: WaisUrl, request: bytes, max_size: int, options: Options) -> Dialogue[None]:
    source = DocumentHeader(octets=b"", document_id=b"0", types=(SOURCE,))
    ideal = WaisRecords(b"", (source,), (), ())
    records = yield from search(request, max_size, ideal)
    reply = make_database_reply(url, records)
    if options.want == "facts":
        description = yield from _fetch_description(url, records, max_size)
        yield StartBody(replace(reply, extra={**(reply.extra or {}), "description": description}))
        return
    yield StartBody(reply)
    yield EmitBody(b"", _RECORDS)
    yield PlanNote("a listing ends here; the document id that follows stands for the one in the answer")
    chunks = _find_source(url, records, max_size)
    yield from emit_chunks(chunks, (yield from chunks.fetch_first()), reply)


def _fetch_description(url: WaisUrl, records: WaisRecords, max_size: int) -> Dialogue[JsonValue]:
    """Return the parsed source description of a database.

    The result is `None` if the description is missing or too long, or if the server does not respond.
    """
    try:
        return describe((yield from _find_source(url, records, max_size).fetch_first()))
    except (Declined, TimedOut):
        return None


def _find_source(url: WaisUrl, records: WaisRecords, max_size: int) -> DocumentChunks:
    source = next((header for header in records.headers if SOURCE in header.types), None)
    if source is None:
        raise NotFound("the server has no source description of this database")
    return DocumentChunks(WaisDocument(url.database, source.document_id, SOURCE), max_size)


def choose_max_documents(hits: int | None) -> int:
    """Return the value of Max-Documents-Retrieved that requests `hits` hits."""
    return DEFAULT_HITS if hits is None else min(hits, _ALL_HITS) or _ALL_HITS


def make_document(url: WaisUrl) -> WaisDocument:
    """Return the document that a URL names.

    Old browsers wrote all types of a document into its URL. If a URL has several types, the first type is
    requested.
    """
    path = parse_wpath(url.wpath or "")
    wtype = url.wtype or b""
    return WaisDocument(url.database, path.octets, wtype.split(b",")[0] if path.in_fields else wtype)
