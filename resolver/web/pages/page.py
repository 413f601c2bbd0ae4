"""The data of a page (template, values, frame), and the rendering of a page to HTML."""

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
from protocols.text import Masked, format_count
from resolver.terminal.text import escape_controls, escape_line
from resolver.url import registry
from resolver.url.parsing import build, parse

#: Maximum length of a page title in characters; a longer title is shortened in the middle.
_MAX_TITLE = 80

#: The default number of rows on a page of a listing, and the maximum.
PAGE_SIZE = 500
MAX_PAGE_SIZE = 10_000


#: Maximum number of search results that may be marked for relevance feedback.
MAX_RELEVANT = 16
#: Maximum number of digits of a page number and of an article number. RFC 3977 section 3.6 allows fewer
#: digits for article numbers.
_MAX_DIGITS = 16


class WebPage(NamedTuple):
    """A page before rendering.

    Attributes:
        template: The file name of the template.
        title: The title of the browser tab.
        status: The status code of the response (RFC 9110 15).
        values: The variables of the template, in addition to `PageFrame`.
    """

    template: str
    title: str
    status: int
    values: Mapping[str, object]


class Breadcrumb(NamedTuple):
    """A link in the breadcrumb navigation. The breadcrumb of the current page has no `href`."""

    text: str
    href: str | None = None


class PageFrame(NamedTuple):
    """The frame of a page around its content.

    Attributes:
        address: The text in the address bar.
        panel: The HTML panel of the protocol exchange, which only `resolver.web.dialogue` generates.
        csrf: A function that returns the CSRF token for the action of a form.
        archived: The capture date, if the page is from an archive.
    """

    address: Masked = Masked("")
    crumbs: tuple[Breadcrumb, ...] = ()
    panel: str = ""
    panel_open: bool = False
    csrf: Callable[[str], str] = str
    from_id: str = ""
    archived: str = ""


class PageQuery(NamedTuple):
    """The query fields of a page.

    Attributes:
        page: The page number of a listing; the first page has number 1.
        sort: The sort order of a listing.
        filter: The text that names must contain.
        view: The view of a document.
        size: The number of rows on a page.
        before: List only articles of a newsgroup with lower numbers; 0 lists the newest articles.
        relevant: The URLs of documents for relevance feedback (a search for similar documents).
    """

    page: int = 1
    sort: str = ""
    filter: str = ""
    view: str = ""
    size: int = PAGE_SIZE
    before: int = 0
    relevant: tuple[str, ...] = ()


def read_query(pairs: Iterable[tuple[str, str]], size: int = PAGE_SIZE) -> PageQuery:
    """Parse the query fields of a page; invalid values are ignored."""
    fields = tuple(pairs)
    values = dict(fields)
    return PageQuery(
        max(1, parse_number(values.get("page", ""))),
        values.get("sort", ""),
        values.get("q", ""),
        values.get("view", ""),
        max(1, min(size, MAX_PAGE_SIZE)),
        parse_number(values.get("before", "")),
        tuple(text for name, text in fields if name == "relevant")[:MAX_RELEVANT],
    )


def parse_number(text: str) -> int:
    """Parse a number from a form or a URL; return 0 for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0


class PageAddressBar(NamedTuple):
    """The address bar of a page, and the links from the page.

    Attributes:
        url: The redacted URL that the page shows.
        path: The path of the page in the web UI, without query fields.
        href: A function that returns the link to the page of a URL.
        look: A function that returns the link to the preview of a URL.
    """

    url: Masked
    path: str
    href: Callable[[str], str]
    look: Callable[[str], str]
    from_id: str = ""

    def make_address(self, query: PageQuery) -> str:
        """Return the link to the same page with other query fields."""
        fields = {
            "from": self.from_id,
            "view": query.view,
            "q": query.filter,
            "sort": query.sort,
            "page": str(query.page) if query.page > 1 else "",
            "before": str(query.before or ""),
        }
        pairs = [(name, text) for name, text in fields.items() if text]
        pairs += (("relevant", text) for text in query.relevant)
        encoded = "&".join(f"{name}={quote(text, safe='', errors='replace')}" for name, text in pairs)
        return f"{self.path}?{encoded}" if encoded else self.path


def shorten(text: str, max_length: int = _MAX_TITLE) -> str:
    """Return a text of at most `max_length` characters, shortened in the middle."""
    if len(text) <= max_length:
        return text
    front = max_length * 2 // 3
    return f"{text[:front]}…{text[len(text) - (max_length - front - 1) :]}"


#: The displayed names of entry kinds. Some listings replace these names.
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
    """A row in a list of metadata: a name and a value."""

    name: str
    text: str


def format_size(entry: Entry) -> str:
    """Return the size of an entry in bytes, with `~` if it is rounded, or a dash if it is unknown."""
    if entry.size is not None:
        return f"{entry.size:,}"
    return _describe_entry(entry, "size_text") or "–"


def format_date(entry: Entry) -> str:
    """Return the date of an entry in UTC (`~` for a server's unknown time zone), or a dash."""
    if entry.modified is not None:
        return f"{entry.modified:%Y-%m-%d %H:%M}"
    return _describe_entry(entry, "modified_local").replace("T", " ")[:17] or "–"


def _describe_entry(entry: Entry, name: str) -> str:
    text = (entry.extra or {}).get(name)
    return f"~{text}" if isinstance(text, str) and text else ""


def get_text(extra: Mapping[str, JsonValue] | None, name: str) -> str:
    """Return a scheme-specific text value of an entry, or an empty text."""
    text = (extra or {}).get(name)
    return text if isinstance(text, str) else ""


def list_facts(facts: Facts) -> Iterator[FactRow]:
    """Yield the metadata of a response as rows."""
    if facts.title:
        yield FactRow("title", facts.title)
    if facts.media_type is not None:
        charset = f", {facts.charset}" if facts.charset else ""
        yield FactRow("type", f"{facts.media_type}{charset}")
    if facts.size is not None:
        yield FactRow("size", format_count(facts.size, "byte"))
    if facts.modified is not None:
        yield FactRow("modified", f"{facts.modified:%Y-%m-%d %H:%M:%S} UTC")


def format_line(text: str) -> str:
    """Return a text as one line, with line ends and tabs escaped."""
    return escape_line(text).replace("\t", "\\x09")


# The breadcrumb navigation: a link to each parent directory of a URL. A gopher selector is not always a path.
# Therefore the parent directories of a gopher URL are only a guess. The guess is right for most servers.

#: The maximum number of breadcrumbs. If a path has more segments, segments in the middle are omitted.
_MAX_CRUMBS = 12
#: Maximum length in characters of a URL that is a single breadcrumb.
_MAX_CRUMB = 60


def make_breadcrumbs(url: Url, href: Callable[[str], str]) -> tuple[Breadcrumb, ...]:
    """Return the breadcrumbs from the server to the URL, without a password; none without a host."""
    row = registry.find(url.scheme)
    if not isinstance(url, HostUrl) or row is None:
        return ()
    if row.tree is None:
        return (Breadcrumb(shorten(url.shown, _MAX_CRUMB)),)
    try:
        bare: Any = replace(url, password=None, fragment=None, text="", places=(), findings=())
        crumbs = list(_make_crumbs(build(bare), row.tree, href))
    except InvalidUrl:  # The components of the URL have no valid text form.
        return (Breadcrumb(shorten(url.shown, _MAX_CRUMB)),)
    if crumbs and crumbs[-1].text:
        crumbs[-1] = crumbs[-1]._replace(href=None)
    if len(crumbs) > _MAX_CRUMBS:
        crumbs = [*crumbs[: _MAX_CRUMBS // 2], Breadcrumb("…"), *crumbs[-_MAX_CRUMBS // 2 :]]
    return tuple(crumbs)


def find_parent(url: Url) -> str | None:
    """Return the URL of the parent directory, or None for the root directory of a server."""
    steps = [crumb.href for crumb in make_breadcrumbs(url, str) if crumb.href is not None]
    return steps[-1] if steps else None


def _make_crumbs(text: str, tree: Tree, href: Callable[[str], str]) -> Iterator[Breadcrumb]:
    start = text.index("/", text.index("://") + 3) if text.count("/") > 2 else len(text)
    end = min((at for mark in "?;" if (at := text.find(mark, start)) >= 0), default=len(text))
    yield Breadcrumb(text[:start], _link_directory(text[: start + 1], tree, href))
    at = start + 1
    if "gophertype" in parse(text).components():
        at += 1  # the path begins after the gopher type, and ends before the search terms
        tab = text.find("%09", at, end)
        end = end if tab < 0 else tab
    while at < end:
        slash = text.find("/", at, end)
        stop = end if slash < 0 else slash
        if stop > at:
            name = format_line(decode(text[at:stop]).decode("utf-8", "replace"))
            yield Breadcrumb(name, _link_directory(text[:stop], tree, href))
        at = stop + 1


def _link_directory(text: str, tree: Tree, href: Callable[[str], str]) -> str | None:
    try:
        url: Any = parse(text)
        if "gophertype" in url.components():
            url = replace(url, gophertype="1")
        return href(build(tree.directory(url)))
    except InvalidUrl:
        return None


def refine_url(text: str, component: str, value: str) -> str:
    """Return the URL with another search or view.

    Args:
        text: The URL.
        component: `search` or `view`.
        value: The search terms, or the view.

    Raises:
        InvalidUrl: The text or the resulting text is not a valid URL.
        UnsupportedScheme: The scheme does not support a search or a view.
    """
    url = parse(text)
    scheme = registry.find(url.scheme)
    refine = None if scheme is None else scheme.refine.get(component)
    if refine is None:
        raise UnsupportedScheme(url.scheme, f"a {url.scheme} URL has no {component}", url=url.shown)
    return build(refine(url, value))


# Rendering. All values of a template are escaped by `_show_value` and by Jinja's autoescaping (XSS).
# Templates and page functions cannot bypass the escaping.
#
# Only one value contains HTML: the panel of the protocol exchange. `resolver.web.dialogue` generates this
# panel from escaped text. Only the panel is converted to `Markup`.

#: Minimum size in characters of a chunk, if a page is sent while it is generated.
_MIN_CHUNK = 16_384


def render(page: WebPage, frame: PageFrame) -> str:
    """Return the HTML of a complete page."""
    return "".join(_generate(page, frame))


def pieces(page: WebPage, frame: PageFrame) -> Iterator[str]:
    """Yield the HTML of a page in chunks while it is generated."""
    chunk: list[str] = []
    size = 0
    for part in _generate(page, frame):
        chunk.append(part)
        size += len(part)
        if size >= _MIN_CHUNK:
            yield "".join(chunk)
            chunk, size = [], 0
    yield "".join(chunk)


def _generate(page: WebPage, frame: PageFrame) -> Iterator[str]:
    variables = {
        **page.values,
        "title": shorten(page.title),
        "frame": frame,
        "panel": Markup(frame.panel),
    }
    return environment().get_template(page.template).generate(variables)


@cache
def environment() -> Environment:
    """Return the Jinja environment, which caches all templates."""
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
    """Return the text of the static file `window.css` or `window.js`, from a cache.

    `window.css` includes the stylesheet of the exchange panel.

    Raises:
        TemplateNotFound: The file does not exist.
    """
    text = PackageLoader("resolver.web", "static").get_source(environment(), name)[0]
    if name != "window.css":
        return text
    return f"{text}\n{environment().get_template('exchange.css').render()}"


def _show_value(value: object) -> object:
    """Escape control characters in text; numbers and HTML of the web UI stay unchanged."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_controls(value)
    return "" if value is None else value
