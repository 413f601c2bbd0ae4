"""ftp URLs (RFC 1738 3.2): a login, CWD arguments, a name and a typecode."""

from __future__ import annotations

from dataclasses import dataclass, replace

from protocols.authority import build_host_url, build_login, parse_login
from protocols.errors import NotConfigured
from protocols.location import HostUrl, UrlText
from protocols.syntax import encode, find, note_characters, take

_DATA = "?:@&="


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class FtpUrl(HostUrl):
    """An ftp URL: a login, CWD arguments, a name and a typecode.

    `cwds` contains one CWD argument per segment, including empty segments. `name` is None if the URL has no
    path. `typecode` is `a`, `i`, `d` or None.

    Examples:
        >>> url = resolver.parse("ftp://h.example/%2Fetc/motd;type=a")
        >>> url.cwds, url.name, url.typecode
        ((b'/etc',), b'motd', 'a')
    """

    cwds: tuple[bytes, ...] = ()
    name: bytes | None = None
    typecode: str | None = None


def parse(text: UrlText) -> FtpUrl:
    """Parse an ftp URL: split the path at `/`, and then decode each segment.

    The order matters: `%2Fetc` becomes the single argument `/etc`.
    """
    login, start = parse_login(text)
    if start == text.end:
        return FtpUrl(**login, **text.common())
    end, typecode = _parse_typecode(text, start)
    cwds: list[bytes] = []
    at = start + 1
    while (slash := find(text, "/", at, end)) < end:
        cwds.append(take(text, f"cwds[{len(cwds)}]", at, slash))
        at = slash + 1
    name = take(text, "name", at, end)
    return FtpUrl(**login, cwds=tuple(cwds), name=name, typecode=typecode, **text.common())


def _parse_typecode(text: UrlText, start: int) -> tuple[int, str | None]:
    """Return the end index of the path, and the typecode. Errors become findings."""
    mark = text.text.lower().rfind(";type=", start, text.end)
    if mark < 0 or "/" in text.text[mark : text.end]:
        note_characters(text, start, text.end, _DATA + "/")
        return text.end, None
    note_characters(text, start, mark, _DATA + "/")
    letter = text.text[mark + 6 : text.end].lower()
    if letter in ("a", "i", "d"):
        text.cut("typecode", mark + 6, text.end)
        return mark, letter
    text.note("bad-typecode", mark)
    note_characters(text, mark + 1, text.end, _DATA + "/")
    return text.end, None


def with_typecode(url: FtpUrl, typecode: str) -> FtpUrl:
    """Return the URL with another typecode.

    Raises:
        NotConfigured: `typecode` is not a, i or d.
    """
    if typecode.lower() not in ("a", "i", "d"):
        raise NotConfigured(f"type must be a, i or d, got {typecode!r}")
    return replace(url, typecode=typecode.lower(), name=url.name or b"")


def with_name(url: FtpUrl, *names: bytes) -> FtpUrl:
    """Return the URL of a file below the URL's directory.

    Args:
        url: The URL whose CWD arguments come first.
        *names: Directories below the URL's directory, each a CWD argument, then the file name.
    """
    return replace(url, cwds=(*url.cwds, *names[:-1]), name=names[-1], typecode="i", fragment=None)


def list_names(url: FtpUrl) -> tuple[bytes, ...]:
    """Return the CWD arguments of the URL, and the file name if the URL has one."""
    return (*url.cwds, url.name) if url.name else url.cwds


def as_directory(url: FtpUrl) -> FtpUrl:
    """Return the URL of the same object as a directory listing: its name is the last CWD argument."""
    return replace(url, cwds=list_names(url), name=b"", typecode=None, fragment=None)


def build(url: FtpUrl) -> str:
    """Return the URL as text, with its password."""
    return build_host_url(url, build_login(url), _build_path(url))


def _build_path(url: FtpUrl) -> str:
    if url.name is None and url.typecode is None and not url.cwds:
        return ""
    pieces = "/".join(encode(piece, _DATA) for piece in (*url.cwds, url.name or b""))
    return f"/{pieces}" if url.typecode is None else f"/{pieces};type={url.typecode}"
