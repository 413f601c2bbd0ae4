"""The containers of a page: what may hold an index, the rows in it, and what its links lead to.

A machine fed by an HTML parser with the tags and the text of a page (it is the `target` of lxml's). Nothing
of the page is kept but counts, headings, and the rows of containers; nobody decides here whether it is one.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping

from protocols.errors import LimitExceeded
from protocols.http.index.cells import CellSize, CellTime, parse_moment, parse_size, read_before, read_behind
from protocols.http.index.links import IndexDirectory, IndexLink, LinkRole
from protocols.values import NamedTuple

_HEADINGS = frozenset({"title", "h1", "h2", "h3", "h4"})
_CONTAINERS = frozenset({"pre", "table", "ul"})
_CELLS = frozenset({"td", "th"})
_WITHOUT_END = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"})
#: Characters of a heading, a cell or the text of a row that are looked at: a description may be a novel.
_MOST_TEXT = 4_096
#: Headings that are looked at: an index has a title and one more.
_MOST_HEADINGS = 100


class IndexRow(NamedTuple):
    """One entry of a container, as far as the page tells."""

    href: str
    link: IndexLink
    size: CellSize | None
    moment: CellTime | None


class RowContainer:
    """A `pre`, a `table` or a `ul`: what its links lead to, and the rows that are held of it. `dotted`: the
    parent is written `..` or `.`; `slashed`: some link ends in a slash."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.rows: deque[IndexRow] = deque()
        self.sorts = self.parents = self.outside = self.entries = self.undated = 0
        self.dotted = self.slashed = False
        self._begin()

    def _begin(self) -> None:
        self._found: tuple[str, IndexLink] | None = None
        self._text: list[str] = []
        self._length = 0
        self._moment: CellTime | None = None
        self._size: CellSize | None = None
        self._linked = False

    def count(self, href: str, link: IndexLink) -> None:
        match link.role:
            case LinkRole.SORT:
                self.sorts += 1
            case LinkRole.PARENT:
                self.parents += 1
            case LinkRole.OUTSIDE:
                self.outside += 1
            case LinkRole.ENTRY if self._found is None:
                self._take(href, link)
        self._linked = True
        plain = href.strip()
        self.slashed |= plain.endswith("/") and plain not in ("./", "../", "/")
        self.dotted |= plain in (".", "..")

    def _take(self, href: str, link: IndexLink) -> None:
        self._found = (href, link)
        self.entries += 1
        if self.tag == "pre":
            self._size = read_before("".join(self._text))
            self._text.clear()
            self._length = 0

    def add(self, text: str) -> None:
        """Text of a row, outside its links."""
        if self._length < _MOST_TEXT:
            self._text.append(text[:_MOST_TEXT])
            self._length += len(text)

    def begin_cell(self, order: str | None) -> None:
        """`order` is what the column is sorted by, where the page tells (Caddy)."""
        self._text.clear()
        self._length = 0
        self._linked = False
        if order is not None and self._size is None and order.isdigit():
            self._size = parse_size(order)

    def end_cell(self) -> None:
        if self._linked:
            return
        text = re.sub(r"\s+", " ", "".join(self._text).replace("\xa0", " ")).strip()
        self._moment = self._moment or parse_moment(text)
        self._size = self._size or parse_size(text)

    def dated(self, stamp: str) -> None:
        """`<time datetime>`."""
        self._moment = self._moment or parse_moment(stamp.strip())

    def end_row(self) -> None:
        if self._found is not None:
            moment, size = self._moment, self._size
            if self.tag == "pre":
                moment, behind = read_behind("".join(self._text))
                size = size or behind
            self.undated += moment is None
            self.rows.append(IndexRow(*self._found, size, moment))
        self._begin()


class IndexPage:
    """What a parser feeds. Once an index was `chosen`, rows of that container alone are held.

    `names` and depth are bounded by `most`: whatever an HTML parser keeps of them is a stranger's choice.
    """

    def __init__(self, directory: IndexDirectory, most: int) -> None:
        self.directory = directory
        self.headings: list[str] = []
        self.containers: list[RowContainer] = []
        self.foreign: bytes | None = None
        self.chosen: RowContainer | None = None
        self._open: list[RowContainer] = []
        self._heading: list[str] | None = None
        self._anchor = False
        self._based = False
        self._most = most
        self._depth = 0
        self._names: set[str] = set()

    @property
    def held(self) -> int:
        return sum(len(container.rows) for container in self.containers)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._bound(tag, attributes)
        if tag == "a":
            self._anchor = True
            if (href := attributes.get("href")) is not None:
                self._link(href)
        elif tag in _HEADINGS and len(self.headings) < _MOST_HEADINGS:
            self._heading = []
        elif tag in _CONTAINERS:
            self._begin(tag)
        elif tag == "base" and not self._based and (href := attributes.get("href")) is not None:
            self._based = True
            self.directory.rebase(href)
        elif self._open:
            self._start_within(self._open[-1], tag, attributes)

    def _bound(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += tag not in _WITHOUT_END
        self._names.update((tag, *attributes))
        if self._depth > self._most or len(self._names) > self._most:
            raise LimitExceeded(
                "lines", f"the page has more than {self._most} tags in one another, or kinds of them"
            )

    def _begin(self, tag: str) -> None:
        container = RowContainer(tag)
        if self.chosen is None:
            if len(self.containers) == self._most:
                raise LimitExceeded("lines", f"the page has more than {self._most} lists and tables")
            self.containers.append(container)
        self._open.append(container)

    @staticmethod
    def _start_within(container: RowContainer, tag: str, attributes: Mapping[str, str]) -> None:
        if (tag, container.tag) in (("tr", "table"), ("li", "ul"), ("br", "pre")):
            container.end_row()
        elif tag in _CELLS and container.tag == "table":
            container.begin_cell(attributes.get("data-order"))
        elif tag == "time" and (stamp := attributes.get("datetime")) is not None:
            container.dated(stamp)

    def end(self, tag: str) -> None:
        self._depth -= tag not in _WITHOUT_END
        if tag == "a":
            self._anchor = False
        elif tag in _HEADINGS:
            if self._heading is not None:
                self.headings.append("".join(self._heading))
            self._heading = None
        elif self._open and tag == self._open[-1].tag:
            self._close(self._open.pop())
        elif self._open and tag in _CELLS and self._open[-1].tag == "table":
            self._open[-1].end_cell()

    def _close(self, container: RowContainer) -> None:
        container.end_row()
        if self.chosen not in (None, container):
            container.rows.clear()

    def data(self, text: str) -> None:
        if self._heading is not None and sum(map(len, self._heading)) < _MOST_TEXT:
            self._heading.append(text[:_MOST_TEXT])
        if not self._open or self._anchor:
            return
        container = self._open[-1]
        if container.tag != "pre":
            container.add(text)
            return
        first, *others = text.split("\n")
        container.add(first)
        for line in others:
            container.end_row()
            container.add(line)

    def comment(self, text: str) -> None:
        """Nobody reads it."""

    def close(self) -> None:
        """The page is over, whatever is still open."""
        while self._open:
            self._close(self._open.pop())

    def _link(self, href: str) -> None:
        if not self._open:
            return
        link = self.directory.read(href)
        if link.role is LinkRole.FOREIGN:
            self.foreign = self.foreign or link.name
        self._open[-1].count(href, link)
