"""A request of a program's and its answer: sent as it is, told as it is, and sent twice only where that does
no harm."""

from __future__ import annotations

import gzip
from collections.abc import Awaitable, Callable, Iterator

import pytest

from protocols.conversation.driver import hold
from protocols.http.dialogue import relay
from protocols.http.request import Headers, HttpRequest
from protocols.step import Acquire, Connect, Dialogue, Receive, ReleaseToPool, Send, SendBody, StartBody, Step
from resolver import Disconnected, LimitExceeded, Limits, Options, ProtocolError, Refused
from resolver.testing import Player, ValueScript
from resolver.testing.player import leaving
from resolver.testing.transcript import Connection, TranscriptTurn
from tests.protocols.in_memory import MemoryGate

HOST: Headers = ((b"Host", b"h"),)
CHUNKED: Headers = (*HOST, (b"Transfer-Encoding", b"chunked"))
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
    ],
)
async def test_an_answer_is_told_as_it_is(
    answer: bytes, status: int, reason: str, meta: tuple[tuple[str, str], ...], body: bytes
) -> None:
    gate = gate_to(ASKED, b"HTTP/1.1 " + answer)
    async with hold(relay(HttpRequest(b"GET", b"/", HOST), Options(), Limits(), tls=False), gate) as reply:
        assert reply.extra == {"status": status, "reason": reason, "version": "HTTP/1.1"}
        assert (reply.meta, reply.moved) == (meta, None)
        assert b"".join([octets async for octets in reply.body]) == body
    assert gate.loans[0].kept is True
    gate.check_finished()


@pytest.mark.parametrize(("coding", "error"), [(b"gzip, gzip", LimitExceeded), (b"x-unknown", ProtocolError)])
async def test_what_cannot_be_undone_is_not_begun(coding: bytes, error: type[ProtocolError]) -> None:
    gate = gate_to(ASKED, b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\n\r\n" % coding)
    with pytest.raises(error):
        async with hold(relay(HttpRequest(b"GET", b"/", HOST), Options(), Limits(), tls=False), gate):
            raise AssertionError("it has begun")


async def test_a_body_that_is_known_leaves_with_its_head() -> None:
    length = (*HOST, (b"Content-Length", b"2"))
    gate = gate_to(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi", b"HTTP/1.1 204 No\r\n\r\n")
    dialogue = relay(HttpRequest(b"POST", b"/", length, b"hi"), Options(), Limits(), tls=False)
    async with hold(dialogue, gate):
        pass
    assert gate.loans[0].kept is True
    gate.check_finished()


@pytest.mark.parametrize(("headers", "body"), [(HOST, b"x"), ((*HOST, (b"Content-Length", b"5")), b"four")])
def test_a_body_that_is_not_as_announced_opens_nothing(headers: Headers, body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        next(relay(HttpRequest(b"POST", b"/", headers, body), Options(), Limits(), tls=False))
    assert caught.value.rule == "S02"


def steps_of(dialogue: Dialogue[None], *, used: object, gone: int) -> list[type[Step]]:
    """The steps as far as the head, when the first `gone` of them are not to be had."""
    player = Player(dialogue, ValueScript(leaving(gone, used=used)))
    player.advance(StartBody)
    return [type(step) for step in player.steps]


@pytest.mark.parametrize(
    ("method", "whole", "again"),
    [(b"GET", True, True), (b"PUT", True, True), (b"POST", True, False), (b"PUT", False, False)],
)
def test_what_is_sent_twice_when_a_kept_connection_is_gone(method: bytes, whole: bool, again: bool) -> None:
    body = b"x" if whole else source_of(iter([b"x"]))
    said: type[Step] = Send if whole else SendBody

    def dialogue() -> Dialogue[None]:
        return relay(HttpRequest(method, b"/", CHUNKED, body), Options(), Limits(), tls=False)

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


class Frames:
    """What a connection that speaks in them is kept with."""


def test_a_connection_in_frames_goes_back_where_nobody_is_to_speak_so() -> None:
    dialogue = relay(HttpRequest(b"POST", b"/", CHUNKED, b"x"), Options(), Limits(), tls=True)
    frames = Frames()
    known: list[object] = [frames, True]
    player = Player(dialogue, ValueScript(lambda step: known.pop(0) if isinstance(step, Acquire) else None))
    assert player.advance(Send) is not None
    first, kept, other, _ = player.steps
    assert kept == ReleaseToPool(frames)
    assert isinstance(first, Acquire)
    assert isinstance(other, Acquire)
    assert first.pool_key != other.pool_key
