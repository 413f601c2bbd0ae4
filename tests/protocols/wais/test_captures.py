"""Every recorded exchange with a real server, and every wais transcript.

The answers are parsed, and this client's requests are compared with the recorded ones.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
import trio

from fixtures.transcript import transcripts
from fixtures.wais import Answers, Behavior, Init, Search
from fixtures.wais.coding import HEADER_LENGTH, read_head, write_message
from fixtures.wais.request import read_request
from protocols.syntax import encode
from protocols.wais.apdu import (
    MAX_APDU,
    WaisDocument,
    encode_init,
    encode_retrieval,
    encode_word_search,
    parse_init_response,
    read_message,
)
from protocols.wais.dialogue import converse
from protocols.wais.listing import HitReader
from protocols.wais.record import WaisRecords
from protocols.wais.retrieval import read_init_response, read_records
from protocols.wire import encode_message
from resolver import Limits, Policy, WaisUrl, parse
from resolver.testing import CUTTERS, Cutter, DialogueTranscript, check, oddly, one_by_one, recite, whole
from resolver.testing.player import resolve
from resolver.testing.replay import serve_transcript
from resolver.testing.transcript import Connection, TranscriptTurn
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.in_memory import MemoryGate
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as
from tests.protocols.wais.captures import RECORDED, capture, names, recorded_world, records_in, world_of
from tests.protocols.wais.pieces import SIZES, feed

INIT = "init 100000"
END = "text 0, SF"
#: A recording, and a summary of each of its answers, in order.
ROWS: dict[str, tuple[str, ...]] = {
    "access-denied": (INIT, "T2", "T2"),
    "catalog": (INIT, "2 hits", "text 550"),
    "chunk-too-large": (INIT, "nothing"),
    "header-version-1": ("1 hits",),
    "init-rejected": ("refused", "1 hits"),
    "lynx-retrieve-gif": ("text 5442",),
    "lynx-search": ("3 hits",),
    "max-documents": (INIT, "1 hits", ""),
    "multi-type": (INIT, "1 hits", "text 57, SF", "text 5442, SF"),
    "no-init": ("1 hits",),
    "reference-id": (INIT, "1 hits"),
    "retrieve-bad-docid": (INIT, "SF", "SF", "SF", "SF"),
    "retrieve-by-lines": (INIT, "text 64", "text 93", "text 107", "text 0"),
    "retrieve-by-paragraph": (INIT, ""),
    "retrieve-crlf-text": (INIT, "1 hits", "text 83"),
    "retrieve-large-gif": (INIT, "1 hits", *["text 10000"] * 18, "text 2226"),
    "retrieve-large-text": (INIT, "1 hits", *["text 10000"] * 25, "text 79"),
    "retrieve-large-unknown-length": (INIT, "text 90000", "text 90000", "text 70079, SF"),
    "retrieve-latin1-text": (INIT, "1 hits", "text 55"),
    "retrieve-long-docid": (INIT, "1 hits", "text 67"),
    "retrieve-past-end": (INIT, "text 107, SF", END, "SF"),
    "retrieve-record-past-end": (INIT, "text 108, SF", END, "SF"),
    "retrieve-small-text": (INIT, "1 hits", "text 107"),
    "retrieve-unknown-database": (INIT, "S1"),
    "search-database-with-space": (INIT, "1 hits", "text 107"),
    "search-dates": (INIT, "2 hits"),
    "search-hits": (INIT, "3 hits"),
    "search-html-type": (INIT, "1 hits", "text 112"),
    "search-info-database": (INIT, "2 hits", "text 698"),
    "search-many-words": (INIT, "3 hits"),
    "search-no-hits": (INIT, "1 hits"),
    "search-no-hits-no-catalog": (INIT, ""),
    "search-ps-type": (INIT, "1 hits", "text 121"),
    "search-syntax-error": (INIT, "1 hits, S1"),
    "search-unknown-database": (INIT, "S1"),
    "search-url-type": (INIT, "1 hits"),
    "small-buffer": ("init 1024", "3 hits", "nothing", "nothing", "text 107"),
    "small-buffer-search": ("init 400", "1 hits"),
    "source-description": (INIT, "2 hits", "text 698"),
    "unknown-apdu": (INIT, "nothing", "1 hits"),
}


def test_every_wais_capture_has_row() -> None:
    assert sorted(ROWS) == names()


@pytest.mark.parametrize("name", ROWS)
def test_captured_answers_are_parsed(name: str) -> None:
    assert tuple(summary(answer) for _, answer in capture(name).exchanges) == ROWS[name]


@pytest.mark.parametrize("name", ROWS)
def test_captured_answers_in_chunks_are_parsed(name: str) -> None:
    """The test reads only the first and last ranges of a large document: the others are alike."""
    answers = [answer for _, answer in capture(name).exchanges]
    for size in SIZES:
        for number in sorted({*range(min(3, len(answers))), len(answers) - 1}):
            assert summary(answers[number], size) == ROWS[name][number], size


def summary(answer: bytes, size: int | None = None) -> str:
    apdu, rest = feed(read_message(MAX_APDU), answer + b"more", size, ends=False)
    assert rest == b"more"
    if not apdu:
        return "nothing"
    if apdu[2] == 21:
        response = parse_init_response(apdu)
        return f"init {response.size}" if response.accepted else "refused"
    records = records_in(answer)
    return ", ".join(
        [f"{len(records.headers)} hits"] * bool(records.headers)
        + [f"text {len(text)}" for text in records.texts]
        + [diagnostic.code for diagnostic in records.diagnostics]
    )


@pytest.mark.parametrize("size", SIZES)
def test_dialogue_readers_parse_captured_answers(size: int | None) -> None:
    (_, init), (_, answer) = capture("search-hits").exchanges
    accepted, rest = feed(read_init_response, init + b"more", size, ends=False)
    assert (accepted is not None, rest) == (True, b"more")
    records, rest = feed(read_records(MAX_APDU), answer + b"more", size, ends=False)
    assert (records, rest) == (records_in(answer), b"more")
    nothing = capture("chunk-too-large").exchanges[1][1]
    assert feed(read_init_response, nothing, size) == (None, b"")
    assert feed(read_records(MAX_APDU), nothing, size) == (None, b"")


#: Recordings with requests that this client does not send, and the reason; all their other requests are
#: equal.
DIFFERENT_REQUESTS: dict[str, str] = {
    "header-version-1": "another version of the message header",
    "reference-id": "a reference id in a word search",
    "retrieve-by-lines": "a range of lines",
    "retrieve-by-paragraph": "a range of paragraphs",
    "unknown-apdu": "a Present",
}


@pytest.mark.parametrize("name", ROWS)
def test_requests_equal_captured_requests(name: str) -> None:
    """Requests equal the recorded ones byte for byte; only Init omits optional elements."""
    same = [own_request(request) == request for request, _ in capture(name).exchanges if request[27] != 20]
    assert any(not each for each in same) == (name in DIFFERENT_REQUESTS)


def own_request(request: bytes) -> bytes:
    asked = read_request(request[HEADER_LENGTH:])
    if not isinstance(asked, Search):
        return b""
    if asked.query_type == b"3":
        return encode_message(encode_word_search(asked.database, asked.words, asked.max_hits)).octets
    document = WaisDocument(asked.database, asked.terms(b"un")[0].value, asked.terms(b"wt")[0].value)
    start, end = ([int(bound.value) for bound in asked.terms(b"wb")] or [0, 1])[:2]
    return encode_message(encode_retrieval(document, start, end)).octets


def test_init_is_prefix_of_captured_init() -> None:
    for name in ROWS:
        init = read_request(capture(name).exchanges[0][0][HEADER_LENGTH:])
        if isinstance(init, Init) and init.maximum_size == MAX_APDU and name != "init-rejected":
            sent = encode_init(MAX_APDU)
            assert capture(name).exchanges[0][0][HEADER_LENGTH:][2 : len(sent)] == sent[2:]


#: Recorded searches as complete retrievals: the number of hits or the error, and the findings.
SEARCHES = [
    ("search-hits", 3, ()),
    ("search-many-words", 3, ()),
    ("search-no-hits", 0, ("wais:no-result",)),
    ("search-no-hits-no-catalog", 0, ("wais:no-result",)),
    ("search-url-type", 1, ()),
    ("search-database-with-space", 1, ()),
    ("reference-id", 1, ()),
    ("small-buffer", 3, ()),
    ("small-buffer-search", 1, ("wais:dropped",)),  # the server found three hits, and one fits into 400 bytes
    ("search-syntax-error", "Declined", ()),
    ("search-unknown-database", "Declined", ()),
    ("access-denied", "AccessDenied", ()),
    ("init-rejected", "Declined", ()),
]


def by_twos(octets: bytes) -> list[bytes]:
    return [octets[start : start + 2] for start in range(0, len(octets), 2)]


def by_threes(octets: bytes) -> list[bytes]:
    return [octets[start : start + 3] for start in range(0, len(octets), 3)]


CAPTURE_CUTTERS: tuple[Cutter, ...] = (whole, one_by_one, by_twos, by_threes, oddly)


@pytest.mark.parametrize(("name", "outcome", "findings"), SEARCHES)
async def test_captured_search_resolves_to_entries(
    name: str, outcome: int | str, findings: tuple[str, ...]
) -> None:
    (_, init), (request, answer) = capture(name).exchanges[:2]
    asked = read_request(request[HEADER_LENGTH:])
    assert isinstance(asked, Search)
    turns = [TranscriptTurn("C", encode_message(encode_init(MAX_APDU)).octets), TranscriptTurn("S", init)]
    if name != "init-rejected":
        turns += [TranscriptTurn("C", own_request(request)), TranscriptTurn("S", answer)]
    url = WaisUrl(scheme="wais", host="h", database=asked.database, search=asked.words)
    for cutter in CAPTURE_CUTTERS:
        gate = MemoryGate([Connection(tuple(turns), "left")], cutter)
        found = await resolve(open_url, url, gate)
        gate.check_finished()
        if isinstance(outcome, str):
            assert found.error == outcome
            continue
        assert (found.error, len(found.entries), found.findings) == (None, outcome, list(findings))
        assert found.verified == ("length",)


DOCUMENTS = [name for name in ROWS if capture(name).document is not None]


def scripted(name: str, requests: list[bytes]) -> Connection:
    """Return a connection of the recorded server: this client's requests and the server's answers."""
    answers = Answers(world_of(name), RECORDED, Behavior())
    turns: list[TranscriptTurn] = []
    for request in requests:
        head = read_head(request[:HEADER_LENGTH])
        said = write_message(head, answers.answer(head, request[HEADER_LENGTH:]))
        turns += [TranscriptTurn("C", request), TranscriptTurn("S", said)]
    return Connection(tuple(turns), "left")


def recorded_document(name: str) -> WaisDocument:
    """Return database, id and type of the retrieved document."""
    search = next(search for search, _ in capture(name).searches if search.query_type == b"1")
    return WaisDocument(search.database, search.terms(b"un")[0].value, search.terms(b"wt")[0].value)


@pytest.mark.parametrize("cutter", [whole, oddly], ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize("name", DOCUMENTS)
async def test_captured_document_is_retrieved_to_end(name: str, cutter: Cutter) -> None:
    """The recorded client stopped at the announced length; this one reads to the reported end."""
    document = capture(name).document
    assert document is not None
    length, digest = document
    database, document_id, wtype = recorded = recorded_document(name)
    requests = [encode_init(MAX_APDU)] + [
        encode_retrieval(recorded, at, at + 10_000) for at in range(0, length + 1, 10_000)
    ]
    gate = MemoryGate([scripted(name, [encode_message(each).octets for each in requests])], cutter)
    url = WaisUrl(scheme="wais", host="h", database=database, wtype=wtype, wpath=encode(document_id))
    found = await resolve(open_url, url, gate)
    gate.check_finished()
    assert found.error is None
    assert found.body is not None
    assert (len(found.body), sha256(found.body).hexdigest()) == (length, digest)
    assert (found.verified, found.findings) == (("terminator",), [])


def test_every_captured_hit_becomes_entry() -> None:
    """Each hit of a recording becomes an entry with both URLs."""
    url = WaisUrl(scheme="wais", host="h", database=b"d", search=b"")
    seen = 0
    for name in ROWS:
        for search, records in capture(name).searches:
            if search.query_type == b"3" and records.headers and ROWS[name] != (INIT, "1 hits, S1"):
                seen += _check_entries(records, url)
    assert seen >= 25
    assert recorded_world().databases


def _check_entries(records: WaisRecords, url: WaisUrl) -> int:
    reader = HitReader(url)
    found = [*reader.feed(records.octets), *reader.finish()]
    for entry in found:
        assert entry.url is not None
        assert entry.extra is not None
        assert (entry.extra["libwww_url"] is None) == (entry.kind == "link")
    return len(found)


# Every wais transcript: the dialogue alone, in-memory streams, and a socket behind the gate.

TRANSCRIPTS = transcripts("wais")
HOST = "127.0.0.1"


def test_there_are_16_transcripts() -> None:
    assert len(TRANSCRIPTS) == 16


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
def test_dialogue_follows_wais_transcript(transcript: DialogueTranscript) -> None:
    check(recite(converse(parse_as(WaisUrl, transcript.url)), transcript), transcript.outcome)


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_handler_in_memory_follows_wais_transcript(transcript: DialogueTranscript) -> None:
    for cutter in CUTTERS:
        gate = MemoryGate.of(transcript, cutter)
        check(await resolve(open_url, parse(transcript.url), gate), transcript.outcome)
        gate.check_finished()


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda each: each.name)
async def test_wais_url_resolves_over_sockets(transcript: DialogueTranscript) -> None:
    url = parse_as(WaisUrl, transcript.url)
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            replay = await serve_transcript(nursery, transcript)
            here = replace(url, host=HOST, port=replay.port)
            policy = Policy(allow_port={replay.port})
            async with Network(policy=policy, limits=Limits(idle=0.2)) as network:
                outcome = await resolve(open_url, here, network.admit(here))
            while replay.served < len(transcript.connections) and not replay.complaints:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert replay.complaints == []
    outcome.entries = transcript.outcome.entries  # the URLs of the entries contain the server's port
    check(outcome, transcript.outcome)
