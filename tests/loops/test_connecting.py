"""Connecting: a peer that resets immediately, addresses that race, and cancellation in between."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import trio

from protocols.contract import FirstResult
from resolver import Disconnected, Policy, Resolver
from resolver.network import connecting
from resolver.network.connecting import ConnectAttempts, first_of
from resolver.testing.contract.case import check_no_leak, wait_until_settled
from tests.loops.cancels import ARRIVALS, Arrival, cancel_at
from tests.loops.conftest import Run
from tests.resolver.network.peers import RemoteSocket

#: A runner for each loop.
RUNS: tuple[Callable[..., Any], ...] = (trio.run, lambda function: asyncio.run(function()))


class ResetSocket(socket.socket):
    """A socket whose peer has reset the connection before `connect` returns."""

    listener: socket.socket

    def connect(self, address: Any) -> None:
        try:
            super().connect(address)
        finally:
            peer, _ = self.listener.accept()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()


@pytest.mark.parametrize("one", RUNS, ids=["trio", "asyncio"])
@pytest.mark.parametrize("way", ["fetch", "info"])
def test_peer_that_resets_immediately_is_disconnected(
    way: str, one: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is not `Unreachable`: the machine's speed does not matter."""
    with socket.create_server(("127.0.0.1", 0)) as ResetSocket.listener:
        port = ResetSocket.listener.getsockname()[1]
        monkeypatch.setattr("socket.socket", ResetSocket)
        session = Resolver(policy=Policy(allow_port=frozenset({port})))
        with pytest.raises(Disconnected) as caught:
            one(partial(getattr(session, way), f"gopher://127.0.0.1:{port}/0a"))
    assert "broke" in caught.value.message
    assert caught.value.retryable


@pytest.fixture
def two_addresses() -> Iterator[tuple[list[str], int]]:
    """Yield two addresses of this machine with listeners at the same port."""
    while True:
        one = socket.create_server(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        with one, suppress(OSError):
            with socket.create_server(("127.0.0.2", port)):
                yield ["127.0.0.1", "127.0.0.2"], port
            return


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_cancel_at_every_step_of_race_closes_sockets(
    arrival: Arrival, two_addresses: tuple[list[str], int], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No socket stays open, even if both connect in the same turn."""
    addresses, port = two_addresses
    monkeypatch.setattr(connecting, "ATTEMPT_DELAY", 0.0)
    monkeypatch.setattr(socket, "socket", RemoteSocket)

    async def connect() -> None:
        sock, _ = await ConnectAttempts("h.example").connect(addresses, port)
        sock.close()

    async def main() -> None:
        before = await wait_until_settled()
        count, _ = await cancel_at(None, arrival, connect)
        assert count > 1
        for number in range(1, count + 1):
            await cancel_at(number, arrival, connect)
            await check_no_leak(before)

    run(main())


def test_first_of_returns_both_results_of_one_turn(run: Run) -> None:
    async def main() -> None:
        event = asyncio.Event()
        asyncio.get_running_loop().call_soon(event.set)
        assert await first_of(event.wait, event.wait) == (FirstResult(True), FirstResult(True))

    run(main())


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_first_of_canceled_ends_both_tasks(arrival: Arrival, run: Run) -> None:
    """Both have ended when the cancellation leaves, and neither continues."""
    under_way: set[str] = set()

    async def wait(name: str, turns: int) -> str:
        under_way.add(name)
        try:
            for _ in range(turns):
                await asyncio.sleep(0)
        finally:
            under_way.discard(name)
        return name

    async def main() -> None:
        for turns in ((1, 1), (2, 1), (1, 3), (3, 3)):
            both = partial(first_of, partial(wait, "one", turns[0]), partial(wait, "other", turns[1]))
            count, left = await cancel_at(None, arrival, both)
            assert left is None
            for number in range(1, count + 1):
                await cancel_at(number, arrival, both)
                assert under_way == set()

    run(main())
