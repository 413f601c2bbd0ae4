"""A person at a telnet session: what the service says is shown, what is typed is sent, and `^]` asks what to
do.

Four tasks: one listens, one reads the keyboard, one sends, one hears signals. While the person is asked
nothing is read from the service, so it cannot write over the question. Whatever ends the session, the
terminal is first as it was before.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from protocols.errors import Disconnected, ResolveError
from resolver.cli import streams
from resolver.cli.console import ESCAPE, Console, HungUp, Mode
from resolver.retrieval.terminal_connection import COMMANDS, TerminalConnection
from resolver.retrieval.terminal_shown import TerminalOutput

if TYPE_CHECKING:
    from protocols.contract import Line

_PROMPT = b"\ntelnet> "
_HELP = (
    "close, quit: close the connection; so does the end of input",
    "status: where it leads, and what was agreed on",
    f"send {', '.join(COMMANDS)} or escape: a command of telnet, or the escape character itself",
    "help: this; an empty line goes on with the session",
)

#: Octets that may wait for a service that reads nothing; a terminal's own driver holds no more either.
_MOST_WAITING = 65_536
_BELL = b"\x07"
_END_OF_INPUT = b"\x04"

_SIGNALS = (
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH),
)


async def sit(
    connection: TerminalConnection, shown: TerminalOutput, console: Console, *, folds: bool, quiet: bool
) -> None:
    """Until the person or the service closes, or a signal ends it, which is raised once more then: who is
    outside hears it. One that is ignored, as who began us wanted it, ends nothing. Raises `ResolveError`."""
    heard = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    with trio.open_signal_receiver(*heard) as signals:
        sitting = _TerminalUser(connection, shown, console, folds=folds)
        try:
            await sitting.run(signals)
        finally:
            console.write_at_once(shown.left)
            console.leave(flush=sitting.ended_by_service)
    if sitting.stopped_by is not None:
        signal.raise_signal(sitting.stopped_by)
        await trio.sleep_forever()  # until it is heard
    if sitting.error is not None:
        raise sitting.error
    if sitting.ended_by_service and not quiet:
        streams.complain("the connection was closed by the service")


class _TerminalUser:
    """One session under way."""

    def __init__(
        self, connection: TerminalConnection, shown: TerminalOutput, console: Console, *, folds: bool
    ) -> None:
        self._connection = connection
        self._terminal = connection.terminal
        self._shown = shown
        self._console = console
        self._folds = folds
        self._scope = trio.CancelScope()
        self._going = trio.Event()
        self._going.set()
        self._waiting: list[Line] = []
        self._count = 0
        self._more = trio.Event()
        self.ended_by_service = False
        self.error: ResolveError | None = None
        self.stopped_by: int | None = None

    async def run(self, signals: AsyncIterator[int]) -> None:
        """To the end of it, which `error` and `stopped_by` tell."""
        self._set_mode()
        async with trio.open_nursery() as nursery:
            with self._scope:
                for task in (self._listen, self._type, self._send):
                    nursery.start_soon(self._guarded, task)
                await self._heed(signals)
            nursery.cancel_scope.cancel()

    async def _guarded(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except ResolveError as error:
            self.error = error
            self.ended_by_service = True
        except HungUp:
            self.stopped_by = signal.SIGTERM
        self._scope.cancel()

    # The service.

    async def _listen(self) -> None:
        while octets := await self._connection.receive():
            await self._going.wait()
            await self._show(octets)
        await self._going.wait()
        self.ended_by_service = True
        self._connection.end()

    async def _show(self, octets: bytes) -> None:
        for data in self._connection.take(octets):
            self._set_mode()  # who sees what follows may type at once
            await self._console.write(self._shown.of(data, binary=self._terminal.his_binary))
        self._set_mode()
        await self._connection.answer()

    def _set_mode(self) -> None:
        echo = not self._terminal.echoing
        self._console.sit(Mode(self._terminal.by_characters, echo, self._folds))

    async def _send(self) -> None:
        while True:
            await self._more.wait()
            lines, self._waiting, self._more = tuple(self._waiting), [], trio.Event()
            try:
                await self._connection.send(*lines)
            except Disconnected:  # what it said before it left is still to be read
                self._count = _MOST_WAITING
                await trio.sleep_forever()
            self._count = 0 if not self._waiting else sum(len(line.octets) for line in self._waiting)

    def _say(self, *lines: Line) -> None:
        """To be sent behind all that waits."""
        self._waiting += lines
        self._count += sum(len(line.octets) for line in lines)
        self._more.set()

    # The keyboard.

    async def _type(self) -> None:
        while True:
            typed = await self._console.read()
            if not typed and not self._terminal.by_characters:
                typed = _END_OF_INPUT
            while typed:
                typed, escape, behind = typed.partition(ESCAPE)
                self._type_in(typed)
                if not escape:
                    break
                left = await self._ask(behind)
                if left is None:
                    return
                typed = left

    def _type_in(self, typed: bytes) -> None:
        if typed and self._count >= _MOST_WAITING:
            self._console.write_at_once(_BELL)
        elif typed and not self._console.by_lines:
            self._say(self._terminal.keyed(typed))
        else:
            for piece in typed.splitlines(keepends=True):
                self._type_line(piece)

    def _type_line(self, typed: bytes) -> None:
        text = typed.removesuffix(b"\n")
        lines = [self._terminal.typed(text)] if text else []
        if text != typed:
            lines.append(self._terminal.entered(b""))
        self._say(*lines)

    async def _ask(self, typed: bytes) -> bytes | None:
        """What the person wants; `typed` is what came behind the escape character. What is left of that, and
        None where the session is to be closed."""
        self._going = trio.Event()
        with self._console.left():
            await self._console.write(_PROMPT)
            line, behind = _first_line(typed)
            await self._console.write(line)
            if not line.endswith(b"\n"):
                rest = await self._console.read()
                if not (line or rest):
                    return None
                line += rest
            goes_on = self._obey(line.decode("utf-8", "replace").split())
        self._going.set()
        return behind if goes_on else None

    def _obey(self, words: list[str]) -> bool:
        """False where the session is over."""
        match words:
            case []:
                pass
            case ["close" | "quit"]:
                return False
            case ["status"]:
                self._tell(*self._status())
            case ["send", "escape"]:
                self._say(self._terminal.typed(ESCAPE))
            case ["send", name] if name in COMMANDS:
                self._say(self._connection.command(name))
            case _:
                self._tell(*_HELP)
        return True

    def _tell(self, *lines: str) -> None:
        for line in lines:
            streams.note(line)

    def _status(self) -> list[str]:
        connection, terminal = self._connection, self._terminal
        columns, rows = self._console.size
        sides = (("the service", terminal.his), ("this client", terminal.ours))
        on = [f"{name} ({which})" for which, side in sides for name in side.names]
        return [
            f"connected to {connection.peer} port {connection.url.effective_port}, "
            f"{'inside TLS' if connection.secured else 'in the clear'}",
            f"what is typed is sent by {'characters' if terminal.by_characters else 'lines'}, "
            f"and shown by {'the service' if terminal.echoing else 'this terminal'}",
            f"the window has {columns} columns and {rows} rows",
            f"on are: {', '.join(on) or 'no options'}",
        ]

    # Signals.

    async def _heed(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            match number:
                case signal.SIGWINCH:
                    self._tell_size()
                case signal.SIGCONT:
                    self._console.sit_again()
                    self._tell_size()
                case signal.SIGTSTP:
                    self._suspend()
                case signal.SIGINT if self._edits_lines:
                    self._say(self._connection.command("ip"))
                case signal.SIGQUIT if self._edits_lines:
                    self._say(self._connection.command("brk"))
                case _:
                    self._stop(number)
                    return

    @property
    def _edits_lines(self) -> bool:
        """Does the terminal make signals of keys that are for the service?"""
        return self._going.is_set() and not self._terminal.by_characters

    def _stop(self, number: int) -> None:
        """A terminal that hung up ends the run as who is asked to end does."""
        self.stopped_by = signal.SIGTERM if number == signal.SIGHUP else number
        self._scope.cancel()

    def _suspend(self) -> None:
        with self._console.left():
            signal.raise_signal(signal.SIGSTOP)
        if not self._going.is_set():
            self._console.write_at_once(_PROMPT)

    def _tell_size(self) -> None:
        self._say(*self._connection.resize(*self._console.size))


def _first_line(typed: bytes) -> tuple[bytes, bytes]:
    """With a line feed where Enter was pressed; and what is behind it."""
    line = next(iter(typed.splitlines(keepends=True)), b"")
    text = line.rstrip(b"\r\n")
    return (text if text == line else text + b"\n"), typed[len(line) :]
