"""HTML as text: its words in the order in which they stand, without its looks. Nothing of it becomes markup
of ours, and no picture, style or script of it is asked for."""

from __future__ import annotations

import re
from html.parser import HTMLParser

#: What begins a line of its own, and what nobody reads.
_LINES = re.compile(
    r"address|article|aside|blockquote|br|caption|dd|div|dl|dt|fieldset|figcaption|figure|footer|form|h[1-6]"
    r"|header|hr|li|main|nav|ol|p|pre|section|table|tbody|td|th|thead|title|tr|ul"
)
_PARAGRAPHS = re.compile(r"blockquote|h[1-6]|p|table|title|ul|ol|pre")
_UNREAD = re.compile(r"script|style|template|noscript|svg|math")
_BLANKS = re.compile(r"[ \t\r\n\f]+")


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._unread = 0
        self._kept = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._unread += _UNREAD.fullmatch(tag) is not None
        self._kept += tag == "pre"
        self._break(tag)
        if tag == "li":
            self.found.append("• ")
        said = dict(attributes)
        if tag == "img" and said.get("alt"):
            self.found.append(f"[{said['alt']}]")
        if tag == "a":
            self._links.append(_BLANKS.sub("", said.get("href") or ""))

    def handle_endtag(self, tag: str) -> None:
        self._unread = max(0, self._unread - (_UNREAD.fullmatch(tag) is not None))
        self._kept = max(0, self._kept - (tag == "pre"))
        self._break(tag)
        if tag == "a" and self._links and ":" in (href := self._links.pop()) and not self._unread:
            self.found.append(f" <{href}>")

    def _break(self, tag: str) -> None:
        if _LINES.fullmatch(tag):
            self.found.append("\n\n" if _PARAGRAPHS.fullmatch(tag) else "\n")

    def handle_data(self, data: str) -> None:
        if self._unread:
            return
        if not self._kept:
            data = _BLANKS.sub(" ", data)
            if not self.found or self.found[-1].endswith(("\n", " ")):
                data = data.removeprefix(" ")
        if data:
            self.found.append(data)


def text_of_markup(markup: str) -> str:
    """The words, with the URLs of links in angle brackets. Never raises."""
    words = _Words()
    try:
        words.feed(markup)
        words.close()
    except AssertionError:  # Python's parser, of declarations that nobody writes
        return markup
    text = re.sub(r"[ \t]+\n", "\n", "".join(words.found))
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n")
