"""How often a place is asked that cannot be reached: once where that will most likely last, and as often as
there is patience for once it was heard from."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from resolver import (
    Disconnected,
    Event,
    Limits,
    NetworkError,
    ProtocolError,
    ResolveError,
    Resolver,
    RetryPolicy,
    Started,
    TimedOut,
    Unreachable,
)
from resolver.network import stream
from resolver.network.stream_settings import CAPACITY, Contacts
from tests.resolver.gate.peers import closed_port

#: What the peer at a port does with its first, second, … connection; then it no longer listens.
Behaviour = Callable[[trio.SocketStream], Awaitable[None]]

#: Seconds of silence after which a peer is given up, where silence is what it does.
SILENCE = 0.2

TRIES = RetryPolicy(tries=3, delay=0.001)
TRIES_ALL = RetryPolicy(tries=3, delay=0.001, retry_all=True)


async def silence(peer: trio.SocketStream) -> None:
    await peer.receive_some()  # until it leaves


async def leaving(peer: trio.SocketStream) -> None:
    """At once, and without a word."""


async def half(peer: trio.SocketStream) -> None:
    await peer.receive_some()
    await peer.send_all(b'HTTP/1.1 200 OK\r\nETag: "1"\r\nContent-Length: 10\r\n\r\nhalf ')


async def whole(peer: trio.SocketStream) -> None:
    await peer.receive_some()
    await peer.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


async def other(peer: trio.SocketStream) -> None:
    await peer.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await peer.receive_some()


async def greeting(peer: trio.SocketStream) -> None:
    await peer.send_all(b"220 go on\r\n")
    await peer.receive_some()


class Peer:
    """`behaviours`, one a connection, the last for all that follow; with `ends` nobody listens behind it."""

    def __init__(self, *behaviours: Behaviour, ends: bool = False) -> None:
        self._behaviours = list(behaviours)
        self._ends = ends
        self.connections = 0

    async def listen(self, nursery: trio.Nursery) -> int:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        nursery.start_soon(self._serve, listener)
        return int(listener.socket.getsockname()[1])

    async def _serve(self, listener: trio.SocketListener) -> None:
        place = listener.socket.getsockname()
        async with listener:
            while self._behaviours:
                peer = await listener.accept()
                self.connections += 1
                last = len(self._behaviours) == 1
                behaviour = self._behaviours[0] if last and not self._ends else self._behaviours.pop(0)
                if not self._behaviours:
                    await listener.aclose()
                    return await self._end(place, behaviour, peer)
                async with peer:
                    await behaviour(peer)

    async def _end(self, place: tuple[str, int], behaviour: Behaviour, peer: trio.SocketStream) -> None:
        """The last one; then nobody listens at the port, and nobody else can."""
        with socket.socket() as bound:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # its connections are there still
            bound.bind(place)
            async with peer:
                await behaviour(peer)
            await trio.sleep_forever()


async def attempts_of(
    *urls: str, patience: RetryPolicy = TRIES, limits: Limits | None = None
) -> tuple[ResolveError, int]:
    """The error of the last URL, and how often that was tried; those before it are had."""
    events: list[Event] = []
    async with Resolver(patience=patience, limits=limits, on_event=events.append) as session:
        for url in urls[:-1]:
            await session.fetch(url)
        events.clear()
        with pytest.raises(ResolveError) as raised:
            await session.fetch(urls[-1])
    attempts = sum(isinstance(event, Started) for event in events)
    assert raised.value.attempts == attempts
    return raised.value, attempts


@pytest.mark.parametrize("scheme", ["ftp", "http", "https", "gopher", "nntp", "wais", "ftps"])
@pytest.mark.parametrize(("patience", "attempts"), [(TRIES, 1), (TRIES_ALL, 3)])
async def test_who_refuses(scheme: str, patience: RetryPolicy, attempts: int) -> None:
    with closed_port() as port:
        name = {"nntp": "a.group/1", "wais": "db?x"}.get(scheme, "x")
        url = f"{scheme}://127.0.0.1:{port}/{name}"
        error, tried = await attempts_of(url, patience=patience)
    assert (type(error), tried, error.exit_code) == (Unreachable, attempts, 4)


@pytest.mark.parametrize("scheme", ["ftp", "nntp"])
@pytest.mark.parametrize(("patience", "attempts"), [(TRIES, 1), (TRIES_ALL, 3)])
async def test_who_never_greets(
    scheme: str, patience: RetryPolicy, attempts: int, nursery: trio.Nursery
) -> None:
    peer = Peer(silence)
    port = await peer.listen(nursery)
    limits = Limits(idle=SILENCE)
    error, tried = await attempts_of(
        f"{scheme}://127.0.0.1:{port}/a.group/1", patience=patience, limits=limits
    )
    assert (type(error), tried, peer.connections) == (TimedOut, attempts, attempts)


@pytest.mark.parametrize(("long", "attempts"), [(-1.0, 1), (None, 3)], ids=["after long", "at once"])
async def test_who_leaves_without_a_greeting(
    long: float | None, attempts: int, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has too much to do leaves at once; one of another protocol waits for a request first."""
    if long is not None:
        monkeypatch.setattr(stream, "_LONG_SILENCE", long)
    peer = Peer(leaving)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"ftp://127.0.0.1:{port}/x")
    assert (type(error), tried, peer.connections) == (Disconnected, attempts, attempts)


async def test_another_protocol_is_an_answer(nursery: trio.Nursery) -> None:
    peer = Peer(other)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"ftp://127.0.0.1:{port}/x", patience=TRIES_ALL)
    assert (type(error), tried) == (ProtocolError, 1)


@pytest.mark.parametrize("after", [silence, leaving], ids=["silent", "leaves"])
async def test_a_silent_answer_to_a_request_is_waited_for(after: Behaviour, nursery: trio.Nursery) -> None:
    """Who has to be asked first is not expected to greet."""

    async def asked(peer: trio.SocketStream) -> None:
        await peer.receive_some()
        await after(peer)

    peer = Peer(asked)
    port = await peer.listen(nursery)
    _, tried = await attempts_of(f"http://127.0.0.1:{port}/x", limits=Limits(idle=SILENCE))
    assert tried == 3


async def test_after_contact_there_is_patience_in_the_same_retrieval(nursery: trio.Nursery) -> None:
    """The server comes down in the middle of a body, and may come up again."""
    peer = Peer(half, ends=True)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"http://127.0.0.1:{port}/x")
    assert (type(error), tried, peer.connections) == (Unreachable, 3, 1)


async def test_after_contact_there_is_patience_with_other_urls_of_the_place(nursery: trio.Nursery) -> None:
    peer = Peer(whole, ends=True)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"http://127.0.0.1:{port}/x", f"http://127.0.0.1:{port}/y")
    assert (type(error), tried) == (Unreachable, 3)


async def test_but_not_with_other_places(nursery: trio.Nursery) -> None:
    peer = Peer(whole)
    port = await peer.listen(nursery)
    with closed_port() as closed:
        _, tried = await attempts_of(f"http://127.0.0.1:{port}/x", f"http://127.0.0.1:{closed}/x")
    assert tried == 1


async def test_after_a_greeting_silence_is_waited_for(nursery: trio.Nursery) -> None:
    peer = Peer(greeting)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"ftp://127.0.0.1:{port}/x")
    assert (type(error), tried) == (Disconnected, 3)


async def test_a_mirror_has_its_turn_at_once(nursery: trio.Nursery, tmp_path: object) -> None:
    peer = Peer(whole)
    port = await peer.listen(nursery)
    with closed_port() as closed:
        async with Resolver(patience=RetryPolicy(tries=5, delay=1_000.0)) as session:
            saved = await session.save(
                f"http://127.0.0.1:{closed}/x",
                f"{tmp_path}/x",
                mirrors=[f"http://127.0.0.1:{port}/x"],
            )
    assert (saved.bytes, saved.attempts) == (2, 2)


def test_of_very_many_places_the_first_are_forgotten() -> None:
    contacts = Contacts()
    first = contacts["h", 0]
    assert contacts["h", 0] is first
    for port in range(1, CAPACITY + 1):
        contacts["h", port]
    assert contacts["h", 0] is not first


def test_what_lasts_is_said_by_every_copy() -> None:
    error = Unreachable("refused", lasting=True)
    assert error.at("x:").tried(3).lasting
    assert not error.passing().lasting
    assert not NetworkError("gone").lasting
