"""The contract with faulty servers: each operation returns a value or raises a `ResolveError` in time.

The servers in these checks violate the protocol, with and without TLS. A refused URL causes no connection and
no DNS lookup.
"""

from __future__ import annotations

import os
import random
import ssl
import traceback
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

import resolver
from protocols.contract import Limits, Origin
from protocols.errors import (
    Declined,
    Disconnected,
    IntegrityError,
    LimitExceeded,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
    TlsError,
)
from resolver.policy.settings import Policy
from resolver.testing.contract.case import (
    FULL,
    PATIENT,
    WAYS,
    Case,
    CaseSetting,
    ContractCheck,
    IdleServer,
    ListeningSockets,
    check_no_leak,
    is_served,
    wait_until_settled,
)
from resolver.testing.replay import Peer, reset
from resolver.transfer.naming import local_file_name
from resolver.transfer.settings import RetryPolicy
from resolver.url import registry

#: A function that serves one connection. The connection is closed afterwards.
Attend: TypeAlias = Callable[[Peer], Awaitable[None]]

_BLOCK = 65_536


async def leave(peer: Peer) -> None:
    """Wait for the client's last byte, then close the connection.

    If a socket with unread bytes is closed, the kernel sends a TCP reset.
    """
    if isinstance(peer, trio.SSLStream):
        await peer.unwrap()
    else:
        await peer.send_eof()
        await read_to_end(peer)


async def read_to_end(peer: Peer) -> None:
    """Read until the client closes the connection."""
    while await peer.receive_some(_BLOCK):
        pass


async def reset_peer(peer: Peer) -> None:
    if isinstance(peer, trio.SSLStream):
        await peer.do_handshake()
        peer = peer.transport_stream
    await reset(peer)


async def send_endlessly(peer: Peer) -> None:
    """Send an endless line."""
    while True:
        await peer.send_all(b"x" * _BLOCK)


async def babble(peer: Peer, seed: int) -> None:
    """Send random bytes, and close the connection."""
    source = random.Random(seed)
    await peer.send_all(source.randbytes(source.choice((1, 30, 3_000))))
    await leave(peer)


async def garble(peer: Peer, seed: int, port: int) -> None:
    """Relay the replies of the server at `port`, with bytes changed, lost, duplicated and inserted."""
    source = random.Random(seed)
    server = await trio.open_tcp_stream("127.0.0.1", port)
    async with server, trio.open_nursery() as nursery:
        nursery.start_soon(_relay, peer, server, bytes)
        await _relay(server, peer, partial(_spoil, source))
        nursery.cancel_scope.cancel()


async def _relay(source: Peer, target: Peer, change: Callable[[bytes], bytes]) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        while octets := await source.receive_some(_BLOCK):
            await target.send_all(change(bytes(octets)))
        await target.send_eof()


def _spoil(source: random.Random, octets: bytes) -> bytes:
    spoilt = bytearray(octets)
    for _ in range(source.choice((0, 1, 1, 3))):
        at = source.randrange(len(spoilt) + 1)
        match source.randrange(4):
            case 0:
                spoilt[at : at + 1] = source.randbytes(1)
            case 1:
                del spoilt[at : at + source.choice((1, 7))]
            case 2:
                spoilt[at:at] = spoilt[at : at + 40]
            case 3:
                spoilt[at:at] = source.choice((b"\r\n", b"\n", b"\0", b" ", b"9", b".\r\n", b"\xff"))
    return bytes(spoilt)


async def serve(nursery: trio.Nursery, attend: Attend, tls: ssl.SSLContext | None = None) -> int:
    """Start a server at a free port of 127.0.0.1, and return the port.

    The server uses TLS if a context is passed, and runs until the nursery is cancelled.
    """
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(partial(trio.serve_listeners, partial(_handle, attend, tls), listeners))
    port: int = listeners[0].socket.getsockname()[1]
    return port


async def _handle(attend: Attend, tls: ssl.SSLContext | None, raw: trio.SocketStream) -> None:
    peer: Peer = raw if tls is None else trio.SSLStream(raw, tls, server_side=True)
    try:
        await attend(peer)
    except* (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        pass  # the client closed the connection, or rejected the certificate of the server
    finally:
        with trio.CancelScope(shield=True):
            await trio.aclose_forcefully(raw)


#: Maximum number of bytes of a body. The limit stops an endless body.
BODY = 100_000
CALM = Limits(idle=PATIENT, connect=PATIENT, body=BODY, body_everywhere=True)
#: Limits with short timeouts, for checks in which client and server wait for each other.
SHORT = replace(CALM, idle=0.3, connect=2.0)
ONCE = RetryPolicy(tries=1)

#: The seeds of the random data. With `RESOLVE_TESTS=full`, more seeds are used.
SEEDS = range(100 if FULL else 3)

#: The expected errors for random bytes. If the client accepts some of the bytes as a body, no error is
#: raised.
MEANINGLESS = (Declined, Disconnected, IntegrityError, ProtocolError, TimedOut, TlsError)


async def request_all(setting: CaseSetting, port: int, folder: Path, limits: Limits) -> None:
    """Request the document and the entries of a listing from the server at `port`."""
    case = setting.case
    target = CaseSetting(case, IdleServer(port), folder)
    for name in ("fetch", "save") if case.listing is None else ("fetch", "save", "entries"):
        url = target.url(case.listing if name == "entries" else case.login or case.document)
        path = folder / f"{name} {port}"
        async with target.resolver(limits=limits, patience=ONCE) as session:
            try:
                await WAYS[name](session, url, path)
            except MEANINGLESS as error:
                check_error(error, url, case.secret)
                assert not path.exists()


def check_error(error: ResolveError, url: str, secret: str) -> None:
    """Check that an error contains its URL and no password."""
    assert error.url == resolver.parse(url).shown
    assert secret not in "".join([str(error.url), repr(error), *traceback.format_exception(error)])
    assert not isinstance(error, LimitExceeded) or hasattr(CALM, error.limit)


async def check_peer(attend: Attend, setting: CaseSetting, folder: Path) -> None:
    """Check the client, also over TLS if the scheme has it, against a server with `attend`."""
    before = await wait_until_settled()
    async with trio.open_nursery() as nursery:
        tls = setting.tls if setting.case.tls else None
        await request_all(setting, await serve(nursery, attend, tls), folder, CALM)
        if tls is not None:
            await request_all(setting, await serve(nursery, attend), folder, CALM)
        nursery.cancel_scope.cancel()
    await check_no_leak(before)


async def check_babble(setting: CaseSetting, folder: Path) -> None:
    for seed in SEEDS:
        await check_peer(partial(babble, seed=seed), setting, folder)


async def check_garbled(setting: CaseSetting, folder: Path) -> None:
    """Check the client against replies in which bytes are changed, lost and duplicated."""
    for seed in SEEDS:
        async with trio.open_nursery() as nursery:
            garble_ = partial(garble, seed=seed, port=setting.port)
            await request_all(setting, await serve(nursery, garble_), folder, SHORT)
            nursery.cancel_scope.cancel()


async def check_limits(setting: CaseSetting, folder: Path) -> None:
    """Check that a body one byte above the limit is refused, and that the final file is not created."""
    url, limit = setting.url(setting.case.document), len(setting.case.content) - 1
    async with setting.resolver(limits=replace(CALM, body=limit), patience=ONCE) as session:
        for way in ("fetch", "stream", "save"):
            with pytest.raises(LimitExceeded) as caught:
                await WAYS[way](session, url, folder / "saved")
            assert (caught.value.limit, caught.value.exit_code) == ("body", 14)
            assert not (folder / "saved").exists()


async def check_name(setting: CaseSetting, folder: Path) -> None:
    """Check the default file name, which is derived from the URL."""
    assert local_file_name(resolver.parse(setting.url(setting.case.document))) == setting.case.saved


def _speaks_tcp(case: Case) -> bool:
    row = registry.find(case.scheme)
    return is_served(case) and row is not None and row.transport == "tcp"


def _speaks_in_clear(case: Case) -> bool:
    return _speaks_tcp(case) and not case.tls


#: Checks with servers that break the protocol.
PEERS: tuple[ContractCheck, ...] = (
    ContractCheck("a server that closes", partial(check_peer, leave), _speaks_tcp),
    ContractCheck("a server that resets", partial(check_peer, reset_peer), _speaks_tcp),
    ContractCheck("a server that never stops", partial(check_peer, send_endlessly), _speaks_tcp),
    ContractCheck("random bytes", check_babble, _speaks_tcp),
    ContractCheck("garbled bytes", check_garbled, _speaks_in_clear),
)
CHECKS: tuple[ContractCheck, ...] = (
    *PEERS,
    ContractCheck("limits", check_limits, lambda case: len(case.content) > 1),
    ContractCheck("file names", check_name, lambda case: case.saved is not None),
)


#: Policies, origins and referrers that cause the refusal of a local server on an unusual port.
REFUSING: dict[str, tuple[Policy, Origin, str | None]] = {
    "cautious": (Policy.cautious(), "user", None),
    "untrusted": (Policy.untrusted(), "user", None),
    "from elsewhere": (Policy(), "derived", "93.184.216.34"),
}


def is_refused(case: Case, why: str) -> bool:
    """Return whether the URL is refused; most rules do not apply to a server that the user configured."""
    return not case.by_setting or why == "untrusted"


async def check_refusal(why: str, running: CaseSetting, folder: Path) -> None:
    """Check that a refused URL causes no connection, and that its plan is empty."""
    case, (policy, origin, address) = running.case, REFUSING[why]
    referrer = None if address is None else (f"{case.scheme}://h.example/a", address)
    with ListeningSockets() as watch:
        setting = CaseSetting(case, watch, folder)
        url = setting.url(case.document)
        plan = resolver.explain(
            url, policy=policy, origin=origin, referrer=referrer, news_server=setting.news_server
        )
        assert isinstance(plan.error, Refused)
        assert (plan.verdict, plan.steps) == ("refuse", ())
        async with setting.resolver(policy=policy) as session:
            path = folder / "saved"
            for ask in (session.fetch, session.info, partial(session.save, path=path)):
                with pytest.raises(Refused) as caught:
                    await ask(url, origin=origin, referrer=referrer)
                error = caught.value
                assert (error.rule, error.exit_code) == (plan.error.rule, plan.error.exit_code)
                assert error.url == resolver.parse(url).shown
            for open_ in (session.stream, session.entries):
                with pytest.raises(Refused):
                    async with open_(url, origin=origin, referrer=referrer):
                        raise AssertionError("expected Refused")
        assert watch.received_nothing()
    assert os.listdir(folder) == []


def _make_check(why: str) -> ContractCheck:
    def is_for(case: Case) -> bool:
        return is_served(case) and is_refused(case, why) and not (case.any_port and why == "cautious")

    return ContractCheck(f"a refusal connects to nothing, {why}", partial(check_refusal, why), is_for)


REFUSAL_CHECKS: tuple[ContractCheck, ...] = tuple(map(_make_check, REFUSING))
