"""Gopher+ attribute records (Gopher+ memo 2.2 to 2.5), with the view list and the form of an item.

An attribute record is the reply to a `!` request (one item) or a part of the reply to a `$` request (a
directory). A record consists of an item line and named blocks of lines. The parser accepts blocks in any
order and with any name, because real servers omit even blocks that the memo requires.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias

from protocols.dates import in_utc
from protocols.errors import LimitExceeded, Refused
from protocols.gopher.menu import (
    LINE_LIMIT,
    MenuItem,
    MenuLines,
    TextLine,
    display_text,
    line_text,
    parse_item,
    split_view,
)
from protocols.gopher.url import GopherUrl, with_gopherplus
from protocols.location import Finding, JsonValue
from protocols.wire import encode_block, encode_line

_SIZE = re.compile(rb"<[ \t]*([0-9]{0,15}(?:\.[0-9]{0,15})?)[ \t]*([bkmg]?)[^>]*>?", re.IGNORECASE)
_UNITS = {b"": 1, b"b": 1, b"k": 1024, b"m": 1024**2, b"g": 1024**3}


class AlternateView(NamedTuple):
    """A line of +VIEWS.

    Attributes:
        identity: The text before the colon. A request for the view contains this text unchanged, after a `+`.
        language: The language of the view, an opaque string.
        size: The approximate size of the view in bytes, as announced by the server.
    """

    identity: bytes
    media_type: str
    language: str | None
    size: int | None

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "view": self.identity.decode("latin-1"),
            "media_type": self.media_type,
            "language": self.language,
            "about": self.size,
        }


def parse_view(line: bytes) -> AlternateView:
    """Parse a line of +VIEWS. Every line is accepted, also without a size."""
    identity, _, size = line.partition(b":")
    media_type, language = split_view(identity)
    return AlternateView(identity, media_type, language, _parse_size(size))


def _parse_size(text: bytes) -> int | None:
    match = _SIZE.search(text)
    if match is None or match[1] in (b"", b"."):
        return None
    return int(float(match[1]) * _UNITS[match[2].lower()])


INFO = "INFO"

#: The maximum size of a record in bytes. A legitimate record is about a page of text. The limit prevents
#: memory exhaustion, because a record is parsed in one step.
RECORD_LIMIT = 65_536

#: The maximum number of bytes at the start of a line that are searched for a block's name. No known block
#: name is longer.
_OPENING_LIMIT = 4_096

_OPENING = re.compile(rb"\+([^+: \t\r\n]+)(?::| |\Z) ?")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")  # a CR without LF does not end a line (see `MenuLines`)
_FACT = re.compile(rb"[ \t]*([A-Za-z0-9-]+)[ \t]*:[ \t]*")
_INSTANT = re.compile(rb"<([0-9]{4})" + rb"([0-9]{2})" * 5 + rb">")
_SECONDS = re.compile(rb"[0-9]{1,9}\Z")


class AttributeBlock(NamedTuple):
    """A block of attributes.

    Attributes:
        name: The block's name.
        lines: The lines of the block, without the leading blank.
        reference: The item that the first line of the block refers to; None without such a reference. The
            item has the lines of the block. If a block has both lines and a reference, the lines take
            precedence.
    """

    name: str
    lines: tuple[bytes, ...] = ()
    reference: MenuItem | None = None

    @property
    def text(self) -> str:
        return "\n".join(map(line_text, self.lines))


class AdminBlock(NamedTuple):
    """The parsed ADMIN block.

    `modified` is the modification time in the local time of the server. The time zone of the server is
    unknown. `facts` has the name and the value of every line of the block.
    """

    name: str | None = None
    address: str | None = None
    modified: datetime | None = None
    seconds_to_live: int | None = None
    facts: tuple[tuple[str, str], ...] = ()


class AttributeRecord(NamedTuple):
    """The attributes of an item.

    `info` is the item in the +INFO line, or `None` if the record does not begin with a +INFO line.
    `is_truncated` is set if lines were dropped because they exceeded the line limit.
    """

    info: MenuItem | None
    blocks: tuple[AttributeBlock, ...] = ()
    is_truncated: bool = False

    def block(self, name: str) -> AttributeBlock | None:
        """Return the first block with this name that has lines, or else the first with this name."""
        named = [block for block in self.blocks if block.name == name]
        return next((block for block in named if block.lines), named[0] if named else None)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the blocks, each once, in the order received."""
        return tuple(dict.fromkeys(block.name for block in self.blocks))

    @property
    def admin(self) -> AdminBlock | None:
        block = self.block("ADMIN")
        return None if block is None else parse_admin(block.lines)

    @property
    def views(self) -> tuple[AlternateView, ...]:
        """Return the item's views in the order of the server, which is the order of preference."""
        block = self.block("VIEWS")
        return () if block is None else tuple(parse_view(line) for line in block.lines)

    @property
    def abstract(self) -> str | None:
        block = self.block("ABSTRACT")
        return block.text if block is not None and block.lines else None

    def select(self, names: Iterable[str]) -> tuple[AttributeRecord, tuple[str, ...]]:
        """Return the record with only +INFO and the named blocks, and the names without a block.

        If `names` is empty, the record is returned unchanged. The client must select the blocks, because a
        server may also send blocks that were not requested.
        """
        requested = dict.fromkeys(names)
        if not requested:
            return self, ()
        blocks = tuple(block for block in self.blocks if block.name in requested)
        present = {block.name for block in blocks} | {INFO}
        return AttributeRecord(self.info, blocks, self.is_truncated), tuple(
            name for name in requested if name not in present
        )


class BlockFilter:
    """A filter that removes all except the named blocks from attribute records.

    If `names` is empty, the filter keeps all blocks. The filter buffers the start of a line only until it
    knows the line's block.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {INFO, *names}
        self._buffer = b""
        self._in_line = False
        self._is_selected = True

    def feed(self, octets: bytes) -> bytes:
        if self._names == {INFO}:
            return octets
        output: list[bytes] = []
        octets, self._buffer = self._buffer + octets, b""
        for piece in _LINE.findall(octets):
            ended = piece.endswith(b"\n")
            if ended or self._in_line or len(piece) > _OPENING_LIMIT:
                output.append(self._select(piece))
                self._in_line = not ended
            else:
                self._buffer = piece
        return b"".join(output)

    def finish(self) -> bytes:
        octets, self._buffer = self._buffer, b""
        return self._select(octets)

    def _select(self, piece: bytes) -> bytes:
        """Return a line or a segment of a line, or nothing if the line's block was not requested.

        The first segment of a line shows whether the line begins another block.
        """
        if not self._in_line and (match := _OPENING.match(piece.removesuffix(b"\n").removesuffix(b"\r"))):
            self._is_selected = display_text(match[1]) in self._names
        return piece if self._is_selected else b""


def reduce_record(octets: bytes, names: Iterable[str]) -> bytes:
    """Remove all blocks except `names` from the bytes of a record; without `names`, remove none."""
    blocks = BlockFilter(names)
    return blocks.feed(octets) + blocks.finish()


class RecordReader:
    """An incremental parser of attribute records.

    The parser buffers at most one record. A record of more than `limit` bytes raises `LimitExceeded`. Lines
    longer than `line_limit` bytes are dropped.
    """

    def __init__(self, limit: int = RECORD_LIMIT, line_limit: int = LINE_LIMIT) -> None:
        self._lines = MenuLines(line_limit)
        self._limit = limit
        self._open: _OpenRecord | None = None

    def feed(self, octets: bytes) -> Iterator[AttributeRecord]:
        return self._records(self._lines.feed(octets))

    def finish(self) -> Iterator[AttributeRecord]:
        yield from self._records(self._lines.finish())
        if self._open is not None:
            yield self._open.record()
            self._open = None

    def _records(self, lines: Iterable[TextLine]) -> Iterator[AttributeRecord]:
        for line in lines:
            match = _OPENING.match(line.octets)
            name = None if match is None else display_text(match[1])
            if name == INFO and match is not None:
                if self._open is not None:
                    yield self._open.record()
                self._open = _OpenRecord(parse_item(line.octets[match.end() :]), self._limit)
                continue
            if self._open is None:
                if line.octets in (b"", b"."):
                    continue
                self._open = _OpenRecord(None, self._limit)
            self._open.add(line, name, b"" if match is None else line.octets[match.end() :])


def parse_records(octets: bytes, line_limit: int = LINE_LIMIT) -> list[AttributeRecord]:
    """Parse all records in the bytes."""
    reader = RecordReader(line_limit=line_limit)
    return [*reader.feed(octets), *reader.finish()]


class _OpenRecord:
    """An incomplete record."""

    def __init__(self, info: MenuItem | None, limit: int) -> None:
        self._info = info
        self._remaining = limit
        self._blocks: list[tuple[str, MenuItem | None, list[bytes]]] = []
        self._is_truncated = False

    def add(self, line: TextLine, name: str | None, rest: bytes) -> None:
        if not line.is_complete:
            self._is_truncated = True  # The dropped line does not count toward the record limit.
            return
        self._remaining -= len(line.octets) + 1
        if self._remaining < 0:
            raise LimitExceeded("body", "attributes of one item are too large")
        if name is not None:
            self._blocks.append((name, parse_item(rest) if rest else None, []))
        elif self._blocks:
            # A line of the block starts with exactly one blank. A malformed line without the blank is stored
            # too.
            self._blocks[-1][2].append(line.octets.removeprefix(b" "))

    def record(self) -> AttributeRecord:
        blocks = tuple(
            AttributeBlock(name, tuple(lines), reference) for name, reference, lines in self._blocks
        )
        return AttributeRecord(self._info, blocks, self._is_truncated)


def parse_admin(lines: Iterable[bytes]) -> AdminBlock:
    """Parse the lines of an ADMIN block, and skip a line that is not `Name: value`."""
    facts: dict[str, bytes] = {}
    for line in lines:
        if match := _FACT.match(line):
            facts.setdefault(match[1].decode("ascii"), line[match.end() :])
    value_by_name = {name.lower(): value for name, value in facts.items()}
    name, address = _split_address(value_by_name.get("admin", b""))
    seconds = _SECONDS.match(value_by_name.get("ttl", b"").strip())
    return AdminBlock(
        name=name,
        address=address,
        modified=_parse_instant(value_by_name.get("mod-date", b"")),
        seconds_to_live=None if seconds is None else int(seconds[0]),
        facts=tuple((name, display_text(value)) for name, value in facts.items()),
    )


def _split_address(value: bytes) -> tuple[str | None, str | None]:
    """Split `text <address>`; either part may be missing."""
    text, _, rest = value.partition(b"<")
    address = rest.partition(b">")[0]
    return display_text(text.strip()) or None, display_text(address.strip()) or None


def _parse_instant(value: bytes) -> datetime | None:
    """Parse `text <YYYYMMDDhhmmss>`.

    The text before the timestamp is ignored, because it may be in any language. The time zone is unknown, but
    the result is marked as UTC.
    """
    match = _INSTANT.search(value)
    return None if match is None else in_utc(match.groups())


# Forms (`+ASK`, Gopher+ memo 2.4): questions to the user, and the answers as a Gopher+ string.
#
# The answers are sent as the dot-terminated block of RFC 1738 3.4.9, which every server with forms parses
# correctly. An answer that cannot be encoded in a dot-terminated block is refused, not modified.

#: The maximum size of a filled-in form in bytes. Text that a user types is always smaller.
FORM_LIMIT = 1_048_576

#: An answer: the text of a line, a boolean (SELECT), several lines (ASKL) or the bytes of a file (CHOOSEF).
#: A CHOOSEF line without a chosen file has the answer None.
Answer: TypeAlias = "bytes | bool | tuple[bytes, ...] | None"

_LINE_END = re.compile(rb"\r\n|\n")
#: The default answer of a SELECT line, at the end of the prompt. The University of Minnesota's clients take
#: the default answer from the prompt, too. The displayed prompt then does not contain the default answer.
_PROMPT_DEFAULT = re.compile(r":([01])\s*\Z")


class AskQuestion(enum.Enum):
    """The kind of a line in a form. The value is the keyword of the line, which is not case-sensitive."""

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
    def needs_answer(self) -> bool:
        """Return whether the line needs an answer, unlike a note or a line of an unknown kind."""
        return self not in (AskQuestion.NOTE, AskQuestion.UNKNOWN)


_QUESTIONS = {question.value: question for question in AskQuestion}
_LINE_QUESTIONS = (AskQuestion.ASK, AskQuestion.ASK_HIDDEN, AskQuestion.ASK_FILE)


class AskLine(NamedTuple):
    """A line of a form.

    Attributes:
        word: The keyword of the line, as the server sent it.
        choices: The options of the line. The chosen option is sent unchanged; the first option is the
            default.
        default: The default answer, or None. A line that requests a file for an upload has no default,
            because only the user may choose the file.
    """

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
            "asked": self.question.needs_answer,
            "hidden": self.question is AskQuestion.ASK_HIDDEN,
        }


class AskForm(NamedTuple):
    """The lines of an ASK block, in the order in which they must be answered."""

    lines: tuple[AskLine, ...]

    @property
    def questions(self) -> tuple[AskLine, ...]:
        """Return the lines that need an answer."""
        return tuple(line for line in self.lines if line.question.needs_answer)

    def findings(self, *, in_clear: bool) -> Iterator[Finding]:
        """Yield the warnings to show before the user answers.

        Args:
            in_clear: Whether the connection is not encrypted, so that an eavesdropper can read the answers.
        """
        for line in self.lines:
            if line.question is AskQuestion.UNKNOWN:
                yield Finding("gopher:unknown-question", "warn", f"form line of unknown kind {line.word!r}")
            elif line.question is AskQuestion.ASK_HIDDEN and in_clear:
                detail = f"the answer to {line.prompt!r} is hidden while typed, but sent unencrypted"
                yield Finding("gopher:answer-in-clear", "warn", detail)


def parse_form(lines: Iterable[bytes]) -> AskForm:
    """Parse the lines of an ASK block; skip blank lines. An unknown keyword gives an unknown kind."""
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
    default = None if first is None else _parse_default(question, first)
    return AskLine(question, shown, display_text(prompt), (), default)


def _parse_select(word: str, prompt: str, value: str | None) -> AskLine:
    """Parse a SELECT line (a yes or no question).

    The default answer stands after a TAB, or is `:1` or `:0` at the end of the prompt.
    """
    match = _PROMPT_DEFAULT.search(prompt)
    if match is not None:
        prompt = prompt[: match.start()]
        value = match[1] if value is None else value
    default = None if value is None else "1" if value.strip() == "1" else "0"
    return AskLine(AskQuestion.SELECT, word, prompt, (), default)


def _parse_default(question: AskQuestion, value: str) -> str | None:
    if question is AskQuestion.CHOOSE_FILE:
        return None
    if question is AskQuestion.ASK_FILE and re.search(r"[/\\]|\A\.", value):
        # Prevents path traversal: a file name from the server must not have a directory or a leading period.
        return None
    return value


def encode_answers(form: AskForm, answers: Sequence[Answer], view: bytes = b"") -> bytes:
    """Encode the filled-in form as a Gopher+ string.

    Args:
        form: The form.
        answers: One answer for each line of `form.questions`. A chosen file is always sent last.
        view: The view to request; empty for the default.

    Raises:
        Refused: An answer cannot be encoded in a dot-terminated block (S03, multi-line requests). This is the
            case if a line of the answer is a lone period, if a line contains CR, LF or NUL, or if the form
            exceeds `FORM_LIMIT`.
        ValueError: An answer has the wrong type for its question.
    """
    questions = form.questions
    if len(questions) != len(answers):
        raise ValueError(f"got {len(answers)} answers to {len(questions)} questions")
    lines: list[bytes] = []
    file: list[bytes] = []
    for line, answer in zip(questions, answers, strict=True):
        if line.question is AskQuestion.CHOOSE_FILE:
            if file:
                raise ValueError("form cannot send more than one file")
            file = _file_lines(line, answer)
        else:
            lines += _answer_lines(line, answer)
    octets = encode_block(encode_line(b"+" + view, b"1", sep=b"\t"), (*lines, *file)).octets
    if len(octets) > FORM_LIMIT:
        raise Refused("S03", f"filled-in form of {len(octets)} bytes exceeds the limit of {FORM_LIMIT}")
    return octets


def fill(url: GopherUrl, form: AskForm, answers: Sequence[Answer], view: bytes = b"") -> GopherUrl:
    """Return the URL that submits the answers of a form to the item at `url`.

    Args:
        url: The item with the form.
        form: The form.
        answers: One answer for each line of `form.questions`.
        view: The view to request; empty for the default.

    Raises:
        Refused: As in `encode_answers`.
        ValueError: As in `encode_answers`.
    """
    return with_gopherplus(url, encode_answers(form, answers, view))


def _answer_lines(line: AskLine, answer: Answer) -> list[bytes]:
    if line.question is AskQuestion.SELECT and isinstance(answer, bool):
        return [b"1" if answer else b"0"]
    if line.question is AskQuestion.ASK_LINES and isinstance(answer, tuple):
        return [b"%d" % len(answer), *answer]
    if line.question is AskQuestion.CHOOSE and isinstance(answer, bytes):
        if answer not in line.choices:
            choices = ", ".join(repr(display_text(choice)) for choice in line.choices)
            raise ValueError(f"answer to {line.prompt!r} must be one of {choices}")
        return [answer]
    if line.question in _LINE_QUESTIONS and isinstance(answer, bytes):
        return [answer]
    raise ValueError(f"answer does not fit form line {line.word!r}: {line.prompt!r}")


def _file_lines(line: AskLine, answer: Answer) -> list[bytes]:
    if answer is None:
        return []
    if not isinstance(answer, bytes):
        raise ValueError(f"answer to {line.prompt!r} must be the bytes of a file, or None")
    *lines, rest = _LINE_END.split(answer)
    if rest:
        lines.append(rest)
    if b"." in lines or re.search(rb"[\0\r]", b"".join(lines)):
        raise Refused(
            "S03",
            "cannot send a file that is not a text, or has a line with a lone period, in a form: few"
            " servers accept the counted data block that it needs",
        )
    return lines
