"""The retrieval of one WAIS document by range requests (wais page, section 7).

The length of a document is unknown. A search result contains a length only for the first type of the
document. Therefore the client requests ranges of equal size until the document ends. The last response is
shorter than the requested range, or reports that the range exceeds the document. If a response does not fit
into a message, the server sends a message of length 0. The client then requests smaller ranges.
"""

from __future__ import annotations

import enum
from collections.abc import Generator, Sequence
from typing import NamedTuple

from protocols.contract import Reply
from protocols.errors import Declined, Disconnected, ProtocolError, Truncated
from protocols.location import Finding
from protocols.step import Dialogue, EmitBody, PlanNote, Send, receive
from protocols.wais.apdu import (
    LARGEST,
    InitResponse,
    encode_init,
    encode_retrieval,
    parse_init_response,
    parse_search_response,
    read_message,
)
from protocols.wais.record import Diagnostic, WaisRecords, make_not_found, refusal, sort_records
from protocols.wire import Buffer, Reader, Rest, encode_message

# One request and its complete response. The client does not pipeline requests (wais page, section 1). If a
# request arrives before the previous response was sent, a WAIS server drops the request and closes the
# connection. The first request negotiates the message size.


def read_init_response(buffer: Buffer) -> Generator[Rest | None, None, InitResponse | None]:
    """Read the Init response; return None for a message of length 0."""
    apdu = yield from read_message(LARGEST)(buffer)
    return parse_init_response(apdu) if apdu else None


def read_records(limit: int) -> Reader[WaisRecords | None]:
    """Return a reader for the response to a search. It returns None for a message of length 0."""

    def reader(buffer: Buffer) -> Generator[Rest | None, None, WaisRecords | None]:
        apdu = yield from read_message(limit)(buffer)
        return (yield from sort_records(parse_search_response(apdu))) if apdu else None

    return reader


def agree() -> Dialogue[int]:
    """Negotiate the maximum size of an APDU.

    The result is the smaller limit of the client and the server.

    A server that does not support Init responds with a message of length 0. The client then uses its own
    limit.
    """
    yield Send((encode_message(encode_init(LARGEST)),))
    willing: InitResponse | None = InitResponse(accepted=True, size=LARGEST)
    answer = yield from receive(read_init_response, "Init-Response: the maximum message size", willing)
    if answer is None:
        return LARGEST
    if not answer.accepted:
        raise Declined("the server refused the session: the result of its Init-Response is 0", code="0")
    return LARGEST if answer.size is None else min(answer.size, LARGEST)


def search(request: bytes, agreed: int, ideal: WaisRecords) -> Dialogue[WaisRecords]:
    """Send a search for terms, and return the records of the response.

    A diagnostic in the response raises an error, even if the response also has records.
    """
    yield Send((encode_message(request),))
    willing: WaisRecords | None = ideal
    records = yield from receive(read_records(agreed), "Search-Response: records of the hits", willing)
    if records is None:
        raise Declined("the server cannot answer this search: it gave no reason")
    if records.diagnostics:
        raise refusal(records.diagnostics, "the search")
    return records


#: The size of a requested range in bytes. Old clients used this size, so every server supports it.
LARGEST_CHUNK = 10_000
#: The maximum overhead of a response in bytes, without the document's bytes and id. The largest measured
#: overhead is 37 bytes.
_ROOM = 100
_MOST_HALVINGS = 6
#: The maximum number of text lengths that an error message lists.
_MOST_LENGTHS = 5


class WaisDocument(NamedTuple):
    """The requested document: the database, the document id, and one of the document's types."""

    database: bytes
    document_id: bytes
    wtype: bytes


class DocumentEnding(enum.Enum):
    """The kind of response that ended a document."""

    TOLD = "the server reported the end"
    SHORT = "the last answer was shorter than requested, without a reason"
    DECLINED = "the server declined the next range, without mention of the end"
    EMPTY = "the next answer had neither bytes nor a reason"


class Chunk(NamedTuple):
    """A range of the document.

    Attributes:
        at: The offset of the first byte in the document.
        octets: The bytes of the range.
        ending: How the end of the document was detected; None if this chunk is not the last.
        failed: The diagnostics of the server if an error ended the document early.
    """

    what: str
    at: int
    octets: bytes
    ending: DocumentEnding | None
    failed: tuple[Diagnostic, ...] = ()


_WILLING = WaisRecords(b"", (), (b"",), (Diagnostic("SF", "Request out of range"),))


class DocumentChunks:
    """The chunks of a document; each chunk is requested when the caller needs it.

    The chunks begin at the offset `start` to resume a partial document. The first request also includes the
    byte before `start`, to distinguish the end of the document from a removed document. Servers report both
    with the diagnostic `SF` (out of range). If this byte is missing, the chunks begin at offset 0.
    """

    def __init__(self, document: WaisDocument, agreed: int, start: int = 0) -> None:
        self._document = document
        self._agreed = agreed
        self._size = chunk_size(document, agreed)
        self._at = max(0, start - 1)
        self._held = start - self._at

    def fetch_first(self) -> Dialogue[Chunk]:
        yield PlanNote(
            f"after an answer of {self._size} bytes the next {self._size} are requested, until an answer is"
            " shorter or reports the end"
        )
        return (yield from self.fetch_next())

    def fetch_next(self) -> Dialogue[Chunk]:
        """Request the next chunk. A chunk with `ending` or `failed` is the last chunk."""
        records, self._size = yield from _request(self._document, self._at, self._size, self._agreed)
        text = _text_of(records, self._size)
        if self._held and not text:
            self._at, self._held = 0, 0
            return (yield from self.fetch_next())
        if text is None:
            last = _find_ending_without_text(records.diagnostics, self._at)
            return Chunk("the end of the document", self._at, b"", last)
        failed = tuple(each for each in records.diagnostics if not each.is_out_of_range)
        ending = None if failed else _find_ending(records.diagnostics, len(text) < self._size)
        at = self._at + self._held
        chunk = Chunk(f"the document from byte {at} on", at, text[self._held :], ending, failed)
        self._at, self._held = self._at + self._size, 0
        return chunk


def give(ranges: DocumentChunks, chunk: Chunk, reply: Reply) -> Dialogue[None]:
    """Emit a chunk, and request and emit the following chunks.

    Only a response that reports the end of the document proves that the document is complete (`terminator`).
    The length in a search result does not prove this, because the length in a search result belongs to the
    document's first type.

    Raises:
        Truncated: The connection ended after the first byte of the document.
        Declined: The server sent a diagnostic for a chunk.
    """
    received = 0
    while True:
        yield EmitBody(chunk.octets, chunk.what)
        received += len(chunk.octets)
        if chunk.failed:
            raise refusal(chunk.failed, chunk.what)
        if chunk.ending is not None:
            _report(chunk.ending, reply)
            return
        try:
            chunk = yield from ranges.fetch_next()
        except Disconnected as error:
            if not received:
                raise
            message = f"after {received} bytes of the document: {error.message}"
            raise Truncated(message, received=received) from error


def _report(ending: DocumentEnding, reply: Reply) -> None:
    if ending is DocumentEnding.TOLD:
        reply.verified.add("terminator")
    else:
        detail = f"{ending.value}; the document may be truncated"
        reply.findings.append(Finding("wais:end-not-told", "warn", detail))


def chunk_size(document: WaisDocument, agreed: int) -> int:
    """Return the size in bytes of a range to request.

    Raises:
        ProtocolError: The server's maximum message size is too small for a range of one byte.
    """
    size = min(LARGEST_CHUNK, agreed - len(document.document_id) - _ROOM)
    if size < 1:
        raise ProtocolError(f"the server's message limit of {agreed} bytes is too small for a document")
    return size


def _request(document: WaisDocument, at: int, size: int, agreed: int) -> Dialogue[tuple[WaisRecords, int]]:
    """Request the range at offset `at`.

    Return the records and the size of the range.

    The size is halved until the response fits into a message.
    """
    willing: WaisRecords | None = _WILLING
    for _ in range(_MOST_HALVINGS + 1):
        octets = encode_retrieval(document.database, document.document_id, document.wtype, at, at + size)
        yield Send((encode_message(octets),))
        what = f"Search-Response: bytes {at} to {at + size - 1} of the document"
        records = yield from receive(read_records(agreed), what, willing)
        if records is not None:
            return records, size
        if size == 1:
            break
        size //= 2
    raise Declined(f"the server cannot answer any range from byte {at} on")


def _text_of(records: WaisRecords, size: int) -> bytes | None:
    """Return the text in a response.

    The result is `None` without a text.

    Raises:
        ProtocolError: The response has more text than requested.
    """
    if not records.texts:
        return None
    if len(records.texts) > 1 or len(records.texts[0]) > size:
        lengths = " and ".join(f"{len(text)}" for text in records.texts[:_MOST_LENGTHS])
        raise ProtocolError(f"expected a text of at most {size} bytes, got texts of {lengths} bytes")
    return records.texts[0]


def _find_ending(diagnostics: Sequence[Diagnostic], short: bool) -> DocumentEnding | None:
    """Return the kind of ending that a response with text shows.

    The result is `None` if the document has more bytes.

    A response with text may contain only the diagnostic `SF` (out of range).
    """
    if diagnostics:
        return DocumentEnding.TOLD
    return DocumentEnding.SHORT if short else None


def _find_ending_without_text(diagnostics: Sequence[Diagnostic], at: int) -> DocumentEnding:
    """Return the kind of ending that a response without text shows.

    An error is raised if the response reports a failure or a missing document.
    """
    if any(not each.is_out_of_range for each in diagnostics):
        raise refusal(diagnostics, f"the document from byte {at} on")
    if any(each.reports_the_end for each in diagnostics):
        return (
            DocumentEnding.TOLD
            # At offset 0, `SF` means an empty document. The exception is a text which says that the document
            # is missing.
        )
    if at == 0 and diagnostics:
        raise make_not_found(diagnostics[0], "the document")
    if at == 0:
        raise ProtocolError("the answer has neither bytes of the document nor a reason")
    return DocumentEnding.DECLINED if diagnostics else DocumentEnding.EMPTY
