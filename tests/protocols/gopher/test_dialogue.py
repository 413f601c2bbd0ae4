"""Tests of the Gopher dialogue: plans, items without a request, memory bounds and errors."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from protocols.contract import Stream
from protocols.conversation.rehearsal import rehearse
from protocols.gopher.attributes import RECORD_LIMIT
from protocols.gopher.content import BUFFER_LIMIT, DataEnding, GopherPlusHeader
from protocols.gopher.dialogue import SessionPointer, converse, find_pointer
from protocols.gopher.reply import RECORDS, shape_by_type
from protocols.gopher.request import encode_request
from protocols.step import (
    Connect,
    CopiedBody,
    CopyBody,
    EmitBody,
    Peek,
    PlanNote,
    Receive,
    Send,
    StartBody,
    Step,
)
from resolver import (
    Disconnected,
    GopherUrl,
    Kind,
    LimitExceeded,
    Limits,
    NotFound,
    Refused,
    TimedOut,
    Truncated,
    explain,
)
from resolver.testing import Player, ValueScript, one_by_one, whole
from resolver.testing.player import resolve
from resolver.testing.transcript import Connection, End, TranscriptTurn
from tests.protocols.in_memory import MemoryGate, MemorySink, MemoryStream, pour
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as


def url_of(text: str) -> GopherUrl:
    return parse_as(GopherUrl, text)


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("gopher://h/0a", [Connect, Send, Peek, StartBody, CopyBody]),
        ("gophers://h/0a", [Connect, Send, Peek, StartBody, CopyBody]),
        ("gopher://h/0a%09%09+", [Connect, Send, Receive, PlanNote, Peek, StartBody, CopyBody]),
        ("gopher://h/0a%09!", [Connect, Send, Receive, PlanNote, Peek, CopyBody, StartBody, EmitBody]),
        (
            "gopher://h/0a%09%09?",
            [Connect, Send, Receive, PlanNote, Peek, CopyBody, StartBody, EmitBody, PlanNote, PlanNote],
        ),
        ("gopher://h/0" + "a" * 300, [Connect, PlanNote, Send, Peek, StartBody, CopyBody]),
        ("gopher://h/8a", [PlanNote, StartBody]),
        ("gopher://h/hURL:http://w.dom/", [PlanNote, StartBody]),
        ("gopher://h/h/URL:http://w.dom/", [PlanNote, StartBody]),
    ],
)
def test_converse_plan_has_expected_steps(text: str, kinds: list[type]) -> None:
    steps = rehearse(converse(url_of(text)))
    assert [type(step) for step in steps] == kinds
    assert [step.tls for step in steps if isinstance(step, Connect)] == (
        [text.startswith("gophers")] if Connect in kinds else []
    )


def test_form_request_without_form_requests_item() -> None:
    url = url_of("gopher://h/7a%09%09?")

    def answer(step: Step) -> object:
        match step:
            case Receive():
                return GopherPlusHeader(DataEnding.COUNT, 3)
            case Peek():
                again = any(isinstance(each, CopyBody) for each in player.steps)
                return shape_by_type(url, b"") if again else RECORDS
            case CopyBody():
                return CopiedBody(3)
        return None

    player = Player(converse(url), ValueScript(answer))
    reply = player.play()
    assert [finding.rule for finding in reply.findings] == ["gopher:no-form"]
    passed = [step.count for step in player.steps if isinstance(step, CopyBody)]
    assert (player.sent, passed) == ([b"a\t\t!\r\n", b"a\t\t+\r\n"], [3, 3])


POINTERS: list[tuple[str, SessionPointer | None]] = [
    ("gopher://h/0a", None),
    ("gopher://h/h/page", None),
    ("gopher://h/0URL:http://w.dom/", None),
    ("gopher://h/hURL:http://w.dom/%2520%3F", SessionPointer(Kind.LINK, "http://w.dom/%20?", {})),
    (
        "gopher://h:23/8",
        SessionPointer(
            Kind.SERVICE,
            "telnet://h/",
            {"service": "telnet session", "host": "h", "port": 23, "login": None},
        ),
    ),
    (
        "gopher://h:2323/Ta%20b",
        SessionPointer(
            Kind.SERVICE,
            "tn3270://a%20b@h:2323/",
            {"service": "tn3270 session", "host": "h", "port": 2323, "login": "a b"},
        ),
    ),
    (
        "gophers://[::1]:105/2ns",
        SessionPointer(
            Kind.SERVICE,
            "gophers://[::1]:105/2",
            {"service": "CSO phone book", "host": "::1", "port": 105},
        ),
    ),
]


@pytest.mark.parametrize(("text", "pointer"), POINTERS)
def test_find_pointer_of_session_items(text: str, pointer: SessionPointer | None) -> None:
    assert find_pointer(url_of(text)) == pointer


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("gopher://h/hURL:javascript:alert(1)", "S20"),
        ("gopher://h/hURL:file:///etc/passwd", "S20"),
        ("gopher://h/hURL:mailto:a@b", "S20"),
        ("gopher://h/hURL:gophers://h/", "S20"),
        ("gopher://h/hURL:http://a%20b/", "S20"),
        ("gopher://h/hURL:http://a%E9/", "S20"),
        ("gopher://h/hURL:", "S20"),
        ("gopher://h/hURL:http://w/%0D%0AX", "S02"),
        ("gopher://h/8a%0D%0Ab", "S02"),
        ("gopher://h/2a%00b", "S02"),
        ("gopher://h/0a%09%09%0D%0A", "S03"),
    ],
)
def test_converse_unsendable_url_is_refused_first(text: str, rule: str) -> None:
    with pytest.raises(Refused) as caught:
        next(converse(url_of(text)))
    assert caught.value.rule == rule


def test_explain_shows_steps() -> None:
    plan = explain("gopher://h.dom/7find%09two%20words%09+")
    assert plan.verdict == "allow"
    assert plan.steps[0] == {
        "action": "connect",
        "host": "h.dom",
        "port": 70,
        "tls": False,
        "transport": "tcp",
    }
    assert plan.steps[1] == {"action": "send", "octets": "find\ttwo words\t+\r\n"}
    assert [step["action"] for step in plan.steps[2:]] == ["receive", "note", "receive"]


# Replies on connections: bulk draining, memory use and findings.

MIB = 1024 * 1024


def answer_url_of(path: str) -> GopherUrl:
    return parse_as(GopherUrl, f"gopher://h.dom/{path}")


def gate_to(url: GopherUrl, said: bytes, end: str = "close") -> MemoryGate:
    turns = (TranscriptTurn("C", encode_request(url).octets), TranscriptTurn("S", said))
    return MemoryGate([Connection(turns, "left" if end == "left" else "close")])


@pytest.mark.parametrize(
    ("path", "said", "size"),
    [
        ("9a", b"\0\1\2", None),
        ("ga", b"GIF89a", None),
        ("Ia", b"GIF89a and so on", None),
        ("/a", b"\r\n.\r\n", None),
        ("9a%09%09+", b"+3\r\n\0\1\2", 3),
        ("9a%09%09+", b"+-2\r\n\0\1\2", None),
        ("0a%09%09+", b"+3\r\n.\r\n", 3),
    ],
)
async def test_drain_moves_remaining_bytes_in_bulk(path: str, said: bytes, size: int | None) -> None:
    url, sink = answer_url_of(path), MemorySink()
    turns = (TranscriptTurn("C", encode_request(url).octets), TranscriptTurn("S", said))
    gate = MemoryGate([Connection(turns, "close")], one_by_one)
    async with open_url(url, gate) as reply:
        assert reply.size == size
        looked_at = gate.streams[0].received
        await reply.body.drain(sink)
    assert sink.octets == (said.partition(b"\n")[2] if "%09" in path else said)
    assert gate.streams[0].moved == len(said) - looked_at, "what is still to come is moved"


class RepeatingStream(MemoryStream):
    """A stream that receives the same piece a given number of times."""

    def __init__(self, piece: bytes, times: int) -> None:
        super().__init__(Connection((), "close"), whole, tls=False)
        self._piece = piece
        self._times = times

    async def send(self, *lines: object) -> None:
        pass

    async def receive(self) -> bytes:
        self._times -= 1
        return self._piece if self._times >= 0 else b""


class RepeatingGate(MemoryGate):
    def __init__(self, piece: bytes, times: int) -> None:
        super().__init__([])
        self._faucet = RepeatingStream(piece, times)

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[Stream]:
        yield self._faucet


#: The path, a piece of the reply, the number of pieces, and the maximum memory in bytes.
FLOODS: list[tuple[str, bytes, int, int]] = [
    ("0a", b"a line of text\r\n" * 4096, 256, 2 * MIB),
    ("1a", b"0a\tb\th.dom\t70\r\n" * 100, 100, 2 * MIB),
    ("1a", b"0" * 65_536, 256, 2 * MIB),
    ("1a%09%09$", b"+INFO: 0a\tb\th.dom\t70\r\n+ABSTRACT:\r\n x\r\n" * 30, 100, 2 * MIB),
    ("0a", b"..x\r\n" + b"a line of text\r\n" * 4096, 256, 4 * BUFFER_LIMIT),
    ("9a", b"\0" * 65_536, 256, 2 * MIB),
]


@pytest.mark.parametrize(("path", "piece", "times", "memory"), FLOODS)
async def test_memory_does_not_grow_with_body(path: str, piece: bytes, times: int, memory: int) -> None:
    tracemalloc.start()
    received = 0
    async with open_url(answer_url_of(path), RepeatingGate(piece, times)) as reply:
        async for octets in reply.body:
            received += len(octets)
            if reply.listing is not None:
                for _ in reply.listing.feed(octets):
                    pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert received == times * len(piece)
    assert peak < memory


async def test_doubled_periods_beyond_buffer_are_kept() -> None:
    piece = b"..x\r\n" + b"a line of text\r\n" * 4096
    async with open_url(answer_url_of("0a"), RepeatingGate(piece, 2 * BUFFER_LIMIT // len(piece))) as reply:
        body = b"".join([octets async for octets in reply.body])
    assert body.count(b"\r\n..x\r\n") == 2 * BUFFER_LIMIT // len(piece) - 1
    assert reply.raw is not None
    assert reply.raw(body) == body


async def test_doubled_periods_kept_is_a_finding() -> None:
    piece = b"..x\r\n" + b"a line of text\r\n" * 4096
    gate = RepeatingGate(piece, 2 * BUFFER_LIMIT // len(piece))
    outcome = await resolve(open_url, answer_url_of("0a"), gate)
    assert outcome.findings == ["gopher:periods-kept"]


async def test_item_attributes_beyond_limit_raise() -> None:
    gate = RepeatingGate(b"+A:\r\n", RECORD_LIMIT)
    gate._faucet._piece = b"+INFO: x\r\n" * 100  # unframed records
    with pytest.raises(LimitExceeded):
        async with open_url(answer_url_of("0a%09%09!"), gate):
            raise AssertionError("an endless reply was accepted")


async def test_error_text_is_read_up_to_limit() -> None:
    url = answer_url_of("0a%09%09+")
    gate = gate_to(url, b"--2\r\n1 x\r\n" + b"y" * 1_000_000)
    with pytest.raises(NotFound) as caught:
        async with open_url(url, gate):
            raise AssertionError("an error was accepted as a reply")
    assert len(caught.value.text) < 8192
    gate.check_finished()


async def test_requested_view_is_reported() -> None:
    url = answer_url_of("0a%09%09+Text/plain%20De_DE")
    async with open_url(url, gate_to(url, b"+2\r\nok", "left")) as reply:
        assert reply.meta == (("view-requested", "Text/plain De_DE"),)
        assert reply.extra == {"view_requested": "Text/plain De_DE"}
        assert reply.media_type == "text/plain"


async def test_long_request_is_a_finding() -> None:
    outcome = await resolve(open_url, (url := answer_url_of("0" + "a" * 200)), gate_to(url, b"ok"))
    assert outcome.findings == ["gopher:long-request"]


async def test_menu_line_limit_is_configurable() -> None:
    url = answer_url_of("1a")
    said = b"0long line\tb\th.dom\t70\r\n0c\td\th.dom\t70\r\n"
    turns = (TranscriptTurn("C", encode_request(url).octets), TranscriptTurn("S", said))
    gate = MemoryGate([Connection(turns, "close")], limits=Limits(line=15))
    outcome = await resolve(open_url, url, gate)
    assert outcome.entries == [("unknown", None, "long line"), ("document", "gopher://h.dom/0d", "c")]


async def test_attributes_reply_has_only_requested_blocks() -> None:
    url = answer_url_of("0a%09%09!+ABSTRACT%20+SMELL")
    record = b"+INFO: 0a\ta\th.dom\t70\t+\r\n+ADMIN:\r\n Admin: x <y>\r\n+ABSTRACT:\r\n z\r\n"
    async with open_url(url, gate_to(url, b"+-1\r\n" + record + b".\r\n")) as reply:
        content = b"".join([octets async for octets in reply.body])
        assert reply.extra is not None
        assert reply.raw is not None
        assert content == record.replace(b"+ADMIN:\r\n Admin: x <y>\r\n", b"")
        assert reply.size == len(content)
        assert reply.raw(content) == record + b".\r\n"
        assert (reply.extra["abstract"], reply.extra["missing"]) == ("z", ["SMELL"])
        assert isinstance(reply.extra["attributes"], dict)
        assert list(reply.extra["attributes"]) == ["ABSTRACT"]


@pytest.mark.parametrize("end", ["close", "reset", "quiet"])
@pytest.mark.parametrize("way", ["iterate", "drain"])
async def test_truncated_records_are_emitted_to_last_byte(way: str, end: End) -> None:
    """The last line is included, although it could have opened a block that was not requested."""
    url = answer_url_of("1a%09%09$+ABSTRACT")
    wanted = b"+INFO: 1a\ta\th.dom\t70\t+\r\n", b"+ABSTRACT:\r\n ..dots\r\n", b" and half a li"
    said = b"+-1\r\n" + wanted[0] + b"+ADMIN:\r\n Admin: x <y>\r\n" + b"".join(wanted[1:])
    taken = MemorySink()
    gate = MemoryGate(
        [Connection((TranscriptTurn("C", encode_request(url).octets), TranscriptTurn("S", said)), end)]
    )
    async with open_url(url, gate) as reply:
        with pytest.raises(TimedOut if end == "quiet" else Truncated):
            await (reply.body.drain(taken) if way == "drain" else pour(reply.body, taken))
    assert bytes(taken.octets) == b"".join(wanted)


async def test_form_is_in_extra() -> None:
    url = answer_url_of("0a%09%09?")
    record = b"+INFO: 0a\ta\th.dom\t70\t?\r\n+ASK:\r\n Select: Sure?\t1\r\n"
    async with open_url(url, gate_to(url, b"+-1\r\n" + record + b".\r\n")) as reply:
        assert reply.extra is not None
        assert reply.extra["form"] == [
            {
                "kind": "Select",
                "prompt": "Sure?",
                "choices": [],
                "default": "1",
                "asked": True,
                "hidden": False,
            }
        ]


async def test_reset_during_peek_raises_truncated_with_both_lengths() -> None:
    url, sink = answer_url_of("Ia%09%09+"), MemorySink()
    turns = (TranscriptTurn("C", encode_request(url).octets), TranscriptTurn("S", b"+30\r\nGIF89"))
    async with open_url(url, MemoryGate([Connection(turns, "reset")])) as reply:
        with pytest.raises(Truncated) as caught:
            await reply.body.drain(sink)
    assert (bytes(sink.octets), caught.value.received, caught.value.expected) == (b"GIF89", 5, 30)


@pytest.mark.parametrize(
    ("text", "sent", "end"),
    [
        ("0a%09%09+", b"+-1\r\n", "close"),
        ("0a%09%09+", b"+-1\r\n", "reset"),
        ("Ia%09%09+", b"+30\r\n", "reset"),
        ("Ia", b"", "reset"),
        ("0a", b"", "reset"),
    ],
)
async def test_close_before_first_byte_raises_disconnected(text: str, sent: bytes, end: End) -> None:
    url = answer_url_of(text)
    turns = (TranscriptTurn("C", encode_request(url).octets), *([TranscriptTurn("S", sent)] if sent else []))
    with pytest.raises(Disconnected):
        async with open_url(url, MemoryGate([Connection(turns, end)])) as reply:
            await reply.body.drain(MemorySink())
