"""A page before it is markup: its template and values; and what each page function is told of its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from urllib.parse import quote

from protocols.values import NamedTuple

#: A title of a page keeps its ends: the place, and the name.
_LONGEST_TITLE = 80

#: Listings have so many rows a page, unless somebody says otherwise, and never more than the second.
PAGE_SIZE = 500
LARGEST_PAGE = 10_000


#: Hits that may be marked.
MOST_RELEVANT = 16
#: Digits of an article's number (RFC 3977 3.6 has fewer), and of a page's.
_MOST_DIGITS = 16


class WebPage(NamedTuple):
    """`title` is that of the tab, `status` that of the answer (RFC 9110 15), `values` what the template is
    told besides what every page is (`PageFrame`)."""

    template: str
    title: str
    status: int
    values: Mapping[str, object]


class Breadcrumb(NamedTuple):
    """One step of the way to a page; `href` is None for the page itself."""

    text: str
    href: str | None = None


class PageFrame(NamedTuple):
    """What every page has around its content. `address` stands in the address bar. `panel` is the markup of
    the dialogue, which only `resolver.window.dialogue` makes. `csrf` gives a form's token by its
    action. `archived` tells of an archive what time it is of."""

    address: str = ""
    crumbs: tuple[Breadcrumb, ...] = ()
    panel: str = ""
    panel_open: bool = False
    csrf: Callable[[str], str] = str
    from_id: str = ""
    archived: str = ""


class PageQuery(NamedTuple):
    """What a person asked of a page besides its URL: `page` of a listing from 1 on, its order, what its names
    should hold, the view of a document; of a news group, the articles before that number (0: the newest); of
    a search, the URLs of hits to which others should be alike."""

    page: int = 1
    sort: str = ""
    filter: str = ""
    view: str = ""
    size: int = PAGE_SIZE
    before: int = 0
    relevant: tuple[str, ...] = ()


def read_query(pairs: Iterable[tuple[str, str]], size: int = PAGE_SIZE) -> PageQuery:
    """Of the fields of an address; what makes no sense is as if it were not there."""
    fields = tuple(pairs)
    said = dict(fields)
    return PageQuery(
        max(1, _number(said.get("page", ""))),
        said.get("sort", ""),
        said.get("q", ""),
        said.get("view", ""),
        max(1, min(size, LARGEST_PAGE)),
        _number(said.get("before", "")),
        tuple(text for name, text in fields if name == "relevant")[:MOST_RELEVANT],
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else 0


class PageAddressBar(NamedTuple):
    """Where a page stands. `url` is redacted, `path` the page's own address without what `PageQuery` has;
    `href` gives the address at which a URL found on this page is shown, `look` the one where it is judged
    only."""

    url: str
    path: str
    href: Callable[[str], str]
    look: Callable[[str], str]
    from_id: str = ""

    def again(self, said: PageQuery) -> str:
        """The address of the same page, asked so."""
        fields = {
            "from": self.from_id,
            "view": said.view,
            "q": said.filter,
            "sort": said.sort,
            "page": str(said.page) if said.page > 1 else "",
            "before": str(said.before or ""),
        }
        said_so = [(name, text) for name, text in fields.items() if text]
        said_so += (("relevant", text) for text in said.relevant)
        asked = "&".join(f"{name}={quote(text, safe='', errors='replace')}" for name, text in said_so)
        return f"{self.path}?{asked}" if asked else self.path


def shortened(text: str, most: int = _LONGEST_TITLE) -> str:
    """With its middle left out where it is long."""
    if len(text) <= most:
        return text
    front = most * 2 // 3
    return f"{text[:front]}…{text[len(text) - (most - front - 1) :]}"
