"""An HTML index page as entries: the page is parsed as it arrives.

The reader stores the first rows until it can decide whether the page is an index, at the latest at the end of
the page. Later rows are emitted as they arrive, so a page can have any length. A page that is not an index
raises `Declined`.
"""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from protocols.errors import LimitExceeded
from protocols.http.index.entries import (
    CellSize,
    CellTime,
    IndexDirectory,
    IndexLink,
    LinkRole,
    decline,
    decode,
    encode_text,
    note_foreign,
    parse_moment,
    parse_size,
    read_after,
    read_before,
)
from protocols.http.index.markup import WITHOUT_END, LxmlParser, MarkupParser, TagTarget
from protocols.http.request import format_host
from protocols.http.url import HttpUrl
from protocols.location import BuiltUrl, Entry, Finding, JsonValue, Kind
from protocols.options import Limits

# Find the element of a page that contains the index, and read the rows and link targets of this element.
#
# The parser calls `IndexPage` with the tags and the text of a page. `IndexPage` stores
# counts, headings, and the rows of containers. `find_index` decides later whether the page is an index.

_HEADINGS = frozenset({"title", "h1", "h2", "h3", "h4"})
_CONTAINERS = frozenset({"pre", "table", "ul"})
_CELLS = frozenset({"td", "th"})
#: The maximum number of characters of a heading, a cell or the text of a row. A description may be long.
_MAX_TEXT = 4_096
#: The maximum number of headings that are parsed. An index page has a title and one heading.
_MAX_HEADINGS = 100


class IndexRow(NamedTuple):
    """An entry of a container, with the metadata on the page."""

    href: str
    link: IndexLink
    size: CellSize | None
    moment: CellTime | None


class RowContainer:
    """A `pre`, `table` or `ul` element of the page, with its link targets and its stored rows.

    `is_dotted` is set if the text of the parent link is `..` or `.`, `is_slashed` if any link ends in a
    slash.
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.rows: deque[IndexRow] = deque()
        self.sorts = self.parents = self.outside = self.entries = self.undated = 0
        self.is_dotted = self.is_slashed = False
        self._begin()

    def _begin(self) -> None:
        self._entry: tuple[str, IndexLink] | None = None
        self._text = ""
        self._moment: CellTime | None = None
        self._size: CellSize | None = None
        self._has_link = False

    def count(self, href: str, link: IndexLink) -> None:
        if link.segment:
            if self._entry is None:
                self._begin_entry(href, link)
        elif link.role is LinkRole.SORT:
            self.sorts += 1
        elif link.role is LinkRole.PARENT:
            self.parents += 1
        elif link.role is LinkRole.OUTSIDE:
            self.outside += 1
        self._has_link = True
        plain = href.strip()
        self.is_slashed |= plain.endswith("/") and plain not in ("./", "../", "/")
        self.is_dotted |= plain in (".", "..")

    def _begin_entry(self, href: str, link: IndexLink) -> None:
        self._entry = (href, link)
        self.entries += 1
        if self.tag == "pre":
            self._size, self._text = read_before(self._text), ""

    def add(self, text: str) -> None:
        """Add text of a row that is not part of a link."""
        self._text += text[: _MAX_TEXT - len(self._text)]

    def begin_cell(self, order: str | None) -> None:
        """Start a cell. `order` is the cell's sort key, which only Caddy writes."""
        self._text = ""
        self._has_link = False
        if order is not None and self._size is None and order.isdigit():
            self._size = parse_size(order)

    def end_cell(self) -> None:
        if self._has_link:
            return
        text = re.sub(r"\s+", " ", self._text.replace("\xa0", " ")).strip()
        self._moment = self._moment or parse_moment(text)
        self._size = self._size or parse_size(text)

    def set_date(self, stamp: str) -> None:
        """Set the date from `<time datetime>`."""
        self._moment = self._moment or parse_moment(stamp.strip())

    def end_row(self) -> None:
        if self._entry is not None:
            moment, size = self._moment, self._size
            if self.tag == "pre":
                moment, size_after = read_after(self._text)
                size = size or size_after
            self.undated += moment is None
            self.rows.append(IndexRow(*self._entry, size, moment))
        self._begin()


class IndexPage:
    """The target of the HTML parser. It collects the elements of the page that may contain the index.

    After a container was `chosen` as the index, the rows of other containers are ignored. `limit` applies to
    the nesting depth, and to the number of tag names and attribute names. The parser stores every name, so an
    untrusted page with endless names would exhaust the memory.
    """

    def __init__(self, directory: IndexDirectory, limit: int) -> None:
        self.directory = directory
        self.headings: list[str] = []
        self.containers: list[RowContainer] = []
        self.foreign: bytes | None = None
        self.chosen: RowContainer | None = None
        self._open: list[RowContainer] = []
        self._heading: str | None = None
        self._anchor = False
        self._based = False
        self._max = limit
        self._depth = 0
        self._names: set[str] = set()

    @property
    def row_count(self) -> int:
        return sum(len(container.rows) for container in self.containers)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._bound(tag, attributes)
        if tag == "a":
            self._anchor = True
            if (href := attributes.get("href")) is not None:
                self._link(href)
        elif tag in _HEADINGS and len(self.headings) < _MAX_HEADINGS:
            self._heading = ""
        elif tag in _CONTAINERS:
            self._begin(tag)
        elif tag == "base" and not self._based and (href := attributes.get("href")) is not None:
            self._based = True
            self.directory.rebase(href)
        elif self._open:
            self._start_within(self._open[-1], tag, attributes)

    def _bound(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._depth += tag not in WITHOUT_END
        self._names.update((tag, *attributes))
        if self._depth > self._max or len(self._names) > self._max:
            raise LimitExceeded(
                "lines", f"the page has more than {self._max} nested tags, or names of tags and attributes"
            )

    def _begin(self, tag: str) -> None:
        container = RowContainer(tag)
        if self.chosen is None:
            if len(self.containers) == self._max:
                raise LimitExceeded("lines", f"the page has more than {self._max} lists and tables")
            self.containers.append(container)
        self._open.append(container)

    @staticmethod
    def _start_within(container: RowContainer, tag: str, attributes: Mapping[str, str]) -> None:
        if (tag, container.tag) in (("tr", "table"), ("li", "ul"), ("br", "pre")):
            container.end_row()
        elif tag in _CELLS and container.tag == "table":
            container.begin_cell(attributes.get("data-order"))
        elif tag == "time" and (stamp := attributes.get("datetime")) is not None:
            container.set_date(stamp)

    def end(self, tag: str) -> None:
        self._depth -= tag not in WITHOUT_END
        if tag == "a":
            self._anchor = False
        elif tag in _HEADINGS:
            if self._heading is not None:
                self.headings.append(self._heading)
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
        if self._heading is not None and len(self._heading) < _MAX_TEXT:
            self._heading += text[:_MAX_TEXT]
        if not self._open or self._anchor:
            return
        container = self._open[-1]
        first, *others = text.split("\n") if container.tag == "pre" else (text,)
        container.add(first)
        for line in others:
            container.end_row()
            container.add(line)

    def close(self) -> None:
        """End the page, and close all open containers."""
        while self._open:
            self._close(self._open.pop())

    def _link(self, href: str) -> None:
        if not self._open:
            return
        link = self.directory.read(href)
        if link.name and not link.segment:
            self.foreign = self.foreign or link.name
        self._open[-1].count(href, link)


def make_parser(target: TagTarget) -> MarkupParser:
    """Return the fastest installed parser."""
    with suppress(ModuleNotFoundError):
        return LxmlParser(target)
    from protocols.http.index.standard import StandardParser  # lazy import: it loads the tables of HTML

    return StandardParser(target)


# Split a page into text and complete tags, and reject tags that are too long. The filter bounds the memory of
# the parser.
#
# Comments, declarations (`<!DOCTYPE …>`, `<?xml …?>`) and the content of scripts are removed. An unterminated
# comment is treated as text. If a server does not escape names, a file named `<!--` would hide all later
# names. Therefore, a comment that is still open at the end of the page ends at its first `>`.

#: The maximum number of stored bytes of a comment that may be unterminated.
_MAX_COMMENT = 1_048_576
#: The rest of a completely received tag. A string has only one match, so the search takes linear time.
_REST = rb"""(?:[^>=]*(?:=[ \t\r\n\f]*(?:"[^"]*"|'[^']*'|(?![ \t\r\n\f"']))[^>=]*)*>)?"""
#: Patterns that find the end of text, of a tag, of a quoted value in a tag, of a script, and of a comment.
_TEXT = re.compile(rb"<!--|<(?=[A-Za-z/?]|!(?=[^-]|-[^-]))" + _REST)
_TEXT_WITHOUT_COMMENTS = re.compile(rb"<(?=[A-Za-z/?!])" + _REST)
_TAG = re.compile(rb">|=[ \t\r\n\f]*[\"']")
_VALUES = {b'"': re.compile(b'"'), b"'": re.compile(b"'")}
_SCRIPT = re.compile(rb"</(?:script|style)", re.IGNORECASE)
_COMMENT = re.compile(rb"-->")
#: An incomplete match of a pattern above, at the end of the received bytes.
_HALF = re.compile(rb"(?:<(?:!-?)?|=[ \t\r\n\f]*|</[A-Za-z]{0,5}|--?)\Z")
_MAX_HALF = 16
_IS_SCRIPT = re.compile(rb"<(?:script|style)[\s/>]", re.IGNORECASE)


class MarkupFilter:
    """A tokenizer for HTML: it splits the bytes of a page into complete tags and segments of text.

    Raises:
        LimitExceeded: a tag is longer than `max_tag` bytes.
    """

    def __init__(self, max_tag: int) -> None:
        self._max_tag = max_tag
        self._text = self._until = _TEXT
        self._rest = b""
        self._tag = bytearray()
        self._comment = bytearray()
        self._lost = False

    def feed(self, octets: bytes) -> list[bytes]:
        octets, self._rest = self._rest + octets, b""
        tokens: list[bytes] = []
        at = 0
        while (match := (until := self._until).search(octets, at)) is not None:
            token, start, at = match[0], at, match.end()
            if until is self._text or until is _SCRIPT:
                self._append(octets[start : match.start()], tokens)
                if token.endswith(b">"):
                    self._end_tag(token, tokens)
                elif token == b"<!--":
                    self._until, self._lost = _COMMENT, False
                    self._comment.clear()
                    at -= 2  # `<!-->` is a complete comment
                else:
                    self._until = _TAG
                    self._tag += token
            else:
                self._append(octets[start:at], tokens)
                self._change_state(token, tokens)
        half = _HALF.search(octets, max(at, len(octets) - _MAX_HALF))
        end = len(octets) if half is None else half.start()
        self._append(octets[at:end], tokens)
        self._rest = octets[end:]
        return tokens

    def _change_state(self, token: bytes, tokens: list[bytes]) -> None:
        """Update the state of the filter at the end of a comment, of a quoted value or of a tag."""
        if self._until is _COMMENT:
            self._until = self._text
        elif self._until is not _TAG:
            self._until = _TAG
        elif token != b">":
            self._until = _VALUES[token[-1:]]
        else:
            self._end_tag(bytes(self._tag), tokens)
            self._tag.clear()

    def _end_tag(self, tag: bytes, tokens: list[bytes]) -> None:
        if len(tag) > self._max_tag:
            raise self._make_limit_error()
        if not tag.startswith((b"<!", b"<?")):
            tokens.append(tag)
        self._until = _SCRIPT if _IS_SCRIPT.match(tag) else self._text

    def _make_limit_error(self) -> LimitExceeded:
        return LimitExceeded("line", f"a tag of the page is longer than {self._max_tag} bytes")

    def _append(self, octets: bytes, tokens: list[bytes]) -> None:
        if self._until is self._text:
            tokens += [octets] if octets else []
        elif self._until is _COMMENT:
            self._comment += octets
            if len(self._comment) > _MAX_COMMENT:
                self._comment.clear()
                self._lost = True
        elif self._until is not _SCRIPT:
            self._tag += octets
            if len(self._tag) > self._max_tag:
                raise self._make_limit_error()

    def finish(self, findings: list[Finding]) -> list[bytes]:
        """Return the tokens at the end of the page. An unterminated comment is returned as text."""
        if self._until is _COMMENT and self._lost:
            detail = f"a comment of more than {_MAX_COMMENT} bytes is not closed and may hide names"
            findings.append(Finding("http:index-hidden", "warn", detail))
            return []
        tokens: list[bytes] = []
        if self._until is _COMMENT:
            rest, self._rest = bytes(self._comment) + self._rest, b""
            self._text = self._until = _TEXT_WITHOUT_COMMENTS
            tokens = self.feed(rest.partition(b">")[2])
        if self._until in (self._text, _SCRIPT):
            return [*tokens, self._rest] if self._rest and self._until is self._text else tokens
        findings.append(Finding("http:index-hidden", "warn", "the page ends inside a tag and may hide names"))
        return tokens


# The decision whether the page is the index of its directory. After a wrong decision, the links of an
# ordinary article would be listed as files.
#
# The page must meet one of three criteria:
# P1: a heading is an index title and contains the path of this directory.
# P2: three links of the page change the sort order of the page, such as by name, size and date.
# P3: a heading contains the path of another directory, because a proxy rewrites paths. In addition, the page
# has a link to the parent directory, and every entry has a date.
# For each criterion, at most a quarter of the links may lead elsewhere.

#: The index titles of Apache, nginx, lighttpd and mini_httpd; Python; Tomcat; Jetty; webfs.
_FORMS = re.compile(
    r"(?:Index of |Directory listing for |Directory: |listing:\s+)(?P<path>.*)"
    r"|Directory Listing For \[(?P<tomcat>.*?)\](?: - Up To .*)?",
    re.DOTALL,
)


class IndexVerdict(NamedTuple):
    """The container of the index, or the reason why the page is not an index."""

    container: RowContainer | None
    reason: str = ""


def find_index(page: IndexPage, url: HttpUrl) -> IndexVerdict:
    if not page.containers:
        return IndexVerdict(None, "the page has no list, table or preformatted text")
    container = max(page.containers, key=_likeness)
    paths = [path for path in map(_named_path, _headings(page.headings, url)) if path is not None]
    directory = _segments(decode((url.path or "").encode("utf-8", "surrogateescape")))
    is_titled = any(_is_same(_segments(encode_text(path)), directory) for path in paths)
    is_proxied = bool(paths) and bool(container.parents) and bool(container.entries) and not container.undated
    if not (is_titled or container.sorts >= 3 or is_proxied):
        return IndexVerdict(
            None, "no heading names the page an index of this directory, and no links sort it"
        )
    if 4 * container.outside > container.entries + container.parents + container.outside:
        return IndexVerdict(None, "more than a quarter of the links lead out of this directory")
    if not (container.entries or container.parents or is_titled):
        return IndexVerdict(None, "no link leads to an entry of this directory or to its parent")
    return IndexVerdict(container)


def _likeness(container: RowContainer) -> tuple[bool, bool, int]:
    return container.sorts >= 2, container.parents > 0, container.entries


def _headings(headings: Iterable[str], url: HttpUrl) -> Iterable[str]:
    """Yield the headings of the page, without the host name at the start of an IIS heading."""
    host = re.escape(format_host(url).decode("ascii").partition(":")[0])
    for heading in headings:
        yield re.sub(rf"\A{host}(?::[0-9]+)? - /", "Index of /", heading.strip(), count=1)


def _named_path(heading: str) -> str | None:
    match = _FORMS.fullmatch(heading)
    return None if match is None else match["path"] or match["tomcat"] or ""


def _segments(path: bytes) -> list[bytes]:
    """Split a path into segments, without the `.` that mini_httpd and micro_httpd write for the top."""
    return [segment for segment in path.split(b"/") if segment.strip() not in (b"", b".")]


def _is_same(one: list[bytes], other: list[bytes]) -> bool:
    """Return whether one path is a suffix of the other path, because proxies may remove a prefix."""
    shorter, longer = sorted((one, other), key=len)
    return one == other or (bool(shorter) and longer[-len(shorter) :] == shorter)


#: The number of rows after which the page is accepted as an index or rejected. An ordinary article does not
#: have this many links in one list.
_MIN_ROWS = 1_000
#: The maximum number of bytes of a page before the decision (index or not). The largest tested page with
#: 10,000 names has 7.5 MB (Caddy).
MAX_UNDECIDED = 16_777_216
#: The number of recent URLs that are stored to find duplicates. If an icon and a name link to the same file,
#: the index must have only one entry.
_MAX_RECENT = 1_024


class MarkupReader:
    """A reader for an HTML index.

    Raises:
        Declined: the page is not an index.
        LimitExceeded: a tag is longer than `limits.line`, tags are nested deeper or have more names than
            `limits.lines`, or the page is too long for the decision.
    """

    def __init__(self, url: HttpUrl, limits: Limits, findings: list[Finding]) -> None:
        self._url = url
        self._findings = findings
        self._page = IndexPage(IndexDirectory(url), limits.lines)
        self._parser = make_parser(self._page)
        self._octets = 0
        self._filter = MarkupFilter(limits.line)
        self._index: RowContainer | None = None
        self._recent: OrderedDict[str, None] = OrderedDict()

    def feed(self, octets: bytes) -> Iterable[Entry]:
        self._octets += len(octets)
        self._parser.feed(self._filter.feed(octets))
        if self._index is None and self._page.row_count >= _MIN_ROWS:
            self._choose_index()
        elif self._index is None and self._octets > MAX_UNDECIDED:
            raise LimitExceeded(
                "body", f"the first {MAX_UNDECIDED} bytes of the page do not show whether it is an index"
            )
        return self._entries()

    def finish(self) -> Iterable[Entry]:
        self._parser.feed(self._filter.finish(self._findings))
        self._parser.close()
        if self._index is None:
            self._choose_index()
        return self._entries()

    def _choose_index(self) -> None:
        if self._page.directory.has_other_base:
            detail = "the page's links are relative to another directory (<base href>)"
            self._findings.append(Finding("http:index-base", "warn", detail))
        verdict = find_index(self._page, self._url)
        if verdict.container is None:
            decline(self._findings, verdict.reason)
        self._index = self._page.chosen = verdict.container
        self._page.containers = [verdict.container]

    def _entries(self) -> Iterator[Entry]:
        if self._index is None:
            return
        if self._page.foreign is not None:
            note_foreign(self._findings, self._page.foreign)
            self._page.foreign = None
        rows = self._index.rows
        while rows:
            if (entry := self._entry(rows.popleft(), self._index)) is not None:
                yield entry

    def _entry(self, row: IndexRow, index: RowContainer) -> Entry | None:
        """Return the entry of a row, or None if an earlier row had the same URL."""
        url = self._page.directory.text + row.link.segment + ("/" if row.link.directory else "")
        if url in self._recent:
            return None
        self._recent[url] = None
        if len(self._recent) > _MAX_RECENT:
            self._recent.popitem(last=False)
        kind = _kind(row, index)
        certain = None if row.moment is None else row.moment.certain
        return Entry(
            name=row.link.name.decode("utf-8", "surrogateescape"),
            url=BuiltUrl(url),
            kind=kind,
            size=row.size.exact if kind is Kind.DOCUMENT and row.size is not None else None,
            modified=certain,
            raw=row.href.encode("utf-8", "surrogateescape"),
            extra=_extra(row, kind),
        )


def _kind(row: IndexRow, index: RowContainer) -> Kind:
    """Return the kind of an entry.

    Some servers (mini_httpd) omit the trailing slash of directories, even for the parent directory. On the
    pages of these servers, a name without a slash may be a directory.
    """
    if row.link.directory:
        return Kind.DIRECTORY
    return Kind.UNKNOWN if index.is_dotted and not index.is_slashed else Kind.DOCUMENT


def _extra(row: IndexRow, kind: Kind) -> dict[str, JsonValue]:
    extra: dict[str, JsonValue] = {"source": "html"}
    if row.size is not None and row.size.text != "-" and kind is Kind.DOCUMENT and row.size.exact is None:
        extra["size_text"] = row.size.text
    if row.moment is not None and row.moment.certain is None:
        extra["modified_text"] = row.moment.text
        extra["modified_local"] = row.moment.local
    return extra
