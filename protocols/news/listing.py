"""Overviews of articles (RFC 3977 8.3) and lists of groups (7.6), with their URLs and metadata.

An overview has one line per article, with fields separated by TABs. The first eight fields are always Number,
Subject, From, Date, Message-ID, References, bytes and lines, even if the server announces another format.
Each further field of an overview line is a complete header field, including the field name. Fields at the end
may be missing, and numbers may be empty or wrong. A line without an article number, or with fewer than five
fields, is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias, TypeVar

from protocols.contract import Reply
from protocols.errors import InvalidUrl, LimitExceeded
from protocols.location import BuiltUrl, Entry, Finding, JsonValue, Kind, Url
from protocols.news.article import ArticleHead, decode_field, parse_date, strip_brackets
from protocols.news.response import BlockLines, DataBlock, GroupSelection, is_number
from protocols.news.url import NewsUrl, NntpUrl, build_news, build_nntp, is_article
from protocols.options import Limits
from protocols.text import decode_text
from protocols.wire import Buffer, Reader, encode_line

# The URLs of the entries in a listing. The names of groups and articles are untrusted input from a server, so
# the URL builder percent-encodes each name (S20, links from servers). An entry does not get a URL if the
# builder rejects its name.
#
# The form of an entry's URL depends on the parent URL. If the parent has a server, the URL is `nntp://S/G/n`.
# If the parent is a `news:` URL without a server, the URL is `news:ID`.

U = TypeVar("U", bound=Url)

#: A function that returns the URL of an article, or None. The arguments are group, number and message-id.
ArticleUrl: TypeAlias = "Callable[[bytes, int, bytes | None], str | None]"
#: A function that returns the URL of a group, or None. The argument is the name of the group.
GroupUrl: TypeAlias = "Callable[[bytes], str | None]"


class EntryUrls:
    """The URLs of the entries in the listing at `parent`."""

    def __init__(self, parent: NewsUrl | NntpUrl) -> None:
        host, port, default_port = parent.host, parent.port, parent.default_port
        self._parent: NewsUrl | NntpUrl
        if isinstance(parent, NewsUrl) and (host is None or parent.scheme != "news"):
            self._parent = NewsUrl(scheme=parent.scheme, host=host, port=port, default_port=default_port)
        else:
            scheme = "nntps" if parent.scheme == "nntps" else "nntp"
            self._parent = NntpUrl(scheme=scheme, host=host or "", port=port, default_port=default_port)
        # All articles of a listing are in the same group.
        self._group_url = lru_cache(maxsize=1)(partial(_build_group_url, self._parent))

    def article(self, group: bytes, number: int, message_id: bytes | None) -> BuiltUrl | None:
        """Return the URL of an article, or None."""
        if isinstance(self._parent, NewsUrl):
            if message_id is None:
                return None
            return _build(build_news, replace(self._parent, message_id=message_id))
        url = self._group_url(group)
        return BuiltUrl(f"{url}/{number}") if url is not None and is_article(number) else None

    def group(self, name: bytes) -> BuiltUrl | None:
        """Return the URL of a group, or None."""
        return self._group_url(name)


def _build_group_url(parent: NewsUrl | NntpUrl, name: bytes) -> BuiltUrl | None:
    if isinstance(parent, NntpUrl):
        return _build(build_nntp, replace(parent, group=name))
    return None if b"*" in name else _build(build_news, replace(parent, group=name))


def _build(build: Callable[[U], str], url: U) -> BuiltUrl | None:
    try:
        return BuiltUrl(build(url))
    except InvalidUrl:
        return None


_MIN_FIELDS = 5
_FIXED_FIELDS = 8
_BLANKS = bytes.maketrans(b"\0\t\n\r", b"    ")


class OverviewReader:
    """An `EntryReader` for the overview of `group`.

    At the end of the listing, the reader adds a finding for skipped lines and for unordered articles.
    """

    def __init__(
        self, group: bytes, article_url: ArticleUrl, line_limit: int, findings: list[Finding]
    ) -> None:
        self._group = group
        self._article_url = article_url
        self._lines = BlockLines(line_limit)
        self._findings = findings
        self._skipped = 0
        self._last_number = -1
        self._in_order = True

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return self._read(self._lines.feed(octets))

    def finish(self) -> Iterable[Entry]:
        yield from self._read(self._lines.finish())
        if self._skipped:
            detail = f"{self._skipped} lines skipped: not the overview of an article"
            self._findings.append(Finding("nntp:overview-line", "allow", detail))
        if not self._in_order:
            self._findings.append(
                Finding("nntp:overview-order", "allow", "articles are not in numerical order")
            )

    def _read(self, lines: list[bytes]) -> Iterator[Entry]:
        for line in lines:
            fields = line.split(b"\t")
            if len(fields) < _MIN_FIELDS or not is_number(fields[0]):
                self._skipped += 1
                continue
            number = int(fields[0])
            self._in_order = self._in_order and number > self._last_number
            self._last_number = number
            yield self._entry(number, line, fields)

    def _entry(self, number: int, line: bytes, fields: list[bytes]) -> Entry:
        fields += [b""] * (_FIXED_FIELDS - len(fields))
        message_id = strip_brackets(fields[4])
        size = _parse_number(fields[6])
        extra: dict[str, JsonValue] = {
            "number": number,
            "from": decode_field(fields[2]),
            "date": decode_field(fields[3]),
            "message_id": None if message_id is None else decode_field(message_id),
            "references": [decode_field(word) for word in fields[5].split()],
            "bytes": size,
            "lines": _parse_number(fields[7]),
            "fields": list(map(_parse_further_fields, filter(None, fields[_FIXED_FIELDS:]))),
        }
        return Entry(
            name=str(number),
            url=self._article_url(self._group, number, message_id),
            kind=Kind.ARTICLE,
            size=size,
            modified=parse_date(fields[3].decode("latin-1")),
            title=decode_field(fields[1]),
            raw=line,
            extra=extra,
        )


def _parse_further_fields(field: bytes) -> list[JsonValue]:
    name, _, value = field.partition(b":")
    return [decode_field(name), decode_field(value)]


def _parse_number(field: bytes) -> int | None:
    field = field.strip()
    return int(field) if is_number(field) else None


def encode_overview(number: int, head: ArticleHead) -> bytes:
    """Return an overview line for the head of an article, with an empty field for the size."""
    values = [head.get_first(name) for name in ("subject", "from", "date", "message-id", "references")]
    fields = [b"%d" % number, *(value or b"" for value in values), b"", head.get_first("lines") or b""]
    xref = head.get_first("xref")
    if xref is not None:
        fields.append(b"Xref: " + xref)
    return encode_line(*(field.translate(_BLANKS) for field in fields), sep=b"\t").octets


# Lists of groups: LIST ACTIVE, and LIST NEWSGROUPS for their descriptions (RFC 3977 7.6.3, 7.6.6).
#
# The input consists of both lists, separated by a line of one period. The second list may be missing. Only
# groups in LIST ACTIVE are listed. The order of the water marks (lowest and highest article number) differs.
# LIST ACTIVE has the high water mark first. GROUP has the low water mark first. The client filters the names
# by the pattern again, because old servers ignore the pattern.

#: The maximum size in bytes of the buffered LIST ACTIVE lines and descriptions, with `_OVERHEAD` for each. A
#: list of 100,000 groups needs about half of this size. A list that is only counted has the same limit.
BUFFER_LIMIT = 67_108_864

#: The bytes of memory that a buffered line or description needs besides its text. A short line of a hostile
#: server has 6 bytes, so a limit of the text alone would permit 20 times more memory.
_OVERHEAD = 128

#: The posting status of a group (RFC 3977 7.6.3, RFC 6048 3.1); other letters are ignored.
_STATUS = frozenset({b"y", b"n", b"m", b"x", b"j"})


class ActiveLine(NamedTuple):
    """A line of LIST ACTIVE; `status` is the posting status, or `=` and the destination group of posts."""

    name: bytes
    high: int
    low: int
    status: bytes | None
    raw: bytes

    @property
    def is_empty(self) -> bool:
        return self.high < self.low or self.high == self.low == 0


def parse_active(line: bytes) -> ActiveLine | None:
    """Parse a line of LIST ACTIVE; return None if the group name or a water mark is missing."""
    name, *words = line.split() or [b""]
    if len(words) < 2 or not is_number(words[0]) or not is_number(words[1]):
        return None
    status = words[2] if len(words) > 2 else b""
    is_known = status in _STATUS or (status.startswith(b"=") and len(status) > 1)
    return ActiveLine(name, int(words[0]), int(words[1]), status if is_known else None, line)


def parse_description(line: bytes) -> tuple[bytes, bytes]:
    """Parse a line of LIST NEWSGROUPS into the group name and the description, which may be empty."""
    name, *rest = line.split(maxsplit=1) or [b""]
    return name, rest[0].strip() if rest else b""


class GroupReader:
    """An `EntryReader` for the groups with a name that matches `pattern`.

    The groups are buffered until their descriptions have arrived. If more than `limit` bytes are buffered,
    the groups are emitted immediately, and later descriptions are dropped.
    """

    def __init__(
        self,
        pattern: bytes,
        group_url: GroupUrl,
        line_limit: int,
        findings: list[Finding],
        limit: int = BUFFER_LIMIT,
    ) -> None:
        self._matches = compile_wildmat(pattern)
        self._group_url = group_url
        self._lines = BlockLines(line_limit)
        self._findings = findings
        self._limit = limit
        self._buffered: list[bytes] = []  # lines of LIST ACTIVE, because an `ActiveLine` needs 300 bytes more
        self._buffered_size = 0
        self._descriptions: dict[bytes, bytes] = {}
        self._in_descriptions = False
        self._is_over_limit = False
        self._skipped = 0

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return self._process(self._lines.feed(octets))

    def finish(self) -> Iterable[Entry]:
        yield from self._process(self._lines.finish())
        yield from self._flush()
        if self._skipped:
            detail = f"{self._skipped} lines skipped: not a newsgroup"
            self._findings.append(Finding("nntp:group-line", "allow", detail))
        if self._is_over_limit:
            detail = f"more than {self._limit} bytes of groups: the descriptions are left out"
            self._findings.append(Finding("nntp:descriptions", "allow", detail))

    def _process(self, lines: list[bytes]) -> Iterator[Entry]:
        for line in lines:
            if self._in_descriptions:
                self._describe(*parse_description(line))
            elif line == b".":
                self._in_descriptions = True
            else:
                self._buffer_line(line)
            if self._buffered_size > self._limit or self._is_over_limit:
                self._is_over_limit = True
                yield from self._flush()

    def _buffer_line(self, line: bytes) -> None:
        active = parse_active(line)
        if active is None:
            self._skipped += 1
        elif self._matches(active.name):
            self._buffered.append(line)
            self._buffered_size += len(line) + _OVERHEAD

    def _describe(self, name: bytes, description: bytes) -> None:
        if description and self._buffered and self._matches(name):
            self._descriptions[name] = description
            self._buffered_size += len(name) + len(description) + _OVERHEAD

    def _flush(self) -> Iterator[Entry]:
        lines, self._buffered, self._buffered_size = self._buffered, [], 0
        for active in map(parse_active, lines):
            assert active is not None  # `_buffer_line` buffers only lines of groups
            yield self._entry(active)
        self._descriptions.clear()

    def _entry(self, active: ActiveLine) -> Entry:
        description = self._descriptions.get(active.name)
        extra: dict[str, JsonValue] = {
            "high": active.high,
            "low": active.low,
            "empty": active.is_empty,
            "status": None if active.status is None else decode_text(active.status),
        }
        return Entry(
            name=decode_text(active.name),
            url=self._group_url(active.name),
            kind=Kind.GROUP,
            title=None if description is None else decode_text(description),
            raw=active.raw,
            extra=extra,
        )


def count_groups(pattern: bytes, line_limit: int) -> Reader[int]:
    """Return a reader that counts the groups in a block of LIST ACTIVE whose names match the pattern.

    Raises:
        LimitExceeded: a line or the block (lines) is too long.
    """

    def reader(buffer: Buffer) -> Generator[None, None, int]:
        block, lines, count = DataBlock(), BlockLines(line_limit), 0
        matches = compile_wildmat(pattern)
        while not block.ended:
            active = map(parse_active, lines.feed((yield from block.read(buffer))))
            count += sum(line is not None and matches(line.name) for line in active)
            if block.received > BUFFER_LIMIT:
                raise LimitExceeded("lines", f"a list of groups is longer than {BUFFER_LIMIT} bytes")
        return count

    return reader


def compile_wildmat(pattern: bytes) -> Callable[[bytes], bool]:
    """Return the predicate of names for a wildmat (RFC 3977 4.2, limited to the syntax of RFC 5538).

    `*` matches any sequence of bytes, and `?` matches any single byte. All other bytes match themselves. Each
    piece between two `*` is searched once, from the end of the piece before. This prevents denial of service
    by exponential backtracking (ReDoS).
    """
    pieces = pattern.split(b"*")
    first, *others = [re.compile(re.escape(each).replace(rb"\?", b"."), re.DOTALL) for each in pieces]
    if not others:
        return lambda name: first.fullmatch(name) is not None
    *middle, last = others
    last_size = len(pieces[-1])

    def matches(name: bytes) -> bool:
        match = first.match(name)
        for piece in middle:
            match = match and piece.search(name, match.end())
        start = len(name) - last_size
        return match is not None and match.end() <= start and last.match(name, start) is not None

    return matches


_ARTICLE = "message/rfc822"
_LISTING = "text/plain"


class GroupRange(NamedTuple):
    """The range of article numbers in a listing; `first` is the lowest number, `last` the highest."""

    selection: GroupSelection
    first: int
    last: int

    @property
    def is_empty(self) -> bool:
        return self.selection.is_empty or self.last < self.first

    @property
    def has_older(self) -> bool:
        """Return whether the group has older articles that are not listed."""
        return not self.is_empty and self.first > self.selection.low


def select_newest(selection: GroupSelection, max_count: int, before: int | None = None) -> GroupRange:
    """Return the range of the newest article numbers.

    The range has at most `max_count` numbers, below `before`. If `max_count` is 0, the range has all numbers.
    """
    last = selection.high if before is None else min(selection.high, before - 1)
    is_complete = not max_count or last - selection.low + 1 <= max_count
    return GroupRange(selection, selection.low if is_complete else last - max_count + 1, last)


def make_article_reply(url: NewsUrl | NntpUrl, head: ArticleHead, message_id: bytes | None) -> Reply:
    """Return the reply for an article.

    `message_id` is the message-id in the status line, without angle brackets, or None if it is missing.
    """
    message_id = message_id or head.message_id
    findings, pairs = [], head.pairs
    if strays := len(head.fields) - len(pairs):
        detail = f"{strays} lines of the head are not header fields"
        findings.append(Finding("nntp:header-line", "allow", detail))
    extra: dict[str, JsonValue] = {
        "message_id": None if message_id is None else decode_text(message_id),
        "group": url.group.decode("ascii") if isinstance(url, NntpUrl) else None,
        "number": url.article if isinstance(url, NntpUrl) else None,
        "fields": [[name, raw.decode("latin-1")] for name, raw in head.fields],
    }
    return Reply(
        kind=Kind.ARTICLE,
        media_type=_ARTICLE,
        charset=head.charset,
        modified=head.date,
        title=head.decode_first("subject"),
        meta=pairs,
        extra=extra,
        findings=findings,
    )


def make_group_reply(url: NewsUrl | NntpUrl, span: GroupRange, limits: Limits) -> Reply:

    group, selection = url.group or b"", span.selection
    findings: list[Finding] = []
    if span.has_older:
        detail = (
            f"only the newest articles are listed: {span.first} to {span.last};"
            f" the group begins at {selection.low} (--entries 0 lists all)"
        )
        findings.append(Finding("nntp:cut", "warn", detail))
    return Reply(
        kind=Kind.GROUP,
        media_type=_LISTING,
        extra={
            "name": decode_text(group),
            "count": selection.count,
            "low": selection.low,
            "high": selection.high,
            "first": None if span.is_empty else span.first,
            "cut": span.has_older,
        },
        listing=OverviewReader(group, EntryUrls(url).article, limits.line, findings),
        findings=findings,
    )


def make_groups_reply(url: NewsUrl | NntpUrl, count: int | None, limits: Limits) -> Reply:
    """Return the reply for a list of groups; `count` is set only if the caller requested only metadata."""

    pattern = url.group or b"*"
    extra: dict[str, JsonValue] = {"pattern": decode_text(pattern), "count": count}
    findings: list[Finding] = []
    groups = GroupReader(pattern, EntryUrls(url).group, limits.line, findings)
    return Reply(kind=Kind.DIRECTORY, media_type=_LISTING, extra=extra, listing=groups, findings=findings)
