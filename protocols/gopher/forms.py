"""Forms (`+ASK`, Gopher+ memo 2.4): questions to a person, and answers as a Gopher+ string.

The answers go as the dot-terminated block of RFC 1738 3.4.9, the only one that every server which
knows forms reads correctly. What cannot be said in it is refused; nothing is cleaned into shape.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from protocols.errors import Refused
from protocols.gopher.item import display_text
from protocols.gopher.url import GopherUrl, with_gopherplus
from protocols.location import Finding, JsonValue
from protocols.values import dataclass
from protocols.wire import encode_block, encode_line

#: More than any person types; the whole of a form in a URL is smaller anyway.
FORM_LIMIT = 1_048_576

#: An answer: a line, a yes or no (SELECT), lines (ASKL), a file's octets (CHOOSEF); None for "none".
Answer: TypeAlias = "bytes | bool | tuple[bytes, ...] | None"

_LINE_END = re.compile(rb"\r\n|\n")
#: How Minnesota's clients read a default out of the words of a SELECT, which they then do not show.
_DEFAULT_BEHIND = re.compile(r":([01])\s*\Z")


class AskQuestion(enum.Enum):
    """What a line asks for; the value is the word of the form, without regard to case."""

    NOTE = "note"
    ASK = "ask"
    ASK_HIDDEN = "askp"
    ASK_LINES = "askl"
    CHOOSE = "choose"
    SELECT = "select"
    CHOOSE_FILE = "choosef"
    ASK_FILE = "askf"
    UNKNOWN = ""

    @property
    def is_asked(self) -> bool:
        """Does it want an answer? A note and a line of an unknown kind are only shown."""
        return self not in (AskQuestion.NOTE, AskQuestion.UNKNOWN)


_QUESTIONS = {question.value: question for question in AskQuestion}
_LINE = (AskQuestion.ASK, AskQuestion.ASK_HIDDEN, AskQuestion.ASK_FILE)


@dataclass(frozen=True, slots=True)
class AskLine:
    """One line of a form. `word` is the kind as the server wrote it, `choices` are the words to choose
    from, to be sent as they are; the first is the default. `default` is None where the line has none,
    and where a file is asked for: that choice is the person's own, never the form's."""

    question: AskQuestion
    word: str
    prompt: str
    choices: tuple[bytes, ...] = ()
    default: str | None = None

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "kind": self.word,
            "prompt": self.prompt,
            "choices": [display_text(choice) for choice in self.choices],
            "default": self.default,
            "asked": self.question.is_asked,
            "hidden": self.question is AskQuestion.ASK_HIDDEN,
        }


@dataclass(frozen=True, slots=True)
class AskForm:
    """The lines of an ASK block, in the order in which they are to be answered."""

    lines: tuple[AskLine, ...]

    @property
    def asked(self) -> tuple[AskLine, ...]:
        """The lines that want an answer."""
        return tuple(line for line in self.lines if line.question.is_asked)

    def findings(self, *, in_clear: bool) -> Iterator[Finding]:
        """What to tell the person before they answer; `in_clear`: anybody on the way can read it."""
        for line in self.lines:
            if line.question is AskQuestion.UNKNOWN:
                yield Finding("gopher:unknown-question", "warn", f"a line of unknown kind {line.word!r}")
            elif line.question is AskQuestion.ASK_HIDDEN and in_clear:
                detail = f"the answer to {line.prompt!r} is hidden while typed, and travels in clear"
                yield Finding("gopher:answer-in-clear", "warn", detail)


def parse_form(lines: Iterable[bytes]) -> AskForm:
    """The lines of an ASK block. Any line is one of the form, if need be of unknown kind."""
    return AskForm(tuple(_parse_line(line) for line in lines if line.strip()))


def _parse_line(line: bytes) -> AskLine:
    word, colon, rest = line.partition(b":")
    prompt, *values = rest.removeprefix(b" ").split(b"\t")
    shown = display_text(word).strip()
    question = _QUESTIONS.get(shown.lower(), AskQuestion.UNKNOWN)
    if not colon or question is AskQuestion.UNKNOWN:
        return AskLine(AskQuestion.UNKNOWN, shown, display_text(prompt if colon else word))
    first = display_text(values[0]) if values else None
    if question is AskQuestion.SELECT:
        return _parse_select(shown, display_text(prompt), first)
    if question is AskQuestion.CHOOSE:
        return AskLine(question, shown, display_text(prompt), tuple(values), first)
    default = None if first is None else _default(question, first)
    return AskLine(question, shown, display_text(prompt), (), default)


def _parse_select(word: str, prompt: str, value: str | None) -> AskLine:
    """A yes or no. Its default stands behind a TAB, or as `:1` or `:0` at the end of the prompt."""
    behind = _DEFAULT_BEHIND.search(prompt)
    if behind is not None:
        prompt = prompt[: behind.start()]
        value = behind[1] if value is None else value
    default = None if value is None else "1" if value.strip() == "1" else "0"
    return AskLine(AskQuestion.SELECT, word, prompt, (), default)


def _default(question: AskQuestion, value: str) -> str | None:
    if question is AskQuestion.CHOOSE_FILE:
        return None
    if question is AskQuestion.ASK_FILE and re.search(r"[/\\]|\A\.", value):
        return None  # a file name from a peer has no place in the file system but where we are
    return value


def encode_answers(form: AskForm, answers: Sequence[Answer], view: bytes = b"") -> bytes:
    """The Gopher+ string of the filled-in form, one answer for each of `form.asked`.

    A chosen file goes last, whatever its place in the form. Raises `Refused` (S03) for what a
    dot-terminated block cannot hold: a lone period, CR, LF or NUL inside a line, too much of it.
    `ValueError` where an answer does not fit its question.
    """
    asked = form.asked
    if len(asked) != len(answers):
        raise ValueError(f"{len(answers)} answers to {len(asked)} questions")
    lines: list[bytes] = []
    file: list[bytes] = []
    for line, answer in zip(asked, answers, strict=True):
        if line.question is AskQuestion.CHOOSE_FILE:
            if file:
                raise ValueError("a form sends one file at most")
            file = _file_lines(line, answer)
        else:
            lines += _answer_lines(line, answer)
    octets = encode_block(encode_line(b"+" + view, b"1", sep=b"\t"), (*lines, *file)).octets
    if len(octets) > FORM_LIMIT:
        raise Refused("S03", f"a filled-in form of {len(octets)} octets; {FORM_LIMIT} is the most")
    return octets


def fill(url: GopherUrl, form: AskForm, answers: Sequence[Answer], view: bytes = b"") -> GopherUrl:
    """The URL that submits the answers to the item at `url`. Raises what `encode_answers` does."""
    return with_gopherplus(url, encode_answers(form, answers, view))


def _answer_lines(line: AskLine, answer: Answer) -> list[bytes]:
    if line.question is AskQuestion.SELECT and isinstance(answer, bool):
        return [b"1" if answer else b"0"]
    if line.question is AskQuestion.ASK_LINES and isinstance(answer, tuple):
        return [b"%d" % len(answer), *answer]
    if line.question is AskQuestion.CHOOSE and isinstance(answer, bytes):
        if answer not in line.choices:
            choices = ", ".join(repr(display_text(choice)) for choice in line.choices)
            raise ValueError(f"{line.prompt!r} takes one of {choices}")
        return [answer]
    if line.question in _LINE and isinstance(answer, bytes):
        return [answer]
    raise ValueError(f"that is no answer to a line {line.word!r}: {line.prompt!r}")


def _file_lines(line: AskLine, answer: Answer) -> list[bytes]:
    if answer is None:
        return []
    if not isinstance(answer, bytes):
        raise ValueError(f"{line.prompt!r} takes the octets of a file, or none")
    *lines, rest = _LINE_END.split(answer)
    if rest:
        lines.append(rest)
    if b"." in lines or re.search(rb"[\0\r]", b"".join(lines)):
        raise Refused(
            "S03",
            "a file that is no text, or has a line with a lone period, would need a counted data block,"
            " which few servers take",
        )
    return lines
