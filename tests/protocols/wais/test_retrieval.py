"""The retrieval of a document to its reported end (wais page, section 7), from simulated servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from fixtures.wais import Search
from fixtures.wais.request import read_request
from protocols.contract import Reply
from protocols.conversation.rehearsal import rehearse
from protocols.step import Dialogue, EmitBody, PlanNote, Receive, Send, StartBody, Step
from protocols.wais.apdu import MAX_APDU, WaisDocument
from protocols.wais.record import Diagnostic, WaisRecords
from protocols.wais.retrieval import DocumentChunks, DocumentEnding, chunk_size, emit_chunks
from resolver import AccessDenied, Declined, Kind, NotFound, ProtocolError, ResolveError
from resolver.testing import UNSCRIPTED, Player, ScriptedPeer

DOCUMENT = WaisDocument(b"demo", b"an id", b"TEXT")
BEYOND = Diagnostic("SF", "Request out of range")
MISSING = Diagnostic("SF", "Missing DocID in request")
OTHER = Diagnostic("SF", "whatever")
DENIED = Diagnostic("T2", "no")

#: A function from a range to its answer: texts and diagnostics; None for a message of length 0.
Server = Callable[[int, int], tuple[tuple[bytes, ...], tuple[Diagnostic, ...]] | None]


def octets(start: int, end: int) -> bytes:
    """Return a range of an endless document; each byte depends on its position."""
    return bytes(index % 251 for index in range(start, end))


def real(length: int) -> Server:
    """Return a server that answers as freeWAIS does for a document of the given length."""

    def server(start: int, end: int) -> tuple[tuple[bytes, ...], tuple[Diagnostic, ...]]:
        if start > length:
            return (), (BEYOND,)
        return (octets(start, min(end, length)),), (BEYOND,) if end > length else ()

    return server


@dataclass
class Run:
    """The outcome of a retrieval: requested ranges, body, start position and ending."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    body: bytes = b""
    begins: int | None = None
    ending: DocumentEnding | None = None
    error: type[ResolveError] | None = None


class Ranged(ScriptedPeer):
    """A server that returns ranges of a document and records the requested ranges."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.ranges: list[tuple[int, int]] = []

    def hear(self, octets: bytes) -> None:
        self.ranges.append(_range(octets))

    def answer(self, step: Step) -> object:
        return _records(self._server(*self.ranges[-1])) if isinstance(step, Receive) else UNSCRIPTED


def run(server: Server, *, agreed: int = MAX_APDU, start: int = 0, document: WaisDocument = DOCUMENT) -> Run:
    """Run the dialogue; more than 100 requests are too many."""
    result = Run()
    peer = Ranged(server)
    player = Player(_as_body(_retrieve(document, agreed, start, result)), peer)
    try:
        while len(peer.ranges) < 100 and player.advance(Send) is not None:
            pass
        assert player.over == (result.ending is not None)
    except ResolveError as error:
        result.error = type(error)
    result.ranges, result.body = peer.ranges, player.body
    return result


def _as_body(retrieving: Dialogue[None]) -> Dialogue[None]:
    yield StartBody(Reply(kind=Kind.DOCUMENT))
    yield from retrieving


def _range(octets: bytes) -> tuple[int, int]:
    request = read_request(octets[25:])
    assert isinstance(request, Search)
    start, end = request.terms(b"wb")
    assert (start.relation, end.relation) == (b"ro", b"rl")
    return int(start.value), int(end.value)


def _records(answer: tuple[tuple[bytes, ...], tuple[Diagnostic, ...]] | None) -> WaisRecords | None:
    return None if answer is None else WaisRecords(b"", (), *answer)


def _retrieve(document: WaisDocument, agreed: int, start: int, result: Run) -> Dialogue[None]:
    ranges = DocumentChunks(document, agreed, start)
    first = yield from ranges.fetch_first()
    result.begins = first.start
    reply = Reply(kind=Kind.DOCUMENT)
    yield from emit_chunks(ranges, first, reply)
    told = [DocumentEnding.REPORTED] if "terminator" in reply.verified else []
    told += [
        each for each in DocumentEnding for found in reply.findings if found.detail.startswith(each.value)
    ]
    (result.ending,) = told


@pytest.mark.parametrize("length", [0, 1, 107, 9_999, 10_000, 10_001, 20_000, 25_000])
def test_document_of_any_length_is_retrieved(length: int) -> None:
    result = run(real(length))
    assert (result.body, result.begins, result.error) == (octets(0, length), 0, None)
    assert result.ending is DocumentEnding.REPORTED
    # If the length is a multiple of the range, one more request is necessary.
    assert result.ranges == [(at, at + 10_000) for at in range(0, length + 1, 10_000)]


def test_answer_determines_document_ending() -> None:
    def ends(texts: tuple[bytes, ...], *diagnostics: Diagnostic) -> Run:
        return run(lambda start, end: (texts, diagnostics) if start else ((octets(0, 10_000),), ()))

    for texts, diagnostics, ending in [
        ((b"",), (BEYOND,), DocumentEnding.REPORTED),
        ((), (BEYOND,), DocumentEnding.REPORTED),
        ((), (BEYOND, OTHER), DocumentEnding.REPORTED),
        ((b"abc",), (OTHER,), DocumentEnding.REPORTED),
        ((b"x" * 10_000,), (BEYOND,), DocumentEnding.REPORTED),
        ((b"abc",), (), DocumentEnding.SHORT),
        ((b"",), (), DocumentEnding.SHORT),
        ((), (OTHER,), DocumentEnding.DECLINED),
        ((), (MISSING,), DocumentEnding.DECLINED),
        ((), (), DocumentEnding.EMPTY),
    ]:
        result = ends(texts, *diagnostics)
        assert (result.error, result.ending) == (None, ending), (texts, diagnostics)
        assert result.body == octets(0, 10_000) + b"".join(texts)
        assert result.ranges == [(0, 10_000), (10_000, 20_000)]


#: An answer to the first range, and its error.
FAILURES = [
    (((), (MISSING,)), NotFound),
    (((), (MISSING, OTHER)), NotFound),
    (((), (OTHER,)), NotFound),
    (((), (DENIED,)), AccessDenied),
    (((), (BEYOND, DENIED)), AccessDenied),
    (((), (Diagnostic("S1", "not available"),)), Declined),
    (((), ()), ProtocolError),
    (((b"x" * 10_001,), ()), ProtocolError),  # more than requested
    (((b"", b""), (BEYOND,)), ProtocolError),  # two texts
]


@pytest.mark.parametrize(("answer", "error"), FAILURES)
def test_invalid_first_answer_raises(
    answer: tuple[tuple[bytes, ...], tuple[Diagnostic, ...]], error: type[ResolveError]
) -> None:
    result = run(lambda start, end: answer)
    assert (result.error, result.body, len(result.ranges)) == (error, b"", 1)


@pytest.mark.parametrize("diagnostics", [(DENIED,), (BEYOND, DENIED), (DENIED, BEYOND)])
def test_text_with_other_diagnostic_is_emitted_then_raises(diagnostics: tuple[Diagnostic]) -> None:
    result = run(lambda start, end: ((b"abc",), diagnostics))
    assert (result.body, result.ending, result.error) == (b"abc", None, AccessDenied)


def test_later_failure_keeps_received_bytes() -> None:
    result = run(lambda start, end: ((octets(start, end),), ()) if start < 20_000 else ((), (DENIED,)))
    assert (result.body, result.error) == (octets(0, 20_000), AccessDenied)


@pytest.mark.parametrize("texts", [(), (b"",)])
@pytest.mark.parametrize("start", [0, 1, 25_000])
def test_empty_document_is_complete(texts: tuple[bytes, ...], start: int) -> None:
    """The real server answers `Request out of range` for an empty document, with or without a text.

    Its answer for a missing document has another text. Bytes kept of an earlier, longer document are void.
    """
    result = run(lambda first, end: (texts, (BEYOND,)), start=start)
    assert (result.body, result.begins, result.ending, result.error) == (
        b"",
        0,
        DocumentEnding.REPORTED,
        None,
    )


# -- sizes


def test_chunk_size_leaves_room_in_message() -> None:
    assert chunk_size(DOCUMENT, MAX_APDU) == 10_000
    assert chunk_size(DOCUMENT, 10_105) == 10_000
    assert chunk_size(DOCUMENT, 10_104) == 9_999
    assert chunk_size(DOCUMENT, 106) == 1
    with pytest.raises(ProtocolError, match=r"\b105\b.*document"):
        chunk_size(DOCUMENT, 105)
    assert chunk_size(WaisDocument(b"demo", b"i" * 2_048, b"TEXT"), 2_149) == 1


def test_unanswered_range_is_halved() -> None:
    def server(start: int, end: int) -> tuple[tuple[bytes, ...], tuple[Diagnostic, ...]] | None:
        return None if end - start > 3_000 else real(6_000)(start, end)

    result = run(server)
    assert result.ranges == [
        *((0, 10_000), (0, 5_000), (0, 2_500)),
        *((2_500, 5_000), (5_000, 7_500)),  # the smaller range size is kept
    ]
    assert (result.body, result.ending) == (octets(0, 6_000), DocumentEnding.REPORTED)


def test_later_unanswered_range_is_halved() -> None:
    def server(start: int, end: int) -> tuple[tuple[bytes, ...], tuple[Diagnostic, ...]] | None:
        return None if start and end - start > 5_000 else real(18_000)(start, end)

    result = run(server)
    assert result.ranges == [(0, 10_000), (10_000, 20_000), (10_000, 15_000), (15_000, 20_000)]
    assert result.body == octets(0, 18_000)


@pytest.mark.parametrize(("agreed", "tries"), [(MAX_APDU, 7), (106, 1), (108, 2)])
def test_halving_without_answer_is_declined(agreed: int, tries: int) -> None:
    result = run(lambda start, end: None, agreed=agreed)
    assert (result.error, len(result.ranges)) == (Declined, tries)


def test_endless_document_has_no_ending() -> None:
    """The dialogue does not stop; only a limit of the caller stops it."""
    result = run(lambda start, end: ((octets(start, end),), ()))
    assert (len(result.ranges), result.error, result.ending) == (100, None, None)


# -- resuming after the existing bytes


@pytest.mark.parametrize("start", [1, 106, 107, 9_999, 10_000, 10_001, 24_999, 25_000])
def test_resumption_repeats_last_byte(start: int) -> None:
    """The request repeats the last existing byte: its presence shows that the document exists."""
    result = run(real(25_000), start=start)
    assert (result.body, result.begins, result.error) == (octets(start, 25_000), start, None)
    assert result.ranges[0] == (start - 1, start - 1 + 10_000)


@pytest.mark.parametrize("start", [108, 25_000])
def test_resumption_of_shorter_document_restarts(start: int) -> None:
    result = run(real(107), start=start)
    assert (result.body, result.begins, result.error) == (octets(0, 107), 0, None)
    assert result.ranges == [(start - 1, start - 1 + 10_000), (0, 10_000)]


def test_resumption_of_missing_document_is_not_found() -> None:
    result = run(lambda start, end: ((), (MISSING,)), start=25_000)
    assert (result.error, result.ranges) == (NotFound, [(24_999, 34_999), (0, 10_000)])


def test_retrieval_plan_has_one_range() -> None:
    """The plan assumes a document shorter than a range."""
    steps = [type(step) for step in rehearse(_retrieve(DOCUMENT, MAX_APDU, 0, Run()))]
    assert steps == [PlanNote, Send, Receive, EmitBody]
