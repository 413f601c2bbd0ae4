"""file URLs (RFC 1738 3.10; RFC 8089): a host and the segments of a path."""

from __future__ import annotations

from dataclasses import dataclass, replace

from protocols.authority import (
    build_host,
    build_host_url,
    build_userinfo,
    find_authority,
    find_port,
    parse_host,
    parse_userinfo,
)
from protocols.location import Url, UrlText
from protocols.syntax import build_url, encode, find, invalid, note_characters, take

_DATA = "?:@&="


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FileUrl(Url):
    """A file URL.

    `host` is empty or a name of this machine, such as `localhost`. Without `//` in the URL, `host` is `None`.
    `segments` is empty if the URL has no path. The last segment of a directory is empty (trailing slash).
    User information has no effect. It is stored only so that the text of the URL does not change.

    Examples:
        >>> resolver.parse("file:///etc/host%20name").segments
        (b'etc', b'host name')
    """

    host: str | None = ""
    segments: tuple[bytes, ...] = ()
    user: bytes | None = None
    password: bytes | None = None


def parse(text: UrlText) -> FileUrl:
    """Parse a file URL: split the path at `/`, and then decode each segment.

    The order matters: a percent-encoded slash (`%2F`) does not split a segment.
    """
    if text.text.startswith("//", text.start, text.end):
        return _parse_with_host(text)
    if not text.text.startswith("/", text.start, text.end):
        raise invalid(text.text, "file-relative", "path that does not begin with a slash", text.start)
    text.note("file-no-authority", text.start)
    return FileUrl(host=None, segments=_parse_segments(text, text.start), **text.common())


def _parse_with_host(text: UrlText) -> FileUrl:
    authority = find_authority(text)
    user, password = None, None
    if authority.host > authority.start:
        text.note("userinfo-not-allowed", authority.start)
        user, password = parse_userinfo(text, authority)
    colon = find_port(text, authority)
    if authority.end < text.end and text.text[authority.end] != "/":
        raise invalid(text.text, "bad-host", "host ended by ?", authority.end)
    if colon < authority.end:
        raise invalid(text.text, "port-not-allowed", "port", colon)
    host = parse_host(text, authority.host, colon) if colon > authority.host else ""
    segments = _parse_segments(text, authority.end)
    return FileUrl(host=host, segments=segments, user=user, password=password, **text.common())


def _parse_segments(text: UrlText, slash: int) -> tuple[bytes, ...]:
    """Return the path that begins at index `slash`, or an empty path at the end of the text."""
    if slash == text.end:
        text.note("missing-slash", slash)
    note_characters(text, slash, text.end, _DATA + "/")
    segments: list[bytes] = []
    while slash < text.end:
        end = find(text, "/", slash + 1)
        segments.append(take(text, f"segments[{len(segments)}]", slash + 1, end))
        slash = end
    return tuple(segments)


def with_name(url: FileUrl, *names: bytes) -> FileUrl:
    """Replace the last segment of the URL's path with `names`."""
    return replace(url, segments=(*url.segments[:-1], *names), fragment=None)


def list_names(url: FileUrl) -> tuple[bytes, ...]:
    """Return the segments, without the empty segments at the end of a directory's path."""
    segments = url.segments
    while segments and not segments[-1]:
        segments = segments[:-1]
    return segments


def as_directory(url: FileUrl) -> FileUrl:
    """Return the URL with a trailing slash, so that only a directory is accepted."""
    return replace(url, segments=(*list_names(url), b""), fragment=None)


def encode_segment(segment: bytes) -> str:
    """Return one segment of a path in percent-encoded form."""
    return encode(segment, _DATA)


def build(url: FileUrl) -> str:
    """Return the URL as text.

    Without a host, the text has the form `file:/path`. A path that starts with `//` would be parsed as a host
    in this form. Therefore, such a path is written after an empty host: `file:////path`.
    """
    path = "".join(f"/{encode_segment(segment)}" for segment in url.segments)
    if url.host is None and path and not path.startswith("//"):
        return build_url(url, path)
    host = build_host(url.host) if url.host else ""
    return build_host_url(url, f"//{build_userinfo(url.user, url.password)}{host}", path)
