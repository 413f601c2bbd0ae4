"""A listing that is made of answers: those are kept as they came, so that they can be read again.

Which answers they are the row of the scheme says (`protocols.scheme.KeptListing`): those to some commands,
the last one, the packets of the last one; or the names that a directory of this machine had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

from protocols.contract import FileStatus, LocalFile
from protocols.scheme import KeptListing
from protocols.step import DatagramReply, ExchangeDatagrams, OpenFile, ReadNames, Step
from protocols.values import NamedTuple
from resolver.warc.keeper import SpooledBytes
from resolver.warc.writing import RecordBlock


class _AnswerSpan(NamedTuple):
    """Answers to what was sent in one go: octets of the spool from `begin` on."""

    words: tuple[str, ...]
    begin: int


class AnswerListing:
    """`wanted` says which; they are put into `spool`."""

    def __init__(self, wanted: KeptListing, spool: SpooledBytes) -> None:
        self._wanted = wanted
        self._spool = spool
        self._stretches: list[_AnswerSpan] = []
        self._ranges: list[tuple[int, int]] = []
        self._current: _AnswerSpan | None = None
        self._first = b""
        self._file: LocalFile | None = None

    def close(self) -> None:
        self._spool.close()

    def sent(self, octets: bytes) -> None:
        """What comes from now on answers this."""
        self._settle()
        if self._wanted.how == "last":
            self._stretches, self._ranges = [], []
            self._current = _AnswerSpan((), self._spool.size)
        elif self._wanted.how == "answers":
            words = tuple(self._word(line) for line in octets.splitlines())
            if not all(word.partition("_")[0] in self._wanted.commands for word in words):
                return
            if self._stretches and words[0] == self._stretches[0].words[0]:  # asked for from the beginning
                self._stretches, self._ranges = [], []
            self._current = _AnswerSpan(words, self._spool.size)

    @staticmethod
    def _word(line: bytes) -> str:
        words = line.decode("latin-1").upper().split()
        return "_".join(words[:2] if words[:1] == ["LIST"] else words[:1])

    def heard(self, octets: bytes) -> None:
        """This came in answer."""
        if self._current is not None:
            self._first += octets[: 1 - len(self._first)]
            self._spool.write(octets)

    def _settle(self) -> None:
        """The answers to what was sent last are complete. A no is not part of a listing."""
        current, self._current = self._current, None
        is_no = self._wanted.how == "answers" and self._first in (b"4", b"5")
        if current is not None and self._first and not is_no:
            self._stretches.append(current)
            self._ranges.append((current.begin, self._spool.size))
        self._first = b""

    def done(self, step: Step, answer: object) -> None:
        """A step of the dialogue was answered."""
        how = self._wanted.how
        if how == "packets" and isinstance(step, ExchangeDatagrams) and isinstance(answer, DatagramReply):
            self._put(b"".join(answer.pieces))
        elif how == "names" and isinstance(step, OpenFile):
            self._file = cast("LocalFile", answer)
        elif how == "names" and isinstance(step, ReadNames) and self._file is not None:
            names = cast("list[bytes]", answer)
            self._put(b"".join(_line(name, self._file.status_of(name)) for name in names))

    def _put(self, octets: bytes) -> None:
        """In place of all that is there."""
        begin = self._spool.size
        self._spool.write(octets)
        self._ranges = [(begin, self._spool.size)]

    def finish(self) -> tuple[str, RecordBlock]:
        """The media type, and all answers."""
        self._settle()
        commands: list[str] = []
        for stretch in self._stretches:
            commands += stretch.words
        media_type = self._wanted.media_type
        if commands:
            media_type += f'; commands="{" ".join(_once(commands))}"'
        ranges = list(self._ranges)

        def pieces() -> Iterator[bytes]:
            for begin, end in ranges:
                yield from first_octets(self._spool.pieces(begin), end - begin)

        return media_type, RecordBlock(sum(end - begin for begin, end in ranges), pieces)


def first_octets(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The first octets of these pieces."""
    for piece in pieces:
        if size <= 0:
            return
        yield piece[:size]
        size -= len(piece)


def _once(commands: list[str]) -> list[str]:
    """The last of them stands for all further ones."""
    while len(commands) > 1 and commands[-1] == commands[-2]:
        commands = commands[:-1]
    return commands


def _line(name: bytes, status: FileStatus) -> bytes:
    """One name of a directory of this machine."""
    modified = None if status.modified is None else status.modified.isoformat().replace("+00:00", "Z")
    said = {
        "name": name.decode("latin-1"),
        "kind": status.kind.value,
        "size": status.size,
        "modified": modified,
    }
    return json.dumps(said, separators=(",", ":")).encode("ascii") + b"\n"
