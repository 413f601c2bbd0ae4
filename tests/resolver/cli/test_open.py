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
OFFER, REPLY = b"\xff\xfb\x01\xff\xfb\x03", b"\xff\xfd\x01\xff\xfd\x03"
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
        self._received = b""

    async def expect_received(self, octets: bytes) -> None:
        """Wait until the service has received exactly these bytes."""
        while len(self._received) < len(octets):
            received = await self.service.receive_some()
            assert received, (self._received, self.terminal.rows)
            self._received += received
        assert self._received[: len(octets)] == octets
        self._received = self._received[len(octets) :]

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
    text = terminal.octets.decode()
    assert all(word in text for word in ("login gu\\x1best", "password"))
    assert "warning (S06)" in text
    assert "secret" not in text
    assert text.endswith("the service closed the connection\r\n\0")
    # the request for the terminal type may arrive late
    typed = server.heard[0].replace(b"\xff\xfa\x18\0xterm\xff\xf0", b"")
    assert typed.endswith(b"\xff\xf0guest\r\0size\r\0terminal\r\0bye\r\0")


async def test_telnet_line_mode_lasts_until_character_mode(folder: Path) -> None:
    async with session(folder) as client:
        await client.service.send_all(b"Your name?\n" + PROBE)
        await client.expect_received(PROBED)
        client.terminal.type(b"gux\x7fest\r")
        await client.expect_received(b"guest\r\n")
        await client.wait_for_text("guest")
        client.terminal.type(b"half\x04")
        await client.expect_received(b"half")
        client.terminal.type(b"\x04")
        await client.expect_received(b"\x04")
        client.terminal.type(b"\x03")
        await client.expect_received(b"\xff\xf4")
        client.terminal.type(b"\x1c")
        await client.expect_received(b"\xff\xf3")
        client.terminal.type(b"half")
        await client.open_prompt()
        await client.expect_received(b"half")
        client.terminal.type(b"\r")
        await client.service.send_all(b"\xff\xfb\x01Password: ")
        await client.expect_received(b"\xff\xfd\x01")
        client.terminal.type(b"hidden\r")
        await client.expect_received(b"hidden\r\n")
        await client.service.send_all(b"\xff\xfc\x01\xff\xfb\x03shown again\r\n")
        await client.expect_received(b"\xff\xfe\x01\xff\xfd\x03")
        client.terminal.type(b"\x03\x1c\x04\r\n\x1a\xff")
        await client.expect_received(b"\x03\x1c\x04\r\0\n\x1a\xff\xff")
        await client.wait_for_text("shown again")
        assert b"hidden" not in client.terminal.octets


async def test_telnet_line_typed_before_character_mode_is_sent(folder: Path) -> None:
    """The service requests characters while a typed line is unread."""
    async with session(folder) as client:
        await client.service.send_all(PROBE)
        await client.expect_received(PROBED)
        client.command.process.send_signal(signal.SIGSTOP)
        await client.command.process.stopped()
        client.terminal.type(b"guest\r")
        await client.wait_for_text("guest")
        await client.service.send_all(OFFER)
        client.command.process.send_signal(signal.SIGCONT)
        octets = b""
        while len(octets) < len(b"guest\r\n" + REPLY):
            octets += await client.service.receive_some()
        assert octets in (b"guest\r\n" + REPLY, REPLY + b"guest\r\n")


async def test_telnet_prompt_commands_work(folder: Path) -> None:
    async with session(folder) as client:
        await client.service.send_all(OFFER + b"ready\r\n")
        await client.expect_received(REPLY)
        await client.open_prompt()
        assert client.terminal.settings == client.before
        await client.service.send_all(b"meanwhile " + PROBE)
        client.terminal.type(b"status\r")
        await client.wait_for_text("enabled: ECHO (the service), SGA (the service)")
        await client.wait_for_text("without TLS")
        await client.wait_for_text("meanwhile")
        await client.expect_received(PROBED)
        for name, octets in [("brk", 0xF3), ("ayt", 0xF6), ("ip", 0xF4), ("ao", 0xF5), ("ec", 0xF7)]:
            await client.open_prompt()
            client.terminal.type(f"send {name}\r".encode())
            await client.expect_received(bytes((0xFF, octets)))
        client.terminal.type(b"a\x1dsend escape\rb")  # in one write
        await client.expect_received(b"a\x1db")
        for words in (b"help\r", b"send eof\r"):
            await client.open_prompt()
            client.terminal.type(words)
            await client.wait_for_text("help: show this; an empty line returns")
        await client.open_prompt()
        client.terminal.type(b"\r")
        await client.service.send_all(PROBE)
        await client.expect_received(PROBED)
        client.terminal.type(b"c\r")
        await client.expect_received(b"c\r\0")


async def test_telnet_resize_is_sent_once(folder: Path) -> None:
    async with session(folder) as client:
        await client.service.send_all(b"\xff\xfd\x1f")
        await client.expect_received(b"\xff\xfb\x1f\xff\xfa\x1f\0\x50\0\x18\xff\xf0")
        client.terminal.resize(200)
        await client.expect_received(b"\xff\xfa\x1f\0\xc8\0\x18\xff\xf0")
        client.command.process.send_signal(signal.SIGWINCH)
        client.terminal.resize(40)
        await client.expect_received(b"\xff\xfa\x1f\0\x28\0\x18\xff\xf0")


def send_signal(number: int) -> Callable[[Session], None]:
    return lambda held: held.command.process.send_signal(number)


def close_service(client: Session) -> None:
    client.service.socket.shutdown(socket.SHUT_WR)


def reset_service(client: Session) -> None:
    client.service.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.service.socket.close()


def negotiate_forever(client: Session) -> None:
    octets = memoryview(1_001 * PROBE)
    while octets:
        octets = octets[os.write(client.service.socket.fileno(), octets) :]


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
    async with session(folder) as client:
        await client.service.send_all(OFFER + b"\x1b[?1049h\x1b[?25l\x1b[1;5r\x1b[31m" + PROBE)
        await client.expect_received(REPLY + PROBED)
        assert client.terminal.settings != client.before
        end(client)
        assert await client.command.status() == status
        assert client.terminal.settings == client.before
        assert client.terminal.unread == 0
        assert b"\x1b7\x1b[r\x1b8\x1b[?1049l\x1b[?25h\x1b[m" in client.terminal.octets


async def test_telnet_ignored_signal_does_not_end_session(folder: Path) -> None:
    async with session(folder, ignored=[signal.SIGQUIT]) as client:
        await client.service.send_all(b"\xff\xfd\x1f")
        await client.expect_received(b"\xff\xfb\x1f\xff\xfa\x1f\0\x50\0\x18\xff\xf0")
        client.command.process.send_signal(signal.SIGQUIT)
        client.terminal.resize(200)  # a resize sends a later signal, too
        await client.expect_received(b"\xff\xfa\x1f\0\xc8\0\x18\xff\xf0")
        client.command.process.send_signal(signal.SIGTERM)
        assert await client.command.status() == 143


@pytest.mark.parametrize("has_offer", [False, True])
async def test_telnet_end_of_input_at_prompt_ends_session(folder: Path, has_offer: bool) -> None:
    async with session(folder) as client:
        await client.service.send_all((OFFER if has_offer else b"") + PROBE)
        await client.expect_received((REPLY if has_offer else b"") + PROBED)
        await client.open_prompt()
        client.terminal.type(b"\x04")
        assert await client.command.status() == 0
        assert client.terminal.settings == client.before


@pytest.mark.parametrize("by_characters", [False, True])
async def test_telnet_stop_and_continue_restore_terminal(folder: Path, by_characters: bool) -> None:
    async with session(folder) as client:
        expected, answered = (OFFER, REPLY) if by_characters else (b"", b"")
        await client.service.send_all(expected + b"\xff\xfd\x1f")
        await client.expect_received(answered + b"\xff\xfb\x1f\xff\xfa\x1f\0\x50\0\x18\xff\xf0")
        inside = client.terminal.settings
        if by_characters:
            client.command.process.send_signal(signal.SIGTSTP)
        else:
            client.terminal.type(b"\x1a")
        await client.command.process.stopped()
        assert client.terminal.settings == client.before
        client.terminal.resize(100)
        client.command.process.send_signal(signal.SIGCONT)
        await client.expect_received(b"\xff\xfa\x1f\0\x64\0\x18\xff\xf0")
        assert client.terminal.settings == inside
        client.command.process.terminate()
        assert await client.command.status() == 143
        assert client.terminal.settings == client.before


async def test_telnet_discards_unread_input_at_end(folder: Path) -> None:
    async with session(folder) as client:
        await client.service.send_all(PROBE)
        await client.expect_received(PROBED)
        client.terminal.type(b"remove all")
        await client.wait_for_text("remove all")
        close_service(client)
        assert await client.command.status() == 0
        client.terminal.type(b"\n")
        assert os.read(client.terminal.slave, 100) == b"\n"


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
    async with session(folder, *arguments) as client:
        await client.service.send_all(OFFER + b"\xff\xfd\x18\xff\xfa\x18\x01\xff\xf0")
        kind = b"dumb" if "--plain" in arguments else b"xterm"
        await client.expect_received(REPLY + b"\xff\xfb\x18\xff\xfa\x18\0" + kind + b"\xff\xf0")
        for octet in b"red" + ATTACK + b"\x1b[31m\xe2\x80\xa2bell\x07end":
            await client.service.send_all(bytes((octet,)))
        await client.service.send_eof()
        assert await client.command.status() == 0
        assert shown in client.terminal.octets


async def test_telnet_escape_works_when_service_does_not_read(folder: Path) -> None:
    """The typed data exceeds all buffers: the client drops the rest and still recognizes the escape."""
    async with session(folder) as client:
        await client.service.send_all(OFFER + PROBE)
        await client.expect_received(REPLY + PROBED)
        os.set_blocking(client.terminal.master, False)
        while b"\x07" not in client.terminal.octets[-9:]:
            with_room = True
            while with_room:
                try:
                    client.terminal.type(4_000 * b"x")
                except BlockingIOError:
                    with_room = False
            await trio.lowlevel.wait_writable(client.terminal.master)
            await trio.lowlevel.checkpoint()
            try:
                client.terminal.octets += os.read(client.terminal.master, 65_536)
            except BlockingIOError:
                continue
        client.terminal.type(b"\x1dclose\r")
        assert await client.command.status() == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["open", "telnet://h.example/"], "resolve cat --for"),
        (["open", "--for", "3", "telnet://h.example/"], "cat records sessions"),
        (["open", "telnet://a.example/", "telnet://b.example/"], "one URL"),
    ],
)
def test_open_session_without_terminal_is_usage_error(words: list[str], message: str) -> None:
    done = resolve(*words)
    assert (done.status, done.out) == (2, b"")
    assert message in done.messages


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
    async with form(folder) as client:
        before = client.terminal.settings
        await client.answer_question("What is your name? [Frodo]", "")
        await client.answer_question("What is your password?", "hidden word")
        await client.terminal.until(lambda rows: any("Tell us about yourself" in row for row in rows))
        await client.answer_question(">", "one")
        await client.answer_question(">", "")
        await client.answer_question(">", ".")
        await client.answer_question("1 to 3 [1]", "7")
        await client.answer_question("1 to 3 [1]", "3")
        await client.answer_question("Subscribe? [Y/n]", "n")
        await client.answer_question("Send 5 answers to 127.0.0.1", "y")
        assert await client.command.status() == 0
        assert client.terminal.settings == before
    answers = (b"Frodo", b"hidden word", b"2", b"one", b"", b"blue", b"0")
    assert client.submitted == [answers]
    text = client.terminal.octets.decode()
    assert "A small poll" in text
    assert "gopher:answer-in-clear" in text
    assert "   3  blue" in text
    assert "Thank you. You sent:" in text
    assert text.count("hidden word") == 1, "the service repeats it, and nobody else"
    assert len(client.server.requests) == 2


async def test_form_hidden_answer_is_not_traced(folder: Path) -> None:
    tree = form_tree(b"AskP: Password?", b"Ask: Name?")
    async with form(folder, "00/ask", "-v", "--trace", "trace", tree=tree) as client:
        await client.answer_question("Password?", "sesame-open")
        await client.answer_question("Name?", "me")
        await client.answer_question("Send 2 answers", "yes")
        assert await client.command.status() == 0
    assert client.submitted == [(b"sesame-open", b"me")]
    trace = (folder / "trace").read_text()
    assert "+-1" in trace
    assert "sesame" not in trace
    shown = client.terminal.octets.decode().replace("sesame-open$", "")  # the service repeats the text
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
    async with form(folder, "00/ask", tree=form_tree(*lines)) as client:
        await client.answer_question("Name", "me")
        await client.answer_question("1 to 2 [1]", "2")
        await client.answer_question("Send 2 answers to", "")
        assert await client.command.status() == 9
    assert client.submitted == []
    assert unsafe_bytes(client.terminal.octets) == b""
    assert "refused (S05): nothing was sent" in client.terminal.octets.decode()


async def test_form_interrupt_sends_nothing_and_restores_echo(folder: Path) -> None:
    async with form(folder, "00/ask", tree=form_tree(b"AskP: Word?")) as client:
        before = client.terminal.settings
        await client.terminal.until(lambda rows: "Word?" in rows[-1] if rows else False)
        client.terminal.type(b"\x03")
        assert await client.command.status() == 130
        assert client.terminal.settings == before
    assert client.submitted == []


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("path", [FORM, "00/poll", "00/story", "88/session", "1", "77/search", FILLED])
def test_open_uses_browser_unless_form_on_terminal(
    path: str, terminal: bool, at: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A form is shown in a browser, too, if no terminal is available."""
    urls = []

    async def browse(session: Resolver, url: Url, target: CommandTarget, command: CommandLine) -> None:
        urls.append(url.text)

    monkeypatch.setattr(browsing, "browse", browse)
    for name in ("input_is_terminal", "output_is_terminal"):
        monkeypatch.setattr(streams, name, lambda: terminal)
    typing = TypedLines(monkeypatch, *([None] * 10))
    url = f"{at['gopher']}/{path}"
    done = resolve("open", "--allow-port", at["gopher"].rpartition(":")[2], url)
    expected = terminal and "poll" in path and path != FILLED
    assert (done.status, urls, bool(typing.prompts)) == ((9, [], True) if expected else (0, [url], False)), (
        done
    )


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
    status, message = FORM_ERRORS[words]
    done = resolve("open", *options, f"{at['gopher']}/{path}")
    assert (done.status, message in done.messages) == (status, True), done.messages
    assert typing.prompts == []


# -- each question, with typed lines


class TypedLines:
    """A stub that types the lines one by one; None is the end of input. `asked` are the prompts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lines: bytes | None) -> None:
        self.prompts: list[tuple[str, bool]] = []
        self.notes: list[str] = []
        self._lines = list(lines)
        monkeypatch.setattr(streams, "request_line", self._request)
        monkeypatch.setattr(streams, "note", self.notes.append)

    async def _request(self, prompt: str, *, hidden: bool = False) -> bytes | None:
        self.prompts.append((prompt, hidden))
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
    assert typing.notes[0] == "hello"
    assert typing.notes[-1] == "thing"
    assert {hidden for _, hidden in typing.prompts} == {line.startswith(b"AskP")}
    assert "passwd" not in "".join(prompt for prompt, _ in typing.prompts)


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
    assert typing.notes[0].startswith("cannot read")
    assert "more than 1048576 bytes" in typing.notes[1]


async def test_form_choice_without_options_is_protocol_error(monkeypatch: pytest.MonkeyPatch) -> None:
    TypedLines(monkeypatch)
    with pytest.raises(ProtocolError):
        await ask_questions(parse_form([b"Choose: Which?"]))


# The output of `cat` for a telnet session that it records.


def test_cat_telnet_json_has_events_and_outcome(at: dict[str, str]) -> None:
    port = at["telnet_login"].rpartition(":")[2]
    done = resolve("cat", "--json", "--allow-port", port, "--until", "login: ", at["telnet_login"])
    assert (done.status, done.out) == (0, b"login: ")
    *events, outcome = records(done.err)
    message = "".join(each.pop("octets") for each in events if each["event"] == "data")
    assert message == "login: "
    assert [each for each in events if each["event"] != "data"] == [
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
