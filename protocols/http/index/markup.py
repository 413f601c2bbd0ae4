"""The interface of the parsers for the tags of an HTML page, and the parser of lxml.

lxml is several times faster. Both parsers return the same entries for every recorded index page. Both parsers
receive the page as tokens of `MarkupFilter`, without comments, declarations and the content of scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from lxml import etree

#: The elements without an end tag (void elements of HTML).
WITHOUT_END = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"})


class TagTarget(Protocol):
    """The receiver of the tags and the text of a page."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None: ...
    def end(self, tag: str) -> None: ...
    def data(self, text: str) -> None: ...
    def close(self) -> None: ...


class MarkupParser(Protocol):
    """A parser that is fed the tokens of a page: complete tags, and text in segments of any length."""

    def feed(self, tokens: Iterable[bytes]) -> None: ...
    def close(self) -> None: ...


class LxmlParser:
    def __init__(self, target: TagTarget) -> None:
        from lxml import etree  # lazy import: lxml is an extra (optional dependency)

        self._target = target
        self._empty_page = etree.XMLSyntaxError
        # The bytes were converted to UTF-8 before parsing. Without this argument, a charset declaration in
        # the page would change the encoding.
        self._parser = etree.HTMLParser(target=cast("etree.ParserTarget", target), encoding="utf-8")

    def feed(self, tokens: Iterable[bytes]) -> None:
        self._parser.feed(b"".join(tokens).decode("latin-1").encode("utf-8"))

    def close(self) -> None:
        try:
            self._parser.close()
        except self._empty_page:  # lxml raises an error for an empty page
            self._target.close()
