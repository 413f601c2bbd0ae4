"""Our end of a telnet session on its connection (RFC 854): what comes is taken apart, what is typed goes out.

Options are settled as the service asks for them, whenever octets are taken. What is said to the service goes
out whole and in order, an answer never inside a text.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Literal

from protocols.contract import Finding, HostUrl, Limits, Line
from protocols.errors import Disconnected, UnsupportedScheme
from protocols.telnet import TelnetUrl
from protocols.telnet.codes import TelnetCommand
from protocols.telnet.octets import TelnetData, UnknownCommand
from protocols.telnet.start_tls import IN_CLEAR, StartTlsOffer, StartTlsOutcome
from protocols.telnet.terminal import USUAL_SIZE, NvtTerminal, WindowSize
from protocols.wire import encode_command
from resolver import registry
from resolver.events import Warned
from resolver.gate import Network
from resolver.gate.stream import SocketStream
from resolver.loops import running
from resolver.retrieval.hops import RetrievalRequest

#: What may be sent besides text. End of file, suspend and abort are none of it: servers in wide use swallow
#: the octet behind them.
COMMANDS = {
    "brk": TelnetCommand.BRK,
    "ayt": TelnetCommand.AYT,
    "ip": TelnetCommand.IP,
    "ao": TelnetCommand.AO,
    "ec": TelnetCommand.EC,
    "el": TelnetCommand.EL,
    "nop": TelnetCommand.NOP,
}


class TerminalConnection:
    """As long as its stream lives. One task may receive while others send. `terminal` is what was agreed on,
    `findings` what was odd about the service."""

    def __init__(self, stream: SocketStream, terminal: NvtTerminal, url: HostUrl, limits: Limits) -> None:
        self._stream = stream
        self._sending = running().lock()
        self.terminal = terminal
        self.url = url
        self.limits = limits
        self.findings: list[Finding] = []

    @property
    def peer(self) -> str:
        """The numeric address connected to."""
        return self._stream.peer

    @property
    def secured(self) -> bool:
        """Inside TLS?"""
        return self._stream.secured

    @property
    def ended_whole(self) -> bool:
        """Was the end that came one that nobody on the way can have made?"""
        return self._stream.close_notify_seen or not self._stream.secured

    async def secure(self, how: Literal["try", "require"]) -> None:
        """TLS inside the session, before anything else. Raises `TlsError`."""
        offer = StartTlsOffer(self.terminal, how)
        rest = b""
        while offer.outcome is StartTlsOutcome.OPEN:
            await self._say(offer)
            octets = await self._stream.receive()
            if not octets:
                raise Disconnected("the service closed the connection where TLS was offered")
            rest = offer.feed(octets)
        await self._say(offer)
        if offer.outcome is StartTlsOutcome.AGREED:
            await self._stream.start_tls()
            self.terminal = self.terminal.anew()
            return
        self._report(IN_CLEAR)
        if rest:
            self._stream.put_back(rest)

    async def _say(self, offer: StartTlsOffer) -> None:
        if lines := offer.lines():
            await self._stream.send(*lines)

    def wait_without_end(self) -> None:
        """A person sits here, whom the limit of silence is not for."""
        self._stream.wait_without_end()

    async def receive(self) -> bytes:
        """What comes next, not looked at; empty at the end. A cancel loses nothing."""
        return await self._stream.receive()

    def take(self, octets: bytes) -> Iterator[bytes]:
        """The data in what came. While a piece is looked at, `terminal.his_binary` holds for it."""
        for happening in self.terminal.feed(octets):
            match happening:
                case TelnetData(octets=data):
                    yield data
                case UnknownCommand():
                    self._report(happening)

    def end(self) -> None:
        """The connection has ended, perhaps not as it should."""
        for odd in self.terminal.end(whole=self.ended_whole):
            self._report(odd)

    def _report(self, odd: UnknownCommand) -> None:
        """Each oddity once: a service may have it in every line."""
        if all(finding.rule != odd.rule for finding in self.findings):
            self.findings.append(Finding(odd.rule, "warn", odd.detail))

    async def answer(self) -> None:
        """What waits to be answered, between two texts of others."""
        if not self.terminal.has_answers:  # and nobody is waited for
            return
        async with self._sending:
            if lines := self.terminal.answers():
                await self._stream.send(*lines)

    async def send(self, *lines: Line) -> None:
        """In one write. After a cancel the connection is good for nothing more."""
        async with self._sending:
            await self._stream.send(*lines)

    def command(self, name: str) -> Line:
        """One of `COMMANDS`, to be sent."""
        return encode_command(COMMANDS[name])

    def resize(self, columns: int, rows: int) -> tuple[Line, ...]:
        """The window has another size: what is to be sent, where the service wants to know."""
        self.terminal.resize(WindowSize(columns, rows))
        return self.terminal.answers()


@asynccontextmanager
async def connected(
    network: Network, request: RetrievalRequest, kind: str = "dumb", size: tuple[int, int] = USUAL_SIZE
) -> AsyncIterator[TerminalConnection]:
    """The connection, which is closed on leaving. `kind` is the terminal's type."""
    url = request.url
    if not isinstance(url, TelnetUrl):
        raise UnsupportedScheme(url.scheme, f"a {url.scheme} URL names no service to sit at", url=url.shown)
    row = registry.find(url.scheme)
    url_gate = network.admit(url, origin=request.origin, referrer=request.referrer, options=request.options)
    for finding in url_gate.findings:
        network.on_event(Warned(url.shown, finding))
    terminal = NvtTerminal(kind.encode("ascii", "replace"), WindowSize(*size))
    async with url_gate.connect(tls=row is not None and row.tls == "always") as stream:
        connection = TerminalConnection(stream, terminal, url, url_gate.limits)
        if not stream.secured and request.options.tls != "never":
            await connection.secure(request.options.tls)
        yield connection
