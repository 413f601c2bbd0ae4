"""FTP listings as entries: names (NLST, RFC 959), facts (MLSD, RFC 3659) and text lines (LIST).

Names are bytes. Each name becomes a URL one level below the listing's URL, with all except unreserved bytes
percent-encoded. The password of the listing's URL is omitted, because entries are displayed and stored. Each
line of MLSD and LIST is an entry. A line that cannot be parsed becomes an entry without a URL, and causes one
finding per listing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from protocols.contract import BuiltUrl, Entry, Finding, JsonValue, Limits
from protocols.errors import LimitExceeded, Truncated
from protocols.ftp.reply import parse_time
from protocols.ftp.url import FtpUrl, build
from protocols.location import Kind
from protocols.syntax import encode

# Dates in LIST have a precision of a minute or a day. The dates are in the server's local time, and the year
# is often missing.
#
# A date without a time zone is ambiguous. Therefore the client stores the original text of the date
# (`local`), and does not compare ambiguous dates. Servers omit the year if a date is less than half a year
# old. Some servers omit the year of all future dates.

_MONTHS = (b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec")
_MONTH_NAME = b"(?i:" + b"|".join(_MONTHS) + b")"
_CLOCK = rb"[0-9]{1,2}:[0-9]{2}"
#: The date formats in the lines of a Unix listing. Repetitions are limited, because the peer chooses the
#: length of a line (ReDoS).
DATE = (
    rb"(?:"
    + _MONTH_NAME
    + rb" {1,20}[0-9]{1,2} {1,20}(?:[0-9]{4}|"
    + _CLOCK
    + rb"(?::[0-9]{2} {1,20}[0-9]{4})?)"
    rb"|[0-9]{4}-[0-9]{2}-[0-9]{2} {1,20}" + _CLOCK + rb"(?::[0-9]{2}(?:\.[0-9]{1,9})?(?: [-+][0-9]{4})?)?)"
)
_TIME = rb"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
_MONTH_DAY = rb"(?P<name>" + _MONTH_NAME + rb") +(?P<day>[0-9]{1,2}) +"
_FORMS = tuple(
    map(
        re.compile,
        (
            _MONTH_DAY + rb"(?P<year>[0-9]{4})",
            _MONTH_DAY + _TIME,
            _MONTH_DAY + _TIME + rb":(?P<second>[0-9]{2}) +(?P<year>[0-9]{4})",
            rb"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2}) +"
            + _TIME
            + rb"(?::(?P<second>[0-9]{2})(?:\.[0-9]{1,9})?(?: (?P<zone>[-+][0-9]{4}))?)?",
            rb"(?P<month>[0-9]{2})-(?P<day>[0-9]{2})-(?P<year>[0-9]{4}|[0-9]{2}) +"
            + _TIME
            + rb" ?(?P<half>[AP]M)?",  # MS-DOS
        ),
    )
)
#: The first two-digit year of the 20th century in MS-DOS listings: 70 to 99 mean 1970 to 1999.
_CENTURY_TURN = 70
#: The range of a date without a year, around the current time. A date without a year is at most half a year
#: and some days in the past. The date is at most 26 hours in the future, because the server may be in another
#: time zone.
_BACK, _AHEAD = timedelta(days=190), timedelta(hours=26)


class ListDate(NamedTuple):
    """A date of a LIST line.

    `text` is the original text. If the text contains a time zone, `certain` is set. Otherwise, `local` is
    set, with the precision of the text.
    """

    text: str
    certain: datetime | None = None
    local: str | None = None
    precision: str | None = None


def parse_date(octets: bytes, now: datetime | None) -> ListDate:
    """Parse a date of a LIST line. For a date without a year, the year is derived from `now`."""
    text = octets.decode("utf-8", "surrogateescape")
    for form in _FORMS:
        if found := form.fullmatch(octets):
            parts = {name: value for name, value in found.groupdict().items() if value is not None}
            try:
                return _parse_date(text, parts, now)
            except (ValueError, OverflowError):  # The month does not have this day.
                break
    return ListDate(text)


def at_second(second: int) -> datetime:
    """Return a time in UTC from the number of seconds since 1970-01-01."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def _parse_date(text: str, parts: dict[str, bytes], now: datetime | None) -> ListDate:
    moment = _moment(parts, _year(parts["year"])) if "year" in parts else _find_nearest_date(parts, now)
    if moment is None:
        return ListDate(text)
    if "zone" in parts:
        return ListDate(text, certain=_with_zone(moment, parts["zone"]), precision="second")
    if "hour" not in parts:
        return ListDate(text, local=moment.date().isoformat(), precision="day")
    if "second" in parts:
        return ListDate(text, local=moment.isoformat(), precision="second-no-zone")
    return ListDate(text, local=moment.isoformat(timespec="minutes"), precision="minute")


def _year(digits: bytes) -> int:
    year = int(digits)
    if len(digits) == 4:
        return year
    return year + (1900 if year >= _CENTURY_TURN else 2000)


def _moment(parts: dict[str, bytes], year: int) -> datetime:
    month = _MONTHS.index(parts["name"].lower()) + 1 if "name" in parts else int(parts["month"])
    hour = int(parts.get("hour", b"0"))
    if "half" in parts:
        if not 1 <= hour <= 12:
            raise ValueError(hour)
        hour = hour % 12 + (12 if parts["half"] == b"PM" else 0)
    minute, second = int(parts.get("minute", b"0")), int(parts.get("second", b"0"))
    return datetime(year, month, int(parts["day"]), hour, minute, second)


def _find_nearest_date(parts: dict[str, bytes], now: datetime | None) -> datetime | None:
    if now is None:
        return None
    clock = now.astimezone(UTC).replace(tzinfo=None)
    for year in (clock.year - 1, clock.year, clock.year + 1):
        try:
            moment = _moment(parts, year)
        except ValueError:  # February 29 in a year without this day
            continue
        if clock - _BACK <= moment <= clock + _AHEAD:
            return moment
    return None


def _with_zone(moment: datetime, zone: bytes) -> datetime:
    ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5]))
    there = timezone(-ahead if zone.startswith(b"-") else ahead)
    return moment.replace(tzinfo=there).astimezone(UTC)


# One line of LIST. RFC 959 does not define its format, because the text is meant for users, and servers
# differ.
#
# A listing may mix formats, so each line is compared with all formats. The order is EPLF, MS-DOS, NetWare,
# Unix, Unix with a date in another language, VMS. In the Unix format, the number of fields between mode and
# size varies. Groups may be missing, owners may contain blanks, and long numbers shift the columns. The size
# is the leftmost number that is followed by a date. One blank ends the date, and the remaining text is the
# name. Every pattern is limited, so parsing a line takes linear time.

LARGEST = 2**63 - 1

_SIZE = rb"(?P<size>-?[0-9]{1,40}(?:[.,][0-9]{1,3})?[KMGTPEkmgtpe]?|[0-9]{1,10}, {0,20}[0-9]{1,10})"
_NAME = rb"(?P<name>(?s:.+))"
_MODE = re.compile(rb"(?P<type>[-dlbcpsDCMn])[-rwxsStTlL]{9}[+.@]?")
_UNIX = re.compile(rb"(?<= )" + _SIZE + rb" {1,40}(?P<date>" + DATE + rb") " + _NAME)
#: The name of a month in another language.
_MONTH = rb"(?![0-9]+ )[^ ]{1,40}"
#: A day and a month name in an unknown language, in either order, before the year or the time.
_UNREAD = re.compile(
    rb"(?<= )"
    + _SIZE
    + rb" {1,40}(?P<date>(?:"
    + _MONTH
    + rb" {1,20}[0-9]{1,2}\.?|[0-9]{1,2}\.? {1,20}"
    + _MONTH
    + rb")"
    + rb" {1,20}(?:(?:19|20)[0-9]{2}|[0-9]{1,2}:[0-9]{2})) "
    + _NAME
)
_DOS = re.compile(
    rb"(?P<date>[0-9]{2}-[0-9]{2}-(?:[0-9]{4}|[0-9]{2}) {1,20}[0-9]{2}:[0-9]{2} ?(?:[AP]M)?) {1,40}"
    rb"(?:(?P<folder><DIR>)|(?P<size>[0-9]{1,40})) {1,40}(?P<name>[^ ](?s:.*))"
)
_NETWARE = re.compile(
    rb"(?P<type>[-d]) {1,8}\[[-A-Z]{1,20}\] {1,40}[^ ]{1,200} {1,40}"
    + _SIZE
    + rb" {1,40}(?P<date>"
    + DATE
    + rb") {1,40}(?P<name>[^ ](?s:.*))"
)
_EPLF = re.compile(rb"\+(?P<facts>[^\t]{0,1000})\t" + _NAME)
_VMS = re.compile(
    rb"(?P<name>[^ ;]{1,255});[0-9]{1,5} {1,80}[0-9/]{1,20} {1,20}[0-9]{1,2}-[A-Za-z]{3}-[0-9]{4} "
)
_HEADING = re.compile(rb"[^ ]{1,40} {1,20}[0-9]{1,20}")
_TOTAL = re.compile(rb"total {1,20}[0-9]{1,20}")
_ARROW = b" -> "
_KINDS = {b"-": Kind.DOCUMENT, b"d": Kind.DIRECTORY, b"l": Kind.LINK}
#: The mode letters of devices, FIFOs and sockets, which cannot be retrieved.
_SPECIAL = b"bcps"


class Oddity(NamedTuple):
    """An irregularity of a line: the rule of the finding, and a description."""

    rule: str
    words: str


class ListLine(NamedTuple):
    """The parsed fields of a LIST line.

    `size_text` is a rounded size. `special` marks an object that cannot be retrieved, such as a device.
    `mode` is the Unix mode.
    """

    name: bytes
    kind: Kind = Kind.UNKNOWN
    size: int | None = None
    size_text: str | None = None
    date: ListDate | None = None
    target: bytes | None = None
    unique: str | None = None
    special: bool = False
    oddity: Oddity | None = None
    mode: str | None = None


def is_heading(line: bytes, *, first: bool) -> bool:
    """Return whether the line is a heading and not an entry: an empty line, or `total 12`.

    In the first line, the word `total` may be in any language.
    """
    return not line or (_HEADING if first else _TOTAL).fullmatch(line) is not None


def read_line(line: bytes, now: datetime | None) -> ListLine | None:
    """Parse a LIST line, with a missing year derived from `now`. Return None for an unknown format."""
    for form in (_read_eplf, _read_dos, _read_netware, _read_unix, _read_vms):
        if (found := form(line, now)) is not None:
            return found
    return None


def _read_eplf(line: bytes, now: datetime | None) -> ListLine | None:
    """Parse a line in the format EPLF (easily parsed LIST format). The times of EPLF are in UTC."""
    found = _EPLF.fullmatch(line)
    if found is None:
        return None
    facts = found["facts"].split(b",")
    said = {fact[:1]: fact[1:].decode("latin-1") for fact in facts}
    kind = Kind.DIRECTORY if b"/" in facts else Kind.DOCUMENT if b"r" in facts else Kind.UNKNOWN
    second = _number(said.get(b"m", ""), 11)
    date = None if second is None else ListDate(said[b"m"], certain=at_second(second), precision="second")
    size = _number(said.get(b"s", ""), 19) if kind is Kind.DOCUMENT else None
    return ListLine(found["name"], kind, size, date=date, unique=said.get(b"i"))


def _read_dos(line: bytes, now: datetime | None) -> ListLine | None:
    found = _DOS.fullmatch(line)
    if found is None:
        return None
    kind = Kind.DOCUMENT if found["folder"] is None else Kind.DIRECTORY
    return _add_size(ListLine(found["name"], kind, date=parse_date(found["date"], now)), found["size"] or b"")


def _read_netware(line: bytes, now: datetime | None) -> ListLine | None:
    found = _NETWARE.fullmatch(line)
    if found is None:
        return None
    read = ListLine(found["name"], _KINDS[found["type"]], date=parse_date(found["date"], now))
    return _add_size(read, found["size"])


def _read_unix(line: bytes, now: datetime | None) -> ListLine | None:
    mode = _MODE.match(line)
    if mode is None:
        return None
    kind, special = _KINDS.get(mode["type"], Kind.UNKNOWN), mode["type"] in _SPECIAL
    if found := _UNIX.search(line, mode.end()):
        read = ListLine(found["name"], kind, date=parse_date(found["date"], now), special=special)
    elif found := _UNREAD.search(line, mode.end()):
        oddity = Oddity("ftp:list-date", "unknown date format")
        date = ListDate(found["date"].decode("utf-8", "surrogateescape"))
        read = ListLine(found["name"], kind, date=date, special=special, oddity=oddity)
    else:
        return None
    read = read._replace(mode=mode[0].decode("ascii"))
    return _link(read, found["size"]) if kind is Kind.LINK else _add_size(read, found["size"])


def _read_vms(line: bytes, now: datetime | None) -> ListLine | None:
    found = _VMS.match(line)
    if found is None:
        return None
    return ListLine(found["name"], oddity=Oddity("ftp:list-line", "VMS format, only the name is parsed"))


def _link(read: ListLine, size: bytes) -> ListLine:
    """Split `name -> target` of a symbolic link at the correct arrow.

    A name may contain an arrow too. The correct arrow is found by the size of the link, which equals the
    length of the target.
    """
    length = _number(size.decode("latin-1"), 5)
    at = len(read.name) - (length or 0)
    if length and read.name[max(0, at - len(_ARROW)) : at] == _ARROW:
        return read._replace(name=read.name[: at - len(_ARROW)], target=read.name[at:])
    name, arrow, target = read.name.partition(_ARROW)
    if not arrow:
        return read
    oddity = read.oddity or Oddity(
        "ftp:list-link", "link size does not match the target, name ends at the first arrow"
    )
    return read._replace(name=name, target=target, oddity=oddity)


def _add_size(read: ListLine, size: bytes) -> ListLine:
    """Set the size of a document. A number with a unit is a rounded size and is stored as text."""
    if read.kind is not Kind.DOCUMENT:
        return read
    text = size.decode("latin-1")
    if not text.isdigit():
        return read._replace(size_text=None if text.startswith("-") else text)
    octets = _number(text, 19)
    if octets is None:
        return read._replace(oddity=read.oddity or Oddity("ftp:list-size", "file size out of range"))
    return read._replace(size=octets)


def _number(digits: str, most: int) -> int | None:
    """Parse a decimal number of at most `most` digits and at most 2**63 - 1, or return None."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= most):
        return None
    number = int(digits)
    return number if number <= LARGEST else None


#: The maximum number of bytes of names that are buffered to detect a common prefix (see `NlstReader`).
#: Directories with fewer names are stored completely.
_HELD = 8_192
_MLSD_KINDS = {"file": Kind.DOCUMENT, "dir": Kind.DIRECTORY}


def shown_name(name: bytes) -> str:
    """Return a name as text: UTF-8 with other bytes as surrogates, and CR and LF escaped."""
    text = name.decode("utf-8", "surrogateescape")
    return text.replace("\r", "\\x0d").replace("\n", "\\x0a")


class _UnixDirectory:
    """The listed directory, which makes entries from names, and rejects paths (S14, path traversal)."""

    def __init__(self, url: FtpUrl, findings: list[Finding]) -> None:
        cwds = (*url.cwds, url.name) if url.name else url.cwds
        self._base = build(replace(url, cwds=cwds, name=b"", typecode=None, password=None, fragment=None))
        self._findings = findings
        self._reported: set[str] = set()

    def entry(self, name: bytes, raw: bytes) -> Entry | None:
        """Return the entry for a name, or None for the directory, its parent and names outside of it."""
        if name in (b"", b".", b".."):
            return None
        if not _is_name(name):
            self.leave_out(name)
            return None
        return self.child(name, raw)

    def child(self, name: bytes, raw: bytes) -> Entry:
        return Entry(name=shown_name(name), url=BuiltUrl(self._base + encode(name)), raw=raw)

    def leave_out(self, name: bytes) -> None:
        self.report("ftp:foreign-name", "skipped, not a name in this directory", name)

    def make_unread_entry(self, rule: str, words: str, name: bytes, raw: bytes) -> Entry:
        """Report a line that cannot be parsed, and return an entry without a URL."""
        self.report(rule, words, name)
        return Entry(name=shown_name(name), raw=raw)

    def report(self, rule: str, words: str, octets: bytes) -> None:
        """Report the violation of a rule once per listing, because every line may violate it."""
        if rule not in self._reported:
            shown = octets[:200].decode("utf-8", "backslashreplace")
            self._findings.append(Finding(rule, "warn", f"{words}: {shown!r}"))
            self._reported.add(rule)

    def report_cut(self, rest: list[bytes]) -> None:
        """Report a last line without a line end. Some servers omit it, so this is not an error."""
        if any(rest):
            self.report("ftp:listing-cut", "the listing ended in the middle of a line", rest[0])


def _is_name(name: bytes) -> bool:
    return name not in (b"", b".", b"..") and b"/" not in name and b"\0" not in name


class NlstReader:
    """A reader of NLST output (one name per line) that creates entries.

    Some servers send the argument of NLST (`argument`, may be empty) as a prefix of each name. Other servers
    do not. To detect the prefix, the reader stores the first names, up to `_HELD` bytes. The reader stops
    earlier at a name without the prefix. If all stored names have the prefix, a later name without the prefix
    is rejected as a name outside the directory (path traversal).

    Raises:
        LimitExceeded: A line is longer than `limits.line` (or `limits.body`, if that is less).
    """

    def __init__(self, url: FtpUrl, argument: bytes, limits: Limits, findings: list[Finding]) -> None:
        self._directory = _UnixDirectory(url, findings)
        self._prefix = b"" if not argument else argument if argument.endswith(b"/") else argument + b"/"
        self._lines = _ListingLines(limits)
        self._held: list[bytes] = []
        self._room = _HELD if argument else 0

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return self._entries(self._lines.feed(octets))

    def finish(self) -> Iterable[Entry]:
        rest = self._lines.finish()
        self._directory.report_cut(rest)
        yield from self._entries(rest)
        yield from self._settle(self._prefix)

    def _entries(self, lines: list[bytes]) -> Iterator[Entry]:
        for line in filter(None, lines):
            if self._room:
                yield from self._weigh(line)
            elif (entry := self._entry(line)) is not None:
                yield entry

    def _weigh(self, line: bytes) -> Iterator[Entry]:
        """Buffer a line until it is known whether the server sends a common prefix."""
        self._held.append(line)
        self._room = max(0, self._room - len(line))
        if not line.startswith(self._prefix):
            yield from self._settle(b"")
        elif not self._room:
            yield from self._settle(self._prefix)

    def _settle(self, prefix: bytes) -> Iterator[Entry]:
        """Set the prefix, and return the entries of the stored lines."""
        self._prefix, self._room = prefix, 0
        held, self._held = self._held, []
        yield from filter(None, map(self._entry, held))

    def _entry(self, line: bytes) -> Entry | None:
        if line.startswith(self._prefix):
            return self._directory.entry(line[len(self._prefix) :], line)
        self._directory.leave_out(line)
        return None


class _ListingLines:
    """A splitter of bytes into lines, which buffers an incomplete line up to the limits.

    With `by_network`, only CR LF ends a line, and an LF without CR belongs to the line.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rest = b""
        self.by_network = False

    def feed(self, octets: bytes) -> list[bytes]:
        lines: list[bytes] = []
        self._rest += octets
        if b"\n" in octets:
            rest = self._rest
            *lines, self._rest = rest.split(b"\r\n") if self.by_network else split_lines(rest)
        for limit, most in (("line", self._limits.line), ("body", self._limits.body)):
            if len(self._rest) > most:
                raise LimitExceeded(limit, f"line of the listing exceeds {most} bytes")
        return lines

    def finish(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest.removesuffix(b"\r")]


def split_lines(octets: bytes) -> list[bytes]:
    """Split at LF, with or without a CR before the LF. The last item is an incomplete line.

    A name that contains LF cannot be recognized, because ProFTPD and vsftpd send the LF unescaped.
    """
    *lines, rest = octets.split(b"\n")
    return [*(line.removesuffix(b"\r") for line in lines), rest]


class MlsdReader:
    """A reader of MLSD output (`fact=value;…; name`, one per line) that creates entries.

    A line without facts becomes an entry of unknown kind without a URL. If a name contains an LF, ProFTPD
    sends a line without facts. `extra` contains all facts, including unknown facts. If the server sends the
    target of a link, `extra` also contains the target.

    Raises:
        LimitExceeded: As in `NlstReader`.
        Truncated: The last line is incomplete.
    """

    def __init__(self, url: FtpUrl, limits: Limits, findings: list[Finding]) -> None:
        self._directory = _UnixDirectory(url, findings)
        self._received = 0
        self._lines = _ListingLines(limits)

    def feed(self, octets: bytes) -> Iterable[Entry]:
        self._received += len(octets)
        return filter(None, map(self._entry, self._lines.feed(octets)))

    def finish(self) -> Iterable[Entry]:
        if any(self._lines.finish()):  # RFC 3659 7.2: every line ends in CR LF
            raise Truncated("the listing ended in the middle of a line", received=self._received)
        return ()

    def _entry(self, line: bytes) -> Entry | None:
        if not line:
            return None
        parts = _split_facts(line)
        if parts is None:
            return self._directory.make_unread_entry(
                "ftp:facts-line", "line without facts and name", line, line
            )
        facts, name, twice = parts
        kind = facts.get("type", "").lower()
        if kind in ("cdir", "pdir"):
            return None
        if not _is_name(name):
            words = "no URL, not a name in this directory"
            return self._directory.make_unread_entry("ftp:foreign-name", words, name, line)
        if twice:
            self._directory.report("ftp:facts-twice", "fact given twice, the last one counts", line)
        return _with_facts(self._directory.child(name, line), facts, kind)


def _split_facts(line: bytes) -> tuple[dict[str, str], bytes, bool] | None:
    """Return the facts and the name of a line, and whether a fact occurs twice.

    The facts end at the first `; `, because a value may contain a blank. A line that begins with a blank has
    no facts (RFC 3659 7.2).
    """
    if line.startswith(b" "):
        return {}, line[1:], False
    written, ended, name = line.partition(b"; ")
    if not ended:  # some servers omit the semicolon after the last fact
        written, ended, name = line.partition(b" ")
    facts = parse_facts(written) if ended else None
    if facts is None:
        return None
    return facts, name, sum(map(bool, written.split(b";"))) > len(facts)


def _with_facts(entry: Entry, facts: dict[str, str], kind: str) -> Entry:
    extra: dict[str, JsonValue] = dict(facts)
    # For a link, the size is the size of the link itself, and not of its target. A device has no size.
    sized = kind in ("", *_MLSD_KINDS)
    target = facts.get("type", "").partition(":")[2]
    if _is_link(kind) and target:
        extra["link"] = target.encode("latin-1").decode("utf-8", "surrogateescape")
    return replace(
        entry,
        kind=_MLSD_KINDS.get(kind, Kind.LINK if _is_link(kind) else Kind.UNKNOWN),
        size=_number(facts.get("size", ""), 19) if sized else None,
        modified=parse_time(facts.get("modify", "").encode("latin-1")),
        extra=extra,
    )


def _is_link(kind: str) -> bool:
    """Return whether the kind is a symbolic link.

    ProFTPD and Pure-FTPd send the size of the link itself, not the size of the link's target.
    """
    return kind.startswith(("os.unix=slink", "os.unix=symlink"))


def parse_facts(written: bytes) -> dict[str, str] | None:
    """Parse `Size=3;Type=file;` into values by name in lower case.

    Return None if an item has no `=`. The line is then the continuation of a name with a line end, which
    ProFTPD sends unescaped.
    """
    facts = [fact.partition("=") for fact in written.decode("latin-1").split(";") if fact]
    return {name.lower(): value for name, _, value in facts} if all(fact[1] for fact in facts) else None


class ListReader:
    """A reader of LIST output that creates entries.

    No standard defines the formats (RFC 959 4.1.3). The known formats were collected from many servers. Each
    entry has `source: list` in `extra`. If most lines in the first `_HELD` bytes end in CR LF, an LF without
    CR is part of a name. Otherwise, LF ends a line. Missing years are derived from `now`.

    Raises:
        LimitExceeded: As in `NlstReader`. A line that cannot be parsed does not raise an error.
    """

    def __init__(self, url: FtpUrl, limits: Limits, findings: list[Finding], now: datetime | None) -> None:
        self._directory = _UnixDirectory(url, findings)
        self._lines = _ListingLines(limits)
        self._held: bytes | None = b""
        self._first = True
        self._now = now

    def feed(self, octets: bytes) -> Iterable[Entry]:
        if self._held is None:
            return self._entries(self._lines.feed(octets))
        self._held += octets
        return self._settle() if len(self._held) > _HELD else ()

    def finish(self) -> Iterable[Entry]:
        yield from self._settle()
        rest = self._lines.finish()
        self._directory.report_cut(rest)
        yield from self._entries(rest)

    def _settle(self) -> Iterator[Entry]:
        """Detect the line end of the server, and return the entries of the buffered bytes."""
        held, self._held = self._held, None
        if held is not None:
            self._lines.by_network = 2 * held.count(b"\r\n") >= held.count(b"\n") > 0
            yield from self._entries(self._lines.feed(held))

    def _entries(self, lines: list[bytes]) -> Iterator[Entry]:
        for line in lines:
            first, self._first = self._first, False
            if not is_heading(line, first=first) and (entry := self._entry(line)) is not None:
                yield entry

    def _entry(self, line: bytes) -> Entry | None:
        read = read_line(line, self._now)
        if read is None:
            unread = self._directory.make_unread_entry("ftp:list-line", "cannot parse line", line, line)
            return replace(unread, extra={"source": "list"})
        if read.kind is Kind.DIRECTORY and read.name in (b".", b".."):
            return None
        if not _is_name(read.name):
            words = "no URL, not a name in this directory"
            unread = self._directory.make_unread_entry("ftp:list-name", words, read.name, line)
            return replace(unread, extra={"source": "list"})
        if read.oddity is not None:
            self._directory.report(*read.oddity, line)
        return _as_read(self._directory.child(read.name, line), read)


def _as_read(entry: Entry, read: ListLine) -> Entry:
    date = read.date
    said: dict[str, JsonValue] = {
        "source": "list",
        "precision": date and date.precision,
        "modified_local": date and date.local,
        "modified_text": date and date.text,
        "size_text": read.size_text,
        "link": None if read.target is None else read.target.decode("utf-8", "surrogateescape"),
        "unique": read.unique,
        "mode": read.mode,
    }
    return replace(
        entry,
        url=None if read.special else entry.url,
        kind=read.kind,
        size=read.size,
        modified=date and date.certain,
        extra={name: value for name, value in said.items() if value is not None},
    )
