"""Retries: pauses, mirrors of a URL prefix, and the number of attempts for an unreachable server."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
import trio
import trio.testing

from fixtures.faulty import Fault, FaultyServer, Profile, serve
from protocols.text import Masked
from resolver import (
    Disconnected,
    Event,
    Limits,
    NetworkError,
    NotConfigured,
    Policy,
    ProtocolError,
    Refused,
    ResolveError,
    Resolver,
    RetryPolicy,
    Started,
    TimedOut,
    Truncated,
    TryLater,
    Unreachable,
    Validators,
    parse,
)
from resolver.network import stream
from resolver.network.stream_settings import CAPACITY, Contacts
from resolver.transfer.redirects import MirrorPrefixes
from resolver.transfer.retry import OVERLAP
from tests.resolver.network.peers import closed_port
from tests.resolver.transfer.test_segmented import state_in

PATIENCE = RetryPolicy(tries=5, delay=2.0)


@pytest.mark.parametrize(
    ("failures_in_a_row", "most"), [(0, 2.0), (1, 2.0), (2, 4.0), (3, 8.0), (9, 60.0), (99, 60.0)]
)
def test_pause_doubles_up_to_60_s(failures_in_a_row: int, most: float) -> None:
    assert 0.75 * most <= PATIENCE.pause(failures_in_a_row, Disconnected("gone")) <= most


def test_pause_follows_time_of_server() -> None:
    assert PATIENCE.pause(1, TryLater("not now")) <= 2.0
    assert PATIENCE.pause(1, TryLater("not now", after=30.0)) == 30.0
    soon = TryLater("not now", until=datetime.now(UTC) + timedelta(seconds=100))
    assert 0 < PATIENCE.pause(1, soon) <= 100.0
    past = TryLater("not now", until=datetime(1994, 11, 6, tzinfo=UTC))
    assert PATIENCE.pause(1, past) == 0.0


def test_retry_policy_before_data_counts_its_own_tries() -> None:
    policy = RetryPolicy(tries=5, tries_before_data=1)
    error = TryLater("later")
    assert [policy.gives_up(1, error, has_data=has_data) for has_data in (False, True)] == [True, False]
    assert not RetryPolicy(tries=5).gives_up(1, error, has_data=False)


# Mirrors of a URL prefix: the URL that results, and the change from one location to the next.

SAID: Mapping[str, tuple[str, ...]] = {
    "http://h/": ("http://all",),
    "http://h/pub": ("http://m/h/", "ftp://f"),
    "http://h/pub/deep/": ("http://n/",),
    "http://h:81/a%20b/": ("http://n",),
    "ftp://h/one.iso": ("ftp://m/other.iso",),
    "ftp://h/%2Fsrv/": ("http://m/srv",),
}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h/x", ["http://all/x"]),
        ("http://h/public/x", ["http://all/public/x"]),
        ("http://h/pub/x", ["http://m/h/x", "ftp://f/x"]),
        ("http://H:80/pub/x", ["http://m/h/x", "ftp://f/x"]),
        ("http://me:secret@h/pub/x#y", ["http://m/h/x", "ftp://f/x"]),
        ("http://h/pub/x?y", ["http://m/h/x?y"]),  # an ftp URL has no query, so an ftp mirror is not used
        ("http://h/pub/", ["http://m/h/", "ftp://f/"]),
        ("http://h/pub", ["http://m/h/", "ftp://f"]),
        ("http://h/", ["http://all/"]),
        ("http://h/pub/deep/x//y", ["http://n/x//y"]),
        ("http://h:81/a%20b/c", ["http://n/c"]),
        ("http://h:81/a%20b%2Fc", None),
        ("https://h/x", None),
        ("ftp://h/one.iso", ["ftp://m/other.iso"]),
        ("ftp://h/one.iso;type=i", None),
        ("ftp://h/%2Fsrv/x", ["http://m/srv/x"]),
        ("file:///pub/x", None),
        ("mailto:me@h", None),
    ],
)
def test_longest_mirror_prefix_is_used(url: str, expected: list[str] | None) -> None:
    result = MirrorPrefixes(SAID).find(parse(url))
    assert (None if result is None else list(result[1])) == expected


@pytest.mark.parametrize(
    ("prefix", "mirrors", "what"),
    [
        ("h/", (), "a URL"),
        ("file:///h/", (), "file:///h/.* host"),
        ("http://h/", ("m",), "a URL"),
        ("http://h/", ("http://m?x",), "path"),
        ("http://h/", "http://m", "list"),
    ],
)
def test_invalid_mirror_prefix_is_not_configured(prefix: str, mirrors: tuple[str, ...], what: str) -> None:
    with pytest.raises(NotConfigured, match=what):
        Resolver(mirrored={prefix: mirrors})


CONTENT = bytes(range(250)) * 200
DIGEST = f"sha256:{sha256(CONTENT).hexdigest()}"
#: Each connection is truncated after a part of the body, resumed transfers too.
CUT = Profile(fault=Fault("cut", "body"))
PATIENT = RetryPolicy(tries=1)


def policy_for(*servers: FaultyServer) -> Policy:
    return Policy(allow_port=frozenset(server.port for server in servers))


def below(server: FaultyServer) -> str:
    return server.url().rpartition("/")[0] + "/"


@pytest.mark.parametrize("second", ["http", "ftp"])
@pytest.mark.parametrize("first", ["http", "ftp"])
@pytest.mark.parametrize("checksum", [DIGEST, None])
async def test_mirror_resumes_only_with_digest(
    first: str, second: str, checksum: str | None, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """With a digest, the mirror resumes the same partial file by Range or REST.

    Without a digest, the download restarts.
    """
    one = await serve(nursery, first, CONTENT, CUT)
    two = await serve(nursery, second, CONTENT)
    mirrors = {below(one): [below(two)]}
    async with Resolver(policy=policy_for(one, two), mirrored=mirrors, patience=PATIENT) as session:
        saved = await session.save(one.url(), tmp_path / "it", checksum=checksum)
    assert (tmp_path / "it").read_bytes() == CONTENT
    assert os.listdir(tmp_path) == ["it"]
    assert (saved.mirror, saved.attempts) == (two.url(), 2)
    assert "save:mirror" in [finding.rule for finding in saved.findings]
    assert saved.resumed_from == (one.reached if checksum else 0)
    assert two.sent == len(CONTENT) - max(0, saved.resumed_from - OVERLAP) if checksum else len(CONTENT)
    assert ("digest" in saved.verified) == (checksum is not None)


@pytest.mark.parametrize("first", ["http", "ftp"])
async def test_part_of_several_mirrors_is_resumed_by_later_run(
    first: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The state of a partial file has the requested URL, and only the validators of that URL.

    Here, a mirror transferred most of the file, and the requested URL is tried again.
    """
    one = await serve(nursery, first, CONTENT, CUT)
    two = await serve(nursery, "http", CONTENT, Profile(fault=Fault("cut", "body", share=80)))
    mirrors = {below(one): [below(two)]}
    async with Resolver(policy=policy_for(one, two), mirrored=mirrors, patience=PATIENT) as session:
        with pytest.raises(Truncated):
            await session.save(one.url(), tmp_path / "it", checksum=DIGEST)
        state = state_in(tmp_path)
        assert state is not None
        assert (state.url, state.complete, state.known) == (one.url(), False, Validators(size=len(CONTENT)))
        held = (tmp_path / "it.part").read_bytes()
        assert len(held) > len(CONTENT) // 2
        assert CONTENT.startswith(held)
        one.remove_faults()
        saved = await session.save(one.url(), tmp_path / "it", checksum=DIGEST)
    assert (saved.resumed_from, saved.mirror) == (len(held), None)
    assert (tmp_path / "it").read_bytes() == CONTENT


async def test_mirror_of_prefix_is_trusted(nursery: trio.Nursery, tmp_path: Path) -> None:
    """S08 (private addresses) would refuse the mirror's address in an untrusted request, but not here."""

    async def answer(peer: trio.SocketStream) -> None:
        async with peer:
            await peer.receive_some()
            await peer.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.2")
    nursery.start_soon(trio.serve_listeners, answer, listeners)
    port = listeners[0].socket.getsockname()[1]
    one = await serve(nursery, "http", CONTENT, Profile(fault=Fault("later", "greeting")))
    policy = Policy(allow_port=frozenset({one.port, port}), allow_address=frozenset({"127.0.0.1/32"}))
    mirror = f"http://127.0.0.2:{port}/"
    async with Resolver(policy=policy, mirrored={below(one): [mirror]}, patience=PATIENT) as session:
        saved = await session.save(one.url(), tmp_path / "it", origin="derived")
        assert saved.mirror == f"{mirror}object.bin"
    async with Resolver(policy=policy, patience=PATIENT) as session:
        with pytest.raises(Refused, match="S08"):
            await session.save(one.url(), tmp_path / "no", origin="derived", mirrors=[f"{mirror}object.bin"])


# Unreachable servers get one attempt if the error will most likely last. After an earlier contact they get
# all attempts.

#: The behavior of a server on a connection.
Behavior = Callable[[trio.SocketStream], Awaitable[None]]

#: The idle timeout in seconds, for servers that are silent.
SILENCE = 0.2

TRIES = RetryPolicy(tries=3, delay=0.001)
TRIES_ALL = RetryPolicy(tries=3, delay=0.001, retry_all=True)


async def silence(peer: trio.SocketStream) -> None:
    await peer.receive_some()  # until the client closes


async def leaving(peer: trio.SocketStream) -> None:
    """Close immediately, without sending data."""


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
    """A server with a behavior for each connection. The last behavior repeats unless `ends` is set.

    With `ends`, the port is closed after the last connection.
    """

    def __init__(self, *behaviors: Behavior, ends: bool = False) -> None:
        self._behaviors = list(behaviors)
        self._ends = ends
        self.connections = 0

    async def listen(self, nursery: trio.Nursery) -> int:
        listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        nursery.start_soon(self._serve, listener)
        return int(listener.socket.getsockname()[1])

    async def _serve(self, listener: trio.SocketListener) -> None:
        place = listener.socket.getsockname()
        async with listener:
            while self._behaviors:
                peer = await listener.accept()
                self.connections += 1
                last = len(self._behaviors) == 1
                behavior = self._behaviors[0] if last and not self._ends else self._behaviors.pop(0)
                if not self._behaviors:
                    await listener.aclose()
                    return await self._end(place, behavior, peer)
                async with peer:
                    await behavior(peer)

    async def _end(self, place: tuple[str, int], behavior: Behavior, peer: trio.SocketStream) -> None:
        """Run the last behavior while the port is bound but does not accept connections."""
        with socket.socket() as bound:
            bound.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # accepted connections keep the port in use
            bound.bind(place)
            async with peer:
                await behavior(peer)
            await trio.sleep_forever()


async def attempts_of(
    *urls: str, patience: RetryPolicy = TRIES, limits: Limits | None = None
) -> tuple[ResolveError, int]:
    """Save the URLs; return the error and the number of attempts of the last URL.

    The other URLs must succeed.
    """
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
async def test_refused_connection_is_retried_only_with_retry_all(
    scheme: str, patience: RetryPolicy, attempts: int
) -> None:
    with closed_port() as port:
        name = {"nntp": "a.group/1", "wais": "db?x"}.get(scheme, "x")
        url = f"{scheme}://127.0.0.1:{port}/{name}"
        error, tried = await attempts_of(url, patience=patience)
    assert (type(error), tried, error.exit_code) == (Unreachable, attempts, 4)


@pytest.mark.parametrize("scheme", ["ftp", "nntp"])
@pytest.mark.parametrize(("patience", "attempts"), [(TRIES, 1), (TRIES_ALL, 3)])
async def test_missing_greeting_is_retried_only_with_retry_all(
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
async def test_close_before_greeting_is_retried_if_fast(
    long: float | None, attempts: int, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An overloaded server closes immediately; a server of another protocol waits for a request first."""
    if long is not None:
        monkeypatch.setattr(stream, "_LONG_SILENCE", long)
    peer = Peer(leaving)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"ftp://127.0.0.1:{port}/x")
    assert (type(error), tried, peer.connections) == (Disconnected, attempts, attempts)


async def test_response_of_another_protocol_is_not_retried(nursery: trio.Nursery) -> None:
    peer = Peer(other)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"ftp://127.0.0.1:{port}/x", patience=TRIES_ALL)
    assert (type(error), tried) == (ProtocolError, 1)


@pytest.mark.parametrize("after", [silence, leaving], ids=["silent", "leaves"])
async def test_silence_after_request_is_retried(after: Behavior, nursery: trio.Nursery) -> None:
    """A server that has received the first command does not have to send a greeting."""

    async def asked(peer: trio.SocketStream) -> None:
        await peer.receive_some()
        await after(peer)

    peer = Peer(asked)
    port = await peer.listen(nursery)
    _, tried = await attempts_of(f"http://127.0.0.1:{port}/x", limits=Limits(idle=SILENCE))
    assert tried == 3


async def test_unreachable_after_contact_is_retried(nursery: trio.Nursery) -> None:
    """The server stops during a body. It was reachable, so a restart is likely and the client retries."""
    peer = Peer(half, ends=True)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"http://127.0.0.1:{port}/x")
    assert (type(error), tried, peer.connections) == (Unreachable, 3, 1)


async def test_unreachable_after_contact_by_another_url_is_retried(nursery: trio.Nursery) -> None:
    peer = Peer(whole, ends=True)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"http://127.0.0.1:{port}/x", f"http://127.0.0.1:{port}/y")
    assert (type(error), tried) == (Unreachable, 3)


async def test_unreachable_other_port_is_not_retried(nursery: trio.Nursery) -> None:
    peer = Peer(whole)
    port = await peer.listen(nursery)
    with closed_port() as closed:
        _, tried = await attempts_of(f"http://127.0.0.1:{port}/x", f"http://127.0.0.1:{closed}/x")
    assert tried == 1


async def test_close_after_greeting_is_retried(nursery: trio.Nursery) -> None:
    peer = Peer(greeting)
    port = await peer.listen(nursery)
    error, tried = await attempts_of(f"ftp://127.0.0.1:{port}/x")
    assert (type(error), tried) == (Disconnected, 3)


async def test_mirror_is_tried_without_delay(nursery: trio.Nursery, tmp_path: object) -> None:
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


def test_contacts_forget_oldest_entries() -> None:
    contacts = Contacts()
    first = contacts["h", 0]
    assert contacts["h", 0] is first
    for port in range(1, CAPACITY + 1):
        contacts["h", port]
    assert contacts["h", 0] is not first


def test_lasting_error_copies_keep_flag() -> None:
    error = Unreachable("refused", lasting=True)
    assert error.at(Masked("x:")).tried(3).lasting
    assert not error.passing().lasting
    assert not NetworkError("gone").lasting
