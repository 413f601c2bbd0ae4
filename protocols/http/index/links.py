"""What a link of an index page leads to, seen from the page's directory (RFC 3986 5.2).

A link is an entry if it names one thing in this directory: the href is the name, the text beside it is
decoration. An href is octets: what a page wrote outside ASCII is taken as it stands and never recoded, what
RFC 3986 does not allow is escaped, and what is escaped is decoded once.
"""

from __future__ import annotations

import enum
import re

from protocols.http.request import host_of
from protocols.http.url import HttpUrl, build
from protocols.values import NamedTuple, replace

_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:")
_SORT = re.compile(rb"C=[NMSD][;&]O=[AD]|sort=[a-z]+&order=(?:asc|desc)")
#: What a segment may not have without an escape, and what begins none (RFC 3986 3.3). Brackets stay as they
#: are written: no server takes them for anything else.
_UNWRITTEN = re.compile(rb"[^A-Za-z0-9._~!$&'()*+,;=:@%\[\]-]|%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class LinkRole(enum.Enum):
    """What a link is for."""

    ENTRY = "names one thing in the directory"
    SORT = "the same page in another order"
    PARENT = "one level above"
    OUTSIDE = "elsewhere, beside or deeper"
    FOREIGN = "below the directory, but by what is no name"
    NOTHING = "the page itself, a part or a search of it"


class IndexLink(NamedTuple):
    """`segment` is as written, fit for a URL; `name` what it stands for. Both are empty unless an entry."""

    role: LinkRole
    segment: str = ""
    name: bytes = b""
    directory: bool = False


class IndexDirectory:
    """The directory that the page at `url`, whose path ends in a slash, is the index of."""

    def __init__(self, url: HttpUrl) -> None:
        path = url.path or ""
        self.text = build(replace(url, path=path, search=None, password=None, fragment=None))
        self._scheme = url.scheme.encode("ascii")
        self._authority = host_of(url).lower()
        base = b"/" + path.encode("utf-8", "surrogateescape")
        self._base: bytes | None = base
        self._segments = [decode(segment) for segment in _segments(base)[:-1]]

    def rebase(self, href: str) -> None:
        """`<base href>`: what links are relative to from now on."""
        path = self._path(octets_of(href).strip().partition(b"#")[0].partition(b"?")[0])
        self._base = None if path is None else path[: path.rfind(b"/") + 1]

    @property
    def astray(self) -> bool:
        """Are links relative to another directory?"""
        return self._base is None or [*map(decode, _segments(self._base)[:-1])] != self._segments

    def read(self, href: str) -> IndexLink:
        written = octets_of(href).strip()
        if b"#" in written:
            return IndexLink(LinkRole.NOTHING)
        written, question, search = written.partition(b"?")
        if question:
            return IndexLink(LinkRole.SORT if not written and _SORT.fullmatch(search) else LinkRole.NOTHING)
        path = self._path(written)
        return IndexLink(LinkRole.OUTSIDE) if path is None else self._place(_segments(path))

    def _path(self, written: bytes) -> bytes | None:
        """The path that is meant; None at another place."""
        scheme = _SCHEME.match(written)
        if scheme is not None:
            if scheme[0][:-1].lower() != self._scheme or not written.startswith(b"//", scheme.end()):
                return None
            written = written[scheme.end() :]
        if written.startswith(b"//"):
            authority, slash, path = written[2:].partition(b"/")
            return slash + path if authority.lower() == self._authority else None
        if written.startswith(b"/"):
            return written
        return None if self._base is None else self._base + written

    def _place(self, segments: list[bytes]) -> IndexLink:
        own = self._segments
        above = [decode(segment) for segment in segments[: len(own)]]
        if above != own:
            leads_up = [segment for segment in above if segment] == own[:-1]
            return IndexLink(LinkRole.PARENT if leads_up and len(segments) <= len(own) else LinkRole.OUTSIDE)
        match segments[len(own) :]:
            case [] | [b""]:
                return IndexLink(LinkRole.NOTHING)
            case [segment] | [segment, b""] if segment:
                return _entry(segment, directory=len(segments) > len(own) + 1)
        return IndexLink(LinkRole.OUTSIDE)


def _entry(segment: bytes, *, directory: bool) -> IndexLink:
    name = decode(segment)
    if name in (b".", b"..") or b"/" in name or b"\0" in name:
        return IndexLink(LinkRole.FOREIGN, name=name)
    written = _UNWRITTEN.sub(lambda found: b"".join(b"%%%02X" % octet for octet in found[0]), segment)
    return IndexLink(LinkRole.ENTRY, written.decode("ascii"), name, directory)


def octets_of(text: str) -> bytes:
    """A page is read as ISO 8859-1, so that its octets stay; a reference to a character beyond is UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return b"".join(
            character.encode("latin-1" if character <= "\xff" else "utf-8", "surrogateescape")
            for character in text
        )


def decode(segment: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode("ascii")), segment)


def _segments(path: bytes) -> list[bytes]:
    """Without dot segments (RFC 3986 5.2.4); the last is empty behind a slash."""
    found: list[bytes] = []
    for segment in path.split(b"/")[1:]:
        if segment == b"..":
            del found[-1:]
        elif segment != b".":
            found.append(segment)
    return [*found, b""] if path.endswith((b"/.", b"/..")) else found
