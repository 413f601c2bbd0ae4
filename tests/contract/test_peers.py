"""The contract with wrong peers: any bytes from a peer yield a ResolveError.

The error has the URL, the exit code, and whether a retry may succeed.
"""

from __future__ import annotations

import random
import socket
import ssl
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

import resolver
from fixtures.faulty import Fault, Profile, serve
from fixtures.faulty.server import HANDLERS
from resolver import (
    Declined,
    Disconnected,
    LimitExceeded,
    Limits,
    NotFound,
    Policy,
    ProtocolError,
    ResolveError,
    Resolver,
    RetryPolicy,
    TimedOut,
    TlsError,
    Truncated,
)
from resolver.testing.contract import SECRET, Case, CaseSetting, peers
from resolver.testing.contract.case import (
    PATIENT,
    WAYS,
    IdleServer,
    Way,
    check_no_leak,
    wait_until_settled,
)
from resolver.testing.replay import Peer
from tests.contract.cases import CASES
from tests.faults.cell import CONTENT, SIZE
from tests.sampled import FULL

#: One case per scheme over TCP.
CLIENTS: tuple[Case, ...] = tuple(
    case for case in CASES if case.start is not None and case.name == case.scheme != "prospero"
)
_PLAIN = {"ftps": "ftp", "https": "http", "gophers": "gopher", "snews": "news", "nntps": "nntp"}

#: Seeds of the random peers.
SEEDS = 100 if FULL else 2

#: The kinds of requests in tests with many combinations.
FEW_WAYS = tuple(WAYS) if FULL else ("fetch", "save")

#: The body limit in bytes; an endless body ends there.
BODY = 100_000
CALM = Limits(idle=PATIENT, connect=PATIENT, body=BODY, body_everywhere=True)
ROOMY = replace(CALM, body=2 * SIZE)
#: For pairs that wait for each other.
SHORT = replace(CALM, idle=0.3, connect=2.0)

#: Two tries in sequence.
SOON = RetryPolicy(tries=2, delay=0.01)

#: The faulty replies to a datagram. Bytes 2 and 3 of an ARDP datagram identify the connection.
DATAGRAMS: dict[str, Callable[[bytes], bytes]] = {
    "empty packet": lambda asked: b"",
    "same packet": lambda asked: asked,
    "noise": lambda asked: random.Random(len(asked)).randbytes(500),
    "noise on the right connection": lambda asked: asked[:9] + random.Random(1).randbytes(500),
    "truncated header": lambda asked: asked[:5],
}


async def answer_datagrams(nursery: trio.Nursery, answer: Callable[[bytes], bytes]) -> int:
    """Start a UDP server at a free port that sends `answer` of each datagram, and return the port."""
    sock = trio.socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    await sock.bind(("127.0.0.1", 0))
    nursery.start_soon(_answer, sock, answer)
    port: int = sock.getsockname()[1]
    return port


async def _answer(sock: trio.socket.SocketType, answer: Callable[[bytes], bytes]) -> None:
    with sock:
        while True:
            datagram, source = await sock.recvfrom(65_536)
            await sock.sendto(answer(datagram), source)


async def greet(peer: Peer) -> None:
    """Send a greeting as in many protocols, but without TLS."""
    await peer.send_all(b"220 hello\r\n")
    await peers.read_to_end(peer)


#: Exit codes of the command by error class.
STATUS: dict[type[ResolveError], set[int]] = {
    Disconnected: {4},
    TlsError: {5},
    ProtocolError: {7},
    LimitExceeded: {7, 14},
    Declined: {8},
    NotFound: {8},
    Truncated: {10},
    TimedOut: {11},
}
#: The class of an operation's error; None after success.
Ended: TypeAlias = "type[ResolveError] | None"


@dataclass
class PeerOperations:
    """Concurrent operations of clients with peers.

    `ended` has the outcomes by peer, client and operation.
    """

    folder: Path
    limits: Limits = CALM
    ways: tuple[str, ...] = tuple(WAYS)
    ended: dict[tuple[str, str, str], Ended] = field(default_factory=dict)

    def begin(self, nursery: trio.Nursery, what: str, client: Case, port: int) -> None:
        """Request the document, with a password if the case has one, and the listing if any."""
        for name, way in WAYS.items():
            if name not in self.ways:
                continue
            template = client.listing if name == "entries" else client.login or client.document
            if template is not None:
                nursery.start_soon(self._ask, (what, client.name, name), client, port, template, way)

    async def _ask(self, key: tuple[str, str, str], client: Case, port: int, template: str, way: Way) -> None:
        path = self.folder / " ".join(key)
        setting = CaseSetting(client, IdleServer(port), self.folder)
        url = setting.url(template)
        self.ended[key] = None
        async with setting.resolver(limits=self.limits, patience=SOON) as session:
            try:
                await way(session, url, path)
            except ResolveError as error:
                self.ended[key] = type(error)
                check_error(error, url, client.secret)
                assert key[-1] != "save" or not path.exists()


def check_error(error: ResolveError, url: str, secret: str = SECRET) -> None:
    """Check URL, exit code and retryability of the error, and that it does not show the password."""
    assert secret not in "".join([str(error.url), repr(error), *traceback.format_exception(error)])
    assert error.url == resolver.parse(url).shown
    assert error.exit_code in STATUS[type(error)]
    assert not isinstance(error, LimitExceeded) or hasattr(CALM, error.limit)
    assert error.retryable == isinstance(error, Disconnected | TimedOut | Truncated)


#: Hostile peers for every client, and the error by scheme without TLS; "" stands for all other schemes. A
#: Gopher text has neither length nor required end: it is complete wherever the connection ends, and may be
#: empty.
HOSTILE: dict[str, tuple[peers.Attend, dict[str, Ended]]] = {
    "leaves": (peers.leave, {"": Disconnected, "gopher": None}),
    "breaks off": (peers.reset_peer, {"": Disconnected}),
    "sends endlessly": (
        peers.send_endlessly,
        {"": LimitExceeded, "http": ProtocolError, "wais": ProtocolError},
    ),
}
#: The same peers without TLS, for clients that require TLS.
UNSECURED: dict[str, tuple[peers.Attend, Ended]] = {
    "leaves in the clear": (peers.leave, Disconnected),
    "breaks off in the clear": (peers.reset_peer, Disconnected),
    "sends endlessly in the clear": (peers.send_endlessly, TlsError),
    "greets in the clear": (greet, TlsError),
}


async def test_hostile_peers_yield_expected_errors(
    nursery: trio.Nursery, tls: ssl.SSLContext, tmp_path: Path
) -> None:
    operations, expected = PeerOperations(tmp_path), dict[tuple[str, str], Ended]()
    before = await wait_until_settled()
    async with trio.open_nursery() as servers:
        async with trio.open_nursery() as clients:
            for what, (attend, ends) in HOSTILE.items():
                plain, secured = await peers.serve(servers, attend), await peers.serve(servers, attend, tls)
                for client in CLIENTS:
                    operations.begin(clients, what, client, secured if client.tls else plain)
                    own = _PLAIN.get(client.name, client.name)
                    expected[what, client.name] = ends.get(own, ends[""])
            for what, (attend, ended) in UNSECURED.items():
                port = await peers.serve(servers, attend)
                for client in CLIENTS:
                    if client.tls:
                        operations.begin(clients, what, client, port)
                        expected[what, client.name] = ended
        servers.cancel_scope.cancel()
    wrong = {key: ended for key, ended in operations.ended.items() if ended is not expected[key[:2]]}
    assert wrong == {}
    await check_no_leak(before)


#: Possible errors for bytes without meaning.
MEANINGLESS = {Disconnected, TlsError, ProtocolError, LimitExceeded, Truncated, TimedOut, Declined, NotFound}


async def test_random_bytes_yield_errors(tls: ssl.SSLContext, tmp_path: Path) -> None:
    operations = PeerOperations(tmp_path, CALM, FEW_WAYS)
    before = await wait_until_settled()
    async with trio.open_nursery() as servers:
        async with trio.open_nursery() as clients:
            for seed in range(SEEDS):
                attend = partial(peers.babble, seed=seed)
                plain, secured = await peers.serve(servers, attend), await peers.serve(servers, attend, tls)
                for client in CLIENTS:
                    operations.begin(clients, f"babbles {seed}", client, plain)
                    if client.tls:
                        operations.begin(clients, f"babbles {seed} inside TLS", client, secured)
        servers.cancel_scope.cancel()
    for (_, client_name, _), ended in operations.ended.items():
        assert ended in MEANINGLESS or client_name in ("gopher", "gophers")
    await check_no_leak(before)


async def test_garbled_answers_yield_results_or_errors(tls: ssl.SSLContext, tmp_path: Path) -> None:
    """Bytes of a good server are changed, lost and repeated; some answers remain valid."""
    operations = PeerOperations(tmp_path, SHORT)
    async with trio.open_nursery() as servers:
        async with trio.open_nursery() as clients:
            for client in CLIENTS:
                assert client.start is not None
                server = await client.start(servers, tls)
                for seed in range(0 if client.tls else SEEDS):
                    port = await peers.serve(servers, partial(peers.garble, seed=seed, port=server.port))
                    operations.begin(clients, f"garbled {seed}", client, port)
        servers.cancel_scope.cancel()
    assert set(operations.ended.values()) <= {None, *MEANINGLESS}
    assert set(operations.ended.values()) >= {None, ProtocolError}


async def test_random_datagrams_yield_timeout_or_error(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Datagrams that are not an answer are ignored until the timeout; an invalid answer may be an error."""
    (client,) = (case for case in CASES if case.name == "prospero")
    operations = PeerOperations(tmp_path, replace(CALM, total=0.3))
    ports = {what: await answer_datagrams(nursery, answer) for what, answer in DATAGRAMS.items()}
    before = await wait_until_settled()
    async with trio.open_nursery() as clients:
        for what, port in ports.items():
            operations.begin(clients, what, client, port)
    assert set(operations.ended.values()) == {TimedOut, ProtocolError}
    await check_no_leak(before)


async def test_server_of_other_protocol_yields_error(tls: ssl.SSLContext, tmp_path: Path) -> None:
    """Each client connects to the servers of all other protocols, with and without TLS."""
    operations = PeerOperations(tmp_path, SHORT, FEW_WAYS)
    before = await wait_until_settled()
    async with trio.open_nursery() as servers:
        async with trio.open_nursery() as clients:
            for there in CLIENTS:
                assert there.start is not None
                server = await there.start(servers, tls)
                for client in CLIENTS:
                    if not speak_alike(client, there):
                        operations.begin(clients, f"speaks {there}", client, server.port)
        servers.cancel_scope.cancel()
    for (_, client_name, _), ended in operations.ended.items():
        assert ended in MEANINGLESS or client_name in ("gopher", "gophers")
    await check_no_leak(before)


def speak_alike(one: Case, other: Case) -> bool:
    """Return whether both cases use the same protocol; news and nntp do."""
    names = {_PLAIN.get(case.name, case.name).replace("nntp", "news") for case in (one, other)}
    return len(names) == 1 and one.tls == other.tls


#: How and where a connection ends in a body: before its first byte, or halfway.
CUT = [Fault(kind, "body", share) for kind in ("reset", "close") for share in (0, 50)]


@pytest.mark.parametrize("fault", CUT, ids=lambda fault: f"{fault.kind} {fault.share}")
async def test_cut_before_or_within_body_yields_error(
    fault: Fault, nursery: trio.Nursery, tls: ssl.SSLContext
) -> None:
    """The error is `Disconnected` before the first byte; later `Truncated`, which counts the bytes."""
    for scheme in HANDLERS:
        server = await serve(nursery, scheme, CONTENT, Profile(fault=fault), tls)
        async with Resolver(policy=Policy(allow_port=frozenset({server.port})), limits=ROOMY) as session:
            came, error = await take(session, server.url())
            with pytest.raises(type(error)) as caught:
                await session.fetch(server.url())
        check_error(error, server.url())
        check_error(caught.value, server.url())
        if fault.share == 0:
            assert (type(error), came) == (Disconnected, b"")
        else:
            assert isinstance(error, Truncated)
            assert isinstance(caught.value, Truncated)
            assert len(came) == error.received == caught.value.received > 0
            assert CONTENT.startswith(came)


async def take(session: Resolver, url: str) -> tuple[bytes, ResolveError]:
    """Return the received bytes of a body, and its error."""
    came = b""
    try:
        async with session.stream(url) as reply:
            async for octets in reply.body:
                came += octets
    except ResolveError as error:
        return came, error
    raise AssertionError(f"{url} was expected to end early")
