"""Is a page the index of its directory? A wrong yes lists the links of somebody's article.

P1: a heading says so and names this directory. P2: three links sort the page. P3: a heading names another one
(a proxy maps a path to another), there is a parent link, and every entry has a date. In each case at most a
quarter of the links may lead elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from protocols.http.index.links import decode, octets_of
from protocols.http.index.page import IndexPage, RowContainer
from protocols.http.request import host_of
from protocols.http.url import HttpUrl
from protocols.values import NamedTuple

#: Apache's, nginx's, lighttpd's and mini_httpd's; Python's; Tomcat's; Jetty's; webfs's.
_FORMS = re.compile(
    r"(?:Index of |Directory listing for |Directory: |listing:\s+)(?P<path>.*)"
    r"|Directory Listing For \[(?P<tomcat>.*?)\](?: - Up To .*)?",
    re.DOTALL,
)


class IndexVerdict(NamedTuple):
    """The container that is the index; or None, and why there is none."""

    container: RowContainer | None
    reason: str = ""


def judge(page: IndexPage, url: HttpUrl) -> IndexVerdict:
    if not page.containers:
        return IndexVerdict(None, "nothing in it could be a list of names")
    container = max(page.containers, key=_likeness)
    named = [path for path in map(_named_path, _headings(page.headings, url)) if path is not None]
    own = _segments(decode((url.path or "").encode("utf-8", "surrogateescape")))
    says_so = any(_is_same(_segments(octets_of(path)), own) for path in named)
    elsewhere = bool(named) and bool(container.parents) and bool(container.entries) and not container.undated
    if not (says_so or container.sorts >= 3 or elsewhere):
        return IndexVerdict(
            None, "no heading says that it is an index of this directory, nor do links sort it"
        )
    if 4 * container.outside > container.entries + container.parents + container.outside:
        return IndexVerdict(None, "more than a quarter of its links lead out of this directory")
    if not (container.entries or container.parents or says_so):
        return IndexVerdict(None, "none of its links leads to this directory or the one above")
    return IndexVerdict(container)


def _likeness(container: RowContainer) -> tuple[bool, bool, int]:
    return container.sorts >= 2, container.parents > 0, container.entries


def _headings(headings: Iterable[str], url: HttpUrl) -> Iterable[str]:
    """IIS writes the host before the path."""
    host = re.escape(host_of(url).decode("ascii").partition(":")[0])
    for heading in headings:
        yield re.sub(rf"\A{host}(?::[0-9]+)? - /", "Index of /", heading.strip(), count=1)


def _named_path(heading: str) -> str | None:
    found = _FORMS.fullmatch(heading)
    return None if found is None else found["path"] or found["tomcat"] or ""


def _segments(path: bytes) -> list[bytes]:
    return [segment for segment in path.split(b"/") if segment.strip()]


def _is_same(one: list[bytes], other: list[bytes]) -> bool:
    """Equal, or one is the end of the other: proxies cut what is before."""
    shorter, longer = sorted((one, other), key=len)
    return one == other or (bool(shorter) and longer[-len(shorter) :] == shorter)
