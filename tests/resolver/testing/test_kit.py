"""The test kit: segmentation of bytes, exchanges read byte by byte, answers from transcripts, import cost."""

from __future__ import annotations

import doctest
import ssl
from inspect import getdoc, isfunction, signature
from types import FunctionType

import pytest
import trio

import resolver.testing
from fixtures.transcript import transcripts
from protocols.contract import Reply
from protocols.gopher import GOPHER
from protocols.step import Connect, CopyBody, Dialogue, Send, StartBody, receive
from protocols.wire import encode_line, read_line
from resolver import GopherUrl, Kind, Limits, Options
from resolver.testing import CUTTERS, Cutter, DialogueTranscript, chunkings, cut_at, parse_transcript, recite
from resolver.testing import transcript as cutting
from resolver.testing.contract import answering
from resolver.testing.contract.serving import TranscriptServer
from resolver.url import registry
from tests.fresh import run_alone
from tests.protocols.typed_url import parse_as


@pytest.mark.parametrize("octets", [b"", b"a", b"abcdefgh"])
def test_chunkings_returns_every_segmentation_of_short_bytes(octets: bytes) -> None:
    ways = list(chunkings(octets))
    assert len({tuple(way) for way in ways}) == len(ways) == 2 ** max(0, len(octets) - 1)
    assert {b"".join(way) for way in ways} == {octets}
    assert not octets or all(b"" not in way for way in ways)


def test_chunkings_returns_some_segmentations_of_long_bytes() -> None:
    octets = bytes(range(100))
    ways = list(chunkings(octets))
    assert ways[:2] == [[octets], [octets[at : at + 1] for at in range(100)]]
    assert ways[2:] == [[octets[:at], octets[at:]] for at in range(1, 100)]
    assert list(cut_at(0, 3, 200)(b"abcdef")) == [b"abc", b"def"]


FUNCTIONS = [each for each in vars(resolver.testing).values() if isfunction(each)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_kit_function_documents_arguments_and_runs_its_example(function: FunctionType) -> None:
    parameters = signature(function).parameters
    said = getdoc(function)  # Python keeps the indentation only before 3.13
    assert said
    if function in CUTTERS:
        return
    assert all(f"    {name}: " in said for name in parameters)
    (found,) = doctest.DocTestFinder(recurse=False).find(function, globs={})
    assert found.examples
    assert doctest.DocTestRunner().run(found).failed == 0


TALK = parse_transcript(
    "# made up\nU: talk://h/\nS: 200 hi\\r\\n\nC: GO\\r\\n\nS: a\\r\\nbc\nE: close\n", "talk"
)


def talk() -> Dialogue[None]:
    yield Connect()
    greeting = yield from receive(read_line(80), "a greeting", b"200 hi")
    assert greeting == b"200 hi"
    yield Send((encode_line(b"GO"),))
    yield StartBody(Reply(kind=Kind.DOCUMENT))
    yield CopyBody("the rest")


@pytest.mark.parametrize("cutter", [*CUTTERS, cut_at(1), cut_at(2, 7)])
def test_recite_result_is_independent_of_segmentation(cutter: Cutter) -> None:
    outcome = recite(talk(), TALK, cutter=cutter)
    assert (outcome.body, outcome.error) == (b"a\r\nbc", None)


def test_recite_fails_when_client_sends_too_early() -> None:
    def hasty() -> Dialogue[None]:
        yield Connect()
        yield Send((encode_line(b"GO"),))

    with pytest.raises(AssertionError, match=r"b'GO.*server"):
        recite(hasty(), TALK)

    def hasty_in_the_middle() -> Dialogue[None]:
        yield Connect()
        yield from receive(read_first, "an octet", b"2")
        yield Send((encode_line(b"GO"),))

    def read_first(buffer):  # type: ignore[no-untyped-def]
        while not buffer:
            yield
        return buffer.take(1)

    with pytest.raises(AssertionError, match=r"b'GO.*server"):
        recite(hasty_in_the_middle(), TALK, cutter=cutting.one_by_one)


@pytest.mark.parametrize("transcript", transcripts("gopher"), ids=lambda each: each.name)
def test_recite_gopher_transcripts_byte_by_byte_has_same_outcome(transcript: DialogueTranscript) -> None:
    """The outcome is the same as without segmentation, errors included."""
    url = parse_as(GopherUrl, transcript.url)
    if transcript.outcome.error == "Refused" or "surplus" in transcript.name or "unframed" in transcript.name:
        return
    one, other = (
        recite(registry.converse(GOPHER, url, Options(), Limits()), transcript, cutter=cutter)
        for cutter in CUTTERS[:2]
    )
    assert one == other


def test_resolver_does_not_import_testing() -> None:
    assert run_alone("import resolver, sys; print([m for m in sys.modules if 'testing' in m])") == "[]\n"
    loaded = "import resolver.testing, sys; print({'pytest', 'trio', 'trustme'} & set(sys.modules))"
    assert run_alone(loaded) == "set()\n"


# A server built from transcripts answers as the transcript whose client sent the same bytes.

ONE = parse_transcript("# made\nU: t://h/\nS: hi\nC: a\\r\\n\nS: one\nE: close\n", "one")
TWO = parse_transcript("# made\nU: t://h/\nS: hi\nC: b\\r\\n\nS: two\nC: c\\r\\n\nS: end\nE: close\n", "two")
CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


async def answering_talk(port: int, *words: bytes) -> bytes:
    heard = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for word in words:
            heard += bytes(await stream.receive_some())
            await stream.send_all(word)
        while octets := await stream.receive_some():
            heard += octets
    return heard


@pytest.mark.parametrize(
    ("words", "heard"),
    [((b"a\r\n",), b"hione"), ((b"b\r\n", b"c\r\n"), b"hitwoend"), ((b"x\r\n",), b"hi")],
)
async def test_transcript_server_answers_as_matching_transcript(
    nursery: trio.Nursery, words: tuple[bytes, ...], heard: bytes
) -> None:
    server = await answering(ONE, TWO)(nursery, CONTEXT)
    assert isinstance(server, TranscriptServer)
    assert [await answering_talk(server.port, *words), await answering_talk(server.port, *words)] == [
        heard,
        heard,
    ]
    assert server.heard == [b"".join(words)] * 2
    assert server.strange == ([b"x\r\n"] * 2 if heard == b"hi" else [])
