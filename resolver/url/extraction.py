"""URLs in running text, in the form of the appendix of RFC 1738: `<URL:…>`, or only `<…>`.

The extraction of URLs returns text that is not parsed yet. Extraction takes linear time, because each
candidate is examined only once and has a limited number of interpretations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, combinations, islice

from protocols.text import brief, quote_text
from resolver.url.parsing import SCHEME_PREFIX, redact
from resolver.url.registry import SCHEMES

#: Maximum number of alternative interpretations of one URL. A hyphen before a line break is ambiguous: the
#: hyphen is either part of the URL or was added for the line break. Each ambiguous hyphen doubles the number
#: of interpretations, so 63 alternatives are enough for six hyphens. For more than six hyphens, only the
#: interpretations with the fewest removed hyphens are returned.
MAX_ALTERNATES = 63

_WHITESPACE = r"[ \t\r\n\v\f]+"
_LINE_END = r"[\r\n]"
_PREFIX = "url:"


@dataclass(frozen=True, slots=True, repr=False)
class Extracted:
    """A URL in a text.

    Attributes:
        url: the text of the URL, without line breaks.
        alternates: the URL without one or more of the hyphens that a line break may have added.
        position: the index of the `<` before the URL.

    Examples:
        >>> resolver.extract("see <URL:http://h.example/>")[0].position
        4
    """

    url: str
    alternates: tuple[str, ...] = ()
    position: int = 0

    def __repr__(self) -> str:
        return brief(self, quote_text(redact(self.url)), f"at {self.position}")


def extract(text: str) -> list[Extracted]:
    """Return the wrapped URLs in `text`, in order (RFC 1738, appendix).

    A `<` always starts a new candidate. The function never raises.

    Examples:
        >>> [found.url for found in resolver.extract("see <URL:ftp://h.example/pub/> and <a@b>")]
        ['ftp://h.example/pub/']
    """
    results = []
    position = text.find("<")
    while position >= 0:
        following = text.find("<", position + 1)
        end = text.find(">", position + 1, len(text) if following < 0 else following)
        if end >= 0 and (extracted := _read(text[position + 1 : end], position)) is not None:
            results.append(extracted)
        position = following
    return results


def _read(content: str, position: int) -> Extracted | None:
    text, doubtful = _join_lines(content)
    prefixed = text[: len(_PREFIX)].lower() == _PREFIX
    if prefixed:
        text = text[len(_PREFIX) :]
        doubtful = [index - len(_PREFIX) for index in doubtful]
    scheme = re.match(SCHEME_PREFIX, text)
    name = "" if scheme is None else scheme[1].lower()
    if name in ("", "url") or not (prefixed or name in SCHEMES):
        return None
    return Extracted(text, _alternates(text, doubtful), position)


def _join_lines(content: str) -> tuple[str, list[int]]:
    """Return the content without whitespace, and the indices of hyphens at the end of a line."""
    pieces = []
    doubtful = []
    at = length = 0
    for gap in re.finditer(_WHITESPACE, content):
        pieces.append(content[at : gap.start()])
        length += gap.start() - at
        at = gap.end()
        if pieces[-1].endswith("-") and re.search(_LINE_END, gap[0]):
            doubtful.append(length - 1)
    pieces.append(content[at:])
    return "".join(pieces), doubtful


def _alternates(text: str, doubtful: list[int]) -> tuple[str, ...]:
    drops = chain.from_iterable(combinations(doubtful, count + 1) for count in range(len(doubtful)))
    readings = (_drop_characters(text, dropped) for dropped in islice(drops, MAX_ALTERNATES))
    return tuple(dict.fromkeys(readings))


def _drop_characters(text: str, dropped: Iterable[int]) -> str:
    """Return the text without the characters at the given indices, which are in ascending order."""
    pieces = []
    at = 0
    for index in dropped:
        pieces.append(text[at:index])
        at = index + 1
    return "".join([*pieces, text[at:]])
