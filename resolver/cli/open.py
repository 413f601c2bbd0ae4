"""The command `open`. The scheme of the URL decides between a telnet session, a Gopher+ form, and a web page.

No other module of the command opens an interactive session (S18).
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

import trio

from protocols.contract import Finding, HostUrl, Referrer, Url
from protocols.errors import (
    Disconnected,
    LocalError,
    NotConfigured,
    NotFound,
    ProtocolError,
    Refused,
    ResolveError,
)
from protocols.text import Masked, own_text
from resolver.cli import serve, streams
from resolver.cli.arguments import Command
from resolver.cli.console import ESCAPE, Console, Mode, TerminalHangup
from resolver.cli.hints import advise_login
from resolver.cli.output import Output, StandardOutput
from resolver.cli.targets import CommandTarget
from resolver.policy.environment import read_colors
from resolver.policy.judgment import judge
from resolver.policy.schemes import find_rules
from resolver.terminal.screen import TerminalOutput
from resolver.transfer.forms import (
    Answer,
    AskForm,
    AskLine,
    AskQuestion,
    PutForm,
    asks_for_form,
    form_at,
    may_have_form,
)
from resolver.transfer.session import Resolver
from resolver.transfer.terminal import COMMANDS, TerminalConnection

if TYPE_CHECKING:
    from protocols.contract import Line


# An interactive telnet session. The output of the service is shown, and typed text is sent. `^]` opens a
# prompt.
#
# Four tasks receive data, read the keyboard, send data, and handle signals. While the prompt is open, no
# output of the service is shown, because such output could overwrite the prompt. When the session ends, the
# terminal settings are restored before anything else.

_PROMPT = b"\ntelnet> "
_HELP = (
    "close, quit: close the connection; so does the end of input",
    "status: show the peer and the negotiated options",
    f"send {', '.join(COMMANDS)} or escape: send a telnet command, or the escape character itself",
    "help: show this; an empty line returns to the session",
)

#: The maximum number of bytes in the send queue. The queue fills if the service does not read. The limit is
#: at least as large as the input buffer of a terminal driver.
_MAX_QUEUED = 65_536
_BELL = b"\x07"
_END_OF_INPUT = b"\x04"

_SIGNALS = (
    *(signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP),
    *(signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH),
)


async def run_session(
    connection: TerminalConnection, shown: TerminalOutput, console: Console, *, converts_lf: bool, quiet: bool
) -> None:
    """Run a telnet session until the user or the service closes the connection, or a signal arrives.

    Then the signal that ended the session is raised again for the handlers of the process. A signal that the
    parent process ignores is also ignored by the session. Raises `ResolveError`.
    """
    numbers = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    with trio.open_signal_receiver(*numbers) as signals:
        user = _KeyboardSession(connection, shown, console, converts_lf=converts_lf)
        try:
            await user.run(signals)
        finally:
            console.write_some(shown.reset_sequences)
            console.restore(flush=user.ended_by_service)
    if user.stopped_by is not None:
        signal.raise_signal(user.stopped_by)
        await trio.sleep_forever()  # until the signal handler runs
    if user.error is not None:
        raise user.error
    if user.ended_by_service and not quiet:
        streams.complain(Masked("the service closed the connection"))


class _KeyboardSession:
    """A telnet session between a terminal and a service."""

    def __init__(
        self, connection: TerminalConnection, shown: TerminalOutput, console: Console, *, converts_lf: bool
    ) -> None:
        self._connection = connection
        self._terminal = connection.terminal
        self._shown = shown
        self._console = console
        self._converts_lf = converts_lf
        self._scope = trio.CancelScope()
        self._output_enabled = trio.Event()
        self._output_enabled.set()
        self._queue: list[Line] = []
        self._queued_size = 0
        self._lines_ready = trio.Event()
        self.ended_by_service = False
        self.error: ResolveError | None = None
        self.stopped_by: int | None = None

    async def run(self, signals: AsyncIterator[int]) -> None:
        """Run the session to its end.

        Afterwards, `error` is the error, or `stopped_by` is the signal, that ended the session.
        """
        self._set_mode()
        async with trio.open_nursery() as nursery:
            with self._scope:
                for task in (self._show_output, self._read_keyboard, self._send):
                    nursery.start_soon(self._guard_task, task)
                await self._handle_signals(signals)
            nursery.cancel_scope.cancel()

    async def _guard_task(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except ResolveError as error:
            self.error = error
            self.ended_by_service = True
        except TerminalHangup:
            self.stopped_by = signal.SIGTERM
        self._scope.cancel()

    # Output of the service.

    async def _show_output(self) -> None:
        while octets := await self._connection.receive():
            await self._show(octets)
        await self._output_enabled.wait()
        self.ended_by_service = True
        self._connection.end()

    async def _show(self, octets: bytes) -> None:
        for data in self._connection.take(octets):
            await self._output_enabled.wait()
            self._set_mode()  # before the output, because the user may type when a prompt appears
            await self._console.write(self._shown.show_data(data, binary=self._terminal.receives_binary))
        self._set_mode()
        await self._connection.answer()

    def _set_mode(self) -> None:
        echo = not self._terminal.echoing
        self._console.set_mode(Mode(self._terminal.sends_characters, echo, self._converts_lf))

    async def _send(self) -> None:
        while True:
            await self._lines_ready.wait()
            lines, self._queue, self._lines_ready = tuple(self._queue), [], trio.Event()
            try:
                await self._connection.send(*lines)
            except Disconnected:  # output that arrived before the end must still be read
                self._queued_size = _MAX_QUEUED
                await trio.sleep_forever()
            self._queued_size = 0 if not self._queue else sum(len(line.octets) for line in self._queue)

    def _queue_lines(self, *lines: Line) -> None:
        self._queue += lines
        self._queued_size += sum(len(line.octets) for line in lines)
        self._lines_ready.set()

    # Keyboard.

    async def _read_keyboard(self) -> None:
        while True:
            typed = await self._console.read()
            if not typed and not self._terminal.sends_characters:
                typed = _END_OF_INPUT
            while typed:
                typed, escape, rest = typed.partition(ESCAPE)
                self._send_typed(typed)
                if not escape:
                    break
                remaining = await self._run_prompt(rest)
                if remaining is None:
                    return
                typed = remaining

    def _send_typed(self, typed: bytes) -> None:
        if typed and self._queued_size >= _MAX_QUEUED:
            self._console.write_some(_BELL)
        elif typed and not self._console.is_line_mode:
            self._queue_lines(self._terminal.encode_keys(typed))
        else:
            for piece in typed.splitlines(keepends=True):
                self._send_line(piece)

    def _send_line(self, typed: bytes) -> None:
        text = typed.removesuffix(b"\n")
        lines = [self._terminal.encode_typed(text)] if text else []
        if text != typed:
            lines.append(self._terminal.encode_line(b""))
        self._queue_lines(*lines)

    async def _run_prompt(self, typed: bytes) -> bytes | None:
        """Run one command at the `^]` prompt.

        `typed` are the bytes after the escape character.

        Returns:
            The typed bytes after that command, or None to close the session.
        """
        self._output_enabled = trio.Event()
        with self._console.restore_terminal():
            await self._console.write(_PROMPT)
            line, following = _first_line(typed)
            await self._console.write(line)
            if not line.endswith(b"\n"):
                rest = await self._console.read()
                if not (line or rest):
                    return None
                line += rest
            continues = self._run_command(line.decode("utf-8", "replace").split())
        self._output_enabled.set()
        return following if continues else None

    def _run_command(self, words: list[str]) -> bool:
        """Run a prompt command and return whether the session continues."""
        match words:
            case []:
                pass
            case ["close" | "quit"]:
                return False
            case ["status"]:
                self._print_notes(*self._status())
            case ["send", "escape"]:
                self._queue_lines(self._terminal.encode_typed(ESCAPE))
            case ["send", name] if name in COMMANDS:
                self._queue_lines(self._connection.command(name))
            case _:
                self._print_notes(*_HELP)
        return True

    def _print_notes(self, *lines: str) -> None:
        for line in lines:
            streams.note(own_text(line))

    def _status(self) -> list[str]:
        connection, terminal = self._connection, self._terminal
        columns, rows = self._console.size
        sides = (("the service", terminal.server), ("this client", terminal.client))
        options = [f"{name} ({owner})" for owner, side in sides for name in side.names]
        return [
            f"connected to {connection.peer} port {connection.url.effective_port}, "
            f"{'with TLS' if connection.secured else 'without TLS'}",
            f"input is sent by {'characters' if terminal.sends_characters else 'lines'}, "
            f"and echoed by {'the service' if terminal.echoing else 'this terminal'}",
            f"the terminal has {columns} columns and {rows} rows",
            f"enabled: {', '.join(options) or 'no options'}",
        ]

    # Signals.

    async def _handle_signals(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            match number:
                case signal.SIGWINCH:
                    self._send_size()
                case signal.SIGCONT:
                    self._console.reset_mode()
                    self._send_size()
                case signal.SIGTSTP:
                    self._suspend()
                case signal.SIGINT if self._edits_lines:
                    self._queue_lines(self._connection.command("ip"))
                case signal.SIGQUIT if self._edits_lines:
                    self._queue_lines(self._connection.command("brk"))
                case _:
                    self._stop(number)
                    return

    @property
    def _edits_lines(self) -> bool:
        """Return whether a signal of the terminal, such as SIGINT after Ctrl-C, is meant for the service."""
        return self._output_enabled.is_set() and not self._terminal.sends_characters

    def _stop(self, number: int) -> None:
        """End the session because of a signal; SIGHUP has the same effect as SIGTERM."""
        self.stopped_by = signal.SIGTERM if number == signal.SIGHUP else number
        self._scope.cancel()

    def _suspend(self) -> None:
        with self._console.restore_terminal():
            signal.raise_signal(signal.SIGSTOP)
        if not self._output_enabled.is_set():
            self._console.write_some(_PROMPT)

    def _send_size(self) -> None:
        self._queue_lines(*self._connection.resize(*self._console.size))


def _first_line(typed: bytes) -> tuple[bytes, bytes]:
    """Split typed bytes into the first line and the remaining bytes.

    The line ends in a line feed if the user pressed Enter.
    """
    line = next(iter(typed.splitlines(keepends=True)), b"")
    text = line.rstrip(b"\r\n")
    return (text if text == line else text + b"\n"), typed[len(line) :]


async def perform(
    session: Resolver, url: Url, target: CommandTarget, command: Command
) -> tuple[Finding, ...]:
    """Open a URL interactively.

    The scheme determines how. Return the findings.
    """
    is_at_terminal = streams.input_is_terminal() and streams.output_is_terminal()
    if isinstance(url, HostUrl) and find_rules(url.scheme).session:
        if not is_at_terminal:
            raise NotConfigured(
                "open needs a terminal on standard input and standard output "
                "(resolve cat --for SECONDS URL records a session)"
            )
        return await _open_session(session, url, target, command)
    if isinstance(url, HostUrl) and find_rules(url.scheme).form is not None and is_at_terminal:
        form = await fetch_form(session, url, target)
        if form is not None:
            return await fill_in(form, session, url, target, command)
    await serve.browse(session, url, target, command)
    return ()


async def _open_session(
    session: Resolver, url: HostUrl, target: CommandTarget, command: Command
) -> tuple[Finding, ...]:
    advise_login(url, quiet=command.is_quiet)
    plain, terminal_name = command.plain, read_colors().get("TERM", "dumb")
    is_dumb = plain or terminal_name in ("", "dumb")
    with Console() as console:
        shown = TerminalOutput(plain=plain, raw=session.policy.allow_raw, utf8=console.is_utf8)
        async with session.open_terminal(
            url,
            size=console.size,
            terminal="dumb" if is_dumb else "xterm",
            origin=target.origin,
            referrer=target.referrer,
        ) as terminal:
            connection = terminal.connection
            connection.drop_idle_limit()
            if not command.is_quiet:
                peer = str(connection.peer)
                streams.complain(
                    Masked(f"connected to {own_text(peer)} port {url.effective_port}; ^] opens the prompt")
                )
            await run_session(connection, shown, console, converts_lf=is_dumb, quiet=command.is_quiet)
            return tuple(connection.findings)


# The questions of a Gopher+ form (Gopher+ memo, 2.4), asked at the terminal one by one.
#
# The text of the questions is untrusted, and is escaped (S15). An empty line selects the default answer. A
# file is sent only if the user names the file. Secrets are typed without echo.

#: Maximum bytes of a file that is sent with a form.
_MAX_FILE = 1_048_576
_YES, _NO = (b"y", b"yes"), (b"n", b"no")


async def ask_questions(form: AskForm) -> list[Answer]:
    """Ask the questions of a form and return the answers. Raises `Refused` (S05) for `^D`."""
    answers: list[Answer] = []
    for line in form.lines:
        if line.question.needs_answer:
            answers.append(await _ASK_BY_QUESTION[line.question](line))
        else:
            streams.note(own_text(line.prompt))
    return answers


async def confirm_sending(place: str, answers: list[Answer]) -> None:
    """Ask the user for consent to send the answers. Raises `Refused` (S05) without consent."""
    noun = "1 answer" if len(answers) == 1 else f"{len(answers)} answers"
    if not await streams.ask(f"Send {noun} to {place}?"):
        raise _make_refused()


def _make_refused() -> Refused:
    return Refused("S05", "nothing was sent: not confirmed")


async def _read_typed(prompt: str, *, hidden: bool = False) -> bytes:
    typed = await streams.request_line(prompt, hidden=hidden)
    if typed is None:
        raise _make_refused()
    return typed


async def _line(line: AskLine) -> bytes:
    """Ask for one line, again after a lone period.

    A lone period would end the form on the server.
    """
    default = "" if line.default is None else f" [{line.default}]"
    hidden = line.question is AskQuestion.ASK_HIDDEN
    while (typed := await _read_typed(f"{line.prompt}{default} ", hidden=hidden)) == b".":
        streams.note(Masked("an answer cannot be a lone period: it would end the form"))
    return typed or (line.default or "").encode()


async def _lines(line: AskLine) -> tuple[bytes, ...]:
    default = "" if line.default is None else f" [{line.default}]"
    streams.note(Masked(f"{own_text(line.prompt + default)} (several lines; end with a lone period)"))
    lines: list[bytes] = []
    while (typed := await _read_typed("> ")) != b".":
        lines.append(typed)
    return tuple(lines) if lines or line.default is None else (line.default.encode(),)


async def _choice(line: AskLine) -> bytes:
    """Let the user select one of several choices by its number or its text."""
    if not line.choices:
        raise ProtocolError(f"the form has no choices for {line.prompt!r}")
    streams.note(own_text(line.prompt))
    for number, choice in enumerate(line.choices, 1):
        streams.note(Masked(f"{number:>4}  {own_text(choice.decode('utf-8', 'replace'))}"))
    numbered = {b"%d" % number: choice for number, choice in enumerate(line.choices, 1)}
    while True:
        typed = await _read_typed(f"1 to {len(line.choices)} [1] ") or b"1"
        if typed in line.choices:
            return typed
        if typed in numbered:
            return numbered[typed]


async def _selection(line: AskLine) -> bool:
    by_default = line.default == "1"
    while True:
        typed = (await _read_typed(f"{line.prompt} [{'Y/n' if by_default else 'y/N'}] ")).strip().lower()
        if not typed or typed in (*_YES, *_NO):
            return typed in _YES if typed else by_default


async def _file(line: AskLine) -> bytes | None:
    while typed := await _read_typed(f"{line.prompt} (path of a local file; empty for none) "):
        try:
            return streams.read_file(typed.decode("utf-8", "surrogateescape"), _MAX_FILE)
        except LocalError as error:
            streams.note(error.message)
    return None


_ASK_BY_QUESTION: Mapping[AskQuestion, Callable[[AskLine], Awaitable[Answer]]] = {
    AskQuestion.ASK: _line,
    AskQuestion.ASK_HIDDEN: _line,
    AskQuestion.ASK_FILE: _line,
    AskQuestion.ASK_LINES: _lines,
    AskQuestion.CHOOSE: _choice,
    AskQuestion.SELECT: _selection,
    AskQuestion.CHOOSE_FILE: _file,
}


# The command `open` for a Gopher+ item with a form. The user answers the questions and consents to sending
# (S05). The reply is written to standard output. The form is never sent a second time after an error, because
# the first attempt may have changed data on the server.


async def fetch_form(session: Resolver, url: HostUrl, target: CommandTarget) -> PutForm | None:
    """Return the form of an item, or None.

    Raises `NotFound` or `ProtocolError` if the URL requests a form and the item has no form.
    """
    if not may_have_form(url):
        return None
    try:
        return await form_at(session, url, origin=target.origin, referrer=target.referrer)
    except (NotFound, ProtocolError):  # most servers do not support forms
        if asks_for_form(url):
            raise
        return None


async def fill_in(
    form: PutForm, session: Resolver, url: HostUrl, target: CommandTarget, command: Command
) -> tuple[Finding, ...]:
    """Ask the questions of a form, send it, print the reply, and return the findings.

    Raises `Refused` before the first question if the policy does not permit sending the form.
    """
    _check(form.specimen(), session, target)
    for finding in () if command.is_quiet else form.findings:
        streams.complain(Masked(f"{url.shown}: {finding.words}"))
    answers = await ask_questions(form.form)
    try:
        filled = form.fill_in(answers)
    except ValueError as error:
        raise ProtocolError(f"cannot fill in the form: {error}") from error
    await confirm_sending(f"{url.host} port {url.effective_port}", answers)
    with StandardOutput() as outlet:
        output = Output(hashed=False, checksum=None, raw=session.policy.allow_raw, outlet=outlet)
        async with session.stream(filled, origin=target.origin, referrer=target.referrer) as reply:
            await output.write(reply)
            return reply.findings


def _check(url: Url, session: Resolver, target: CommandTarget) -> None:
    referrer = None if target.referrer is None else Referrer(*target.referrer)
    error = judge(url, session.policy, origin=target.origin, referrer=referrer).error(url)
    if error is not None:
        raise error
