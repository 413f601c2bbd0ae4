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
    MAX_APDU,
    InitResponse,
    WaisDocument,
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
    apdu = yield from read_message(MAX_APDU)(buffer)
    return parse_init_response(apdu) if apdu else None


def read_records(limit: int) -> Reader[WaisRecords | None]:
    """Return a reader for the response to a search. It returns None for a message of length 0."""

    def reader(buffer: Buffer) -> Generator[Rest | None, None, WaisRecords | None]:
        apdu = yield from read_message(limit)(buffer)
        return (yield from sort_records(parse_search_response(apdu))) if apdu else None

    return reader


def negotiate_size() -> Dialogue[int]:
    """Negotiate the maximum size of an APDU: the smaller limit of client and server.

    A server that does not support Init responds with a message of length 0. The client then uses its own
    limit.
    """
    yield Send((encode_message(encode_init(MAX_APDU)),))
    expected: InitResponse | None = InitResponse(accepted=True, size=MAX_APDU)
    response = yield from receive(read_init_response, "Init-Response: the maximum message size", expected)
    if response is None:
        return MAX_APDU
    if not response.accepted:
        raise Declined("the server refused the session: the result of its Init-Response is 0", code="0")
    return MAX_APDU if response.size is None else min(response.size, MAX_APDU)


def search(request: bytes, max_size: int, ideal: WaisRecords) -> Dialogue[WaisRecords]:
    """Send a search for terms, and return the records. A diagnostic is an error, even beside records."""
    yield Send((encode_message(request),))
    expected: WaisRecords | None = ideal
    records = yield from receive(read_records(max_size), "Search-Response: records of the hits", expected)
    if records is None:
        raise Declined("the server cannot answer this search: it gave no reason")
    if records.diagnostics:
        raise refusal(records.diagnostics, "the search")
    return records


#: The size of a requested range in bytes. Old clients used this size, so every server supports it.
MAX_CHUNK = 10_000
#: The maximum overhead of a response in bytes, without the document's bytes and id. The largest measured
#: overhead is 37 bytes.
_OVERHEAD = 100
_MAX_HALVINGS = 6
#: The maximum number of text lengths that an error message lists.
_MAX_LENGTHS = 5


class DocumentEnding(enum.Enum):
    """The kind of response that ended a document."""

    REPORTED = "the server reported the end"
    SHORT = "the last answer was shorter than requested, without a reason"
    DECLINED = "the server declined the next range, without mention of the end"
    EMPTY = "the next answer had neither bytes nor a reason"


class Chunk(NamedTuple):
    """A range of the document.

    Attributes:
        start: The offset of the first byte in the document.
        octets: The bytes of the range.
        ending: How the end of the document was detected; None if this chunk is not the last.
        errors: The diagnostics of the server if an error ended the document early.
    """

    label: str
    start: int
    octets: bytes
    ending: DocumentEnding | None
    errors: tuple[Diagnostic, ...] = ()


_EXPECTED_RECORDS = WaisRecords(b"", (), (b"",), (Diagnostic("SF", "Request out of range"),))


class DocumentChunks:
    """The chunks of a document; each chunk is requested when the caller needs it.

    The chunks begin at the offset `start` to resume a partial document. The first request also includes the
    byte before `start`, to distinguish the end of the document from a removed document. Servers report both
    with the diagnostic `SF` (out of range). If this byte is missing, the chunks begin at offset 0.
    """

    def __init__(self, document: WaisDocument, max_size: int, start: int = 0) -> None:
        self._document = document
        self._max_size = max_size
        self._size = chunk_size(document, max_size)
        self._offset = max(0, start - 1)
        self._overlap = start - self._offset

    def fetch_first(self) -> Dialogue[Chunk]:
        yield PlanNote(
            f"after an answer of {self._size} bytes the next {self._size} are requested, until an answer is"
            " shorter or reports the end"
        )
        return (yield from self.fetch_next())

    def fetch_next(self) -> Dialogue[Chunk]:
        """Request the next chunk. A chunk with `ending` or `errors` is the last chunk."""
        records, self._size = yield from _request(self._document, self._offset, self._size, self._max_size)
        text = _check_text(records, self._size)
        if self._overlap and not text:
            self._offset, self._overlap = 0, 0
            return (yield from self.fetch_next())
        if text is None:
            last = _find_ending_without_text(records.diagnostics, self._offset)
            return Chunk("the end of the document", self._offset, b"", last)
        errors = tuple(diagnostic for diagnostic in records.diagnostics if not diagnostic.is_out_of_range)
        ending = None if errors else _find_ending(records.diagnostics, len(text) < self._size)
        start = self._offset + self._overlap
        chunk = Chunk(f"the document from byte {start} on", start, text[self._overlap :], ending, errors)
        self._offset, self._overlap = self._offset + self._size, 0
        return chunk


def emit_chunks(chunks: DocumentChunks, chunk: Chunk, reply: Reply) -> Dialogue[None]:
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
        yield EmitBody(chunk.octets, chunk.label)
        received += len(chunk.octets)
        if chunk.errors:
            raise refusal(chunk.errors, chunk.label)
        if chunk.ending is not None:
            _report(chunk.ending, reply)
            return
        try:
            chunk = yield from chunks.fetch_next()
        except Disconnected as error:
            if not received:
                raise
            message = f"after {received} bytes of the document: {error.message}"
            raise Truncated(message, received=received) from error


def _report(ending: DocumentEnding, reply: Reply) -> None:
    if ending is DocumentEnding.REPORTED:
        reply.verified.add("terminator")
    else:
        detail = f"{ending.value}; the document may be truncated"
        reply.findings.append(Finding("wais:end-not-told", "warn", detail))


def chunk_size(document: WaisDocument, max_size: int) -> int:
    """Return the size in bytes of a range to request.

    Raises:
        ProtocolError: The server's maximum message size is too small for a range of one byte.
    """
    size = min(MAX_CHUNK, max_size - len(document.document_id) - _OVERHEAD)
    if size < 1:
        raise ProtocolError(f"the server's message limit of {max_size} bytes is too small for a document")
    return size


def _request(document: WaisDocument, at: int, size: int, max_size: int) -> Dialogue[tuple[WaisRecords, int]]:
    """Request the range at offset `at`, and return the records and the size of the range.

    The size is halved until the response fits into a message.
    """
    expected: WaisRecords | None = _EXPECTED_RECORDS
    for _ in range(_MAX_HALVINGS + 1):
        octets = encode_retrieval(document, at, at + size)
        yield Send((encode_message(octets),))
        label = f"Search-Response: bytes {at} to {at + size - 1} of the document"
        records = yield from receive(read_records(max_size), label, expected)
        if records is not None:
            return records, size
        if size == 1:
            break
        size //= 2
    raise Declined(f"the server cannot answer any range from byte {at} on")


def _check_text(records: WaisRecords, size: int) -> bytes | None:
    """Return the text in a response.

    The result is `None` without a text.

    Raises:
        ProtocolError: The response has more text than requested.
    """
    if not records.texts:
        return None
    if len(records.texts) > 1 or len(records.texts[0]) > size:
        lengths = " and ".join(f"{len(text)}" for text in records.texts[:_MAX_LENGTHS])
        raise ProtocolError(f"expected a text of at most {size} bytes, got texts of {lengths} bytes")
    return records.texts[0]


def _find_ending(diagnostics: Sequence[Diagnostic], short: bool) -> DocumentEnding | None:
    """Return the ending that a response with text shows, or None if the document has more bytes.

    A response with text may contain only the diagnostic `SF` (out of range).
    """
    if diagnostics:
        return DocumentEnding.REPORTED
    return DocumentEnding.SHORT if short else None


def _find_ending_without_text(diagnostics: Sequence[Diagnostic], at: int) -> DocumentEnding:
    """Return the ending that a response without text shows, or raise its error."""
    if any(not diagnostic.is_out_of_range for diagnostic in diagnostics):
        raise refusal(diagnostics, f"the document from byte {at} on")
    if any(diagnostic.reports_end for diagnostic in diagnostics):
        return DocumentEnding.REPORTED
    if at == 0 and diagnostics:  # `SF` at offset 0 with another text: the document is missing
        raise make_not_found(diagnostics[0], "the document")
    if at == 0:
        raise ProtocolError("the answer has neither bytes of the document nor a reason")
    return DocumentEnding.DECLINED if diagnostics else DocumentEnding.EMPTY
