"""A page before rendering: its template, values and context; and its rendering to markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from protocols.contract import Entry, Facts
from protocols.errors import InvalidUrl, UnsupportedScheme
from protocols.location import HostUrl, JsonValue, Kind, Url
from protocols.scheme import Tree
from protocols.syntax import decode
from resolver.terminal.text import escape_controls, escape_line
from resolver.url import registry
from resolver.url.parsing import build, parse

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
    the dialogue, which only `resolver.web.dialogue` makes. `csrf` gives a form's token by its
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

    def make_address(self, said: PageQuery) -> str:
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


def shorten(text: str, most: int = _LONGEST_TITLE) -> str:
    """With its middle left out where it is long."""
    if len(text) <= most:
        return text
    front = most * 2 // 3
    return f"{text[:front]}…{text[len(text) - (most - front - 1) :]}"


#: What a listing without a word of its own calls an entry.
KINDS: Mapping[Kind, str] = {
    Kind.DOCUMENT: "document",
    Kind.DIRECTORY: "directory",
    Kind.ARTICLE: "article",
    Kind.GROUP: "newsgroup",
    Kind.SEARCH: "search",
    Kind.SERVICE: "session",
    Kind.ADDRESS: "mail",
    Kind.LINK: "link",
    Kind.INFO: "text",
    Kind.ERROR: "error",
    Kind.UNKNOWN: "unknown",
}


class FactRow(NamedTuple):
    """One line of what is known."""

    name: str
    text: str


def size_of(entry: Entry) -> str:
    """In octets; `~` before what the server only rounded; a dash where it said nothing."""
    if entry.size is not None:
        return f"{entry.size:,}"
    return _describe_entry(entry, "size_text") or "–"


def date_of(entry: Entry) -> str:
    """In UTC, or by the server's own clock with `~`."""
    if entry.modified is not None:
        return f"{entry.modified:%Y-%m-%d %H:%M}"
    return _describe_entry(entry, "modified_local").replace("T", " ")[:17] or "–"


def _describe_entry(entry: Entry, name: str) -> str:
    said = (entry.extra or {}).get(name)
    return f"~{said}" if isinstance(said, str) and said else ""


def octets(count: int) -> str:
    return "1 octet" if count == 1 else f"{count:,} octets"


def format_count(count: int, one: str, many: str) -> str:
    return f"1 {one}" if count == 1 else f"{count:,} {many}"


def text_of(extra: Mapping[str, JsonValue] | None, name: str) -> str:
    """A text among what only the scheme knows; empty where there is none."""
    said = (extra or {}).get(name)
    return said if isinstance(said, str) else ""


def facts_of(facts: Facts) -> Iterator[FactRow]:
    """What a reply said of its object, each in words; whose word it is where that matters."""
    if facts.title:
        yield FactRow("title", facts.title)
    if facts.media_type is not None:
        charset = f", {facts.charset}" if facts.charset else ""
        yield FactRow("type", f"{facts.media_type}{charset}")
    if facts.size is not None:
        yield FactRow("size", octets(facts.size))
    if facts.modified is not None:
        yield FactRow("modified", f"{facts.modified:%Y-%m-%d %H:%M:%S} UTC")


def line_of(text: str) -> str:
    """On one line: what would end it, or move along it, is written as an escape."""
    return escape_line(text).replace("\t", "\\x09")


# The path of a URL, segment by segment: each step is the URL up to there, requested as a directory. For a
# gopher selector that is a guess, which most servers make true.

#: Segments that are shown; what lies between the first and the last of more is left out.
_MOST = 12
#: Characters of a URL that is one step.
_LONGEST = 60


def crumbs_of(url: Url, href: Callable[[str], str]) -> tuple[Breadcrumb, ...]:
    """From the server to the thing itself, without a password; nothing for what lies on no server."""
    row = registry.find(url.scheme)
    if not isinstance(url, HostUrl) or row is None:
        return ()
    if row.tree is None:
        return (Breadcrumb(shorten(url.shown, _LONGEST)),)
    try:
        bare: Any = replace(url, password=None, fragment=None, text="", places=(), findings=())
        found = list(_steps(build(bare), row.tree, href))
    except InvalidUrl:  # built, and of components that no text has
        return (Breadcrumb(shorten(url.shown, _LONGEST)),)
    if found and found[-1].text:
        found[-1] = found[-1]._replace(href=None)
    if len(found) > _MOST:
        found = [*found[: _MOST // 2], Breadcrumb("…"), *found[-_MOST // 2 :]]
    return tuple(found)


def parent_of(url: Url) -> str | None:
    """The URL of what it is in, None for the top of a server."""
    steps = [crumb.href for crumb in crumbs_of(url, str) if crumb.href is not None]
    return steps[-1] if steps else None


def _steps(text: str, tree: Tree, href: Callable[[str], str]) -> Iterator[Breadcrumb]:
    start = text.index("/", text.index("://") + 3) if text.count("/") > 2 else len(text)
    end = min((at for mark in "?;" if (at := text.find(mark, start)) >= 0), default=len(text))
    yield Breadcrumb(text[:start], _step(text[: start + 1], tree, href))
    at = start + 1
    if "gophertype" in parse(text).components():
        at += 1  # the type is none of the names, nor is what is asked of the item
        end = next((found for found in [text.find("%09", at, end)] if found >= 0), end)
    while at < end:
        slash = text.find("/", at, end)
        stop = end if slash < 0 else slash
        if stop > at:
            name = line_of(decode(text[at:stop]).decode("utf-8", "replace"))
            yield Breadcrumb(name, _step(text[:stop], tree, href))
        at = stop + 1


def _step(text: str, tree: Tree, href: Callable[[str], str]) -> str | None:
    try:
        url: Any = parse(text)
        if "gophertype" in url.components():
            url = replace(url, gophertype="1")
        return href(build(tree.directory(url)))
    except InvalidUrl:
        return None


def refine_url(text: str, what: str, value: str) -> str:
    """The URL with the `search` or `view` that is `value`. Raises `InvalidUrl` for what is no URL or makes
    none, and `UnsupportedScheme` where the scheme has no such thing."""
    url = parse(text)
    scheme = registry.find(url.scheme)
    refine = None if scheme is None else scheme.refine.get(what)
    if refine is None:
        raise UnsupportedScheme(url.scheme, f"a {url.scheme} URL has no {what}", url=url.shown)
    return build(refine(url, value))


# Rendering. All values of a template pass through `_show_value`, then through Jinja's escaping: no template
# and no page function can forget either.
#
# The only value that is markup already is the dialogue's panel, which `resolver.web.dialogue` makes of
# escaped text; no other value becomes `Markup`, and only here.

#: Octets of a piece of a page that is sent as it is made.
_PIECE = 16_384


def render(page: WebPage, frame: PageFrame) -> str:
    """The whole page."""
    return "".join(_parts(page, frame))


def pieces(page: WebPage, frame: PageFrame) -> Iterator[str]:
    """The page from its head on, as it is made."""
    held: list[str] = []
    size = 0
    for part in _parts(page, frame):
        held.append(part)
        size += len(part)
        if size >= _PIECE:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _parts(page: WebPage, frame: PageFrame) -> Iterator[str]:
    told = {
        **page.values,
        "title": shorten(page.title),
        "frame": frame,
        "panel": Markup(frame.panel),
    }
    return environment().get_template(page.template).generate(told)


@cache
def environment() -> Environment:
    """The templates, which are read once."""
    return Environment(
        loader=PackageLoader("resolver.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_show_value,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


@cache
def static_file(name: str) -> str:
    """A file of ours that pages name: `window.css`, which has the sheet of the dialogue's panel too, or
    `window.js`. Read once; raises `TemplateNotFound` for any other."""
    text = PackageLoader("resolver.web", "static").get_source(environment(), name)[0]
    if name != "window.css":
        return text
    return f"{text}\n{environment().get_template('exchange.css').render()}"


def _show_value(value: object) -> object:
    """A value as a page has it: what is not text is a number, or markup of ours."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_controls(value)
    return "" if value is None else value
