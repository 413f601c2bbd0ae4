"""Where redirects have led to: a page in place of data. Services that want a login send who has none to a
page of another host, which comes with 200 and would be saved as what was asked for.
"""

from __future__ import annotations

from protocols.authority import comparable_host
from protocols.http.url import HttpUrl
from protocols.location import Finding

_PAGES = ("text/html", "application/xhtml+xml")
#: How names of pages end, and of programs that make them.
_PAGE_SUFFIXES = frozenset(
    {b"html", b"htm", b"xhtml", b"shtml", b"php", b"asp", b"aspx", b"jsp", b"cgi", b"pl"}
)


def landed_elsewhere(url: HttpUrl, asked: tuple[str, bytes], media_type: str | None) -> Finding | None:
    """A page of another host than was `asked`, for a name that no page has."""
    host, name = asked
    stem, _, suffix = name.rpartition(b".")
    is_data = bool(stem and suffix) and suffix.lower() not in _PAGE_SUFFIXES
    if media_type not in _PAGES or not is_data or comparable_host(host) == comparable_host(url.host):
        return None
    detail = f"{url.host} answers with a page, which may be a login and not what {host} was asked for"
    return Finding("http:landed-elsewhere", "warn", detail)
