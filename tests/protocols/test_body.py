"""Bodies behind a hand-over: what was read ahead, the connection, and how it ends."""

from __future__ import annotations

import pytest

from protocols.body import StreamBody
from protocols.connection import Line, Sink
from protocols.errors import Disconnected, ResolveError, TimedOut, Truncated
from protocols.wire import Buffer


class Pieces:
    """A stream that gives these pieces, then this error or the end."""

    def __init__(self, *pieces: bytes, error: ResolveError | None = None) -> None:
        self._pieces = list(pieces)
        self._error = error
        self.received = 100  # what the dialogue took before
        self.peer = "192.0.2.1"
        self.secured = self.close_notify_seen = False

    async def receive(self) -> bytes:
        octets = self._pieces.pop(0) if self._pieces else b""
        if not octets and self._error is not None:
            raise self._error
        self.received += len(octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        moved = 0
        while count is None or moved < count:
            octets = await self.receive()
            if not octets:
                break
            sink.write(octets)
            moved += len(octets)
        return moved

    async def send(self, *lines: Line) -> None:
        raise AssertionError("a body sends nothing")

    async def start_tls(self) -> None:
        raise AssertionError("a body changes nothing")

    async def aclose(self) -> None: ...


class Collected:
    def __init__(self) -> None:
        self.octets = b""

    def fileno(self) -> int:
        raise AssertionError("a sink in memory has no descriptor")

    def write(self, octets: bytes | memoryview) -> None:
        self.octets += octets


async def take(body: StreamBody, way: str, taken: Collected) -> None:
    if way == "drain":
        before = body.received
        assert await body.drain(taken) == body.received - before
        return
    async for octets in body:
        taken.write(octets)


def body_of(
    ahead: bytes, pieces: tuple[bytes, ...], error: ResolveError | None, count: int | None
) -> StreamBody:
    buffer = Buffer()
    buffer.feed(ahead) if ahead else None
    return StreamBody(Pieces(*pieces, error=error), buffer, count)


RESET, SILENCE = Disconnected("reset"), TimedOut("silence")


@pytest.mark.parametrize("way", ["iterate", "drain"])
@pytest.mark.parametrize(
    ("ahead", "pieces", "count"),
    [
        (b"", (), None),
        (b"", (), 0),
        (b"ab", (), 2),
        (b"ab", (b"cd", b"e"), None),
        (b"ab", (b"cd", b"e"), 5),
        (b"", (b"abcde",), 5),
        (b"abcde", (), None),
    ],
)
async def test_a_whole_body(way: str, ahead: bytes, pieces: tuple[bytes, ...], count: int | None) -> None:
    taken = Collected()
    body = body_of(ahead, pieces, None, count)
    await take(body, way, taken)
    assert taken.octets == ahead + b"".join(pieces)
    assert body.received == len(taken.octets)


@pytest.mark.parametrize("way", ["iterate", "drain"])
async def test_what_is_read_ahead_and_not_the_bodys_stays(way: str) -> None:
    buffer = Buffer()
    buffer.feed(b"body226 done")
    body = StreamBody(Pieces(), buffer, 4)
    taken = Collected()
    await take(body, way, taken)
    assert (taken.octets, buffer.take()) == (b"body", b"226 done")


@pytest.mark.parametrize("way", ["iterate", "drain"])
@pytest.mark.parametrize(
    ("ahead", "pieces", "error", "count", "received"),
    [
        (b"ab", (b"cd",), None, 9, 4),
        (b"ab", (), RESET, None, 2),
        (b"", (b"cd", b"e"), RESET, None, 3),  # moved in bulk before the reset: counted all the same
        (b"ab", (b"cd",), RESET, 9, 4),
    ],
)
async def test_an_early_end_is_truncated(
    way: str,
    ahead: bytes,
    pieces: tuple[bytes, ...],
    error: ResolveError | None,
    count: int | None,
    received: int,
) -> None:
    taken = Collected()
    body = body_of(ahead, pieces, error, count)
    with pytest.raises(Truncated) as raised:
        await take(body, way, taken)
    assert (raised.value.received, raised.value.expected) == (received, count)
    assert raised.value.__cause__ is error
    assert body.received == len(taken.octets) == received


@pytest.mark.parametrize("way", ["iterate", "drain"])
@pytest.mark.parametrize(
    ("pieces", "error"),
    [((), RESET), ((), SILENCE), ((b"ab",), SILENCE)],
)
async def test_before_the_first_octet_and_in_silence_the_error_is_the_networks(
    way: str, pieces: tuple[bytes, ...], error: ResolveError
) -> None:
    with pytest.raises(type(error)) as raised:
        await take(body_of(b"", pieces, error, None), way, Collected())
    assert raised.value is error


@pytest.mark.parametrize("way", ["iterate", "drain"])
async def test_the_end_before_the_first_of_so_many_octets_is_disconnected(way: str) -> None:
    with pytest.raises(Disconnected):
        await take(body_of(b"", (), None, 1), way, Collected())


@pytest.mark.parametrize("way", ["iterate", "drain"])
async def test_something_may_be_awaited_at_the_end_and_only_once(way: str) -> None:
    calls = []

    async def at_end() -> None:
        calls.append("end")

    body = StreamBody(Pieces(b"ab"), Buffer(), None, at_end)
    taken = Collected()
    await take(body, way, taken)
    await take(body, way, taken)
    assert (calls, taken.octets) == (["end"], b"ab")
