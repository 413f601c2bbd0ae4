"""Tests of the HTTP dialogue: credentials, HEAD, connection reuse, and relayed requests."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.conversation.driver import hold
from protocols.conversation.rehearsal import rehearse
from protocols.http.dialogue import relay, retrieve
from protocols.http.request import Headers, HttpRequest
from protocols.step import (
    Acquire,
    Connect,
    CopyBody,
    Dialogue,
    Receive,
    ReleaseToPool,
    RequestCredentials,
    Send,
    SendBody,
    StartBody,
    Step,
)
from resolver import (
    Credentials,
    Disconnected,
    HttpUrl,
    LimitExceeded,
    Limits,
    NotFound,
    Options,
    ProtocolError,
    Refused,
    ResolveError,
)
from resolver.testing import CUTTERS, Cutter, Player, ValueScript
from resolver.testing.player import leaving
from resolver.testing.transcript import Connection, End, TranscriptTurn
from tests.protocols.in_memory import MemoryGate, MemorySink
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as

HELD = Credentials(b"held", b"h")
GIVEN = Credentials(b"given", b"g")
HELD_LINE, GIVEN_LINE = b"Basic aGVsZDpo", b"Basic Z2l2ZW46Zw=="


def url_of(text: str) -> HttpUrl:
    return parse_as(HttpUrl, text)


class CredentialScript(ValueScript):
    """A script that answers every credential request with the given credentials."""

    def __init__(self, held: Credentials | None) -> None:
        super().__init__()
        self._held = held

    def answer(self, step: Step) -> object:
        return self._held if isinstance(step, RequestCredentials) else super().answer(step)


def head_of(text: str, options: Options, held: Credentials | None) -> tuple[list[RequestCredentials], bytes]:
    """Return the credential requests and the request head."""
    player = Player(retrieve(url_of(text), options), CredentialScript(held))
    step = player.advance(Send)
    assert isinstance(step, Send)
    asked = [each for each in player.steps if isinstance(each, RequestCredentials)]
    return asked, step.lines[0].octets


@pytest.mark.parametrize(
    ("text", "login", "held", "asked_for", "value"),
    [
        ("http://h/", None, None, [None], None),
        ("http://h/", None, HELD, [None], HELD_LINE),
        ("http://h/", GIVEN, HELD, [], GIVEN_LINE),  # from an earlier hop to the same host and port
        ("http://u:p@h/", None, HELD, [], b"Basic dTpw"),
        ("http://u:p@h/", GIVEN, HELD, [], b"Basic dTpw"),
        ("http://u:@h/", None, HELD, [], b"Basic dTo="),
        ("http://u@h/", None, HELD, [b"u"], HELD_LINE),
        ("http://u@h/", None, None, [b"u"], b"Basic dTo="),  # a token is a user name without a password
        ("http://u@h/", GIVEN, HELD, [b"u"], HELD_LINE),
        ("http://@h/", None, None, [None], None),
        ("http://:p@h/", None, HELD, [], b"Basic OnA="),
    ],
)
def test_retrieve_sends_credentials_of_expected_source(
    text: str,
    login: Credentials | None,
    held: Credentials | None,
    asked_for: list[bytes | None],
    value: bytes | None,
) -> None:
    asked, head = head_of(text, Options(login=login), held)
    assert [step.user for step in asked] == asked_for
    sent = [line for line in head.split(b"\r\n") if line.lower().startswith(b"authorization")]
    assert sent == ([] if value is None else [b"Authorization: " + value])


def test_retrieve_plan_has_expected_steps() -> None:
    steps: list[Step] = rehearse(retrieve(url_of("https://u:secret@h/a")))
    assert [type(step) for step in steps] == [Acquire, Send, Receive, StartBody, CopyBody]
    say = steps[1]
    assert isinstance(say, Send)
    assert b"Authorization: ****\r\n" in say.lines[0].shown
    assert b"secret" not in say.lines[0].shown
    assert steps[0] == Acquire(((b"Authorization", b"Basic dTpzZWNyZXQ="),), tls=True)


def request(method: bytes = b"GET") -> bytes:
    return (
        method + b" /x HTTP/1.1\r\nHost: h.dom\r\nUser-Agent: url-resolver\r\nAccept: */*\r\n"
        b"Accept-Encoding: identity\r\n\r\n"
    )


def script(*turns: bytes, end: End = "left") -> Connection:
    """Return a connection whose turns alternate between client and server."""
    sides: tuple[Literal["C"], Literal["S"]] = ("C", "S")
    return Connection(
        tuple(TranscriptTurn(sides[index % 2], octets) for index, octets in enumerate(turns)), end
    )


LENGTH = b"Content-Length: 5\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n" + LENGTH


async def test_want_facts_sends_head() -> None:
    gate = MemoryGate([script(request(b"HEAD"), OK)], options=Options(want="facts"), logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert (reply.size, reply.modified is not None) == (5, True)
        assert [octets async for octets in reply.body] == []
    assert gate.loans[0].kept is not None
    gate.check_finished()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (b"", None),
        (b"Content-Disposition: inline\r\n", None),
        (b'Content-Disposition: attachment; filename="../a b"\r\n', b"../a b"),
        (b"Content-Disposition: attachment\r\nContent-Disposition: attachment; filename=late\r\n", None),
    ],
)
async def test_suggested_name_is_unchanged(fields: bytes, name: bytes | None) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + fields + LENGTH
    gate = MemoryGate([script(request(b"HEAD"), answer)], options=Options(want="facts"), logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert reply.suggested == name


@pytest.mark.parametrize("status", [b"405 No", b"501 No"])
async def test_want_facts_without_head_support_uses_get_without_body(status: bytes) -> None:
    refusal = b"HTTP/1.1 " + status + b"\r\nContent-Length: 9\r\n\r\n"
    scripts = [script(request(b"HEAD"), refusal), script(request(), OK)]
    gate = MemoryGate(scripts, options=Options(want="facts"), logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert reply.size == 5
        assert [octets async for octets in reply.body] == []
    assert gate.loans[-1].kept is None
    gate.check_finished()


async def test_head_refused_raises() -> None:
    gate = MemoryGate(
        [script(request(b"HEAD"), b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\n")],
        options=Options(want="facts"),
        logins=[None],
    )
    with pytest.raises(NotFound):
        async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate):
            pass
    assert gate.loans[0].kept is not None


async def test_want_file_requests_identity_coding() -> None:
    coded = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"
    gate = MemoryGate([script(request(), coded)], options=Options(want="file"), logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert [octets async for octets in reply.body] == []
    assert [finding.rule for finding in reply.findings] == ["http:coded"]
    assert reply.size is None
    gate.check_finished()


def perform(used: bool, *, gone: int) -> list[type[Step]]:
    """Return the steps when the first `gone` response heads do not arrive."""
    player = Player(retrieve(url_of("http://h/")), ValueScript(leaving(gone, used=True if used else None)))
    player.play()
    return [type(step) for step in player.steps]


ONCE = [Send, Receive]


def test_retrieve_on_closed_pooled_connection_reconnects() -> None:
    assert perform(True, gone=0) == [RequestCredentials, Acquire, *ONCE, StartBody, CopyBody]
    assert perform(True, gone=1) == [
        RequestCredentials,
        Acquire,
        *ONCE,
        Connect,
        *ONCE,
        StartBody,
        CopyBody,
    ]


@pytest.mark.parametrize(("used", "gone"), [(False, 1), (True, 2)])
def test_retrieve_on_closed_new_connection_raises(used: bool, gone: int) -> None:
    with pytest.raises(Disconnected):
        perform(used, gone=gone)


# Connection reuse: which responses leave the connection usable.

REQUEST = (
    b"GET /x HTTP/1.1\r\nHost: h.dom\r\nUser-Agent: url-resolver\r\nAccept: */*\r\n"
    b"Accept-Encoding: gzip, deflate\r\n\r\n"
)
ANSWER_OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


def gate_of(said: bytes, cutter: Cutter = CUTTERS[0], limits: Limits | None = None) -> MemoryGate:
    script = Connection((TranscriptTurn("C", REQUEST), TranscriptTurn("S", said)), "left")
    return MemoryGate([script], cutter, limits=limits, options=Options(), logins=[None])


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (ANSWER_OK + b"Content-Length: 2\r\n\r\nhi", True),
        (ANSWER_OK + b"Content-Length: 0\r\n\r\n", True),
        (ANSWER_OK + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 204 No\r\n\r\n", True),
        (ANSWER_OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", False),
        # more bytes than announced: the connection is not trusted
        (ANSWER_OK + b"Content-Length: 2\r\n\r\nhi!", False),
        (ANSWER_OK + CHUNKED + b"0\r\n\r\n!", False),
        (b"HTTP/1.1 204 No\r\n\r\n!", False),
        (ANSWER_OK + b"Content-Length: 3\r\n" + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", False),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 3\r\n\r\nyes", True),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n" + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n", True),
        # the rest is not waited for
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 4\r\n\r\nyes", False),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n" + CHUNKED + b"2\r\nhi\r\n", False),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n" + CHUNKED + b"zz\r\n", False),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", False),
        (b"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nno!", True),
        (b"HTTP/1.1 404 No\r\nContent-Length: 3\r\n\r\nno!!", False),
        (b"HTTP/1.1 404 No\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno!", False),
        (ANSWER_OK + b"Content-Encoding: compress\r\nContent-Length: 2\r\n\r\nhi", False),
    ],
)
async def test_connection_is_pooled_only_after_complete_response(said: bytes, kept: bool) -> None:
    gate = gate_of(said)
    try:
        async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
            _ = [octets async for octets in reply.body]
    except ResolveError:
        pass
    gate.check_finished()
    assert (gate.loans[0].kept is not None) is kept


@pytest.mark.parametrize("cutter", CUTTERS[1:], ids=lambda cutter: cutter.__name__)
async def test_connection_with_unread_body_is_not_pooled(cutter: Cutter) -> None:
    gate = gate_of(ANSWER_OK + b"Content-Length: 6\r\n\r\nhello!", cutter)
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        await anext(aiter(reply.body))
    assert gate.loans[0].kept is None


async def test_connection_with_body_received_with_head_is_pooled() -> None:
    gate = gate_of(ANSWER_OK + b"Content-Length: 6\r\n\r\nhello!")
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert reply.verified == {"length"}
    assert gate.loans[0].kept is not None


async def test_body_iterated_again_after_end_is_empty() -> None:
    gate = gate_of(ANSWER_OK + CHUNKED + b"2\r\nhi\r\n0\r\n\r\n")
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert [octets async for octets in reply.body] == [b"hi"]
        assert [octets async for octets in reply.body] == []
    assert reply.verified == {"terminator"}


async def test_small_chunks_are_joined() -> None:
    """Chunks read together are one piece."""
    gate = gate_of(ANSWER_OK + CHUNKED + b"1\r\nx\r\n" * 5_000 + b"0\r\n\r\n")
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert [len(octets) async for octets in reply.body] == [5_000]


GOOD = [
    ANSWER_OK + b"Content-Length: 5\r\nContent-Type: text/plain\r\n\r\nhello",
    ANSWER_OK + CHUNKED + b"5;x\r\nhello\r\n0\r\nT: u\r\n\r\n",
    ANSWER_OK + b"Content-Encoding: gzip\r\nContent-Length: 25\r\n\r\n" + gzip.compress(b"hello", mtime=0),
    ANSWER_OK
    + b"Content-Encoding: deflate\r\n"
    + CHUNKED
    + b"d\r\n"
    + zlib.compress(b"hello")
    + b"\r\n0\r\n\r\n",
    b"HTTP/1.1 103 Early\r\n\r\n" + ANSWER_OK + b"\r\nhello",
    b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 503 No\r\nRetry-After: 5\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
]
#: The position, the number of bytes removed, and the replacement.
edits = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 4),
        st.sampled_from(
            [b"", b"\r\n", b"\n", b"0", b"9" * 30, b",", b": ", b"\0", b"\xff", b"gzip", b"chunked"]
        ),
    ),
    min_size=1,
    max_size=4,
)


@given(st.sampled_from(GOOD), edits, st.sampled_from(["close", "reset", "cut", "quiet"]), st.booleans())
async def test_retrieve_any_bytes_give_reply_or_error(
    said: bytes, changes: list[tuple[float, int, bytes]], end: End, drained: bool
) -> None:
    for where, gone, instead in changes:
        at = int(where * len(said))
        said = said[:at] + instead + said[at + gone :]
    script = Connection((TranscriptTurn("C", REQUEST), TranscriptTurn("S", said)), end)
    gate = MemoryGate([script], limits=Limits(line=200, lines=10), logins=[None])
    sink = MemorySink()
    with suppress(ResolveError):
        async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
            if drained:
                await reply.body.drain(sink)
            else:
                sink.octets += b"".join([octets async for octets in reply.body])
    assert len(sink.octets) <= 1_032 * len(said)  # the maximum ratio of deflate
    gate.check_finished()


# A caller's request and its response: both unchanged. The request is repeated only if that is safe.

HOST: Headers = ((b"Host", b"h"),)
RELAY_CHUNKED: Headers = (*HOST, (b"Transfer-Encoding", b"chunked"))
TEXT = b"some text\n"


def source_of(pieces: Iterator[bytes]) -> Callable[[], Awaitable[bytes]]:
    async def next_piece() -> bytes:
        return next(pieces, b"")

    return next_piece


def gate_to(said: bytes, *answered: bytes) -> MemoryGate:
    turns = (TranscriptTurn("C", said), *(TranscriptTurn("S", octets) for octets in answered))
    return MemoryGate([Connection(turns, "left")])


ASKED = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "status", "reason", "meta", "body"),
    [
        (b"404 No\r\nContent-Length: 2\r\n\r\nhi", 404, "No", (("content-length", "2"),), b"hi"),
        (
            b"302 Found\r\nLocation: ftp://h/\r\nContent-Length: 0\r\n\r\n",
            302,
            "Found",
            (("location", "ftp://h/"), ("content-length", "0")),
            b"",
        ),
        (b"304 Same\r\nContent-Length: 9\r\n\r\n", 304, "Same", (("content-length", "9"),), b""),
        (
            b"200 OK\r\nA: b\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
            % len(gzip.compress(TEXT, mtime=0))
            + gzip.compress(TEXT, mtime=0),
            200,
            "OK",
            (("a", "b"),),
            TEXT,
        ),
        (
            b"200 OK\r\nContent-Encoding: utf-8\r\nContent-Length: 2\r\n\r\nhi",
            200,
            "OK",
            (("content-encoding", "utf-8"), ("content-length", "2")),
            b"hi",
        ),
    ],
)
async def test_relay_returns_response_unchanged(
    answer: bytes, status: int, reason: str, meta: tuple[tuple[str, str], ...], body: bytes
) -> None:
    gate = gate_to(ASKED, b"HTTP/1.1 " + answer)
    async with hold(relay(HttpRequest(b"GET", b"/", HOST), Options(), Limits(), tls=False), gate) as reply:
        assert reply.extra == {"status": status, "reason": reason, "version": "HTTP/1.1"}
        assert (reply.meta, reply.moved) == (meta, None)
        assert b"".join([octets async for octets in reply.body]) == body
    assert gate.loans[0].kept is True
    gate.check_finished()


async def test_relay_reports_http_version_of_response() -> None:
    gate = gate_to(ASKED, b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
    async with hold(relay(HttpRequest(b"GET", b"/", HOST), Options(), Limits(), tls=False), gate) as reply:
        assert (reply.extra or {})["version"] == "HTTP/1.0"


@pytest.mark.parametrize(
    ("coding", "error"),
    [(b"gzip, gzip", LimitExceeded), (b"utf-8, gzip", LimitExceeded), (b"br", ProtocolError)],
)
async def test_relay_unsupported_coding_raises_before_body(coding: bytes, error: type[ProtocolError]) -> None:
    gate = gate_to(ASKED, b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\n\r\n" % coding)
    with pytest.raises(error):
        async with hold(relay(HttpRequest(b"GET", b"/", HOST), Options(), Limits(), tls=False), gate):
            raise AssertionError("the body was started")


async def test_relay_sends_known_body_with_head() -> None:
    length = (*HOST, (b"Content-Length", b"2"))
    gate = gate_to(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi", b"HTTP/1.1 204 No\r\n\r\n")
    dialogue = relay(HttpRequest(b"POST", b"/", length, b"hi"), Options(), Limits(), tls=False)
    async with hold(dialogue, gate):
        pass
    assert gate.loans[0].kept is True
    gate.check_finished()


@pytest.mark.parametrize(("headers", "body"), [(HOST, b"x"), ((*HOST, (b"Content-Length", b"5")), b"four")])
def test_relay_body_length_mismatch_opens_nothing(headers: Headers, body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        next(relay(HttpRequest(b"POST", b"/", headers, body), Options(), Limits(), tls=False))
    assert caught.value.rule == "S02"


def steps_of(dialogue: Dialogue[object], *, used: object, gone: int) -> list[type[Step]]:
    """Return the steps up to the head when the first `gone` response heads do not arrive."""
    player = Player(dialogue, ValueScript(leaving(gone, used=used)))
    player.advance(StartBody)
    return [type(step) for step in player.steps]


@pytest.mark.parametrize(
    ("method", "whole", "again"),
    [(b"GET", True, True), (b"PUT", True, True), (b"POST", True, False), (b"PUT", False, False)],
)
def test_relay_repeats_only_idempotent_requests(method: bytes, whole: bool, again: bool) -> None:
    body = b"x" if whole else source_of(iter([b"x"]))
    said: type[Step] = Send if whole else SendBody

    def dialogue() -> Dialogue[object]:
        return relay(HttpRequest(method, b"/", RELAY_CHUNKED, body), Options(), Limits(), tls=False)

    assert steps_of(dialogue(), used=True, gone=0) == [Acquire, said, Receive, StartBody]
    if again:
        assert steps_of(dialogue(), used=True, gone=1) == [
            Acquire,
            said,
            Receive,
            Connect,
            said,
            Receive,
            StartBody,
        ]
    for used, gone in ((None, 1), (True, 2 if again else 1)):
        with pytest.raises(Disconnected):
            steps_of(dialogue(), used=used, gone=gone)


class FramesState:
    """The pool state of an HTTP/2 connection."""


def test_relay_returns_http2_connection_and_acquires_another() -> None:
    dialogue = relay(HttpRequest(b"POST", b"/", RELAY_CHUNKED, b"x"), Options(), Limits(), tls=True)
    frames = FramesState()
    known: list[object] = [frames, True]
    player = Player(dialogue, ValueScript(lambda step: known.pop(0) if isinstance(step, Acquire) else None))
    assert player.advance(Send) is not None
    first, kept, other, _ = player.steps
    assert kept == ReleaseToPool(frames)
    assert isinstance(first, Acquire)
    assert isinstance(other, Acquire)
    assert first.pool_key != other.pool_key
