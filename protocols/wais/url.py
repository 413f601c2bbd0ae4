"""What a wais URL says (RFC 1738 3.9): a database, and a search in it or a document of it."""

from __future__ import annotations

from protocols.authority import build_login, parse_hostport
from protocols.location import HostUrl, UrlText
from protocols.syntax import (
    RESERVED,
    build_url,
    encode,
    encode_written,
    find,
    invalid,
    note_characters,
    take,
)
from protocols.values import dataclass

_SEARCH_DATA = ";:@&="


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class WaisUrl(HostUrl):
    """A database, or with `search` its hits, or with `wtype` and `wpath` one document. `wpath` is kept
    encoded: the form that browsers wrote can only be taken apart before it is decoded.

    Examples:
        >>> url = resolver.parse("wais://h.example/db?harbour")
        >>> url.database, url.search
        (b'db', b'harbour')
    """

    database: bytes = b""
    search: bytes | None = None
    wtype: bytes | None = None
    wpath: str | None = None


def parse(text: UrlText) -> WaisUrl:
    """A slash before any `?` makes it the document form."""
    login, start = parse_hostport(text)
    if start == text.end:
        raise invalid(text.text, "missing-path", "database", start)
    start += 1
    question = find(text, "?", start)
    slash = find(text, "/", start, question)
    database = take(text, "database", start, min(slash, question))
    if slash < question:
        wtype, wpath = _parse_document(text, start, slash)
        return WaisUrl(scheme=text.scheme, **login, database=database, wtype=wtype, wpath=wpath)
    note_characters(text, start, question, "")
    if question == text.end:
        return WaisUrl(scheme=text.scheme, **login, database=database)
    note_characters(text, question + 1, text.end, _SEARCH_DATA)
    search = take(text, "search", question + 1, text.end)
    return WaisUrl(scheme=text.scheme, **login, database=database, search=search)


def _parse_document(text: UrlText, start: int, slash: int) -> tuple[bytes, str]:
    """Type and path of a document; `slash` is the one before them."""
    second = find(text, "/", slash + 1)
    if second == text.end:
        raise invalid(text.text, "missing-path", "document path", second)
    for begin, end in ((start, slash), (slash + 1, second), (second + 1, text.end)):
        note_characters(text, begin, end, "")
    return take(text, "wtype", slash + 1, second), text.cut("wpath", second + 1, text.end)


def build(url: WaisUrl) -> str:
    """The URL as text. Raises `InvalidUrl` where `wpath` is not written as a URL's part."""
    return build_url(url, f"{build_login(url)}/{encode(url.database)}{_build_rest(url)}")


def build_document(wtype: bytes, wpath: str) -> str:
    """What is behind the database in the URL of a document. Raises `InvalidUrl` as `build` does."""
    return f"{encode(wtype)}/{encode_written('wpath', wpath, RESERVED)}"


def _build_rest(url: WaisUrl) -> str:
    if url.wtype is not None or url.wpath is not None:
        return f"/{build_document(url.wtype or b'', url.wpath or '')}"
    return "" if url.search is None else f"?{encode(url.search, _SEARCH_DATA)}"
