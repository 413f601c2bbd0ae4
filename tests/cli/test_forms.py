"""A person fills in a form at a real terminal: what is asked, what is sent, and what is not."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from fixtures.gopher import EXAMPLE, GopherServer, Item, serve
from protocols.gopher.attributes import Answer, parse_form
from resolver import ProtocolError, Refused, Resolver, Url
from resolver.cli import serve as browsing
from resolver.cli import streams
from resolver.cli.arguments import Command as CommandLine
from resolver.cli.open import answers_to
from resolver.cli.targets import CommandTarget
from tests.cli.command import resolve
from tests.cli.terminal import Command, Terminal, drives, on_terminal
from tests.hang import HANG

FORM = "00/poll%09%09?"
FILLED = "00/poll%09%09+%091%0D%0A+-1%0D%0Aa%0D%0A.%0D%0A"


@dataclass
class Sitting:
    """A person at a form."""

    server: GopherServer
    command: Command
    terminal: Terminal

    async def types(self, question: str, answer: str) -> None:
        """Once it is asked."""
        await self.terminal.until(lambda rows: question in rows[-1] if rows else False)
        self.terminal.type(answer.encode() + b"\r")

    @property
    def submitted(self) -> list[tuple[bytes, ...]]:
        return [request.answers for request in self.server.requests if request.answers is not None]


@asynccontextmanager
async def form(
    folder: Path, path: str = FORM, *options: str, tree: Mapping[bytes, Item] = EXAMPLE
) -> AsyncIterator[Sitting]:
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            server = await serve(nursery, tree)
            terminal = Terminal(100, 60)
            words = ("open", *options, "--allow-port", str(server.port), server.url(path))
            async with on_terminal(terminal, folder, *words, typed=True) as command:
                yield Sitting(server, command, terminal)
            nursery.cancel_scope.cancel()
        assert server.violations == []


def asking(*lines: bytes) -> Mapping[bytes, Item]:
    return {b"0/ask": Item("0", b"A form", b"", form=lines)}


async def test_all_questions_are_asked_and_answered(folder: Path) -> None:
    async with form(folder) as held:
        before = held.terminal.settings
        await held.types("What is your name? [Frodo]", "")
        await held.types("What is your password?", "hidden word")
        await held.terminal.until(lambda rows: any("Tell us about yourself" in row for row in rows))
        await held.types(">", "one")
        await held.types(">", "")
        await held.types(">", ".")
        await held.types("1 to 3 [1]", "7")
        await held.types("1 to 3 [1]", "3")
        await held.types("Subscribe? [Y/n]", "n")
        await held.types("Send 5 answers to 127.0.0.1", "y")
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


async def test_what_was_typed_hidden_is_in_no_trace(folder: Path) -> None:
    tree = asking(b"AskP: Password?", b"Ask: Name?")
    async with form(folder, "00/ask", "-v", "--trace", "trace", tree=tree) as held:
        await held.types("Password?", "sesame-open")
        await held.types("Name?", "me")
        await held.types("Send 2 answers", "yes")
        assert await held.command.status() == 0
    assert held.submitted == [(b"sesame-open", b"me")]
    trace = (folder / "trace").read_text()
    assert "+-1" in trace
    assert "sesame" not in trace
    shown = held.terminal.octets.decode().replace("sesame-open$", "")  # what the service repeats
    assert "sesame" not in shown
    assert "/00/ask%09%09****" in shown


async def test_nothing_is_sent_without_consent(folder: Path) -> None:
    """S15, too: neither prompts, nor defaults, nor what there is to choose from drive a terminal."""
    evil = b"\x1b]0;owned\x07\x1b[2J\xc2\x9b31m"
    lines = (
        b"Note: " + evil,
        b"Ask: Name" + evil + b"\t" + evil,
        b"Choose: c" + evil + b"\t" + evil + b"a\tb",
    )
    async with form(folder, "00/ask", tree=asking(*lines)) as held:
        await held.types("Name", "me")
        await held.types("1 to 2 [1]", "2")
        await held.types("Send 2 answers to", "")
        assert await held.command.status() == 9
    assert held.submitted == []
    assert drives(held.terminal.octets) == b""
    assert "refused (S05): nothing was sent" in held.terminal.octets.decode()


async def test_an_interrupt_sends_nothing_and_shows_again_what_is_typed(folder: Path) -> None:
    async with form(folder, "00/ask", tree=asking(b"AskP: Word?")) as held:
        before = held.terminal.settings
        await held.terminal.until(lambda rows: "Word?" in rows[-1] if rows else False)
        held.terminal.type(b"\x03")
        assert await held.command.status() == 130
        assert held.terminal.settings == before
    assert held.submitted == []


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("path", [FORM, "00/poll", "00/story", "88/session", "1", "77/search", FILLED])
def test_what_is_no_form_at_a_terminal_is_seen_in_a_browser(
    path: str, terminal: bool, at: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what is one, where nobody can answer."""
    seen = []

    async def browse(session: Resolver, url: Url, target: CommandTarget, command: CommandLine) -> None:
        seen.append(url.text)

    monkeypatch.setattr(browsing, "browse", browse)
    for name in ("input_is_terminal", "output_is_terminal"):
        monkeypatch.setattr(streams, name, lambda: terminal)
    typing = Typing(monkeypatch, *([None] * 10))
    url = f"{at['gopher']}/{path}"
    done = resolve("open", "--allow-port", at["gopher"].rpartition(":")[2], url)
    asked = terminal and "poll" in path and path != FILLED
    assert (done.status, seen, bool(typing.asked)) == ((9, [], True) if asked else (0, [url], False)), done


#: A path and options, and how it ends before anything is asked.
ENDS = {
    ("00/story%09%09?",): (8, "has no form"),
    ("00/none%09%09?",): (8, "declined"),
    ("00/poll", "--origin", "chosen", "--allow-address", "127.0.0.1"): (9, "S05: "),
    ("00/poll", "--without-port"): (9, "port 70"),
}


@pytest.mark.parametrize("words", ENDS)
def test_what_ends_before_anything_is_asked(
    words: tuple[str, ...], at: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S03 and S05 among it: nobody answers questions for nothing."""
    for name in ("input_is_terminal", "output_is_terminal"):
        monkeypatch.setattr(streams, name, lambda: True)
    typing = Typing(monkeypatch)
    path, *options = words
    if "--without-port" in options:
        options.clear()
    else:
        options += ["--allow-port", at["gopher"].rpartition(":")[2]]
    status, said = ENDS[words]
    done = resolve("open", *options, f"{at['gopher']}/{path}")
    assert (done.status, said in done.told) == (status, True), done.told
    assert typing.asked == []


# -- each question by itself, with what is typed


class Typing:
    """What is typed, a line after the other; None is an end of input. `asked` are the prompts."""

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


#: A line of a form, what is typed at it, and the answer.
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
async def test_a_question(
    line: bytes, typed: list[bytes], answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    typing = Typing(monkeypatch, *typed)
    assert await answers_to(parse_form([b"Note: hello", line, b"Odd: thing"])) == [answer]
    assert typing.all_read
    assert typing.noted[0] == "hello"
    assert typing.noted[-1] == "thing"
    assert {hidden for _, hidden in typing.asked} == {line.startswith(b"AskP")}
    assert "passwd" not in "".join(prompt for prompt, _ in typing.asked)


@pytest.mark.parametrize("line", [line for line, _, _ in QUESTIONS])
async def test_an_end_of_input_is_no_answer(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    Typing(monkeypatch, None)
    with pytest.raises(Refused) as caught:
        await answers_to(parse_form([line]))
    assert caught.value.rule == "S05"


async def test_a_file_is_the_persons_own_choice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mine").write_bytes(b"one\ntwo\n")
    (folder / "large").write_bytes(bytes(1_048_577))
    places = [os.fsencode(folder / name) for name in ("none", "large", "mine")]
    typing = Typing(monkeypatch, *places)
    assert await answers_to(parse_form([b"ChooseF: Which?"])) == [b"one\ntwo\n"]
    assert typing.noted[0].startswith("cannot read")
    assert "more than 1048576 octets" in typing.noted[1]


async def test_nothing_to_choose_from(monkeypatch: pytest.MonkeyPatch) -> None:
    Typing(monkeypatch)
    with pytest.raises(ProtocolError):
        await answers_to(parse_form([b"Choose: Which?"]))
