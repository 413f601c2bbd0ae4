"""One document, range by range, to its true end (wais page, section 7).

A server never says how long a document is: what a search says holds for its first type only. So full
ranges are asked for until an answer is short, or says that the range reaches beyond the end. A server that
cannot fit an answer into a message says so with length 0; then smaller ranges are asked for.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from protocols.errors import Declined, ProtocolError
from protocols.step import Dialogue, HandOver, Note, Say, hear
from protocols.wais.apdu import encode_retrieval
from protocols.wais.diagnostic import Diagnostic, missing, refusal
from protocols.wais.exchange import read_records
from protocols.wais.record import Records
from protocols.wire import encode_message

#: What all old clients asked for at once; fits any server.
LARGEST_CHUNK = 10_000
#: Octets that an answer has besides the document's and its id: at most 37 were seen.
_ROOM = 100
_MOST_HALVINGS = 6


class Document(NamedTuple):
    """What is asked for: its database, the id its server knows it by, and in which of its types."""

    database: bytes
    document_id: bytes
    wtype: bytes


class Ending(enum.Enum):
    """How the end of a document showed."""

    TOLD = "the server said that there is no more"
    SHORT = "the last answer was shorter than what was asked for, without a reason"
    DECLINED = "the server declined the next range, in words that say nothing of the end"
    EMPTY = "the next answer held neither octets nor a reason"


@dataclass(frozen=True, slots=True)
class Chunk(HandOver):
    """The next octets of the document, which begin at its octet `at`; with `ending`, the last ones."""

    at: int = 0
    octets: bytes = b""
    ending: Ending | None = None


_WILLING = Records(b"", (), (b"",), (Diagnostic("SF", "Request out of range", True),))


def retrieve(document: Document, agreed: int, start: int = 0) -> Dialogue[None]:
    """Hands over one `Chunk` after the other; each wants no answer.

    With a `start` they begin there, if the octet before it is there, and else at octet 0: beyond the end
    `SF` may say that the document is gone as well, so the last octet that is held is asked for again.
    """
    size = chunk_size(document, agreed)
    at = max(0, start - 1)
    held = start - at
    yield Note(
        f"an answer of {size} octets is followed by the request for the next {size}, until one is shorter"
        " or says that there is no more"
    )
    while True:
        records, size = yield from _ask(document, at, size, agreed)
        text = _text_of(records, size)
        if held and not text:
            at, held = 0, 0
            continue
        if text is None:
            last = _ending_without_text(records.diagnostics, at)
            yield Chunk("the end of the document", None, at, b"", last)
            return
        failed = [each for each in records.diagnostics if not each.is_out_of_range]
        ending = None if failed else _ending(records.diagnostics, len(text) < size)
        what = f"the document from octet {at + held} on"
        yield Chunk(what, None, at + held, text[held:], ending)
        if failed:
            raise refusal(failed, what)
        if ending is not None:
            return
        at, held = at + size, 0


def chunk_size(document: Document, agreed: int) -> int:
    """How much to ask for at once. Raises `ProtocolError` where no message has room for any of it."""
    size = min(LARGEST_CHUNK, agreed - len(document.document_id) - _ROOM)
    if size < 1:
        raise ProtocolError(f"the server wants messages of {agreed} octets: no document fits in")
    return size


def _ask(document: Document, at: int, size: int, agreed: int) -> Dialogue[tuple[Records, int]]:
    """An answer for the range from `at` on, and the size of the range that was answered."""
    willing: Records | None = _WILLING
    for _ in range(_MOST_HALVINGS + 1):
        octets = encode_retrieval(document.database, document.document_id, document.wtype, at, at + size)
        yield Say((encode_message(octets),))
        what = f"Search-Response: octets {at} to {at + size - 1} of the document"
        records = yield from hear(read_records(agreed), what, willing)
        if records is not None:
            return records, size
        if size == 1:
            break
        size //= 2
    raise Declined(f"the server cannot answer for the range from octet {at} on, however small it is")


def _text_of(records: Records, size: int) -> bytes | None:
    """The text in an answer; None if there is none. Raises `ProtocolError` for more than was asked for."""
    if not records.texts:
        return None
    if len(records.texts) > 1 or len(records.texts[0]) > size:
        lengths = [len(text) for text in records.texts]
        raise ProtocolError(f"{size} octets were asked for; the answer has texts of {lengths}")
    return records.texts[0]


def _ending(diagnostics: Sequence[Diagnostic], short: bool) -> Ending | None:
    """How an answer with a text and no diagnostic but `SF` ends the document; None if it goes on."""
    if diagnostics:
        return Ending.TOLD
    return Ending.SHORT if short else None


def _ending_without_text(diagnostics: Sequence[Diagnostic], at: int) -> Ending:
    """How an answer without a text ends the document. Raises what it is if it ends none."""
    if any(not each.is_out_of_range for each in diagnostics):
        raise refusal(diagnostics, f"the document from octet {at} on")
    if at == 0 and diagnostics:
        raise missing(diagnostics[0], "the document")
    if at == 0:
        raise ProtocolError("the answer has neither octets of the document nor a reason")
    if not diagnostics:
        return Ending.EMPTY
    return Ending.TOLD if any(each.tells_the_end for each in diagnostics) else Ending.DECLINED
