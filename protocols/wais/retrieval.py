"""The retrieval of one WAIS document, range by range, to its true end (wais page, section 7).

A server never sends the length of a document; the length in a search result is the length of the first type
only. The client therefore requests full ranges until a response is shorter, or reports that the range reaches
beyond the end. If a response does not fit into a message, the server sends a message of length 0; the client
then requests smaller ranges.
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

# One request and its complete response. A dialogue waits for the response before the next request: a WAIS
# server that receives a request earlier drops it and closes the connection (wais page, section 1). The first
# request negotiates the size of messages.


def read_init_response(buffer: Buffer) -> Generator[Rest | None, None, InitResponse | None]:
    """Read the Init response; None for a message of length 0."""
    apdu = yield from read_message(LARGEST)(buffer)
    return parse_init_response(apdu) if apdu else None


def read_records(limit: int) -> Reader[WaisRecords | None]:
    """Return a reader for the answer to a search; its value is None for a message of length 0."""

    def reader(buffer: Buffer) -> Generator[Rest | None, None, WaisRecords | None]:
        apdu = yield from read_message(limit)(buffer)
        return (yield from sort_records(parse_search_response(apdu).records)) if apdu else None

    return reader


def agree() -> Dialogue[int]:
    """Negotiate the maximum size of an APDU: the smaller limit of the client and the server.

    A server that does not support Init responds with length 0. Its limit is then assumed to be equal to the
    client's limit.
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
    """Return the records of a search for terms; raise an error for any diagnostic, even with records."""
    yield Send((encode_message(request),))
    willing: WaisRecords | None = ideal
    records = yield from receive(read_records(agreed), "Search-Response: records of the hits", willing)
    if records is None:
        raise Declined("the server cannot answer this search: it gave no reason")
    if records.diagnostics:
        raise refusal(records.diagnostics, "the search")
    return records


#: The size in bytes of a range, as all old clients requested it; every server supports this size.
LARGEST_CHUNK = 10_000
#: The maximum size in bytes of a response, besides the document's bytes and id: at most 37 were observed.
_ROOM = 100
_MOST_HALVINGS = 6
#: The maximum number of text lengths that an error message lists.
_MOST_LENGTHS = 5


class WaisDocument(NamedTuple):
    """The requested document: its database, its id at the server, and one of its types."""

    database: bytes
    document_id: bytes
    wtype: bytes


class DocumentEnding(enum.Enum):
    """How the end of a document was recognized."""

    TOLD = "the server reported the end"
    SHORT = "the last answer was shorter than requested, without a reason"
    DECLINED = "the server declined the next range, without mention of the end"
    EMPTY = "the next answer had neither bytes nor a reason"


class Chunk(NamedTuple):
    """The next bytes of the document, which begin at its byte `at`.

    If `ending` is set, these bytes are the last. `failed` has the server's diagnostics if more bytes should
    follow but do not.
    """

    what: str
    at: int
    octets: bytes
    ending: DocumentEnding | None
    failed: tuple[Diagnostic, ...] = ()


_WILLING = WaisRecords(b"", (), (b"",), (Diagnostic("SF", "Request out of range", True),))


class DocumentChunks:
    """The chunks of a document, each requested when it is needed.

    With a `start` the chunks begin there, if the byte before `start` exists, else at byte 0. `SF` (out of
    range) may also mean that the document is gone. To distinguish the two, the last byte that the caller
    holds is requested again.
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
        """Return the next chunk; a chunk with an `ending`, or one that `failed`, is the last."""
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
    """Emit this chunk and the following chunks, each before the next is requested.

    A document is proved complete only if the server reports its end (`terminator`). The length in a search
    result is the length of the first type, and proves nothing.

    Raises:
        Truncated: The connection ended after the first byte.
        Declined: A diagnostic reports that a chunk failed.
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
    """Return the number of bytes to request at a time.

    Raises:
        ProtocolError: The server's maximum message size is too small for any byte of the document.
    """
    size = min(LARGEST_CHUNK, agreed - len(document.document_id) - _ROOM)
    if size < 1:
        raise ProtocolError(f"the server's message limit of {agreed} bytes is too small for a document")
    return size


def _request(document: WaisDocument, at: int, size: int, agreed: int) -> Dialogue[tuple[WaisRecords, int]]:
    """Return a response for the range that starts at `at`, and the size of this range."""
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
    """Return the text in an answer, or None without a text.

    Raises:
        ProtocolError: The answer has more text than was requested.
    """
    if not records.texts:
        return None
    if len(records.texts) > 1 or len(records.texts[0]) > size:
        lengths = " and ".join(f"{len(text)}" for text in records.texts[:_MOST_LENGTHS])
        raise ProtocolError(f"expected a text of at most {size} bytes, got texts of {lengths} bytes")
    return records.texts[0]


def _find_ending(diagnostics: Sequence[Diagnostic], short: bool) -> DocumentEnding | None:
    """Return how a response with text, and without a diagnostic except `SF`, ends the document, or None."""
    if diagnostics:
        return DocumentEnding.TOLD
    return DocumentEnding.SHORT if short else None


def _find_ending_without_text(diagnostics: Sequence[Diagnostic], at: int) -> DocumentEnding:
    """Return how a response without a text ends the document; raise an error if the document does not end."""
    if any(not each.is_out_of_range for each in diagnostics):
        raise refusal(diagnostics, f"the document from byte {at} on")
    if any(each.reports_the_end for each in diagnostics):
        return (
            DocumentEnding.TOLD
            # At byte 0, `SF` means an empty document. For a missing document the server's text differs.
        )
    if at == 0 and diagnostics:
        raise make_not_found(diagnostics[0], "the document")
    if at == 0:
        raise ProtocolError("the answer has neither bytes of the document nor a reason")
    return DocumentEnding.DECLINED if diagnostics else DocumentEnding.EMPTY
