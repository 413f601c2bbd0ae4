r"""Transcripts of both sides of an exchange, byte for byte, with its outcome; functions that split bytes.

One file tests an exchange alone, a handler on in-memory streams, and a client of a mock server. Each
line is a letter, a colon and a blank, followed by a value. The first line is `#` and the source of the
transcript.

    U: the URL
    C: bytes from the client               S: bytes from the server
    E: the end of the connection, by the server:
       close (orderly)   reset   quiet (it stays open and silent)   cut (TLS without close_notify)
       left (the client has its result and closes)
    A `C:` or `S:` after an `E:` is a further connection.
    D: bytes from the server on FTP's data connection, whose port is given as 40001 (156,65)
    Z: the end of FTP's data connection: close or reset; the next line waits until the client has closed the
        data connection too

    The outcome, in which every line is optional:
    K: kind    M: media type, - for none    B: bytes of the body (several lines are joined)
    V: the checks that verified the body, sorted    F: the rule of a finding    X: the class of an error
    L: an entry of a listing: its kind, its URL (or -), its name    T: the target of a link or service

Printable ASCII is written as it is, other bytes as `\r \n \t \\ \xNN`. A line end must also be
written, and a line must not end in a blank. Empty lines and lines that begin with `#` are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

Speaker: TypeAlias = Literal["C", "S", "D", "Z"]
End: TypeAlias = Literal["close", "reset", "quiet", "cut", "left"]

_ENDS = ("close", "reset", "quiet", "cut", "left")
#: The attributes of a `TranscriptOutcome` that a line with the letter sets once.
_NAME_BY_LETTER = {"K": "kind", "M": "media_type", "T": "target", "X": "error"}
_LINE = re.compile(r"([A-Z]):(?: (.*))?")
_ESCAPE = re.compile(r"\\(r|n|t|\\|x[0-9a-fA-F]{2})?")
_ESCAPES = {"r": b"\r", "n": b"\n", "t": b"\t", "\\": b"\\"}


class BadTranscript(ValueError):
    """The text is not a transcript; the message begins with the transcript's name and the line number."""


@dataclass(frozen=True)
class TranscriptTurn:
    """Consecutive bytes from one side, up to the first byte of the other side.

    The letters `D` and `Z` are for FTP's data connection. For `D`, `octets` contains the bytes. For `Z`,
    `octets` is the keyword for the end of the data connection.
    """

    speaker: Speaker
    octets: bytes


@dataclass(frozen=True)
class Connection:
    """A connection from its first byte to its end."""

    turns: tuple[TranscriptTurn, ...]
    end: End

    def said_by(self, speaker: Speaker) -> bytes:
        return b"".join(turn.octets for turn in self.turns if turn.speaker == speaker)


@dataclass
class TranscriptOutcome:
    """The outcome that a transcript states; an unstated property is empty or None."""

    kind: str | None = None
    media_type: str | None = None
    body: bytes | None = None
    verified: tuple[str, ...] | None = None
    findings: list[str] = field(default_factory=list)
    error: str | None = None
    entries: list[tuple[str, str | None, str]] = field(default_factory=list)
    target: str | None = None


@dataclass(frozen=True)
class DialogueTranscript:
    """A complete transcript.

    `name` is the path of the file below the directory of transcripts, without suffix.
    """

    name: str
    origin: str
    url: str
    connections: tuple[Connection, ...]
    outcome: TranscriptOutcome


def parse_transcript(text: str, name: str) -> DialogueTranscript:
    r"""Parse the text of a transcript; the module's docstring describes the lines.

    Args:
        text: the complete text of the file.
        name: the transcript's name for error messages.

    Raises:
        BadTranscript: a line is invalid; the message has the line number.

    Examples:
        >>> from resolver.testing import parse_transcript
        >>> parse_transcript("# made up\nU: x://h/\nS: hello\nE: close\n", "x").connections[0].end
        'close'
    """
    reader = _TranscriptReader(name)
    for number, line in enumerate(text.split("\n"), 1):
        reader.read(number, line)
    return reader.transcript()


class _TranscriptReader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._number = 0
        self._origin: str | None = None
        self._url: str | None = None
        self._turns: list[TranscriptTurn] = []
        self._connections: list[Connection] = []
        self._outcome = TranscriptOutcome()

    def transcript(self) -> DialogueTranscript:
        if self._turns:
            raise self._make_error("the last connection has no end (E:)")
        if self._origin is None or self._url is None:
            raise self._make_error("no URL (U:)")
        return DialogueTranscript(
            self._name, self._origin, self._url, tuple(self._connections), self._outcome
        )

    def read(self, number: int, line: str) -> None:
        self._number = number
        if self._origin is None:
            if not line.startswith("# "):
                raise self._make_error("the first line must be '# ' and the source")
            self._origin = line[2:]
            return
        if line == "" or line.startswith("#"):
            return
        if not (line.isascii() and line.isprintable()):
            raise self._make_error(r"not printable ASCII (write bytes as \xNN)")
        match = _LINE.fullmatch(line)
        if match is None:
            raise self._make_error("expected a letter, a colon and a blank")
        if line.endswith(" "):
            raise self._make_error(r"trailing blank (write \x20)")
        self._parse_line(match[1], match[2] or "")

    def _parse_line(self, letter: str, rest: str) -> None:
        match letter:
            case "U" if self._url is None and rest:
                self._url = rest
            case "C" | "S" | "D":
                self._add_turn(letter, self._octets(rest))
            case "Z" if rest in ("close", "reset") and self._turns:
                self._turns.append(TranscriptTurn("Z", rest.encode("ascii")))
            case "E" if rest in _ENDS and self._turns:
                self._connections.append(Connection(tuple(self._turns), cast(End, rest)))
                self._turns = []
            case _:
                self._expect(letter, rest)

    def _add_turn(self, letter: str, octets: bytes) -> None:
        if self._turns and self._turns[-1].speaker == letter:
            octets = self._turns.pop().octets + octets
        self._turns.append(TranscriptTurn(cast(Speaker, letter), octets))

    def _expect(self, letter: str, rest: str) -> None:
        outcome = self._outcome
        match letter:
            case "K" | "M" | "T" | "X" if rest and getattr(outcome, _NAME_BY_LETTER[letter]) is None:
                setattr(outcome, _NAME_BY_LETTER[letter], rest)
            case "B":
                outcome.body = (outcome.body or b"") + self._octets(rest)
            case "V" if outcome.verified is None and rest.split() == sorted(rest.split()):
                outcome.verified = tuple(rest.split())
            case "F" if rest:
                outcome.findings.append(rest)
            case "L" if rest.count(" ") >= 1:
                kind, url, *name = rest.split(" ", 2)
                shown = self._octets("".join(name)).decode("utf-8", "surrogateescape")
                outcome.entries.append((kind, None if url == "-" else url, shown))
            case _:
                raise self._make_error(f"{letter}: is unknown, repeated, or not allowed here")

    def _octets(self, written: str) -> bytes:
        return b"".join(self._pieces(written))

    def _pieces(self, written: str) -> Iterator[bytes]:
        end = 0
        for match in _ESCAPE.finditer(written):
            yield written[end : match.start()].encode("ascii")
            end = match.end()
            if match[1] is None:
                raise self._make_error(rf"invalid escape: {written[match.start() :][:4]!r}")
            yield _ESCAPES.get(match[1]) or bytes((int(match[1][1:], 16),))
        yield written[end:].encode("ascii")

    def _make_error(self, message: str) -> BadTranscript:
        return BadTranscript(f"{self._name}:{self._number}: {message}")


# Functions that split bytes into blocks. The result of a reader and the outcome of an exchange must be the
# same for all splits.

Cutter: TypeAlias = Callable[[bytes], Iterable[bytes]]

#: Maximum number of bytes in one block.
MAX_BLOCK = 65_536


def whole(octets: bytes) -> Iterator[bytes]:
    """Yield blocks as large as the result of one receive call."""
    for start in range(0, len(octets), MAX_BLOCK):
        yield octets[start : start + MAX_BLOCK]


def one_by_one(octets: bytes) -> Iterator[bytes]:
    """Yield single bytes."""
    return (octets[index : index + 1] for index in range(len(octets)))


def oddly(octets: bytes) -> Iterator[bytes]:
    """Yield blocks of 1, 2, 3, 5, 7, 11 bytes, repeatedly."""
    start, turn = 0, 0
    while start < len(octets):
        size = (1, 2, 3, 5, 7, 11)[turn % 6]
        yield octets[start : start + size]
        start, turn = start + size, turn + 1


#: All functions that split bytes: `@pytest.mark.parametrize("cutter", CUTTERS, ids=…)`.
CUTTERS: tuple[Cutter, ...] = (whole, one_by_one, oddly)


def cut_at(*places: int) -> Cutter:
    """Return a function that splits bytes at the given positions, and nowhere else.

    Args:
        places: the positions in bytes, in ascending order.

    Examples:
        >>> from resolver.testing import cut_at
        >>> list(cut_at(1, 3)(b"abcd"))
        [b'a', b'bc', b'd']
    """

    def cut(octets: bytes) -> Iterator[bytes]:
        ends = [place for place in places if 0 < place < len(octets)]
        for start, end in zip([0, *ends], [*ends, len(octets)], strict=True):
            yield octets[start:end]

    return cut


def chunkings(octets: bytes, most: int = 4_096) -> Iterator[list[bytes]]:
    """Yield all possible splits of the bytes, if there are at most `most` splits.

    Otherwise, yield only three kinds of splits: one block, single bytes, and two blocks at every position.

    Args:
        octets: the bytes to split.
        most: the maximum number of splits for which all splits are yielded.

    Examples:
        >>> from resolver.testing import chunkings
        >>> list(chunkings(b"abc"))
        [[b'abc'], [b'a', b'bc'], [b'ab', b'c'], [b'a', b'b', b'c']]
    """
    places = range(1, len(octets))
    if 1 << len(places) <= most:
        for chosen in range(1 << len(places)):
            yield [*cut_at(*(place for place in places if chosen >> (place - 1) & 1))(octets)]
        return
    yield [octets]
    yield [*one_by_one(octets)]
    for place in places:
        yield [octets[:place], octets[place:]]
