"""http URLs (RFC 1738 3.3): a path and a search part.

Path and search are sent to the server unchanged, without decoding.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from protocols.authority import build_host_url, build_login, parse_hostport
from protocols.location import HostUrl, UrlText
from protocols.syntax import decode, encode, encode_written, find, note_characters, remove_dot_segments

_PATH_DATA = ";:@&=/"
_SEARCH_DATA = ";:@&="


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HttpUrl(HostUrl):
    """An http or https URL.

    `path` is the path without its leading slash, or None if it is absent. `search` is the text after `?`.
    Both are still percent-encoded.

    Examples:
        >>> url = resolver.parse("https://h.example/a/b?c=d")
        >>> url.path, url.search
        ('a/b', 'c=d')
    """

    path: str | None = None
    search: str | None = None

    @property
    def secured(self) -> bool:
        return self.scheme == "https"


def parse(text: UrlText) -> HttpUrl:
    """Parse an http URL without removing dot segments and without other normalization."""
    login, start = parse_hostport(text, enders="/?")
    question = find(text, "?", start)
    path = None
    if start < question:
        note_characters(text, start, question, _PATH_DATA)
        path = text.cut("path", start + 1, question)
    search = None
    if question < text.end:
        if path is None:
            text.note("missing-slash", question)
        note_characters(text, question + 1, text.end, _SEARCH_DATA)
        search = text.cut("search", question + 1, text.end)
    return HttpUrl(**login, path=path, search=search, **text.common())


def with_name(url: HttpUrl, *names: bytes) -> HttpUrl:
    """Replace the last segment of the URL's path with `names`."""
    directory, slash, _ = (url.path or "").rpartition("/")
    return replace(url, path=f"{directory}{slash}{'/'.join(map(encode, names))}", search=None, fragment=None)


def list_names(url: HttpUrl) -> tuple[bytes, ...]:
    """Return the decoded segments of the path, without dot segments (RFC 3986 5.2.4, 6.2.2)."""
    path = url.path or ""
    names = [*map(decode, path.split("/"))] if "%" in path else path.encode("ascii").split(b"/")
    if b"." in names or b".." in names:
        names = remove_dot_segments(names)
    return tuple(names[:-1] if names and not names[-1] else names)


def as_directory(url: HttpUrl) -> HttpUrl:
    """Return the URL with a trailing slash in its path."""
    path = url.path or ""
    return url if not path or path.endswith("/") else replace(url, path=f"{path}/", fragment=None)


def build(url: HttpUrl) -> str:
    """Return the URL as text, with a slash before a search and non-ASCII characters escaped.

    Raises:
        InvalidUrl: the path or the search contains characters that are not allowed in this component.
    """
    path = "" if url.path is None else f"/{encode_written('path', url.path, _PATH_DATA)}"
    if url.search is not None:
        path = f"{path or '/'}?{encode_written('search', url.search, _SEARCH_DATA + '/?')}"
    return build_host_url(url, build_login(url), path)
