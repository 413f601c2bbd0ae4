"""A telnet session that a program holds (RFC 854): it waits for what the service says, and types.

Options are settled as the service asks for them, whenever something is read. Nothing is read that nobody
waits for: a service that says much is held back by the connection itself.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TypeAlias, TypedDict, Unpack

from protocols.contract import Finding, Limits
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
from protocols.telnet.codes import Command
from protocols.telnet.newlines import Text
from protocols.telnet.octets import Data, Odd
from protocols.telnet.terminal import USUAL_SIZE, Size, Terminal
from protocols.wire import encode_command
from resolver import registry
from resolver.events import Warned
from resolver.gate import Network
from resolver.gate.stream import Stream
from resolver.loops import running
from resolver.retrieval.hops import Request

#: What is waited for: octets as they stand, a compiled expression over octets, or a `resolver.prompt`.
Expected: TypeAlias = "bytes | re.Pattern[bytes] | Prompt"

#: What may be sent besides text. End of file, suspend and abort are none of it: servers in wide use swallow
#: the octet behind them.
COMMANDS = {
    "brk": Command.BRK,
    "ip": Command.IP,
    "ao": Command.AO,
    "ayt": Command.AYT,
    "ec": Command.EC,
    "el": Command.EL,
    "nop": Command.NOP,
}


class TerminalSession:
    """What `Resolver.open_terminal` gives, as long as its connection lives. One task may wait for something
    while another one types. `findings` tell what was odd about the service.

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

    def __init__(self, stream: Stream, terminal: Terminal, limits: Limits, charset: str | None) -> None:
        self._stream = stream
        self._terminal = terminal
        self._limits = limits
        self._charset = charset
        self._loop = running()
        self._sending = self._loop.lock()
        self._newlines = Text()
        self._text = b""
        self._ended = False
        self._received = 0
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
    def echoing(self) -> bool:
        """Does the service show what is typed, or hide it?"""
        return self._terminal.echoing

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
        async with self._sending:
            await self._stream.send(self._terminal.typed(octets))

    async def send_line(self, text: str | bytes) -> None:
        """Type this, and Enter. Raises `Refused` (S02) for a text with a line end in it."""
        octets = text if isinstance(text, bytes) else text.encode(self._charset or "utf-8")
        async with self._sending:
            await self._stream.send(self._terminal.entered(octets))

    async def send_command(self, name: str) -> None:
        """One of `brk ip ao ayt ec el nop` (RFC 854). Raises `NotConfigured` for any other."""
        if name not in COMMANDS:
            raise NotConfigured(f"{name!r} is none of {', '.join(COMMANDS)}")
        async with self._sending:
            await self._stream.send(encode_command(COMMANDS[name]))

    async def resize(self, columns: int, rows: int) -> None:
        """The window has another size: told where the service wants to know."""
        self._terminal.resize(Size(columns, rows))
        await self._answer()

    def decoded(self, octets: bytes) -> str:
        """The text of octets, in the `charset` of the session, UTF-8 where it has none."""
        return octets.decode(self._charset or "utf-8", "replace")

    async def _answer(self) -> None:
        """What waits to be answered, whole and in order, between two texts of others."""
        async with self._sending:
            if lines := self._terminal.answers():
                await self._stream.send(*lines)

    async def _read(self) -> None:
        try:
            octets = await self._stream.receive()
        except Disconnected as error:
            if not self._received:
                raise
            raise self._truncated(error.message) from error
        if not octets:
            self._end()
            return
        for happening in self._terminal.feed(octets):
            match happening:
                case Data(octets=data):
                    self._take(self._newlines.feed(data, binary=self._terminal.his_binary))
                case Odd(rule=rule, detail=detail):
                    if all(finding.rule != rule for finding in self.findings):
                        self.findings.append(Finding(rule, "warn", detail))
        await self._answer()
        if len(self._text) > self._limits.body:
            raise LimitExceeded("body", f"more than {self._limits.body} octets of text that nobody took")

    def _end(self) -> None:
        self._take(self._newlines.finish())
        self._ended = True
        if self._terminal.inside:
            raise self._truncated("the service closed the connection inside a command")

    def _take(self, text: bytes) -> None:
        self._text += text
        self._received += len(text)

    def _truncated(self, why: str) -> Truncated:
        return Truncated(why, received=self._received)


class Window(TypedDict, total=False):
    """What a service is told of the terminal, and how its octets are read."""

    size: tuple[int, int]
    """Columns and rows; 80 and 24 where nobody says."""

    terminal: str
    """The terminal's type: `dumb` where nobody says, for which services send no sequences."""

    charset: str | None
    """In which `decoded` and `send_line` read and write text; None is UTF-8."""


@asynccontextmanager
async def opened(
    network: Network, request: Request, **window: Unpack[Window]
) -> AsyncIterator[TerminalSession]:
    """The session on a connection of its own, which is closed on leaving."""
    url = request.url
    if not isinstance(url, TelnetUrl):
        raise UnsupportedScheme(url.scheme, f"a {url.scheme} URL names no service to sit at", url=url.shown)
    row = registry.find(url.scheme)
    url_gate = network.admit(url, options=request.options)
    for finding in url_gate.findings:
        network.on_event(Warned(url.shown, finding))
    terminal = Terminal(
        window.get("terminal", "dumb").encode("ascii", "replace"), Size(*window.get("size", USUAL_SIZE))
    )
    async with url_gate.connect(tls=row is not None and row.tls == "always") as stream:
        yield TerminalSession(stream, terminal, url_gate.limits, window.get("charset"))


def _end_of(pattern: Expected, text: bytes) -> int | None:
    if isinstance(pattern, bytes):
        start = text.find(pattern)
        return None if start < 0 else start + len(pattern)
    if isinstance(pattern, re.Pattern):
        found = pattern.search(text)
        return None if found is None else found.end()
    return pattern.end_in(text)
