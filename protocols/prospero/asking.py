"""Putting the questions of a resolution to servers: the one place where Prospero meets sockets.

Each question has a socket and a connection id of its own. A question about another object than the URL's
goes through a gate of its own, got from the gate of the target that named it: so each is judged as a URL
that followed from that answer, by the address that the answer came from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from protocols.contract import Datagrams, Gate, Line, Referrer
from protocols.errors import LimitExceeded, ResolveError, Unreachable
from protocols.prospero.ardp import Action, Aim, Exchange, Timing, Turn
from protocols.prospero.reply import Answer, join_packets, parse_reply
from protocols.prospero.resolution import Ask, Resolution
from protocols.prospero.target import Target

T = TypeVar("T")

#: Octets that the replies to one URL may have besides those of the object: lines around its contents,
#: attributes, links. And how often an octet of the object is sent at most: a quote is doubled.
_ROOM = 1 << 20
_SPELLING = 2


class Asker:
    """Asks on behalf of one URL. The octets of all replies together are bounded by what an object of
    `limits.body` octets may need."""

    def __init__(self, gate: Gate, timing: Timing) -> None:
        self._gate = gate
        self._timing = timing
        self._gates: dict[Target, Gate] = {}
        self._addresses: dict[Target, str] = {}
        self._turned: dict[tuple[str, int], Turn] = {}
        self._answered: dict[tuple[str, int], str] = {}
        self._left = _ROOM + _SPELLING * gate.limits.body

    async def perform(self, resolution: Resolution[T]) -> T:
        """Ask what it asks, to its end. An error of a question is raised in the resolution first."""
        advance: Callable[[], Ask] = partial(next, resolution)
        while True:
            try:
                ask = advance()
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                advance = partial(resolution.send, await self._ask(ask))
            except ResolveError as error:
                advance = partial(resolution.throw, error)

    def referrer(self, target: Target) -> Referrer:
        """What led to whatever the answer about a target named."""
        return Referrer(target.url, self._addresses.get(target))

    def address(self, target: Target) -> str | None:
        """The address that answered about a target; None before it has."""
        return self._addresses.get(target)

    def _gate_to(self, target: Target) -> Gate:
        if target.via is None:
            return self._gate
        if target not in self._gates:
            self._gates[target] = self._gate_to(target.via).elsewhere(target.url)
        return self._gates[target]

    async def _ask(self, ask: Ask) -> Answer:
        place = ask.target.host, ask.target.port
        async with self._gate_to(ask.target).open_datagrams() as datagrams:
            exchange = Exchange(
                ask.message,
                datagrams.draw_number(),
                self._find(datagrams, place),
                patience=self._gate.limits.idle,
                most=self._left,
                timing=self._timing,
            )
            turned = await exchange_over(datagrams, exchange)
            if turned is None:
                self._answered[place] = datagrams.peer
            elif turned.lasting:
                self._turned[place] = turned
            self._addresses[ask.target] = datagrams.peer
        text = join_packets(exchange.pieces)
        self._left -= len(text)
        return parse_reply(text, self._gate.limits)

    def _find(self, datagrams: Datagrams, place: tuple[str, int]) -> Sequence[str]:
        """The addresses to ask: the one that this server has answered from, or else all it has."""
        turned, answered = self._turned.get(place), self._answered.get(place)
        if turned is not None:
            datagrams.turn_to(turned.address, turned.port)
        elif answered is not None and answered in datagrams.addresses:
            datagrams.aim(answered)
        else:
            return datagrams.addresses
        return (datagrams.peer,)


async def exchange_over(datagrams: Datagrams, exchange: Exchange) -> Turn | None:
    """Carry an exchange to its end; the last place it was turned to. Who leaves it before that, or has
    enough of the reply, tells the server."""
    turned: Turn | None = None
    try:
        actions = exchange.begin(datagrams.now())
        while True:
            turned = await _perform(datagrams, exchange, actions) or turned
            if exchange.complete:
                return turned
            came = await datagrams.receive(exchange.deadline)
            now = datagrams.now()
            actions = exchange.wake(now) if came is None else exchange.take(came.octets, came.address, now)
    except BaseException as error:
        if isinstance(error, LimitExceeded) or not isinstance(error, ResolveError):
            datagrams.send_at_once(exchange.cancel())
        raise


async def _perform(datagrams: Datagrams, exchange: Exchange, actions: list[Action]) -> Turn | None:
    """The last turn that was taken. Raises `Unreachable` where no address of the server can be sent to."""
    turned: Turn | None = None
    for action in actions:
        match action:
            case Turn():
                datagrams.turn_to(action.address, action.port)
                turned = action
            case Aim():
                datagrams.aim(action.address)
            case Line():
                await _send(datagrams, exchange, action)
    return turned


async def _send(datagrams: Datagrams, exchange: Exchange, packet: Line) -> None:
    try:
        await datagrams.send(packet)
    except Unreachable:
        if not exchange.lose(datagrams.peer, datagrams.now()):
            raise
