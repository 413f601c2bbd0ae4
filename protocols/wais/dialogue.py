"""What is said for a wais URL: connect, agree on the size of messages, then search, retrieve, or both.

A result list is one search. A document is retrieved range by range. A database is a search without words,
whose answer names what the server has to say of it; its body is the source description among that,
retrieved when somebody wants it.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocols.errors import NotFound
from protocols.step import Connect, Dialogue, HandOver, Note
from protocols.wais.apdu import encode_retrieval, encode_word_search
from protocols.wais.document_id import parse_wpath
from protocols.wais.exchange import agree, search
from protocols.wais.media_types import SOURCE
from protocols.wais.message import LARGEST
from protocols.wais.record import Header, Records
from protocols.wais.retrieval import Document, retrieve
from protocols.wais.url import WaisUrl

#: Max-Documents-Retrieved where nobody says how many: what old clients asked for.
USUAL_HITS = 40
#: … and where all are wanted: more than fit into a message.
_ALL_HITS = 1_000

_NOTHING = Records(b"", (), (), ())


@dataclass(frozen=True, slots=True)
class Found(HandOver):
    """What a search found, in an answer of at most `agreed` octets."""

    records: Records = _NOTHING
    agreed: int = LARGEST


def converse(url: WaisUrl, *, hits: int | None = None, start: int = 0) -> Dialogue[None]:
    """The dialogue. It hands over a `Found`, or the `Chunk`s of a document, or for a database a `Found`
    and then the `Chunk`s of its source description; each wants no answer.

    `hits` is how many are wanted: 0 for all, None for the usual. A document begins behind `start` octets
    that are held already. Raises `Refused` (S02) before anything is done.
    """
    most = count_of(hits)
    if url.wpath is not None:
        document = document_of(url)
        encode_retrieval(document.database, document.document_id, document.wtype, 0, 1)
        yield Connect()
        yield from retrieve(document, (yield from agree()), start)
        return
    words = url.search or b""
    encode_word_search(url.database, words, most)
    yield Connect()
    agreed = yield from agree()
    if url.search is None:
        yield from _describe(url.database, most, agreed)
        return
    records = yield from search(url.database, words, most, agreed, _NOTHING)
    yield Found("the records as a listing", records=records, agreed=agreed)


def _describe(database: bytes, most: int, agreed: int) -> Dialogue[None]:
    described = Header(octets=b"", document_id=b"0", types=(SOURCE,))
    ideal = Records(b"", (described,), (), ())
    records = yield from search(database, b"", most, agreed, ideal)
    yield Found("the records as a listing", records=records, agreed=agreed)
    yield Note("a listing ends here; the document id that follows is the one that the answer names")
    source = next((header for header in records.headers if SOURCE in header.types), None)
    if source is None:
        raise NotFound("the server has no source description of this database")
    yield from retrieve(Document(database, source.document_id, SOURCE), agreed)


def count_of(hits: int | None) -> int:
    """Max-Documents-Retrieved."""
    return USUAL_HITS if hits is None else min(hits, _ALL_HITS) or _ALL_HITS


def document_of(url: WaisUrl) -> Document:
    """The document that a URL names. Browsers listed all types of a document in a URL; the first is
    asked for."""
    written = parse_wpath(url.wpath or "")
    wtype = url.wtype or b""
    return Document(url.database, written.octets, wtype.split(b",")[0] if written.in_fields else wtype)
