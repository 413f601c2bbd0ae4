"""A scriptable telnet session (RFC 854), similar to pexpect: wait for output, and send input.

Telnet options are negotiated during each read, when the service requests them. The session reads only while
the caller waits for output. So the flow control of TCP slows down a service with much output (backpressure).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from typing import Literal, TypeAlias, Unpack

from protocols.contract import Finding, HostUrl, Limits, Line
from protocols.errors import (
    Disconnected,
    LimitExceeded,
    NotConfigured,
    TimedOut,
    Truncated,
    UnsupportedScheme,
)
from protocols.script import Prompt
from protocols.telnet import TelnetUrl
from protocols.telnet.octets import NvtText, TelnetCommand, TelnetData, UnknownCommand
from protocols.telnet.terminal import (
    DEFAULT_SIZE,
    IN_CLEAR,
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
from resolver.transfer.settings import Provenance
from resolver.url import registry

# The client side of a telnet connection (RFC 854): parsing of received bytes, and encoding of input.
#
# Telnet options are negotiated while received bytes are parsed. Each message to the service is sent
# completely before the next message starts. So a reply to an option request never interrupts other input.

#: The telnet commands that may be sent. The commands EOF, SUSP and ABORT are excluded, because common servers
#: lose the byte after these commands.
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
    """An open telnet connection. One task may receive while other tasks send.

    `terminal` has the negotiated options. `findings` are the protocol violations of the service.
    """

    def __init__(self, stream: SocketStream, terminal: NvtTerminal, url: HostUrl, limits: Limits) -> None:
        self._stream = stream
        self._sending = running().lock()
        self.terminal = terminal
        self.url = url
        self.limits = limits
        self.findings: list[Finding] = []

    @property
    def peer(self) -> str:
        """Return the IP address of the server."""
        return self._stream.peer

    @property
    def secured(self) -> bool:
        """Return whether the connection uses TLS."""
        return self._stream.secured

    @property
    def ended_whole(self) -> bool:
        """Return whether the connection was closed properly.

        With TLS, the peer must have sent close_notify.

        Without close_notify, an attacker could have truncated the output (truncation attack).
        """
        return self._stream.close_notify_seen or not self._stream.secured

    async def secure(self, mode: Literal["try", "require"]) -> None:
        """Start TLS (STARTTLS) before other data is exchanged. Raises `TlsError`."""
        offer = StartTlsOffer(self.terminal, mode)
        rest = b""
        while offer.outcome is StartTlsOutcome.OPEN:
            await self._send_offer(offer)
            octets = await self._stream.receive()
            if not octets:
                raise Disconnected("the service closed the connection during the TLS negotiation")
            rest = offer.feed(octets)
        await self._send_offer(offer)
        if offer.outcome is StartTlsOutcome.AGREED:
            await self._stream.start_tls()
            self.terminal = self.terminal.make_initial()
            return
        self._report(IN_CLEAR)
        if rest:
            self._stream.put_back(rest)

    async def _send_offer(self, offer: StartTlsOffer) -> None:
        if lines := offer.lines():
            await self._stream.send(*lines)

    def drop_idle_limit(self) -> None:
        """Disable the idle timeout, for an interactive session."""
        self._stream.drop_idle_limit()

    async def receive(self) -> bytes:
        """Return the next received bytes, unparsed.

        At EOF, the result is b"". A cancelled call does not lose bytes.
        """
        return await self._stream.receive()

    def take(self, octets: bytes) -> Iterator[bytes]:
        """Parse received bytes, and yield the data without telnet commands.

        `terminal.receives_binary` applies to the chunk that was yielded last.
        """
        for happening in self.terminal.feed(octets):
            match happening:
                case TelnetData(octets=data):
                    yield data
                case UnknownCommand():
                    self._report(happening)

    def end(self) -> None:
        """Record the end of the connection, and a finding if the end was premature."""
        for odd in self.terminal.end(is_complete=self.ended_whole):
            self._report(odd)

    def _report(self, odd: UnknownCommand) -> None:
        """Record a protocol violation.

        Each kind is recorded only once, even if every line has the violation.
        """
        if all(finding.rule != odd.rule for finding in self.findings):
            self.findings.append(Finding(odd.rule, "warn", odd.detail))

    async def answer(self) -> None:
        """Send the pending replies to option requests, but not in the middle of other messages."""
        if not self.terminal.has_answers:  # without a pending reply, do not wait for the lock
            return
        async with self._sending:
            if lines := self.terminal.answers():
                await self._stream.send(*lines)

    async def send(self, *lines: Line) -> None:
        """Send the lines in one write. If the call is cancelled, the connection cannot be used any more."""
        async with self._sending:
            await self._stream.send(*lines)

    def command(self, name: str) -> Line:
        """Return the encoded bytes of a telnet command from `COMMANDS`."""
        return encode_command(COMMANDS[name])

    def resize(self, columns: int, rows: int) -> tuple[Line, ...]:
        """Set the size of the terminal.

        If the service requested the terminal size, return the option messages (NAWS) to send.
        """
        self.terminal.resize(WindowSize(columns, rows))
        return self.terminal.answers()


@asynccontextmanager
async def connect_terminal(
    network: Network, request: RetrievalRequest, kind: str = "dumb", size: tuple[int, int] = DEFAULT_SIZE
) -> AsyncIterator[TerminalConnection]:
    """Open a telnet connection, which is closed when the context is exited.

    `kind` is the terminal type.
    """
    url = request.url
    if not isinstance(url, TelnetUrl):
        raise UnsupportedScheme(
            url.scheme, f"a {url.scheme} URL does not name a terminal service", url=url.shown
        )
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


#: The output to wait for: bytes, a compiled regular expression for bytes, or a `resolver.prompt`.
Expected: TypeAlias = "bytes | re.Pattern[bytes] | Prompt"


class TerminalSession:
    """A telnet session, which `Resolver.open_terminal` opens.

    One task may wait for output while another task sends input.

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
        self._text = bytearray()
        self._ended = False
        self._received = 0

    @property
    def peer(self) -> str:
        """Return the IP address of the server."""
        return self.connection.peer

    @property
    def secured(self) -> bool:
        """Return whether the connection uses TLS."""
        return self.connection.secured

    @property
    def echoing(self) -> bool:
        """Return whether the service controls the echo (option ECHO) and may hide typed passwords."""
        return self.connection.terminal.echoing

    @property
    def findings(self) -> list[Finding]:
        """Return the protocol violations of the service, without duplicates."""
        return self.connection.findings

    async def expect(self, pattern: Expected, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Wait for `pattern`.

        Return the output of the service up to the end of the match.

        Output after the match is buffered for the next call. A cancelled call does not lose output.

        Args:
            pattern: the output to wait for.
            timeout: the timeout in seconds; None for no timeout.

        Raises:
            TimedOut: after `timeout` seconds, or after the idle timeout of the limits.
            Truncated: if the service closes the connection before the pattern matches.
            LimitExceeded: if the output is longer than `Limits.body` before the pattern matches.
        """
        start = 0
        with nullcontext() if timeout is None else self._loop.move_on_after(timeout):
            while (end := _find_end(pattern, self._text, start)) is None:
                if self._ended:
                    raise self._truncated(
                        "the service closed the connection before the expected text arrived"
                    )
                start = len(self._text)
                await self._read()
            output = bytes(self._text[:end])
            del self._text[:end]
            return output
        raise TimedOut(f"timed out: the expected text did not arrive within {timeout:g} s")

    async def read(self) -> bytes:
        """Return the remaining output until the service closes the connection. Raises as `expect` does."""
        while not self._ended:
            await self._read()
        text, self._text = self._text, bytearray()
        return bytes(text)

    async def send(self, octets: bytes) -> None:
        """Send bytes as typed input, with CR as the Enter key. The input is never logged or displayed."""
        await self.connection.send(self.connection.terminal.encode_typed(octets))

    async def send_line(self, text: str | bytes) -> None:
        """Send a line of input and the Enter key.

        Raises `Refused` (S02) if the text contains CR or LF (CRLF injection).
        """
        octets = text if isinstance(text, bytes) else text.encode(self._charset or "utf-8")
        await self.connection.send(self.connection.terminal.encode_line(octets))

    async def send_command(self, name: str) -> None:
        """Send a telnet command (RFC 854): `brk`, `ayt`, `ip`, `ao`, `ec`, `el` or `nop`.

        Raises `NotConfigured` for another name.
        """
        if name not in COMMANDS:
            raise NotConfigured(f"unknown command {name!r}: expected one of {', '.join(COMMANDS)}")
        await self.connection.send(self.connection.command(name))

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the terminal, and send the size if the service requested it (NAWS)."""
        await self.connection.send(*self.connection.resize(columns, rows))

    def decoded(self, octets: bytes) -> str:
        """Decode bytes with the `charset` of the session (default UTF-8)."""
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
            self._take(self._newlines.feed(data, binary=self.connection.terminal.receives_binary))
        await self.connection.answer()
        limit = self.connection.limits.body
        if len(self._text) > limit:
            raise LimitExceeded("body", f"more than {limit} bytes of unread text")

    def _end(self) -> None:
        self._take(self._newlines.finish())
        self._ended = True
        if self.connection.terminal.inside:
            raise self._truncated("the service closed the connection inside a command")
        if not self.connection.ended_whole:
            raise self._truncated("the connection ended without a TLS close_notify")

    def _take(self, text: bytes) -> None:
        self._text += text
        self._received += len(text)

    def _truncated(self, reason: str) -> Truncated:
        return Truncated(reason, received=self._received)


class TerminalWindow(Provenance, total=False):
    """The keywords of `Resolver.open_terminal`: terminal size, terminal type, charset and provenance.

    A session for a URL with the origin `derived` is refused (S18).
    """

    size: tuple[int, int]
    """The terminal size in columns and rows; the default is 80 and 24."""

    terminal: str
    """The terminal type (TERM). For the default, `dumb`, services do not send escape sequences."""

    charset: str | None
    """The charset of `decoded` and `send_line`; None means UTF-8."""


@asynccontextmanager
async def open_session(
    network: Network, request: RetrievalRequest, **window: Unpack[TerminalWindow]
) -> AsyncIterator[TerminalSession]:
    """Open a session on a separate connection, which is closed when the context is exited."""
    kind, size = window.get("terminal", "dumb"), window.get("size", DEFAULT_SIZE)
    async with connect_terminal(network, request, kind, size) as connection:
        yield TerminalSession(connection, window.get("charset"))


def _find_end(pattern: Expected, text: bytearray, start: int) -> int | None:
    """Return the end of the first match, which is after `start`, because earlier text was searched before."""
    if isinstance(pattern, bytes):
        index = text.find(pattern, max(0, start - len(pattern)))
        return None if index < 0 else index + len(pattern)
    if isinstance(pattern, re.Pattern):
        match = pattern.search(text)
        return None if match is None else match.end()
    return pattern.end_in(bytes(text))
