"""Entries of an index page: the target, size and date of each link (RFC 3986 5.2).

A link is an entry if its href names an object directly in the directory. The text of the link is ignored. An
href is processed as bytes. Bytes outside ASCII are not converted to another charset. Bytes that RFC 3986 does
not allow are percent-encoded. Percent-encoded bytes are decoded once.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, NoReturn

from protocols.dates import in_utc
from protocols.errors import Declined
from protocols.http.request import format_host
from protocols.http.response import MONTHS, parse_date
from protocols.http.url import HttpUrl, build
from protocols.location import BuiltUrl, Entry, Finding, Kind
from protocols.syntax import remove_dot_segments

#: Matches one plain segment of a relative path, as servers write most names, with its slash if it has one.
_PLAIN = re.compile(r"(?!\.\.?/?\Z)([A-Za-z0-9._~!$&'()*+,;=@-]+)(/?)")
_SCHEME = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*:")
_SORT = re.compile(rb"C=[NMSD][;&]O=[AD]|sort=[a-z]+&order=(?:asc|desc)")
#: The bytes that must be percent-encoded in a segment, and percent signs that do not begin an escape (RFC
#: 3986 3.3). Brackets are not percent-encoded, because all servers interpret brackets in the same way.
_UNWRITTEN = re.compile(rb"[^A-Za-z0-9._~!$&'()*+,;=:@%\[\]-]|%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")


class LinkRole(enum.Enum):
    ENTRY = "names one object in the directory"
    SORT = "the same page in another order"
    PARENT = "one level above"
    OUTSIDE = "another host, a sibling or deeper"
    FOREIGN = "below the directory, but not a valid name"
    NOTHING = "the page itself, a part or a search of it"


class IndexLink(NamedTuple):
    """A link of an index page.

    `segment` is the percent-encoded path segment of an entry. `name` is the decoded segment of an entry or of
    an invalid name. Otherwise, both are empty.
    """

    role: LinkRole
    segment: str = ""
    name: bytes = b""
    directory: bool = False


class IndexDirectory:
    """The directory of an index page. The path of its `url` ends in a slash."""

    def __init__(self, url: HttpUrl) -> None:
        path = url.path or ""
        self.text = build(replace(url, path=path, search=None, password=None, fragment=None))
        self._scheme = url.scheme.encode("ascii")
        self._authority = format_host(url).lower()
        self._written = _segments(b"/" + path.encode("utf-8", "surrogateescape"))[:-1]
        self._base: list[bytes] | None = self._written
        self._segments = [*map(decode, self._written)]

    def rebase(self, href: str) -> None:
        """Store the base URL for later relative links (`<base href>`)."""
        target = self._target(encode_text(href).strip().partition(b"#")[0].partition(b"?")[0])
        self._base = None if target is None else target[:-1]

    @property
    def has_other_base(self) -> bool:
        """Return whether the links of the page are relative to another directory."""
        return self._base is None or [*map(decode, self._base)] != self._segments

    def read(self, href: str) -> IndexLink:
        if self._base is self._written and (plain := _PLAIN.fullmatch(href)) is not None:
            segment, slash = plain.groups()
            return IndexLink(LinkRole.ENTRY, segment, segment.encode("ascii"), bool(slash))
        written = encode_text(href).strip()
        if b"#" in written:
            return IndexLink(LinkRole.NOTHING)
        written, question, search = written.partition(b"?")
        if question:
            return IndexLink(LinkRole.SORT if not written and _SORT.fullmatch(search) else LinkRole.NOTHING)
        target = self._target(written)
        return IndexLink(LinkRole.OUTSIDE) if target is None else self._place(target)

    def _target(self, written: bytes) -> list[bytes] | None:
        """Return the segments of the href's target, or None if the target is on another host."""
        scheme = _SCHEME.match(written)
        if scheme is not None:
            if scheme[0][:-1].lower() != self._scheme or not written.startswith(b"//", scheme.end()):
                return None
            written = written[scheme.end() :]
        if written.startswith(b"//"):
            authority, slash, path = written[2:].partition(b"/")
            return _segments(slash + path) if authority.lower() == self._authority else None
        if written.startswith(b"/"):
            return _segments(written)
        return None if self._base is None else _segments(b"/" + written, self._base)

    def _place(self, segments: list[bytes]) -> IndexLink:
        page = self._segments
        written = segments[: len(page)]
        if written != self._written and (above := [*map(decode, written)]) != page:
            leads_up = [segment for segment in above if segment] == page[:-1]
            return IndexLink(LinkRole.PARENT if leads_up and len(segments) <= len(page) else LinkRole.OUTSIDE)
        segment, *rest = segments[len(page) :] or [b""]
        if segment and rest in ([], [b""]):
            return _entry(segment, directory=bool(rest))
        return IndexLink(LinkRole.OUTSIDE if rest else LinkRole.NOTHING)


def _entry(segment: bytes, *, directory: bool) -> IndexLink:
    name = decode(segment)
    if name in (b".", b"..") or b"/" in name or b"\0" in name:
        return IndexLink(LinkRole.FOREIGN, name=name)
    written = _UNWRITTEN.sub(lambda match: b"".join(b"%%%02X" % octet for octet in match[0]), segment)
    return IndexLink(LinkRole.ENTRY, written.decode("ascii"), name, directory)


def encode_text(text: str) -> bytes:
    """Encode the text of a page, so that the original bytes are restored.

    The page was decoded as ISO 8859-1, which preserves its bytes. A character reference beyond ISO 8859-1 is
    encoded in UTF-8.
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return b"".join(
            character.encode("latin-1" if character <= "\xff" else "utf-8", "surrogateescape")
            for character in text
        )


def decode(segment: bytes) -> bytes:
    if b"%" not in segment:
        return segment
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode("ascii")), segment)


def _segments(path: bytes, base: Sequence[bytes] = ()) -> list[bytes]:
    """Split a path into segments without dot segments (RFC 3986 5.2.4), after the segments of its base.

    After a trailing slash, the last segment is empty.
    """
    segments = remove_dot_segments(path.split(b"/")[1:], base)
    return [*segments, b""] if path.endswith((b"/.", b"/..")) else segments


# Sizes and dates next to a link, in the formats of the servers. A size with a unit (`4.2K`) is rounded, and
# is stored as text. A date without a time zone is ambiguous, and is stored as text too.

_MAX_SIZE = 2**63 - 1
_SIZE = r"-|[0-9]{1,19}(?:[.,][0-9]{1,3})?(?: ?(?:[KMGTPEkmgtpe]i?[Bb]?|B|bytes))?"
_DIGITS_BY_MONTH = {name: f"{month:02}" for month, name in enumerate(MONTHS, 1)}
_NAME = rf"(?P<month>{'|'.join(MONTHS)})"
_TIME = "(?P<time>(?:[01][0-9]|2[0-3]):[0-9]{2}(?::[0-9]{2})?)"
_DATES = (
    rf"(?P<day>[0-9]{{2}})-?{_NAME}-?(?P<year>[0-9]{{4}}) {_TIME}",  # nginx, mini_httpd
    rf"(?P<year>[0-9]{{4}})-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}}) {_TIME}",  # Apache
    rf"(?P<year>[0-9]{{4}})-{_NAME}-(?P<day>[0-9]{{2}}) {_TIME}",  # lighttpd, fancyindex
)
_LOCAL = tuple(map(re.compile, _DATES))
_STAMP = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]{1,9})?Z")
_SIZE_CELL = re.compile(_SIZE)
_SIZE_AFTER = re.compile(rf"({_SIZE})(?=\s|$)")
_EXACT = re.compile(r"([0-9]{1,19})(?: ?(?:B|bytes))?")
#: The size on a page of IIS: digits between a time and a link.
_SIZE_BEFORE = re.compile(r"[0-9]{1,2}:[0-9]{2} [AP]M +([0-9]{1,19}) *")


class CellTime(NamedTuple):
    """A date of a cell.

    `text` is the original text. `certain` is set if the text has a time zone. Otherwise, `local` contains the
    time in the server's unknown time zone.
    """

    text: str
    certain: datetime | None = None
    local: str | None = None


class CellSize(NamedTuple):
    """The size in a table cell, as `text`. For an exact number, `exact` is the number of bytes."""

    text: str
    exact: int | None = None


def parse_size(text: str) -> CellSize | None:
    """Parse the text of a cell as a size, or return None, for example for a dash."""
    return _read_size(text) if _SIZE_CELL.fullmatch(text) else None


def _read_size(text: str) -> CellSize:
    exact = _EXACT.fullmatch(text)
    octets = None if exact is None else int(exact[1])
    return CellSize(text, octets if octets is not None and octets <= _MAX_SIZE else None)


def parse_moment(text: str) -> CellTime | None:
    """Parse the text of a cell as a date, or return None."""
    if (certain := parse_stamp(text) or parse_date(text)) is not None:
        return CellTime(text, certain)
    for form in _LOCAL:
        if match := form.fullmatch(text):
            return _parse_local_time(text, match)
    return None


def parse_stamp(text: str) -> datetime | None:
    """Parse a date of RFC 3339 in UTC."""
    match = _STAMP.fullmatch(text)
    return None if match is None else in_utc(match.groups())


def read_after(text: str) -> tuple[CellTime | None, CellSize | None]:
    """Parse the text after a link in a `pre` element: a date, a size, and possibly a description."""
    text = text.lstrip()
    moment = None
    for form in _LOCAL:
        if match := form.match(text):
            moment = _parse_local_time(match[0], match)
            text = text[match.end() :].lstrip()
            break
    size = _SIZE_AFTER.match(text)
    return moment, None if moment is None or size is None else _read_size(size[1])


def read_before(text: str) -> CellSize | None:
    """Parse the size before a link in a `pre` element, as on pages of IIS."""
    match = _SIZE_BEFORE.search(text)
    return None if match is None else parse_size(match[1])


def _parse_local_time(text: str, match: re.Match[str]) -> CellTime | None:
    year, month, day, time = match.group("year", "month", "day", "time")
    local = f"{year}-{_DIGITS_BY_MONTH.get(month, month)}-{day}T{time}"
    try:
        datetime.fromisoformat(local)
    except ValueError:
        return None
    return CellTime(text, None, local)


# Entries of a machine-readable index, and the error for a page that is not an index.

#: The bytes that are percent-encoded: all bytes except unreserved bytes (RFC 3986 2.3) and `=`. pyarrow and
#: DuckDB recognize a partition name only with a literal `=`, as in `year=2025`.
_RESERVED = re.compile(rb"[^A-Za-z0-9._~=-]")


class IndexRecords(NamedTuple):
    """A factory for the entries of one directory. `source` is the format of the index."""

    directory: IndexDirectory
    findings: list[Finding]
    source: str

    def make_named_entry(
        self, name: bytes, kind: Kind, size: int | None, modified: datetime | None
    ) -> Entry | None:
        """Return the entry for a name in bytes, or None if the name is not valid in a directory."""
        if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
            note_foreign(self.findings, name)
            return None
        return self.make_linked_entry(
            IndexLink(LinkRole.ENTRY, _escape_name(name), name), kind, size, modified
        )

    def make_linked_entry(
        self, link: IndexLink, kind: Kind, size: int | None, modified: datetime | None
    ) -> Entry:
        slash = "/" if kind is Kind.DIRECTORY else ""
        return Entry(
            name=link.name.decode("utf-8", "surrogateescape"),
            url=BuiltUrl(f"{self.directory.text}{link.segment}{slash}"),
            kind=kind,
            size=size if kind is Kind.DOCUMENT else None,
            modified=modified,
            raw=link.name,
            extra={"source": self.source},
        )


def _escape_name(name: bytes) -> str:
    return _RESERVED.sub(lambda found: b"%%%02X" % found[0][0], name).decode("ascii")


def decline(findings: list[Finding], reason: str) -> NoReturn:
    """Raise `Declined`, and add the reason as a finding."""
    findings.append(Finding("http:no-index", "allow", reason))
    raise Declined("this is a document and not a listing; cat shows it")


def note_foreign(findings: list[Finding], name: bytes) -> None:
    """Add a finding for the first invalid name of a listing.

    Later invalid names are not reported, because a server could send any number of invalid names.
    """
    if not any(finding.rule == "http:index-name" for finding in findings):
        shown = name[:200].decode("utf-8", "backslashreplace")
        detail = f"entry skipped, its name is not valid in this directory: {shown!r}"
        findings.append(Finding("http:index-name", "warn", detail))
