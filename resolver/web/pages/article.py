"""An article, or any message: its head, its text with quotations, and its MIME parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from email.message import Message
from itertools import groupby
from typing import NamedTuple

from resolver.transfer.response import Response, decode_text
from resolver.web.pages.page import FactRow, PageAddressBar, PageQuery, WebPage, line_of, octets, text_of
from resolver.web.pages.text import PART, TextRun, media_type_of_picture, runs_of

# The text of an article with quotations set apart: lines that begin with `>`, up to three levels deep; and
# the signature behind `-- `.

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
    text = "\n".join(_strip_marks(line, level) for line in lines).strip("\n")
    return QuotedLines(level, len(lines), tuple(runs_of(text, place)))


def _strip_marks(line: str, level: int) -> str:
    """Without the marks of the levels that it stands in, which are shown otherwise."""
    for _ in range(level):
        line = line.removeprefix(">").removeprefix(" ")
    return line


# The parts of a message (RFC 2045, 2046), as far as they can be told: any bytes give some.
#
# Its author chose its depth and number of parts, and Python's parser recurses as deep as that. So a message
# that declares more than a few layers, or is larger than any article, is left as it came, one part of text.

#: What is taken apart at all, in octets; how many layers it may declare, and how many parts are told.
LARGEST = 16_777_216
MAX_MIME_DEPTH = 20
MOST = 200
#: Octets of a field that says what a part is: of more, Python's time grows with the square of their number.
_LONGEST_FIELD = 8_192

_LAYER = re.compile(rb"content-type[ \t]*:\s*(?:multipart|message)\b", re.IGNORECASE)
_FIELD = re.compile(rb"^content-[a-z-]{1,40}[ \t]*:", re.IGNORECASE | re.MULTILINE)
_FIELD_ENDS = re.compile(rb"\n(?![ \t])")
_HEAD_ENDS = re.compile(rb"\r?\n\r?\n")
#: What Python's parser is known to raise for words of a header that no mail has.
_BROKEN = (LookupError, ValueError, TypeError, AttributeError, AssertionError)


class MimePart(NamedTuple):
    """One part: its number from 1 on, how deep it stands, its type as it says (lower case), the name that it
    suggests, and its octets with the transfer encoding undone. `is_body`: it is to be read as text."""

    number: int
    depth: int
    media_type: str
    charset: str | None
    name: str
    octets: bytes
    is_body: bool

    @property
    def text(self) -> str:
        return decode_text(self.octets, self.charset)


def parts_of(octets: bytes, charset: str | None = None) -> list[MimePart]:
    """The leaves of a message, at most `MOST`; never none."""
    if len(octets) > LARGEST or len(_LAYER.findall(octets)) > MAX_MIME_DEPTH or _says_too_much(octets):
        return [_read_whole(octets, charset)]
    try:
        found = list(_list_leaves(message_from_bytes(octets, policy=policy.compat32), charset))
    except (*_BROKEN, RecursionError):
        return [_read_whole(octets, charset)]
    return found or [_read_whole(octets, charset)]


def _says_too_much(octets: bytes) -> bool:
    """Is there a field of a part's description that is longer than any?"""
    size = len(octets)
    for field in _FIELD.finditer(octets):
        stop = field.end() + _LONGEST_FIELD
        if stop < size and _FIELD_ENDS.search(octets, field.end(), stop) is None:
            return True
    return False


def _read_whole(octets: bytes, charset: str | None) -> MimePart:
    """Everything below the head."""
    end = _HEAD_ENDS.search(octets)
    body = octets[end.end() :] if end else b""
    return MimePart(1, 0, "text/plain", charset, "", body, True)


def _list_leaves(message: Message, charset: str | None) -> Iterator[MimePart]:
    waiting: list[tuple[int, Message]] = [(0, message)]
    number = 0
    while waiting and number < MOST:
        depth, one = waiting.pop()
        inner = one.get_payload()
        if isinstance(inner, list):
            waiting += ((depth + 1, each) for each in reversed(inner) if isinstance(each, Message))
            continue
        number += 1
        yield _part(number, depth, one, charset)


def _part(number: int, depth: int, one: Message, charset: str | None) -> MimePart:
    media_type = line_of(one.get_content_type())
    name = _name(one)
    octets = _octets(one)
    attached = (one.get_content_disposition() or "inline") == "attachment" or bool(name)
    said = one.get_content_charset() or (charset if depth == 0 else None)
    return MimePart(
        number, depth, media_type, said, name, octets, media_type == "text/plain" and not attached
    )


def _name(one: Message) -> str:
    try:
        return line_of(one.get_filename() or "")
    except _BROKEN:
        return ""


def _octets(one: Message) -> bytes:
    try:
        decoded = one.get_payload(decode=True)
    except _BROKEN:
        decoded = None
    if isinstance(decoded, bytes):
        return decoded
    plain = one.get_payload()
    return plain.encode("utf-8", "surrogateescape") if isinstance(plain, str) else b""


#: What a reader looks at first; everything else is among all headers.
_FIRST = ("from", "to", "cc", "date", "newsgroups", "followup-to")
#: Fields that are told: what has more was written to be read by nobody.
_MOST_FIELDS = 1_000
#: Parts of text that are shown one below the other, and characters of all of them.
_MOST_TEXTS = 20


class ArticleSummary(NamedTuple):
    """A part as it is listed. `show` is where it may be looked at, if it is a picture; `save` where it is."""

    number: int
    media_type: str
    name: str
    size: str
    show: str | None
    save: str


class ReadablePart(NamedTuple):
    """A part that is read on the page itself."""

    number: int
    split: QuotedText


def article_page(
    response: Response,
    query: PageQuery,
    place: PageAddressBar,
    contents: Callable[[MimePart, bool], str],
    *,
    thread: str | None = None,
) -> WebPage:
    """The article, or with the view `source` its octets as text. `contents` gives the address at which the
    octets of a part are had, to be looked at (True) or saved; `thread` the address of its group."""
    values: dict[str, object] = {
        "heading": response.title or "(no subject)",
        "source": query.view == "source",
        "source_href": place.make_address(query._replace(view="source", page=1)),
        "article_href": place.make_address(query._replace(view="", page=1)),
        "thread": thread,
        "saved": response.url,
        "found": response.findings,
        "first": _head(response),
        "all_fields": [FactRow(name, value) for name, value in response.meta[:_MOST_FIELDS]],
        "id": text_of(response.extra, "message_id"),
    }
    if query.view == "source":
        values |= {"runs": _source(response, place), "bodies": [], "parts": [], "more": False, "cut": False}
    else:
        values |= _parts(response, place, contents)
    return WebPage("article.html", response.title or place.url, 200, values)


def _head(response: Response) -> list[FactRow]:
    said: dict[str, str] = {}
    for name, value in response.meta:
        said.setdefault(name.lower(), value)
    return [FactRow(name.title(), said[name]) for name in _FIRST if said.get(name)]


def _source(response: Response, place: PageAddressBar) -> list[TextRun]:
    return list(runs_of(response.content[:PART].decode("latin-1"), place))


def _parts(
    response: Response, place: PageAddressBar, contents: Callable[[MimePart, bool], str]
) -> dict[str, object]:
    parts = parts_of(response.content, response.charset)
    bodies: list[ReadablePart] = []
    room = PART
    for part in parts:
        if part.is_body and room > 0 and len(bodies) < _MOST_TEXTS:
            text = part.text[:room]
            room -= len(text)
            bodies.append(ReadablePart(part.number, split(text, place)))
    alone = len(parts) == 1 and bool(bodies)
    return {
        "runs": [],
        "bodies": bodies,
        "parts": [] if alone else [_summarize(part, contents) for part in parts],
        "more": len(parts) >= MOST,
        "cut": room <= 0,
    }


def _summarize(part: MimePart, contents: Callable[[MimePart, bool], str]) -> ArticleSummary:
    is_picture = media_type_of_picture(part.octets) is not None
    show = contents(part, True) if is_picture else None
    return ArticleSummary(
        part.number, part.media_type, part.name, octets(len(part.octets)), show, contents(part, False)
    )
