"""The parser of the standard library for the tags of an HTML page, with the optional end tags of HTML."""

from __future__ import annotations

from collections.abc import Iterable
from html.parser import HTMLParser

from protocols.http.index.markup import WITHOUT_END, TagTarget

#: For each start tag, the open elements that the start tag ends (HTML 13.1.2.4, optional tags).
_ENDED_BY_START = {
    "a": frozenset({"a"}),
    "dd": frozenset({"dd", "dt"}),
    "dt": frozenset({"dd", "dt"}),
    "li": frozenset({"li"}),
    "p": frozenset({"p"}),
    "pre": frozenset({"p"}),
    "table": frozenset({"p"}),
    "tbody": frozenset({"td", "th", "tr", "tbody", "thead", "tfoot"}),
    "td": frozenset({"td", "th"}),
    "th": frozenset({"td", "th"}),
    "tr": frozenset({"td", "th", "tr"}),
    "ul": frozenset({"p"}),
}
#: The rank of an element. A start tag or end tag does not close elements outside of an enclosing element with
#: a higher rank. So a cell cannot end the cell that contains its table.
_RANK = {"td": 1, "th": 1, "tr": 2, "tbody": 3, "thead": 3, "tfoot": 3, "table": 4, "body": 5, "html": 6}
_LISTS = frozenset({"ul", "ol", "dl", "pre"})
#: The maximum number of open elements that are searched for the element that a tag ends. Without a limit, a
#: hostile page would take quadratic time. The recorded pages nest at most 12 elements.
_MAX_COMPARED = 64


class StandardParser(HTMLParser):
    """The parser of the standard library, with the optional end tags of HTML.

    Each tag is parsed completely before the next token, so `html.parser` never buffers an incomplete tag.
    With incomplete tags, `html.parser` takes quadratic time for some pages (CVE-2025-6069). The special modes
    of `html.parser` for scripts, titles and text areas are not used, because they differ between Python
    versions.
    """

    def __init__(self, target: TagTarget) -> None:
        super().__init__(convert_charrefs=True)
        self._target = target
        self._open: list[str] = []

    def feed(self, tokens: Iterable[bytes]) -> None:  # type: ignore[override]
        for token in tokens:
            super().feed(token.decode("latin-1"))
            if token.startswith(b"<") and self.rawdata:
                self._flush()

    def _flush(self) -> None:
        """Parse the buffered text as the end of a page, and reset the parser."""
        super().close()
        self.reset()

    def close(self) -> None:
        self._flush()
        self._end_to(0)
        self._target.close()

    def set_cdata_mode(self, elem: str, **_modes: bool) -> None:
        """Ignore the request to buffer text until an end tag.

        The tokens never contain the content of scripts.
        """

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._end_before(tag)
        self._target.start(tag, {name: value or "" for name, value in reversed(attrs)})
        if tag in WITHOUT_END:
            self._target.end(tag)
        else:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in WITHOUT_END:
            self._target.end(self._open.pop())

    def handle_endtag(self, tag: str) -> None:
        rank = _RANK.get(tag, 0)
        for depth in self._depths():
            if self._open[depth] == tag:
                self._end_to(depth)
                return
            if _RANK.get(self._open[depth], 0) > rank:
                return

    def handle_data(self, data: str) -> None:
        self._target.data(data)

    def _end_before(self, tag: str) -> None:
        """End the open elements that this start tag closes implicitly.

        Elements outside the enclosing list or table stay open.
        """
        ended = _ENDED_BY_START.get(tag)
        if ended is None:
            return
        rank, outermost = _RANK.get(tag, 0), None
        for depth in self._depths():
            element = self._open[depth]
            if element in ended:
                outermost = depth
            elif element in _LISTS or _RANK.get(element, 0) > rank:
                break
        if outermost is not None:
            self._end_to(outermost)

    def _depths(self) -> range:
        return range(len(self._open) - 1, max(-1, len(self._open) - 1 - _MAX_COMPARED), -1)

    def _end_to(self, depth: int) -> None:
        while len(self._open) > depth:
            self._target.end(self._open.pop())
