"""The page of a news article or mail message: headers, text with quotations, and MIME parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from email.message import Message
from itertools import groupby
from typing import NamedTuple

from protocols.text import format_count
from resolver.transfer.response import Response, decode_as
from resolver.web.headers import make_file_name
from resolver.web.pages.page import (
    FactRow,
    PageAddressBar,
    PageQuery,
    WebPage,
    format_line,
    get_text,
)
from resolver.web.pages.text import PART, TextRun, media_type_of_picture, split_runs

# The structure of an article's text. Quotations begin with `>`, and have up to three levels. The signature
# follows the line `-- `.

#: Maximum quotation level. Deeper quotations are shown at the maximum level.
MAX_LEVEL = 3
#: Maximum number of lines of an open quotation; longer quotations are collapsed.
_MAX_OPEN_LINES = 12
#: Maximum number of changes between quotation levels in an article; a text with more changes is shown without
#: quotation levels.
_MAX_CHANGES = 2_000

_MARKS = re.compile(r"(?:> ?){1,64}")
_SIGNATURE = re.compile(r"^-- $", re.MULTILINE)


class QuotedLines(NamedTuple):
    """Lines at one quotation level. Level 0 is the text of the author; higher levels are quotations.

    `inner` contains the lines of a quotation, and nested quotations.
    """

    level: int
    lines: int
    runs: tuple[TextRun, ...]
    inner: tuple[QuotedLines, ...] = ()
    closed: bool = False


class QuotedText(NamedTuple):
    """The text of an article with its quotations, and the signature."""

    stretches: tuple[QuotedLines, ...]
    signature: str


def split(text: str, bar: PageAddressBar) -> QuotedText:
    """Split the text of an article into lines of the author, quotations and signature."""
    text = text.replace("\r\n", "\n")
    marks = list(_SIGNATURE.finditer(text))
    signature = text[marks[-1].end() :].strip("\n") if marks else ""
    if marks and signature.count("\n") < _MAX_OPEN_LINES:
        text = text[: marks[-1].start()].rstrip("\n")
    else:
        signature = ""
    lines = [(_count_level(line), line) for line in text.split("\n")]
    if sum(1 for _ in groupby(lines, key=lambda line: line[0])) > _MAX_CHANGES:
        return QuotedText((_make_lines(0, [line for _, line in lines], bar),), signature)
    return QuotedText(_group_lines(lines, 0, bar), signature)


def _count_level(line: str) -> int:
    if not line.startswith(">"):
        return 0
    marks = _MARKS.match(line)
    return 0 if marks is None else min(marks[0].count(">"), MAX_LEVEL)


def _group_lines(lines: list[tuple[int, str]], level: int, bar: PageAddressBar) -> tuple[QuotedLines, ...]:
    """Return the lines at this level, and by recursion at deeper levels, up to `MAX_LEVEL`."""
    stretches: list[QuotedLines] = []
    for is_deeper, group in groupby(lines, key=lambda line: line[0] > level):
        members = list(group)
        if is_deeper:
            inner = _group_lines(members, level + 1, bar)
            closed = level > 0 or len(members) > _MAX_OPEN_LINES
            stretches.append(QuotedLines(level + 1, len(members), (), inner, closed))
        elif any(line.strip() for _, line in members):
            stretches.append(_make_lines(level, [line for _, line in members], bar))
    return tuple(stretches)


def _make_lines(level: int, lines: list[str], bar: PageAddressBar) -> QuotedLines:
    text = "\n".join(_strip_marks(line, level) for line in lines).strip("\n")
    return QuotedLines(level, len(lines), tuple(split_runs(text, bar)))


def _strip_marks(line: str, level: int) -> str:
    """Remove the quotation characters (`>`) of a level from a line."""
    for _ in range(level):
        line = line.removeprefix(">").removeprefix(" ")
    return line


# The MIME parts of a message (RFC 2045, 2046). Malformed messages have at least one part.
#
# Messages are untrusted, and Python's parser recurses into nested parts. If a message declares too many
# nested parts, or is larger than any real article, it is not parsed. Instead, the complete message is shown
# as one text part.

#: Limits of a parsed message: size in bytes, number of declared multipart levels, number of parsed parts of a
#: multipart, and number of listed parts. Python's parser takes 350 bytes of memory for an empty part.
MAX_SIZE = 16_777_216
MAX_MIME_DEPTH = 20
MAX_PARTS = 10_000
MAX_LISTED = 200
#: Maximum size in bytes of a Content- header field. For such a field, Python's parser takes quadratic time in
#: the size of the field (ReDoS).
_MAX_FIELD = 8_192
#: The maximum size in bytes of a file's header in which a MIME boundary is searched.
_MAX_HEAD = 65_536

_LAYER = re.compile(rb"content-type[ \t]*:\s*(?:multipart|message)\b", re.IGNORECASE)
_MULTIPART = re.compile(rb"^content-type[ \t]*:\s*multipart/", re.IGNORECASE | re.MULTILINE)
_FIELD = re.compile(rb"^content-[a-z-]{1,40}[ \t]*:", re.IGNORECASE | re.MULTILINE)
_FIELD_ENDS = re.compile(rb"\n(?![ \t])")
_HEAD_ENDS = re.compile(rb"\r?\n\r?\n")
#: Exceptions that Python's parser raises for malformed headers.
_BROKEN = (LookupError, ValueError, TypeError, AttributeError, AssertionError)


class MimePart(NamedTuple):
    """A part of a message.

    Attributes:
        number: The number of the part; the first part has number 1.
        depth: The nesting depth of the part.
        media_type: The declared media type in lower case.
        charset: The charset of the part, if known.
        name: The suggested file name, or an empty text.
        octets: The content without the transfer encoding.
        is_body: Whether the part is shown as text on the page.
    """

    number: int
    depth: int
    media_type: str
    charset: str | None
    name: str
    octets: bytes
    is_body: bool

    @property
    def text(self) -> str:
        return decode_as(self.octets, self.charset)


class _Multipart(Message):
    """A message with a limit for the number of its parts."""

    def attach(self, payload: Message) -> None:  # type: ignore[override]
        super().attach(payload)
        if len(self.get_payload()) > MAX_PARTS:
            raise ValueError(f"more than {MAX_PARTS} parts")


def list_parts(octets: bytes, charset: str | None = None) -> list[MimePart]:
    """Return the leaf parts of a message: at least one and at most `MAX_LISTED` parts."""
    if len(octets) > MAX_SIZE or len(_LAYER.findall(octets)) > MAX_MIME_DEPTH or _has_long_field(octets):
        return [_read_whole(octets, charset)]
    try:
        message = message_from_bytes(octets, _Multipart, policy=policy.compat32)
        parts = list(_list_leaves(message, charset))
    except (*_BROKEN, RecursionError):
        return [_read_whole(octets, charset)]
    return parts or [_read_whole(octets, charset)]


def parts_of_document(response: Response) -> list[MimePart] | None:
    """Return the parts of a `multipart` document that is not a message, or None without a boundary.

    The MIME boundary is in the Content-Type field of an http response. In a file, such as a gopher item of
    type M, the Content-Type field is at the start of the content.
    """
    content_type = next((value for name, value in response.meta if name.lower() == "content-type"), "")
    if "boundary" in content_type.lower():
        head = b"Content-Type: %b\n\n" % b" ".join(content_type.encode("latin-1", "replace").split())
        return list_parts(head + response.content, response.charset)
    end = _HEAD_ENDS.search(response.content, 0, _MAX_HEAD)
    if end is None or _MULTIPART.search(response.content, 0, end.start()) is None:
        return None
    return list_parts(response.content, response.charset)


def _has_long_field(octets: bytes) -> bool:
    """Return whether a Content- header field of a part is longer than `_MAX_FIELD`."""
    size = len(octets)
    for field in _FIELD.finditer(octets):
        stop = field.end() + _MAX_FIELD
        if stop < size and _FIELD_ENDS.search(octets, field.end(), stop) is None:
            return True
    return False


def _read_whole(octets: bytes, charset: str | None) -> MimePart:
    end = _HEAD_ENDS.search(octets)
    body = octets[end.end() :] if end else b""
    return MimePart(1, 0, "text/plain", charset, "", body, True)


def _list_leaves(message: Message, charset: str | None) -> Iterator[MimePart]:
    waiting: list[tuple[int, Message]] = [(0, message)]
    number = 0
    while waiting and number < MAX_LISTED:
        depth, part = waiting.pop()
        inner = part.get_payload()
        if isinstance(inner, list):
            waiting += ((depth + 1, child) for child in reversed(inner) if isinstance(child, Message))
            continue
        number += 1
        yield _make_part(number, depth, part, charset)


def _make_part(number: int, depth: int, part: Message, charset: str | None) -> MimePart:
    media_type = format_line(part.get_content_type())
    name = _get_name(part)
    octets = _get_content(part)
    is_attachment = (part.get_content_disposition() or "inline") == "attachment" or bool(name)
    declared = part.get_content_charset() or (charset if depth == 0 else None)
    return MimePart(
        number, depth, media_type, declared, name, octets, media_type == "text/plain" and not is_attachment
    )


def _get_name(part: Message) -> str:
    try:
        return format_line(part.get_filename() or "")
    except _BROKEN:
        return ""


def _get_content(part: Message) -> bytes:
    try:
        decoded = part.get_payload(decode=True)
    except _BROKEN:
        decoded = None
    if isinstance(decoded, bytes):
        return decoded
    plain = part.get_payload()
    return plain.encode("utf-8", "surrogateescape") if isinstance(plain, str) else b""


#: The header fields that are shown at the top of the page.
_FIRST = ("from", "to", "cc", "date", "newsgroups", "followup-to")
#: Maximum number of header fields that are listed.
_MAX_FIELDS = 1_000
#: Maximum number of text parts on the page. All text parts together have at most `PART` characters.
_MAX_TEXTS = 20


class PartRow(NamedTuple):
    """A row in the list of MIME parts.

    `name` is a safe file name (S14). If the part is a picture, `show` is the URL to view the part. `save` is
    the URL to save the part.
    """

    number: int
    media_type: str
    name: str
    size: str
    show: str | None
    save: str


class TextPart(NamedTuple):
    """A MIME part that is shown as text on the page."""

    number: int
    split: QuotedText


def article_page(
    response: Response,
    query: PageQuery,
    bar: PageAddressBar,
    make_url: Callable[[MimePart, bool], str],
    *,
    thread: str | None = None,
) -> WebPage:
    """Return the page of an article. The view `source` shows the raw bytes as text.

    Args:
        response: The response with the article.
        query: The query fields of the page.
        bar: The page's address bar.
        make_url: A function that returns the URL of a part's content. The argument True views the content,
            and False saves it.
        thread: The URL of the newsgroup page.
    """
    values: dict[str, object] = {
        "heading": response.title or "(no subject)",
        "source": query.view == "source",
        "source_href": bar.make_address(query._replace(view="source", page=1)),
        "article_href": bar.make_address(query._replace(view="", page=1)),
        "thread": thread,
        "saved": response.url,
        "warnings": response.findings,
        "first": _list_first_fields(response),
        "all_fields": [FactRow(name, value) for name, value in response.meta[:_MAX_FIELDS]],
        "id": get_text(response.extra, "message_id"),
    }
    if query.view == "source":
        runs = list(split_runs(response.content[:PART].decode("latin-1"), bar))
        values |= {"runs": runs, "bodies": [], "parts": [], "more": False, "cut": False}
    else:
        values |= describe_parts(list_parts(response.content, response.charset), bar, make_url)
    return WebPage("article.html", response.title or bar.url, 200, values)


def _list_first_fields(response: Response) -> list[FactRow]:
    values: dict[str, str] = {}
    for name, value in response.meta:
        values.setdefault(name.lower(), value)
    return [FactRow(name.title(), values[name]) for name in _FIRST if values.get(name)]


def describe_parts(
    parts: list[MimePart], bar: PageAddressBar, make_url: Callable[[MimePart, bool], str]
) -> dict[str, object]:
    """Return the values for the macros of `mime.html`: the texts and the list of parts."""
    bodies: list[TextPart] = []
    remaining = PART
    for part in parts:
        if part.is_body and remaining > 0 and len(bodies) < _MAX_TEXTS:
            text = part.text[:remaining]
            remaining -= len(text)
            bodies.append(TextPart(part.number, split(text, bar)))
    is_alone = len(parts) == 1 and bool(bodies)
    return {
        "runs": [],
        "bodies": bodies,
        "parts": [] if is_alone else [_summarize(part, make_url) for part in parts],
        "more": len(parts) >= MAX_LISTED,
        "cut": remaining <= 0,
    }


def _summarize(part: MimePart, make_url: Callable[[MimePart, bool], str]) -> PartRow:
    is_picture = media_type_of_picture(part.octets) is not None
    show = make_url(part, True) if is_picture else None
    name = make_file_name(part.name) if part.name else ""
    return PartRow(
        part.number,
        part.media_type,
        name,
        format_count(len(part.octets), "byte"),
        show,
        make_url(part, False),
    )
