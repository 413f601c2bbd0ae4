"""Pages of text, with URLs as links and with pagination; HTML as text; media types by signature."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple
from urllib.parse import quote

from protocols.errors import InvalidUrl
from resolver.url.extraction import extract
from resolver.url.parsing import join, parse, resolve_reference, strip_user
from resolver.web.pages.page import PageAddressBar, PageQuery

#: Maximum number of characters of a text on one page. A browser can lay out a page of this size without
#: delay.
PART = 1_048_576


class TextRun(NamedTuple):
    """A run of text; if `href` is not empty, the run is a link."""

    text: str
    href: str | None = None


def part_values(text: str, query: PageQuery, bar: PageAddressBar) -> dict[str, object]:
    """Return the values for the template `part.html`; `query.page` selects the page of the text."""
    cuts = [0]
    while len(text) - cuts[-1] > PART:
        end = text.rfind("\n", cuts[-1], cuts[-1] + PART) + 1
        cuts.append(end if end > cuts[-1] else cuts[-1] + PART)
    cuts.append(len(text))
    parts = len(cuts) - 1
    part = min(query.page, parts)
    return {
        "runs": list(split_runs(text[cuts[part - 1] : cuts[part]], bar)),
        "part": part,
        "parts": parts,
        "previous": bar.make_address(query._replace(page=part - 1)) if part > 1 else None,
        "next": bar.make_address(query._replace(page=part + 1)) if part < parts else None,
    }


def split_runs(text: str, bar: PageAddressBar) -> Iterator[TextRun]:
    """Yield the runs of a text, with each URL in angle brackets as a link."""
    at = 0
    for link in extract(text):
        end = text.index(">", link.position)
        yield TextRun(text[at : link.position + 1])
        yield TextRun(text[link.position + 1 : end], bar.href(link.url))
        at = end
    if at < len(text):
        yield TextRun(text[at:])


# The conversion of HTML to plain text. The resulting page does not contain markup of the HTML document, so
# the pictures, styles and scripts of the document are not requested.
#
# The input is parsed in one pass, in linear time. Python's `html.parser` is not used. If a construct is not
# closed, `html.parser` searches for its end again after every `<`, which takes quadratic time (ReDoS).

#: Elements that start a line, elements that start a paragraph, and elements whose content is omitted.
_LINES = re.compile(
    r"address|article|aside|blockquote|br|caption|dd|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]"
    r"|header|hr|li|main|nav|ol|p|pre|section|table|tbody|td|th|thead|title|tr|ul"
)
_PARAGRAPHS = re.compile(r"blockquote|h[1-6]|p|table|title|ul|ol|pre")
_OMITTED = re.compile(r"script|style|template|noscript|svg|math")
_TAG = re.compile(r"(/?)([A-Za-z][A-Za-z0-9]{0,20})")
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_REFERENCE = re.compile(
    r"&(?:#[0-9]{1,7}(?![0-9])|#[xX][0-9a-fA-F]{1,6}(?![0-9a-fA-F])|[A-Za-z][A-Za-z0-9]{1,31});?"
)
#: Maximum number of characters at the start of a tag that are searched for attributes.
_MAX_TAG = 4_096
#: Maximum number of relative links that become URLs, and maximum length of such a URL. A page of 16 MiB may
#: have a million links, and the URL of each link repeats the directory of the page.
_MAX_LINKS = 10_000
_MAX_LINK = 2_048
#: Printable ASCII characters that are not percent-encoded in a reference (not `"`, `<`, `>`, space).
_UNQUOTED = "".join(map(chr, range(33, 127))).translate({ord(mark): None for mark in '"<>'})
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def text_of_markup(markup: str, base: str | None = None) -> str:
    """Return the text of HTML, with the URLs of links in angle brackets; never raises.

    Args:
        markup: The HTML document.
        base: The result of `find_base`; if None, relative links are omitted.
    """
    reader = _MarkupText(markup, base)
    reader.read()
    text = "\n".join(line.rstrip(" \t") for line in "".join(reader.pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")


def find_base(text: str, base: str | None = None) -> str | None:
    """Return the base URL for relative links of a document: the `base` element or the URL.

    The result contains neither user information nor a fragment. Return None for an invalid URL, and for all
    schemes except http, because URLs of other schemes lack a path or a query.
    """
    try:
        url = parse(text) if base is None else join(parse(base), text)
    except InvalidUrl:
        return None
    return strip_user(url) if url.components().keys() >= {"path", "search"} else None


class _MarkupText:
    def __init__(self, markup: str, base: str | None) -> None:
        self.pieces: list[str] = []
        self._base = base
        self._has_base = False
        self._resolved = 0
        self._markup = markup
        self._pre_depth = 0
        self._links: list[str] = []

    def read(self) -> None:
        at, size = 0, len(self._markup)
        while at < size:
            opening = self._markup.find("<", at)
            if opening < 0:
                break
            self._add_text(self._markup[at:opening])
            at = self._find_end(opening)
            if at < 0:  # A `>` does not follow, so all remaining tags are unclosed.
                at = opening
                break
        self._add_text(self._markup[at:])

    def _find_end(self, opening: int) -> int:
        """Return the end position of the construct at this `<`, or -1 if it is not closed."""
        markup = self._markup
        if markup.startswith("<!--", opening):
            end = markup.find("-->", opening + 4)
            return len(markup) if end < 0 else end + 3
        tag = _TAG.match(markup, opening + 1)
        if tag is None and markup[opening + 1 : opening + 2] not in ("!", "?", "/"):
            self._add_text("<")
            return opening + 1
        end = markup.find(">", opening)
        if end < 0 or tag is None:
            return end + 1 if end >= 0 else -1
        name = tag[2].lower()
        if tag[1]:
            self._close(name)
        elif _OMITTED.fullmatch(name) and markup[end - 1] != "/":
            closing = re.compile(f"</{name}", re.IGNORECASE).search(markup, end)
            return len(markup) if closing is None else closing.start()
        else:
            self._open(name, markup[tag.end() : min(end, tag.end() + _MAX_TAG)])
        return end + 1

    def _open(self, name: str, attributes: str) -> None:
        self._pre_depth += name == "pre"
        self._break(name)
        if name == "li":
            self.pieces.append("• ")
        elif name == "img" and (alt := _get_attribute("alt", attributes)):
            self.pieces.append(f"[{alt}]")
        elif name == "a":
            self._links.append(_get_attribute("href", attributes))
        elif name == "base" and not self._has_base and (href := _get_attribute("href", attributes)):
            self._has_base = True  # the first <base> of a document counts (HTML 4.2.3)
            self._base = self._base and (find_base(href, self._base) or self._base)

    def _close(self, name: str) -> None:
        self._pre_depth = max(0, self._pre_depth - (name == "pre"))
        self._break(name)
        if name == "a" and self._links:
            href = re.sub(r"[\t\r\n]", "", self._links.pop()).strip(" \f")  # as in the URL standard
            if _HAS_SCHEME.match(href):
                self.pieces.append(f" <{_BLANKS.sub('', href)}>")
            elif href and not href.startswith("#") and (url := self._resolve(href)):
                self.pieces.append(f" <{url}>")

    def _resolve(self, href: str) -> str:
        """Return the URL of a relative link as unparsed text, or an empty text above a limit."""
        if self._base is None or self._resolved == _MAX_LINKS:
            return ""
        self._resolved += 1
        text = resolve_reference(self._base, quote(href, _UNQUOTED, errors="replace"))
        return text if len(text) <= _MAX_LINK else ""

    def _break(self, name: str) -> None:
        if _LINES.fullmatch(name):
            self.pieces.append("\n\n" if _PARAGRAPHS.fullmatch(name) else "\n")

    def _add_text(self, text: str) -> None:
        if not self._pre_depth:
            text = _BLANKS.sub(" ", text)
            if not self.pieces or self.pieces[-1].endswith(("\n", " ")):
                text = text.removeprefix(" ")
        if text:
            self.pieces.append(plain(text))


def _get_attribute(name: str, tag: str) -> str:
    """Return the value of an attribute of a tag, or an empty text."""
    match = re.search(rf"""(?:^|\s){name}\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""", tag, re.IGNORECASE)
    return "" if match is None else plain(next(filter(None, match.groups()), ""))


def plain(text: str) -> str:
    return _REFERENCE.sub(lambda match: unescape(match[0]), text)


# Media types by signature, that is, by the first bytes of a document (magic bytes). Only the signature
# decides how a document is shown. The media type that a server, a menu or a mail part declares is ignored.

_SIGNATURES: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"....ftypavi[fs]", re.DOTALL), "image/avif"),
    (re.compile(rb"BM....\0\0\0\0", re.DOTALL), "image/bmp"),
    (re.compile(rb"%PDF-"), "application/pdf"),
    (re.compile(rb"OggS"), "audio/ogg"),
    (re.compile(rb"fLaC"), "audio/flac"),
    (re.compile(rb"ID3|\xff[\xfb\xf3\xf2]"), "audio/mpeg"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"....ftyp", re.DOTALL), "video/mp4"),
    (re.compile(rb"\x1a\x45\xdf\xa3"), "video/webm"),
)


def detect_media_type(octets: bytes) -> str | None:
    """Return the media type of content by its signature, or None if browsers cannot show it."""
    return next((media_type for signature, media_type in _SIGNATURES if signature.match(octets)), None)


def media_type_of_picture(octets: bytes) -> str | None:
    media_type = detect_media_type(octets[:64])
    return media_type if media_type is not None and media_type.startswith("image/") else None
