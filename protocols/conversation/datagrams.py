"""Datagrams: a socket for each exchange, and the exchange carried to its end on it.

What to send, to whom, when to send it again and whom to believe says the exchange, which is a machine; where
it may be sent, the gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from protocols.connection import (
    DatagramAction,
    DatagramExchange,
    Datagrams,
    Line,
    RedirectAddress,
    SwitchAddress,
)
from protocols.contract import Gate
from protocols.errors import LimitExceeded, ResolveError, Unreachable
from protocols.step import DatagramReply, OpenedConnection


class DatagramSender:
    """One after the other, each on datagrams of its own."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._opened = AsyncExitStack()
        self._datagrams: Datagrams | None = None

    async def open_datagrams(self, route: Sequence[str]) -> OpenedConnection:
        """To the place that the route leads to. Raises what the gates on it raise."""
        await self.aclose()
        gate = self._gate
        for location in route:
            gate = gate.elsewhere(location)
        self._datagrams = await self._opened.enter_async_context(gate.open_datagrams())
        return OpenedConnection(tuple(self._datagrams.addresses), self._datagrams.draw_number())

    async def carry(self, exchange: DatagramExchange) -> DatagramReply:
        """To its end; nothing stays open."""
        assert self._datagrams is not None, "the dialogue has not opened datagrams"
        datagrams, self._datagrams = self._datagrams, None
        async with self._opened:
            await carry(exchange, datagrams)
        return DatagramReply(tuple(exchange.pieces), datagrams.peer)

    async def aclose(self) -> None:
        await self._opened.aclose()


async def carry(exchange: DatagramExchange, datagrams: Datagrams) -> None:
    """To its end. Who leaves the exchange before that, or has enough of the reply, tells the server."""
    try:
        actions = exchange.begin(datagrams.now())
        while True:
            await _perform(exchange, datagrams, actions)
            if exchange.complete:
                return
            came = await datagrams.receive(exchange.deadline)
            now = datagrams.now()
            actions = exchange.wake(now) if came is None else exchange.take(came.octets, came.address, now)
    except BaseException as error:
        if isinstance(error, LimitExceeded) or not isinstance(error, ResolveError):
            datagrams.send_at_once(exchange.cancel())
        raise


async def _perform(
    exchange: DatagramExchange, datagrams: Datagrams, actions: Sequence[DatagramAction]
) -> None:
    """Raises `Unreachable` where no address of the server can be sent to."""
    for action in actions:
        match action:
            case RedirectAddress():
                datagrams.redirect_to(action.address, action.port)
            case SwitchAddress():
                datagrams.switch_to(action.address)
            case Line():
                await _send(exchange, datagrams, action)


async def _send(exchange: DatagramExchange, datagrams: Datagrams, packet: Line) -> None:
    try:
        await datagrams.send(packet)
    except Unreachable:
        if not exchange.lose(datagrams.peer, datagrams.now()):
            raise
