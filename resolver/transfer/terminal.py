"""A telnet session that a program holds (RFC 854): it waits for what the service says, and types.

Options are settled as the service asks for them, whenever something is read. Nothing is read that nobody
waits for: a service that says much is held back by the connection itself.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from typing import Literal, TypeAlias, TypedDict, Unpack

from protocols.contract import Finding, HostUrl, Limits, Line, Origin
from protocols.errors import (
    Disconnected,
    LimitExceeded,
    NotConfigured,
    TimedOut,
    Truncated,
    UnsupportedScheme,
)
from protocols.options import Prompt
from protocols.telnet import TelnetUrl
from protocols.telnet.octets import NvtText, TelnetCommand, TelnetData, UnknownCommand
from protocols.telnet.terminal import (
    IN_CLEAR,
    USUAL_SIZE,
    NvtTerminal,
    StartTlsOffer,
    StartTlsOutcome,
    WindowSize,
)
from protocols.wire import encode_command
from resolver.loops import running
from resolver.network.events import Warned
from resolver.network.stream import SocketStream
from resolver.transfer.network import Network
from resolver.transfer.redirects import RetrievalRequest
from resolver.url import registry

# terminal connection: Our end of a telnet session on its connection (RFC 854): what comes is taken apart,
# what is typed goes out.
#
# Options are settled as the service asks for them, whenever octets are taken. What is said to the service
# goes out whole and in order, an answer never inside a text.

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
            self.terminal = self.terminal.make_initial()
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
async def connect_terminal(
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


#: What is waited for: octets as they stand, a compiled expression over octets, or a `resolver.prompt`.
Expected: TypeAlias = "bytes | re.Pattern[bytes] | Prompt"


class TerminalSession:
    """What `Resolver.open_terminal` gives, as long as its connection lives. One task may wait for something
    while another one types. `findings` tell what was odd about the service. Who shows it on a terminal of his
    own has its `connection`, and then none of the other methods.

    Examples:
        >>> async with resolver.Resolver() as session:
        ...     async with session.open_terminal("telnet://127.0.0.1:8970/", size=(100, 30)) as terminal:
        ...         _ = await terminal.expect(b"login: ")
        ...         await terminal.send_line("guest")
        ...         _ = await terminal.expect(b"$ ")
        ...         await terminal.send_line("size")
        ...         (await terminal.expect(b"$ ")).splitlines()[1]
        b'100 by 30'
    """

    def __init__(self, connection: TerminalConnection, charset: str | None) -> None:
        self.connection = connection
        self._charset = charset
        self._loop = running()
        self._newlines = NvtText()
        self._text = b""
        self._ended = False
        self._received = 0

    @property
    def peer(self) -> str:
        """The numeric address connected to."""
        return self.connection.peer

    @property
    def secured(self) -> bool:
        """Inside TLS?"""
        return self.connection.secured

    @property
    def echoing(self) -> bool:
        """Does the service show what is typed, or hide it?"""
        return self.connection.terminal.echoing

    @property
    def findings(self) -> list[Finding]:
        """What was odd about the service, each oddity once."""
        return self.connection.findings

    async def expect(self, pattern: Expected, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """What the service says, up to `pattern` and with it; what is behind it stays for the next call. A
        cancel loses nothing.

        Raises `TimedOut` after `timeout` seconds, or when nothing comes for as long as the limits allow,
        `Truncated` where the service closes before, `LimitExceeded` for more text than `Limits.body`.
        """
        with nullcontext() if timeout is None else self._loop.move_on_after(timeout):
            while (end := _end_of(pattern, self._text)) is None:
                if self._ended:
                    raise self._truncated("the service closed the connection before what was waited for came")
                await self._read()
            found, self._text = self._text[:end], self._text[end:]
            return found
        raise TimedOut(f"timed out: what was waited for has not come within {timeout:g} s")

    async def read(self) -> bytes:
        """All that the service still says, to its end. Raises as `expect` does."""
        while not self._ended:
            await self._read()
        text, self._text = self._text, b""
        return text

    async def send(self, octets: bytes) -> None:
        """Type these octets: a carriage return is what Enter gives. They are shown nowhere."""
        await self.connection.send(self.connection.terminal.encode_typed(octets))

    async def send_line(self, text: str | bytes) -> None:
        """Type this, and Enter. Raises `Refused` (S02) for a text with a line end in it."""
        octets = text if isinstance(text, bytes) else text.encode(self._charset or "utf-8")
        await self.connection.send(self.connection.terminal.encode_line(octets))

    async def send_command(self, name: str) -> None:
        """One of `brk ayt ip ao ec el nop` (RFC 854). Raises `NotConfigured` for any other."""
        if name not in COMMANDS:
            raise NotConfigured(f"{name!r} is none of {', '.join(COMMANDS)}")
        await self.connection.send(self.connection.command(name))

    async def resize(self, columns: int, rows: int) -> None:
        """The window has another size: told where the service wants to know."""
        await self.connection.send(*self.connection.resize(columns, rows))

    def decoded(self, octets: bytes) -> str:
        """The text of octets, in the `charset` of the session, UTF-8 where it has none."""
        return octets.decode(self._charset or "utf-8", "replace")

    async def _read(self) -> None:
        try:
            octets = await self.connection.receive()
        except Disconnected as error:
            if not self._received:
                raise
            raise self._truncated(error.message) from error
        if not octets:
            self._end()
            return
        for data in self.connection.take(octets):
            self._take(self._newlines.feed(data, binary=self.connection.terminal.his_binary))
        await self.connection.answer()
        most = self.connection.limits.body
        if len(self._text) > most:
            raise LimitExceeded("body", f"more than {most} octets of text that nobody took")

    def _end(self) -> None:
        self._take(self._newlines.finish())
        self._ended = True
        if self.connection.terminal.inside:
            raise self._truncated("the service closed the connection inside a command")
        if not self.connection.ended_whole:
            raise self._truncated("the connection ended without the end that TLS has (close_notify)")

    def _take(self, text: bytes) -> None:
        self._text += text
        self._received += len(text)

    def _truncated(self, why: str) -> Truncated:
        return Truncated(why, received=self._received)


class TerminalWindow(TypedDict, total=False):
    """What a service is told of the terminal, and how its octets are read."""

    size: tuple[int, int]
    """Columns and rows; 80 and 24 where nobody says."""

    terminal: str
    """The terminal's type: `dumb` where nobody says, for which services send no sequences."""

    charset: str | None
    """In which `decoded` and `send_line` read and write text; None is UTF-8."""

    origin: Origin
    """Who chose the URL: `user` where nobody says. What nobody chose opens no session (S18)."""

    referrer: tuple[str, str | None] | None
    """What led to the URL, and its address."""


@asynccontextmanager
async def open_session(
    network: Network, request: RetrievalRequest, **window: Unpack[TerminalWindow]
) -> AsyncIterator[TerminalSession]:
    """The session on a connection of its own, which is closed on leaving."""
    kind, size = window.get("terminal", "dumb"), window.get("size", USUAL_SIZE)
    async with connect_terminal(network, request, kind, size) as connection:
        yield TerminalSession(connection, window.get("charset"))


def _end_of(pattern: Expected, text: bytes) -> int | None:
    if isinstance(pattern, bytes):
        start = text.find(pattern)
        return None if start < 0 else start + len(pattern)
    if isinstance(pattern, re.Pattern):
        found = pattern.search(text)
        return None if found is None else found.end()
    return pattern.end_in(text)
