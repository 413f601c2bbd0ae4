"""URLs in running text, wrapped as the appendix of RFC 1738 asks: `<URL:…>`, or plainly `<…>`.

What is found is text that nobody has parsed yet. The work grows with the length of the text only: no
candidate is looked at twice, and the number of readings of one is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain, combinations, islice

from protocols.values import dataclass
from resolver.registry import SCHEMES

#: Readings of one URL besides the first: all there are for up to six doubtful hyphens. Of more, those
#: that drop the fewest; each doubtful hyphen would double the number.
MOST_ALTERNATES = 63

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_WHITESPACE = re.compile(r"[ \t\r\n\v\f]+")
_LINE_END = re.compile(r"[\r\n]")
_PREFIX = "url:"


@dataclass(frozen=True, slots=True)
class Extracted:
    """A URL in a text. `alternates` are its readings without one or more of the hyphens that a broken
    line may have put in; `position` is the index of its `<`.

    Examples:
        >>> resolver.extract("see <URL:http://h.example/>")[0].position
        4
    """

    url: str
    alternates: tuple[str, ...] = ()
    position: int = 0


def extract(text: str) -> list[Extracted]:
    """The wrapped URLs in `text`, in order (RFC 1738, appendix). A `<` always starts over. Never raises.

    Examples:
        >>> [found.url for found in resolver.extract("see <URL:ftp://h.example/pub/> and <a@b>")]
        ['ftp://h.example/pub/']
    """
    found = []
    position = text.find("<")
    while position >= 0:
        following = text.find("<", position + 1)
        end = text.find(">", position + 1, len(text) if following < 0 else following)
        if end >= 0 and (extracted := _read(text[position + 1 : end], position)) is not None:
            found.append(extracted)
        position = following
    return found


def _read(content: str, position: int) -> Extracted | None:
    text, doubtful = _join_lines(content)
    prefixed = text[: len(_PREFIX)].lower() == _PREFIX
    if prefixed:
        text = text[len(_PREFIX) :]
        doubtful = [index - len(_PREFIX) for index in doubtful]
    scheme = _SCHEME.match(text)
    name = "" if scheme is None else scheme[1].lower()
    if name in ("", "url") or not (prefixed or name in SCHEMES):
        return None
    return Extracted(text, _alternates(text, doubtful), position)


def _join_lines(content: str) -> tuple[str, list[int]]:
    """The content without whitespace, and where in it hyphens stood directly before a line end."""
    pieces = []
    doubtful = []
    at = length = 0
    for gap in _WHITESPACE.finditer(content):
        pieces.append(content[at : gap.start()])
        length += gap.start() - at
        at = gap.end()
        if pieces[-1].endswith("-") and _LINE_END.search(gap[0]):
            doubtful.append(length - 1)
    pieces.append(content[at:])
    return "".join(pieces), doubtful


def _alternates(text: str, doubtful: list[int]) -> tuple[str, ...]:
    drops = chain.from_iterable(combinations(doubtful, count + 1) for count in range(len(doubtful)))
    readings = (_without(text, dropped) for dropped in islice(drops, MOST_ALTERNATES))
    return tuple(dict.fromkeys(readings))


def _without(text: str, dropped: Iterable[int]) -> str:
    """The text without the characters at those indices, which are in order."""
    pieces = []
    at = 0
    for index in dropped:
        pieces.append(text[at:index])
        at = index + 1
    return "".join([*pieces, text[at:]])
