"""An answer of http that was cut off, and the parts with which it was gone on (RFC 9110 14.4): one body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from protocols.values import NamedTuple
from resolver.warc.message import MOST_HEAD, AnswerSpan, find_answer

_RANGE = re.compile(
    rb"\r?\ncontent-range[ \t]*:[ \t]*bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)[ \t]*(?=\r?\n)",
    re.IGNORECASE,
)
_TAG = re.compile(rb'\r?\netag[ \t]*:[ \t]*("[^"\r\n]*")[ \t]*(?=\r?\n)', re.IGNORECASE)
_MODIFIED = re.compile(rb"\r?\nlast-modified[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_CODING = re.compile(rb"\r?\ncontent-encoding[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)


class AnswerPart(NamedTuple):
    """A record of an answer: how long its block is, and what gives that."""

    length: int
    block: Callable[[], Iterator[bytes]]

    def answer(self) -> AnswerSpan | None:
        held = b""
        for octets in self.block():
            held += octets
            if (found := find_answer(held)) is not None or len(held) > MOST_HEAD:
                return found
        return None

    def behind(self, count: int) -> Iterator[bytes]:
        """All but its first octets."""
        for octets in self.block():
            yield octets[count:]
            count = max(0, count - len(octets))


class AnswerPiece(NamedTuple):
    """A part from which on so many octets are passed over."""

    part: AnswerPart
    skipped: int


def joined_with(first: AnswerPart, parts: list[AnswerPart]) -> list[AnswerPiece] | None:
    """What follows the first answer to make it whole; None where they do not. They are of the same object
    where a strong entity tag says so, or the date of its last change."""
    answer = first.answer()
    if answer is None or answer.status != 200 or answer.length is None:
        return None
    covered = first.length - answer.interim - len(answer.head)
    pieces: list[AnswerPiece] = []
    for part in parts:
        found = part.answer()
        place = None if found is None else _RANGE.search(found.head)
        if found is None or place is None or found.coded or not _is_same(answer, found):
            continue
        begin, head = int(place[1]), found.interim + len(found.head)
        end = begin + part.length - head
        if place[2] not in (b"*", b"%d" % answer.length) or not begin <= covered < end:
            continue
        pieces.append(AnswerPiece(part, head + covered - begin))
        covered = end
    return pieces if covered == answer.length else None


def _is_same(one: AnswerSpan, other: AnswerSpan) -> bool:
    codings = [_value(_CODING, each) for each in (one, other)]
    tags = [_value(_TAG, each) for each in (one, other)]
    dates = [_value(_MODIFIED, each) for each in (one, other)]
    if codings[0] != codings[1]:
        return False
    if tags[0] is not None or tags[1] is not None:
        return tags[0] == tags[1]
    return dates[0] is not None and dates[0] == dates[1]


def _value(field: re.Pattern[bytes], answer: AnswerSpan) -> bytes | None:
    found = field.search(answer.head)
    return None if found is None else found[1].strip()
