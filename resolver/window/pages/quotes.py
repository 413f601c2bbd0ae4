"""Text of an article with what it quotes set apart: lines that begin with `>`, up to three levels deep; and
the signature behind `-- `."""

from __future__ import annotations

import re
from itertools import groupby

from protocols.values import NamedTuple
from resolver.window.pages.page import PageAddressBar
from resolver.window.pages.text import TextRun, runs_of

#: Deeper quotes stand with those of this level.
DEEPEST = 3
#: A quote of so many lines is closed until somebody opens it.
_LONG = 12
#: So many stretches of a page are set apart; of more, none is.
_MOST = 2_000

_MARKS = re.compile(r"(?:> ?){1,64}")
_SIGNATURE = re.compile(r"^-- $", re.MULTILINE)


class QuotedLines(NamedTuple):
    """Lines at one level: text of the article's own at level 0, a quote above. `inner` are the stretches of a
    quote, among them quotes of the next level."""

    level: int
    lines: int
    runs: tuple[TextRun, ...]
    inner: tuple[QuotedLines, ...] = ()
    closed: bool = False


class QuotedText(NamedTuple):
    """The text, and the signature below it."""

    stretches: tuple[QuotedLines, ...]
    signature: str


def split(text: str, place: PageAddressBar) -> QuotedText:
    """A text with its quotes and its signature."""
    text = text.replace("\r\n", "\n")
    marks = list(_SIGNATURE.finditer(text))
    signature = text[marks[-1].end() :].strip("\n") if marks else ""
    if marks and signature.count("\n") < _LONG:
        text = text[: marks[-1].start()].rstrip("\n")
    else:
        signature = ""
    lines = [(_level(line), line) for line in text.split("\n")]
    if sum(1 for _ in groupby(lines, key=_of_level)) > _MOST:
        return QuotedText((_plain(0, [line for _, line in lines], place),), signature)
    return QuotedText(_stretches(lines, 0, place), signature)


def _of_level(line: tuple[int, str]) -> int:
    return line[0]


def _level(line: str) -> int:
    if not line.startswith(">"):
        return 0
    found = _MARKS.match(line)
    return 0 if found is None else min(found[0].count(">"), DEEPEST)


def _stretches(lines: list[tuple[int, str]], level: int, place: PageAddressBar) -> tuple[QuotedLines, ...]:
    """Lines of this level or above it; it goes no deeper than there are levels."""
    found: list[QuotedLines] = []
    for is_deeper, group in groupby(lines, key=lambda line: line[0] > level):
        here = list(group)
        if is_deeper:
            inner = _stretches(here, level + 1, place)
            closed = level > 0 or len(here) > _LONG
            found.append(QuotedLines(level + 1, len(here), (), inner, closed))
        elif any(line.strip() for _, line in here):
            found.append(_plain(level, [line for _, line in here], place))
    return tuple(found)


def _plain(level: int, lines: list[str], place: PageAddressBar) -> QuotedLines:
    text = "\n".join(_unmarked(line, level) for line in lines).strip("\n")
    return QuotedLines(level, len(lines), tuple(runs_of(text, place)))


def _unmarked(line: str, level: int) -> str:
    """Without the marks of the levels that it stands in, which are shown otherwise."""
    for _ in range(level):
        line = line.removeprefix(">").removeprefix(" ")
    return line
