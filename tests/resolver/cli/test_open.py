"""`resolve open` on a real terminal: telnet sessions and Gopher+ forms; also `cat` of a telnet session."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from fixtures.gopher import EXAMPLE, GopherServer, Item
from fixtures.gopher import serve as forms_serve
from fixtures.telnet import serve
from protocols.gopher.attributes import Answer, parse_form
from resolver import ProtocolError, Refused, Resolver, Url
from resolver.cli import serve as browsing
from resolver.cli import streams
from resolver.cli.arguments import Command as CommandLine
from resolver.cli.open import ask_questions
from resolver.cli.targets import CommandTarget
from tests.hang import HANG
from tests.resolver.cli.command import hide_library, records, resolve
from tests.resolver.cli.terminal import Command, Terminal, on_terminal, unsafe_bytes
from tests.sampled import sampled

#: The service offers ECHO and SGA, that is, character mode; the client accepts.
ASKED, ANSWERED = b"\xff\xfb\x01\xff\xfb\x03", b"\xff\xfd\x01\xff\xfd\x03"
#: A request for an unknown option: its answer shows that the terminal is set up.
PROBE, PROBED = b"\xff\xfd\x63", b"\xff\xfc\x63"


class Session:
    """Both ends of a session; `before` are the initial settings of the terminal."""

    def __init__(
        self, command: Command, terminal: Terminal, before: list[object], service: trio.SocketStream
    ) -> None:
        self.command = command
        self.before = before
        self.terminal = terminal
        self.service = service
        self._heard = b""

    async def expect_received(self, octets: bytes) -> None:
        """Wait until the service has received exactly these bytes."""
        while len(self._heard) < len(octets):
            came = await self.service.receive_some()
            assert came, (self._heard, self.terminal.rows)
            self._heard += came
        assert self._heard[: len(octets)] == octets
        self._heard = self._heard[len(octets) :]

    async def wait_for_text(self, text: str) -> None:
        await self.terminal.until(lambda rows: any(text in row for row in rows))

    async def open_prompt(self) -> None:
        """Type `^]` on a cleared screen and wait for the prompt."""
        self.terminal.screen.reset()
        self.terminal.type(b"\x1d")
        await self.terminal.until(lambda rows: rows[-1:] == ["telnet>"])


@asynccontextmanager
async def session(
    folder: Path, *arguments: str, columns: int = 80, ignored: Collection[int] = ()
) -> AsyncIterator[Session]:
    """Connect a session to a service that has not sent anything."""
    with trio.fail_after(HANG):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        terminal = Terminal(columns)
        before = terminal.settings
        url = f"telnet://127.0.0.1:{port}/"
        words = ("open", *arguments, "--allow-port", str(port), url)
        async with (
            listener,
            on_terminal(terminal, folder, *words, typed=True, ignored=ignored) as command,
            await listener.accept() as service,
        ):
            yield Session(command, terminal, before, service)


async def test_telnet_session_on_terminal_is_complete(nursery: trio.Nursery, folder: Path) -> None:
    with trio.fail_after(HANG):
        server = await serve(nursery)
        terminal = Terminal(80)
        before = terminal.settings
        url = server.url().replace("//", "//gu%1Best:secret@")
        words = ("open", "--allow-port", str(server.port), url)
        async with on_terminal(terminal, folder, *words, typed=True) as command:
            await terminal.until(lambda rows: rows[-1:] == ["login:"])
            terminal.type(b"guest\r")
            await terminal.until(lambda rows: rows[-2:] == ["hello guest", "$"])
            terminal.type(b"size\r")
            await terminal.until(lambda rows: rows[-2:] == ["80 by 24", "$"])
            terminal.type(b"terminal\r")
            await terminal.until(lambda rows: rows[-2:] == ["xterm", "$"])
            assert terminal.settings != before
            assert os.get_blocking(terminal.slave)  # the shell uses the same open file
            terminal.type(b"bye\r")
            assert await command.status() == 0
            assert terminal.settings == before
    assert server.violations == []
    said = terminal.octets.decode()
    assert all(word in said for word in ("login gu\\x1best", "password"))
    assert "warning (S06)" in said
    assert "secret" not in said
    assert said.endswith("the service closed the connection\r\n\0")
    # the request for the terminal type may arrive late
    typed = server.heard[0].replace(b"\xff\xfa\x18\0xterm\xff\xf0", b"")
    assert typed.endswith(b"\xff\xf0guest\r\0size\r\0terminal\r\0bye\r\0")


async def test_telnet_line_mode_lasts_until_character_mode(folder: Path) -> None:
    async with session(folder) as held:
        await held.service.send_all(b"Your name?\n" + PROBE)
        await held.expect_received(PROBED)
        held.terminal.type(b"gux\x7fest\r")
        await held.expect_received(b"guest\r\n")
        await held.wait_for_text("guest")
        held.terminal.type(b"half\x04")
        await held.expect_received(b"half")
        held.terminal.type(b"\x04")
        await held.expect_received(b"\x04")
        held.terminal.type(b"\x03")
        await held.expect_received(b"\xff\xf4")
        held.terminal.type(b"\x1c")
        await held.expect_received(b"\xff\xf3")
        held.terminal.type(b"half")
        await held.open_prompt()
        await held.expect_received(b"half")
        held.terminal.type(b"\r")
        await held.service.send_all(b"\xff\xfb\x01Password: ")
        await held.expect_received(b"\xff\xfd\x01")
        held.terminal.type(b"hidden\r")
        await held.expect_received(b"hidden\r\n")
        await held.service.send_all(b"\xff\xfc\x01\xff\xfb\x03shown again\r\n")
        await held.expect_received(b"\xff\xfe\x01\xff\xfd\x03")
        held.terminal.type(b"\x03\x1c\x04\r\n\x1a\xff")
        await held.expect_received(b"\x03\x1c\x04\r\0\n\x1a\xff\xff")
        await held.wait_for_text("shown again")
        assert b"hidden" not in held.terminal.octets


async def test_telnet_line_typed_before_character_mode_is_sent(folder: Path) -> None:
    """The service requests characters while a typed line is unread."""
    async with session(folder) as held:
        await held.service.send_all(PROBE)
        await held.expect_received(PROBED)
        held.command.process.send_signal(signal.SIGSTOP)
        await held.command.process.stopped()
        held.terminal.type(b"guest\r")
        await held.wait_for_text("guest")
        await held.service.send_all(ASKED)
        held.command.process.send_signal(signal.SIGCONT)
        octets = b""
        while len(octets) < len(b"guest\r\n" + ANSWERED):
            octets += await held.service.receive_some()
        assert octets in (b"guest\r\n" + ANSWERED, ANSWERED + b"guest\r\n")


async def test_telnet_prompt_commands_work(folder: Path) -> None:
    async with session(folder) as held:
        await held.service.send_all(ASKED + b"ready\r\n")
        await held.expect_received(ANSWERED)
        await held.open_prompt()
        assert held.terminal.settings == held.before
        await held.service.send_all(b"meanwhile " + PROBE)
        held.terminal.type(b"status\r")
        await held.wait_for_text("enabled: ECHO (the service), SGA (the service)")
        await held.wait_for_text("without TLS")
        await held.wait_for_text("meanwhile")
        await held.expect_received(PROBED)
        for name, octets in [("brk", 0xF3), ("ayt", 0xF6), ("ip", 0xF4), ("ao", 0xF5), ("ec", 0xF7)]:
            await held.open_prompt()
            held.terminal.type(f"send {name}\r".encode())
            await held.expect_received(bytes((0xFF, octets)))
        held.terminal.type(b"a\x1dsend escape\rb")  # in one write
        await held.expect_received(b"a\x1db")
        for words in (b"help\r", b"send eof\r"):
            await held.open_prompt()
            held.terminal.type(words)
            await held.wait_for_text("help: show this; an empty line returns")
        await held.open_prompt()
        held.terminal.type(b"\r")
        await held.service.send_all(PROBE)
        await held.expect_received(PROBED)
        held.terminal.type(b"c\r")
        await held.expect_received(b"c\r\0")


async def test_telnet_resize_is_sent_once(folder: Path) -> None:
    async with session(folder) as held:
        await held.service.send_all(b"\xff\xfd\x1f")
        await held.expect_received(b"\xff\xfb\x1f\xff\xfa\x1f\0\x50\0\x18\xff\xf0")
        held.terminal.resize(200)
        await held.expect_received(b"\xff\xfa\x1f\0\xc8\0\x18\xff\xf0")
        held.command.process.send_signal(signal.SIGWINCH)
        held.terminal.resize(40)
        await held.expect_received(b"\xff\xfa\x1f\0\x28\0\x18\xff\xf0")


def send_signal(number: int) -> Callable[[Session], None]:
    return lambda held: held.command.process.send_signal(number)


def close_service(held: Session) -> None:
    held.service.socket.shutdown(socket.SHUT_WR)


def reset_service(held: Session) -> None:
    held.service.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    held.service.socket.close()


def negotiate_forever(held: Session) -> None:
    octets = memoryview(1_001 * PROBE)
    while octets:
        octets = octets[os.write(held.service.socket.fileno(), octets) :]


ENDS: list[tuple[Callable[[Session], None], int]] = [
    (send_signal(signal.SIGTERM), 143),
    (send_signal(signal.SIGHUP), 143),
    (send_signal(signal.SIGINT), 130),
    (send_signal(signal.SIGQUIT), -signal.SIGQUIT),
    (close_service, 0),
    (reset_service, 4),
    (negotiate_forever, 7),
    (lambda held: held.terminal.type(b"\x1dclose\r"), 0),
]
#: Two endings by a signal, and two others.
ENDED = sampled(ENDS, lambda row: row[1] in (-signal.SIGQUIT, 130, 143), 2)


@pytest.mark.parametrize(("end", "status"), ENDED)
async def test_telnet_restores_terminal_after_any_end(
    folder: Path, end: Callable[[Session], None], status: int
) -> None:
    async with session(folder) as held:
        await held.service.send_all(ASKED + b"\x1b[?1049h\x1b[?25l\x1b[1;5r\x1b[31m" + PROBE)
        await held.expect_received(ANSWERED + PROBED)
        assert held.terminal.settings != held.before
        end(held)
        assert await held.command.status() == status
        assert held.terminal.settings == held.before
        assert held.terminal.unread == 0
        assert b"\x1b7\x1b[r\x1b8\x1b[?1049l\x1b[?25h\x1b[m" in held.terminal.octets


async def test_telnet_ignored_signal_does_not_end_session(folder: Path) -> None:
    async with session(folder, ignored=[signal.SIGQUIT]) as held:
        await held.service.send_all(b"\xff\xfd\x1f")
        await held.expect_received(b"\xff\xfb\x1f\xff\xfa\x1f\0\x50\0\x18\xff\xf0")
        held.command.process.send_signal(signal.SIGQUIT)
        held.terminal.resize(200)  # a resize sends a later signal, too
        await held.expect_received(b"\xff\xfa\x1f\0\xc8\0\x18\xff\xf0")
        held.command.process.send_signal(signal.SIGTERM)
        assert await held.command.status() == 143


@pytest.mark.parametrize("asked", [False, True])
async def test_telnet_end_of_input_at_prompt_ends_session(folder: Path, asked: bool) -> None:
    async with session(folder) as held:
        await held.service.send_all((ASKED if asked else b"") + PROBE)
        await held.expect_received((ANSWERED if asked else b"") + PROBED)
        await held.open_prompt()
        held.terminal.type(b"\x04")
        assert await held.command.status() == 0
        assert held.terminal.settings == held.before


@pytest.mark.parametrize("by_characters", [False, True])
async def test_telnet_stop_and_continue_restore_terminal(folder: Path, by_characters: bool) -> None:
    async with session(folder) as held:
        asked, answered = (ASKED, ANSWERED) if by_characters else (b"", b"")
        await held.service.send_all(asked + b"\xff\xfd\x1f")
        await held.expect_received(answered + b"\xff\xfb\x1f\xff\xfa\x1f\0\x50\0\x18\xff\xf0")
        inside = held.terminal.settings
        if by_characters:
            held.command.process.send_signal(signal.SIGTSTP)
        else:
            held.terminal.type(b"\x1a")
        await held.command.process.stopped()
        assert held.terminal.settings == held.before
        held.terminal.resize(100)
        held.command.process.send_signal(signal.SIGCONT)
        await held.expect_received(b"\xff\xfa\x1f\0\x64\0\x18\xff\xf0")
        assert held.terminal.settings == inside
        held.command.process.terminate()
        assert await held.command.status() == 143
        assert held.terminal.settings == held.before


async def test_telnet_discards_unread_input_at_end(folder: Path) -> None:
    async with session(folder) as held:
        await held.service.send_all(PROBE)
        await held.expect_received(PROBED)
        held.terminal.type(b"remove all")
        await held.wait_for_text("remove all")
        close_service(held)
        assert await held.command.status() == 0
        held.terminal.type(b"\n")
        assert os.read(held.terminal.slave, 100) == b"\n"


ATTACK = (
    b"\x1b]0;own\x07\x1b]52;c;b3du\x1b\\\x1bP$qm\x1b\\\x1b[c\x1b[6n\x05\x1bZ"
    b"\xc2\x9b5n\x1b_own\x1b\\\x1b^own\x1b\\"
)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ((), b"red\x1b[31m\xe2\x80\xa2bell\x07end"),
        (("--plain",), b"red\\x05\\x9b\xe2\x80\xa2bell\\x07end"),
        (("--allow-raw",), b"red" + ATTACK + b"\x1b[31m\xe2\x80\xa2bell\x07end"),
    ],
)
async def test_telnet_output_is_filtered(folder: Path, arguments: tuple[str, ...], shown: bytes) -> None:
    async with session(folder, *arguments) as held:
        await held.service.send_all(ASKED + b"\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0")
        kind = b"dumb" if "--plain" in arguments else b"xterm"
        await held.expect_received(ANSWERED + b"\xff\xfb\x18\xff\xfa\x18\0" + kind + b"\xff\xf0")
        for octet in b"red" + ATTACK + b"\x1b[31m\xe2\x80\xa2bell\x07end":
            await held.service.send_all(bytes((octet,)))
        await held.service.send_eof()
        assert await held.command.status() == 0
        assert shown in held.terminal.octets


async def test_telnet_escape_works_when_service_does_not_read(folder: Path) -> None:
    """The typed data exceeds all buffers: the client drops the rest and still recognizes the escape."""
    async with session(folder) as held:
        await held.service.send_all(ASKED + PROBE)
        await held.expect_received(ANSWERED + PROBED)
        os.set_blocking(held.terminal.master, False)
        while b"\x07" not in held.terminal.octets[-9:]:
            with_room = True
            while with_room:
                try:
                    held.terminal.type(4_000 * b"x")
                except BlockingIOError:
                    with_room = False
            await trio.lowlevel.wait_writable(held.terminal.master)
            await trio.lowlevel.checkpoint()
            try:
                held.terminal.octets += os.read(held.terminal.master, 65_536)
            except BlockingIOError:
                continue
        held.terminal.type(b"\x1dclose\r")
        assert await held.command.status() == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["open", "telnet://h.example/"], "resolve cat --for"),
        (["open", "--for", "3", "telnet://h.example/"], "cat records sessions"),
        (["open", "telnet://a.example/", "telnet://b.example/"], "one URL"),
    ],
)
def test_open_session_without_terminal_is_usage_error(words: list[str], said: str) -> None:
    done = resolve(*words)
    assert (done.status, done.out) == (2, b"")
    assert said in done.messages


def test_get_of_session_suggests_open(folder: Path) -> None:
    done = resolve("get", "telnet://h.example/", folder=folder)
    assert done.status == 15
    assert "resolve open URL" in done.messages
    assert "resolve cat --for" in done.messages


def test_open_without_web_extra_names_package(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_library(monkeypatch, "jinja2", "resolver.web")
    done = resolve("open", "http://h.example/")
    assert (done.status, done.out) == (13, b"")
    assert "needs jinja2 3.1.2 or later (the extra web): pip install jinja2" in done.messages


async def test_open_derived_telnet_url_is_refused(folder: Path) -> None:
    terminal = Terminal(80)
    words = ("open", "--origin", "derived", "telnet://h.example/")
    async with on_terminal(terminal, folder, *words, typed=True) as command:
        assert await command.status() == 15
    assert b"S10: telnet " in terminal.octets


# Forms at a real terminal: the prompts, and the data that is sent or withheld.

FORM = "00/poll%09%09?"
FILLED = "00/poll%09%09+%091%0D%0A+-1%0D%0Aa%0D%0A.%0D%0A"


@dataclass
class FormSession:
    """A form that the user fills in."""

    server: GopherServer
    command: Command
    terminal: Terminal

    async def answer_question(self, question: str, answer: str) -> None:
        """Type the answer when the prompt is visible."""
        await self.terminal.until(lambda rows: question in rows[-1] if rows else False)
        self.terminal.type(answer.encode() + b"\r")

    @property
    def submitted(self) -> list[tuple[bytes, ...]]:
        return [request.answers for request in self.server.requests if request.answers is not None]


@asynccontextmanager
async def form(
    folder: Path, path: str = FORM, *options: str, tree: Mapping[bytes, Item] = EXAMPLE
) -> AsyncIterator[FormSession]:
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            server = await forms_serve(nursery, tree)
            terminal = Terminal(100, 60)
            words = ("open", *options, "--allow-port", str(server.port), server.url(path))
            async with on_terminal(terminal, folder, *words, typed=True) as command:
                yield FormSession(server, command, terminal)
            nursery.cancel_scope.cancel()
        assert server.violations == []


def form_tree(*lines: bytes) -> Mapping[bytes, Item]:
    return {b"0/ask": Item("0", b"A form", b"", form=lines)}


async def test_form_answers_are_sent(folder: Path) -> None:
    async with form(folder) as held:
        before = held.terminal.settings
        await held.answer_question("What is your name? [Frodo]", "")
        await held.answer_question("What is your password?", "hidden word")
        await held.terminal.until(lambda rows: any("Tell us about yourself" in row for row in rows))
        await held.answer_question(">", "one")
        await held.answer_question(">", "")
        await held.answer_question(">", ".")
        await held.answer_question("1 to 3 [1]", "7")
        await held.answer_question("1 to 3 [1]", "3")
        await held.answer_question("Subscribe? [Y/n]", "n")
        await held.answer_question("Send 5 answers to 127.0.0.1", "y")
        assert await held.command.status() == 0
        assert held.terminal.settings == before
    answers = (b"Frodo", b"hidden word", b"2", b"one", b"", b"blue", b"0")
    assert held.submitted == [answers]
    said = held.terminal.octets.decode()
    assert "A small poll" in said
    assert "gopher:answer-in-clear" in said
    assert "   3  blue" in said
    assert "Thank you. You sent:" in said
    assert said.count("hidden word") == 1, "the service repeats it, and nobody else"
    assert len(held.server.requests) == 2


async def test_form_hidden_answer_is_not_traced(folder: Path) -> None:
    tree = form_tree(b"AskP: Password?", b"Ask: Name?")
    async with form(folder, "00/ask", "-v", "--trace", "trace", tree=tree) as held:
        await held.answer_question("Password?", "sesame-open")
        await held.answer_question("Name?", "me")
        await held.answer_question("Send 2 answers", "yes")
        assert await held.command.status() == 0
    assert held.submitted == [(b"sesame-open", b"me")]
    trace = (folder / "trace").read_text()
    assert "+-1" in trace
    assert "sesame" not in trace
    shown = held.terminal.octets.decode().replace("sesame-open$", "")  # the service repeats the text
    assert "sesame" not in shown
    assert "/00/ask%09%09****" in shown


async def test_form_without_consent_sends_nothing(folder: Path) -> None:
    """S15 also holds for prompts, defaults and choices: no escape sequence reaches the terminal."""
    evil = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b31m"
    lines = (
        b"Note: " + evil,
        b"Ask: Name" + evil + b"\t" + evil,
        b"Choose: c" + evil + b"\t" + evil + b"a\tb",
    )
    async with form(folder, "00/ask", tree=form_tree(*lines)) as held:
        await held.answer_question("Name", "me")
        await held.answer_question("1 to 2 [1]", "2")
        await held.answer_question("Send 2 answers to", "")
        assert await held.command.status() == 9
    assert held.submitted == []
    assert unsafe_bytes(held.terminal.octets) == b""
    assert "refused (S05): nothing was sent" in held.terminal.octets.decode()


async def test_form_interrupt_sends_nothing_and_restores_echo(folder: Path) -> None:
    async with form(folder, "00/ask", tree=form_tree(b"AskP: Word?")) as held:
        before = held.terminal.settings
        await held.terminal.until(lambda rows: "Word?" in rows[-1] if rows else False)
        held.terminal.type(b"\x03")
        assert await held.command.status() == 130
        assert held.terminal.settings == before
    assert held.submitted == []


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("path", [FORM, "00/poll", "00/story", "88/session", "1", "77/search", FILLED])
def test_open_uses_browser_unless_form_on_terminal(
    path: str, terminal: bool, at: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form is shown in a browser, too, if no terminal is available."""
    seen = []

    async def browse(session: Resolver, url: Url, target: CommandTarget, command: CommandLine) -> None:
        seen.append(url.text)

    monkeypatch.setattr(browsing, "browse", browse)
    for name in ("input_is_terminal", "output_is_terminal"):
        monkeypatch.setattr(streams, name, lambda: terminal)
    typing = TypedLines(monkeypatch, *([None] * 10))
    url = f"{at['gopher']}/{path}"
    done = resolve("open", "--allow-port", at["gopher"].rpartition(":")[2], url)
    asked = terminal and "poll" in path and path != FILLED
    assert (done.status, seen, bool(typing.asked)) == ((9, [], True) if asked else (0, [url], False)), done


#: A path and options, and the exit status and message before the first prompt.
FORM_ERRORS = {
    ("00/story%09%09?",): (8, "has no form"),
    ("00/none%09%09?",): (8, "declined"),
    ("00/poll", "--origin", "chosen", "--allow-address", "127.0.0.1"): (9, "S05: "),
    ("00/poll", "--without-port"): (9, "port 70"),
}


@pytest.mark.parametrize("words", FORM_ERRORS)
def test_form_errors_precede_first_prompt(
    words: tuple[str, ...], at: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S03 and S05 are checked before the first prompt, so that the user answers no question in vain."""
    for name in ("input_is_terminal", "output_is_terminal"):
        monkeypatch.setattr(streams, name, lambda: True)
    typing = TypedLines(monkeypatch)
    path, *options = words
    if "--without-port" in options:
        options.clear()
    else:
        options += ["--allow-port", at["gopher"].rpartition(":")[2]]
    status, said = FORM_ERRORS[words]
    done = resolve("open", *options, f"{at['gopher']}/{path}")
    assert (done.status, said in done.messages) == (status, True), done.messages
    assert typing.asked == []


# -- each question, with typed lines


class TypedLines:
    """A stub that types the lines one by one; None is the end of input. `asked` are the prompts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lines: bytes | None) -> None:
        self.asked: list[tuple[str, bool]] = []
        self.noted: list[str] = []
        self._lines = list(lines)
        monkeypatch.setattr(streams, "request_line", self._request)
        monkeypatch.setattr(streams, "note", self.noted.append)

    async def _request(self, prompt: str, *, hidden: bool = False) -> bytes | None:
        self.asked.append((prompt, hidden))
        return self._lines.pop(0)

    @property
    def all_read(self) -> bool:
        return not self._lines


#: A line of a form, the typed lines, and the answer.
QUESTIONS: list[tuple[bytes, list[bytes], Answer]] = [
    (b"Ask: Name?", [b"me"], b"me"),
    (b"Ask: Name?", [b""], b""),
    (b"Ask: Name?\tFrodo", [b""], b"Frodo"),
    (b"Ask: Name?", [b".", b".", b"me"], b"me"),
    (b"AskP: Word?\tdefault", [b" blank "], b" blank "),
    (b"AskF: As?\tkept", [b""], b"kept"),
    (b"AskF: As?\t../kept", [b""], b""),
    (b"AskL: Lines?", [b"."], ()),
    (b"AskL: Lines?\tone", [b"."], (b"one",)),
    (b"AskL: Lines?\tone", [b"", b"b", b"."], (b"", b"b")),
    (b"Choose: Which?\ta\t7\tc", [b""], b"a"),
    (b"Choose: Which?\ta\t7\tc", [b"0", b"4", b"-1", b"A", b"3"], b"c"),
    (b"Choose: Which?\ta\t7\tc", [b"7"], b"7"),
    (b"Select: Yes?", [b""], False),
    (b"Select: Yes?:1", [b""], True),
    (b"Select: Yes?\t1", [b"perhaps", b"No"], False),
    (b"Select: Yes?", [b"Y"], True),
    (b"ChooseF: File?\t/etc/passwd", [b""], None),
]


@pytest.mark.parametrize(("line", "typed", "answer"), QUESTIONS)
async def test_form_question_returns_answer(
    line: bytes, typed: list[bytes], answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    typing = TypedLines(monkeypatch, *typed)
    assert await ask_questions(parse_form([b"Note: hello", line, b"Odd: thing"])) == [answer]
    assert typing.all_read
    assert typing.noted[0] == "hello"
    assert typing.noted[-1] == "thing"
    assert {hidden for _, hidden in typing.asked} == {line.startswith(b"AskP")}
    assert "passwd" not in "".join(prompt for prompt, _ in typing.asked)


@pytest.mark.parametrize("line", [line for line, _, _ in QUESTIONS])
async def test_form_end_of_input_is_refused(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    TypedLines(monkeypatch, None)
    with pytest.raises(Refused) as caught:
        await ask_questions(parse_form([line]))
    assert caught.value.rule == "S05"


async def test_form_file_is_chosen_by_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine").write_bytes(b"one\ntwo\n")
    (folder / "large").write_bytes(bytes(1_048_577))
    places = [os.fsencode(folder / name) for name in ("none", "large", "mine")]
    typing = TypedLines(monkeypatch, *places)
    assert await ask_questions(parse_form([b"ChooseF: Which?"])) == [b"one\ntwo\n"]
    assert typing.noted[0].startswith("cannot read")
    assert "more than 1048576 bytes" in typing.noted[1]


async def test_form_choice_without_options_is_protocol_error(monkeypatch: pytest.MonkeyPatch) -> None:
    TypedLines(monkeypatch)
    with pytest.raises(ProtocolError):
        await ask_questions(parse_form([b"Choose: Which?"]))


# The output of `cat` for a telnet session that it records.


def test_cat_telnet_json_has_events_and_outcome(at: dict[str, str]) -> None:
    port = at["telnet_login"].rpartition(":")[2]
    done = resolve("cat", "--json", "--allow-port", port, "--until", "login: ", at["telnet_login"])
    assert (done.status, done.out) == (0, b"login: ")
    *told, outcome = records(done.err)
    said = "".join(each.pop("octets") for each in told if each["event"] == "data")
    assert said == "login: "
    assert [each for each in told if each["event"] != "data"] == [
        {"event": "connected", "peer": "127.0.0.1"},
        {"event": "option", "option": "ECHO", "side": "server", "on": True},
        {"event": "end", "reason": "until"},
    ]
    assert (outcome["status"], outcome["verified"]) == ("done", ["terminator"])


def test_cat_telnet_login_of_url_is_shown_and_not_sent(at: dict[str, str]) -> None:
    port = at["telnet_login"].rpartition(":")[2]
    url = at["telnet_login"].replace("//", "//gu%1Best:hidden@")
    done = resolve("cat", "--allow-port", port, "--until", "login: ", url)
    assert (done.status, done.out) == (0, b"login: ")
    assert all(word in done.messages for word in ("login gu\\x1best", "password"))
    assert "hidden" not in done.messages
