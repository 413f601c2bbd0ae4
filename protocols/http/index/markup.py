"""An index page of HTML as entries: read by lxml while it comes, judged once enough of it is there.

The rows of a page are held until it has ended, or until there are so many that its verdict will not change;
from then on they go out as they come, however long the page is. A page that is no index is `Declined`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import cast

from lxml import etree

from protocols.entry import Entry
from protocols.errors import LimitExceeded
from protocols.http.index.comments import CommentStripper
from protocols.http.index.links import IndexDirectory
from protocols.http.index.page import IndexPage, IndexRow, RowContainer
from protocols.http.index.proof import judge
from protocols.http.index.records import decline, note_foreign
from protocols.http.url import HttpUrl
from protocols.location import BuiltUrl, Finding, JsonValue, Kind
from protocols.options import Limits

#: Rows that are held before a verdict: no article has so many links in one list by chance.
_HELD = 1_000
#: Octets of a page that is neither an index by then nor over. The longest of 10,000 names has 7.5 MB (Caddy).
LONGEST = 16_777_216
#: URLs that are remembered, so that an icon and a name that both are links make one entry.
_REMEMBERED = 1_024


class MarkupReader:
    """Raises `Declined` for a page that is no index; `LimitExceeded` for a tag beyond `limits.line`, for tags
    in one another or kinds of them beyond `limits.lines`, and for a page that never comes to the point."""

    def __init__(self, url: HttpUrl, limits: Limits, findings: list[Finding]) -> None:
        self._url = url
        self._limits = limits
        self._findings = findings
        self._page = IndexPage(IndexDirectory(url), limits.lines)
        # The octets are recoded before: no charset that the page declares may do it again.
        self._parser = etree.HTMLParser(target=cast("etree.ParserTarget", self._page), encoding="utf-8")
        self._octets = 0
        self._uncommented = CommentStripper(limits.line)
        self._index: RowContainer | None = None
        self._seen: OrderedDict[str, None] = OrderedDict()

    def feed(self, octets: bytes) -> Iterable[Entry]:
        self._octets += len(octets)
        self._parse(self._uncommented.feed(octets))
        if self._index is None and self._page.held >= _HELD:
            self._judge()
        elif self._index is None and self._octets > LONGEST:
            raise LimitExceeded("body", f"{LONGEST} octets of the page do not tell whether it is an index")
        return self._entries()

    def finish(self) -> Iterable[Entry]:
        self._parse(self._uncommented.finish(self._findings))
        try:
            self._parser.close()
        except etree.XMLSyntaxError:  # an empty page, to lxml, is none
            self._page.close()
        if self._index is None:
            self._judge()
        return self._entries()

    def _parse(self, octets: bytes) -> None:
        self._parser.feed(octets.decode("latin-1").encode("utf-8"))

    def _judge(self) -> None:
        self._tell()
        verdict = judge(self._page, self._url)
        if verdict.container is None:
            decline(self._findings, verdict.reason)
        self._index = self._page.chosen = verdict.container
        self._page.containers = [verdict.container]

    def _tell(self) -> None:
        if self._page.directory.astray:
            detail = "the page's links count from another directory (<base href>)"
            self._findings.append(Finding("http:index-base", "warn", detail))

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
        """None for one that was there already."""
        url = self._page.directory.text + row.link.segment + ("/" if row.link.directory else "")
        if url in self._seen:
            return None
        self._seen[url] = None
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
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
    """Where not even the parent has a slash, a name without one may be a directory's, too (mini_httpd)."""
    if row.link.directory:
        return Kind.DIRECTORY
    return Kind.UNKNOWN if index.dotted and not index.slashed else Kind.DOCUMENT


def _extra(row: IndexRow, kind: Kind) -> dict[str, JsonValue]:
    extra: dict[str, JsonValue] = {"source": "html"}
    if row.size is not None and row.size.text != "-" and kind is Kind.DOCUMENT and row.size.exact is None:
        extra["size_text"] = row.size.text
    if row.moment is not None and row.moment.certain is None:
        extra["modified_text"] = row.moment.text
        extra["modified_local"] = row.moment.local
    return extra
