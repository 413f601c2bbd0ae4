"""Datagrams in a dialogue: an exchange is carried to its end, whatever protocol its machine speaks."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from protocols.contract import Datagram, DatagramAction, Line, RedirectAddress, Reply, SwitchAddress
from protocols.conversation.driver import hold
from protocols.step import (
    DatagramReply,
    Dialogue,
    EmitBody,
    ExchangeDatagrams,
    OpenDatagrams,
    OpenedConnection,
    StartBody,
)
from protocols.wire import encode_datagram
from resolver import Kind, LimitExceeded, ProtocolError, Refused

HERE, THERE = "192.0.2.1", "192.0.2.2"


class Echo:
    """A protocol of one packet each way, asked of all addresses. What comes from another address, or says
    nothing, is no answer; `trouble` is what the answer gives cause for."""

    def __init__(self, addresses: Sequence[str], trouble: BaseException | None = None) -> None:
        self._addresses = addresses
        self._trouble = trouble
        self.packets = [encode_datagram(b"hello")]
        self.pieces: list[bytes] = []
        self.deadline = 10.0

    @property
    def complete(self) -> bool:
        return bool(self.pieces)

    def begin(self, now: float) -> Sequence[DatagramAction]:
        actions: list[DatagramAction] = []
        for address in self._addresses:
            actions += [SwitchAddress(address), *self.packets]
        return actions

    def take(self, datagram: bytes, address: str, now: float) -> Sequence[DatagramAction]:
        if self._trouble is not None:
            raise self._trouble
        self.pieces += [datagram] if datagram and address in self._addresses else []
        return [RedirectAddress(address, 9, lasting=False)] if datagram else self.packets

    def wake(self, now: float) -> Sequence[DatagramAction]:
        self.deadline += 10.0
        return self.packets

    def lose(self, address: str, now: float) -> bool:
        return False

    def cancel(self) -> Line:
        return encode_datagram(b"never mind")


class Socket:
    """`coming` are the datagrams that come, None where nothing does until the deadline; then it waits."""

    def __init__(self, coming: Sequence[Datagram | None]) -> None:
        self._coming = deque(coming)
        self.addresses = (HERE, THERE)
        self.peer = HERE
        self.port = 7
        self.open = True
        self.sent: list[tuple[str, int, bytes]] = []
        self.deadlines: list[float] = []

    def now(self) -> float:
        return 0.0

    def draw_number(self) -> int:
        return 4711

    async def send(self, packet: Line) -> None:
        self.send_at_once(packet)

    def send_at_once(self, packet: Line) -> None:
        assert self.open
        self.sent.append((self.peer, self.port, packet.octets))

    async def receive(self, deadline: float) -> Datagram | None:
        assert self.open
        self.deadlines.append(deadline)
        if not self._coming:
            await trio.sleep_forever()
        return self._coming.popleft()

    def switch_to(self, address: str) -> None:
        assert address in self.addresses
        self.peer = address

    def redirect_to(self, address: str, port: int) -> None:
        self.peer, self.port = address, port


class Gate:
    """To one place, and to others by way of it. Nothing else is asked of it."""

    def __init__(self, *coming: Datagram | None, way: tuple[str, ...] = ()) -> None:
        self._coming = coming
        self._way = way
        self.opened: list[tuple[tuple[str, ...], Socket]] = []

    @asynccontextmanager
    async def open_datagrams(self) -> AsyncIterator[Socket]:
        socket = Socket(self._coming)
        self.opened.append((self._way, socket))
        try:
            yield socket
        finally:
            socket.open = False

    def elsewhere(self, location: str) -> Gate:
        if location == "x:forbidden":
            raise Refused("S08", "farther inside")
        gate = Gate(*self._coming, way=(*self._way, location))
        gate.opened = self.opened
        return gate

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nobody expects {name}")


def ask(route: tuple[str, ...] = (), trouble: BaseException | None = None) -> Dialogue[None]:
    """One question; a second one at the same place where the first comes to nothing."""
    opened = yield OpenDatagrams(route)
    assert opened == OpenedConnection((HERE, THERE), 4711)
    try:
        carried = yield ExchangeDatagrams(
            Echo(opened.addresses, trouble), "the echo", DatagramReply((b"ideal",))
        )
    except ProtocolError as error:
        yield StartBody(Reply(kind=Kind.DOCUMENT))
        yield EmitBody(type(error).__name__.encode())
        return
    assert isinstance(carried, DatagramReply)
    yield StartBody(Reply(kind=Kind.DOCUMENT, peer=carried.peer))
    yield EmitBody(b"|".join(carried.pieces))


async def get(gate: Gate, dialogue: Dialogue[None]) -> tuple[bytes, str | None]:
    """And who answered. Nothing is open any more when a body begins."""
    async with hold(dialogue, gate) as reply:
        assert not any(socket.open for _, socket in gate.opened)
        return b"".join([octets async for octets in reply.body]), reply.peer


HELLO = [(HERE, 7, b"hello"), (THERE, 7, b"hello")]


async def test_an_exchange_is_carried_to_its_end() -> None:
    """What it says is done, in its order: sent, aimed, turned, waited for."""
    gate = Gate(None, Datagram(b"", THERE, 7), Datagram(b"echo", HERE, 7))
    assert await get(gate, ask()) == (b"echo", HERE)
    ((way, socket),) = gate.opened
    assert (way, socket.sent) == ((), [*HELLO, (THERE, 7, b"hello"), (THERE, 7, b"hello")])
    assert (socket.deadlines, socket.peer, socket.port) == ([10.0, 20.0, 20.0], HERE, 9)


async def test_a_route_is_gone_place_by_place() -> None:
    gate = Gate(Datagram(b"echo", HERE, 7))
    assert await get(gate, ask(("x:a", "x:b"))) == (b"echo", HERE)
    assert [way for way, _ in gate.opened] == [("x:a", "x:b")]


async def test_nothing_is_sent_to_a_place_that_may_not_be_led_to() -> None:
    gate = Gate(Datagram(b"echo", HERE, 7))
    with pytest.raises(Refused, match="farther inside"):
        await get(gate, ask(("x:a", "x:forbidden", "x:b")))
    assert gate.opened == []


#: What an answer gives cause for, and whether the server is told that nobody waits for the rest.
ENDS: list[tuple[ProtocolError, bool]] = [
    (ProtocolError("nonsense"), False),
    (LimitExceeded("body", "too much"), True),
]


@pytest.mark.parametrize(("trouble", "told"), ENDS)
async def test_who_has_enough_says_so_and_goes_on_with_nothing_open(
    trouble: ProtocolError, told: bool
) -> None:
    gate = Gate(Datagram(b"echo", HERE, 7))
    assert (await get(gate, ask(trouble=trouble)))[0] == type(trouble).__name__.encode()
    ((_, socket),) = gate.opened
    assert socket.sent == HELLO + [(THERE, 7, b"never mind")] * told


async def test_who_leaves_says_so() -> None:
    gate = Gate()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(get, gate, ask())
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    ((_, socket),) = gate.opened
    assert (socket.sent[-1], socket.open) == ((THERE, 7, b"never mind"), False)


async def test_what_was_opened_and_not_used_is_closed() -> None:
    def dialogue() -> Dialogue[None]:
        yield OpenDatagrams()
        yield OpenDatagrams(("x:a",))
        yield StartBody(Reply(kind=Kind.DOCUMENT))

    gate = Gate()
    async with hold(dialogue(), gate):
        assert [socket.open for _, socket in gate.opened] == [False, True]
    assert [socket.open for _, socket in gate.opened] == [False, False]
