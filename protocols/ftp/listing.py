"""FTP listings as entries: names (NLST, RFC 959), names with facts (MLSD, RFC 3659), lines for people (LIST).

Names are octets. Each becomes a URL one step below the listing's, with every octet but unreserved ones
escaped; the URL's password is left out, for entries are shown and stored. Of MLSD and LIST every line is an
entry: one that is not understood has no URL, and is told of once a listing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from protocols.contract import BuiltUrl, Entry, Finding, JsonValue, Limits
from protocols.errors import LimitExceeded
from protocols.ftp.reply import parse_time
from protocols.ftp.url import FtpUrl, build
from protocols.location import Kind
from protocols.syntax import encode

# list dates: Dates as LIST writes them: to the minute or the day, by the server's own clock, often without
# their year.
#
# A date without a zone is no moment. It is kept as that clock had it (`local`), and nothing is decided by
# it. Servers leave the year out for what is less than half a year old, and some for all that lies ahead.

_MONTHS = (b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec")
_MONTH_NAME = b"(?i:" + b"|".join(_MONTHS) + b")"
_CLOCK = rb"[0-9]{1,2}:[0-9]{2}"
#: What may stand where a line of Unix has its date. Runs are bounded: a line is as long as a peer likes.
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
#: MS-DOS has two digits for the years from 1970 on.
_CENTURY_TURN = 70
#: A day without a year is the one nearest: half a year and some days back, and as much ahead as a clock of
#: another zone may be.
_BACK, _AHEAD = timedelta(days=190), timedelta(hours=26)


class ListDate(NamedTuple):
    """A date as `text`; `certain` where its zone is told, else `local`, as far as it was read."""

    text: str
    certain: datetime | None = None
    local: str | None = None
    precision: str | None = None


def parse_date(octets: bytes, now: datetime | None) -> ListDate:
    """`now` is what a year that is left out is found by; None, and there is no date then."""
    text = octets.decode("utf-8", "surrogateescape")
    for form in _FORMS:
        if found := form.fullmatch(octets):
            parts = {name: value for name, value in found.groupdict().items() if value is not None}
            try:
                return _parse_date(text, parts, now)
            except (ValueError, OverflowError):  # no such day
                break
    return ListDate(text)


def at_second(second: int) -> datetime:
    """So many seconds after the first of 1970, UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def _parse_date(text: str, parts: dict[str, bytes], now: datetime | None) -> ListDate:
    moment = _moment(parts, _year(parts["year"])) if "year" in parts else _find_nearest_date(parts, now)
    if moment is None:
        return ListDate(text)
    if "zone" in parts:
        return ListDate(text, certain=_with_zone(moment, parts["zone"]), precision="second")
    if "hour" not in parts:
        return ListDate(text, local=f"{moment:%Y-%m-%d}", precision="day")
    if "second" in parts:
        return ListDate(text, local=f"{moment:%Y-%m-%dT%H:%M:%S}", precision="second-no-zone")
    return ListDate(text, local=f"{moment:%Y-%m-%dT%H:%M}", precision="minute")


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
        except ValueError:  # the 29th of February
            continue
        if clock - _BACK <= moment <= clock + _AHEAD:
            return moment
    return None


def _with_zone(moment: datetime, zone: bytes) -> datetime:
    ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5]))
    there = timezone(-ahead if zone.startswith(b"-") else ahead)
    return moment.replace(tzinfo=there).astimezone(UTC)


# list line: One line of LIST. RFC 959 leaves its form open: it is meant for people, and each server has its
# own.
#
# The forms are tried line by line, for a listing may mix them: EPLF, MS-DOS, NetWare, Unix, Unix with a
# date in another language, VMS. Of Unix, nothing between the mode and the size is counted: groups may be
# missing, owners have blanks, long numbers push the columns. The leftmost size with a date behind it
# counts, one blank ends the date, all the rest is the name. Every pattern is bounded: reading is linear,
# whatever a line holds.

LARGEST = 2**63 - 1

_SIZE = rb"(?P<size>-?[0-9]{1,40}(?:[.,][0-9]{1,3})?[KMGTPEkmgtpe]?|[0-9]{1,10}, {0,20}[0-9]{1,10})"
_NAME = rb"(?P<name>(?s:.+))"
_MODE = re.compile(rb"(?P<type>[-dlbcpsDCMn])[-rwxsStTlL]{9}[+.@]?")
_UNIX = re.compile(rb"(?<= )" + _SIZE + rb" {1,40}(?P<date>" + DATE + rb") " + _NAME)
#: A month in another language.
_MONTH = rb"(?![0-9]+ )[^ ]{1,40}"
#: A day and such a month, either first, then the year or the time.
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
#: Devices, FIFOs, sockets: nothing that could be retrieved.
_SPECIAL = b"bcps"


class Oddity(NamedTuple):
    """What is not as it should be, as the rule of a finding and in words."""

    rule: str
    words: str


class ListLine(NamedTuple):
    """What a line says. `size_text` is a size that was rounded; `special` is nothing to be retrieved; `mode`
    is what Unix lets whom do."""

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
    """No entry, and no loss: `total 12`, in any language on the first line; an empty line."""
    return not line or (_HEADING if first else _TOTAL).fullmatch(line) is not None


def read_line(line: bytes, now: datetime | None) -> ListLine | None:
    """None where the form is not known. A year that is left out is found by `now`."""
    for form in (_read_eplf, _read_dos, _read_netware, _read_unix, _read_vms):
        if (found := form(line, now)) is not None:
            return found
    return None


def _read_eplf(line: bytes, now: datetime | None) -> ListLine | None:
    """Easily parsed LIST format: seconds are UTC, and certain."""
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
        oddity = Oddity("ftp:list-date", "a date that is not read")
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
    return ListLine(
        found["name"], oddity=Oddity("ftp:list-line", "the form of VMS, of which the name is read")
    )


def _link(read: ListLine, size: bytes) -> ListLine:
    """`name -> target`, where the size is that of the target: names may have arrows, too."""
    length = _number(size.decode("latin-1"), 5)
    at = len(read.name) - (length or 0)
    if length and read.name[max(0, at - len(_ARROW)) : at] == _ARROW:
        return read._replace(name=read.name[: at - len(_ARROW)], target=read.name[at:])
    name, arrow, target = read.name.partition(_ARROW)
    if not arrow:
        return read
    oddity = read.oddity or Oddity("ftp:list-link", "a link whose size does not tell where its name ends")
    return read._replace(name=name, target=target, oddity=oddity)


def _add_size(read: ListLine, size: bytes) -> ListLine:
    """Of documents alone, and no number with a unit: that is rounded."""
    if read.kind is not Kind.DOCUMENT:
        return read
    text = size.decode("latin-1")
    if not text.isdigit():
        return read._replace(size_text=None if text.startswith("-") else text)
    octets = _number(text, 19)
    if octets is None:
        return read._replace(oddity=read.oddity or Oddity("ftp:list-size", "a size that no file has"))
    return read._replace(size=octets)


def _number(digits: str, most: int) -> int | None:
    """At most so many digits; None for all else, and beyond 2**63 - 1."""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= most):
        return None
    number = int(digits)
    return number if number <= LARGEST else None


#: Octets of names that are held to see what they begin with: enough to know what a server does.
_HELD = 8_192
_MLSD_KINDS = {"file": Kind.DOCUMENT, "dir": Kind.DIRECTORY}


def shown_name(name: bytes) -> str:
    """A name for a listing line: UTF-8, other octets as surrogates; CR and LF written out."""
    text = name.decode("utf-8", "surrogateescape")
    return text.replace("\r", "\\x0d").replace("\n", "\\x0a")


class _UnixDirectory:
    """The directory that is listed: makes entries of names, and knows what is no name in it (S14)."""

    def __init__(self, url: FtpUrl, findings: list[Finding]) -> None:
        cwds = (*url.cwds, url.name) if url.name else url.cwds
        self._base = build(replace(url, cwds=cwds, name=b"", typecode=None, password=None, fragment=None))
        self._findings = findings
        self._reported: set[str] = set()

    def entry(self, name: bytes, raw: bytes) -> Entry | None:
        """None for the directory itself, its parent, and for names that lead elsewhere."""
        if name in (b"", b".", b".."):
            return None
        if not _is_name(name):
            self.leave_out(name)
            return None
        return self.child(name, raw)

    def child(self, name: bytes, raw: bytes) -> Entry:
        return Entry(name=shown_name(name), url=BuiltUrl(self._base + encode(name)), raw=raw)

    def leave_out(self, name: bytes) -> None:
        self.report("ftp:foreign-name", "left out, for it is no name in this directory", name)

    def make_unread_entry(self, rule: str, words: str, name: bytes, raw: bytes) -> Entry:
        """What leads nowhere: it is shown, and told of."""
        self.report(rule, words, name)
        return Entry(name=shown_name(name), raw=raw)

    def report(self, rule: str, words: str, octets: bytes) -> None:
        """Told once a listing: how many there are is the server's choice."""
        if rule not in self._reported:
            shown = octets[:200].decode("utf-8", "backslashreplace")
            self._findings.append(Finding(rule, "warn", f"{words}: {shown!r}"))
            self._reported.add(rule)


def _is_name(name: bytes) -> bool:
    return name not in (b"", b".", b"..") and b"/" not in name and b"\0" not in name


class NlstReader:
    """Names, one a line, which come as lines do. Whether they begin with the argument of NLST (`argument`,
    may be empty) is a matter of all of them: while they do, the first are held, up to `_HELD` octets. If
    none is without by then, one that comes later is no name in the directory.

    Raises `LimitExceeded` for a line beyond `limits.line` (or `limits.body`, should that be less).
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
        yield from self._entries(self._lines.finish())
        yield from self._settle(self._prefix)

    def _entries(self, lines: list[bytes]) -> Iterator[Entry]:
        for line in filter(None, lines):
            if self._room:
                yield from self._weigh(line)
            elif (entry := self._entry(line)) is not None:
                yield entry

    def _weigh(self, line: bytes) -> Iterator[Entry]:
        """One of the first lines, while nobody knows what they begin with."""
        self._held.append(line)
        self._room = max(0, self._room - len(line))
        if not line.startswith(self._prefix):
            yield from self._settle(b"")
        elif not self._room:
            yield from self._settle(self._prefix)

    def _settle(self, prefix: bytes) -> Iterator[Entry]:
        """From now on it is known."""
        self._prefix, self._room = prefix, 0
        held, self._held = self._held, []
        yield from filter(None, map(self._entry, held))

    def _entry(self, line: bytes) -> Entry | None:
        if line.startswith(self._prefix):
            return self._directory.entry(line[len(self._prefix) :], line)
        self._directory.leave_out(line)
        return None


class _ListingLines:
    """Lines as octets come; holds one that has not ended yet, within `limits`. With `by_network` LF alone is
    a part of a line."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._rest = b""
        self.by_network = False

    def feed(self, octets: bytes) -> list[bytes]:
        lines: list[bytes] = []
        self._rest += octets
        if b"\n" in octets:
            *lines, self._rest = _split(self._rest) if self.by_network else split_lines(self._rest)
        for limit, most in (("line", self._limits.line), ("body", self._limits.body)):
            if len(self._rest) > most:
                raise LimitExceeded(limit, f"a line of the listing is longer than {most} octets")
        return lines

    def finish(self) -> list[bytes]:
        rest, self._rest = self._rest, b""
        return [rest.removesuffix(b"\r")]


def _split(octets: bytes) -> list[bytes]:
    """As `split_lines`, where all lines end in CR LF."""
    return octets.split(b"\r\n")


def split_lines(octets: bytes) -> list[bytes]:
    """Lines end in LF, with or without CR; the last one has not ended. A name with LF in it cannot be told
    then: ProFTPD and vsftpd send it as it is."""
    *lines, rest = octets.split(b"\n")
    return [*(line.removesuffix(b"\r") for line in lines), rest]


class MlsdReader:
    """`fact=value;…; name`, one a line; entries come as lines do. A line without facts is one of unknown
    kind that leads nowhere: ProFTPD ends a line where a name has LF. Facts of unknown name are in `extra`,
    and where a link leads, if that is told."""

    def __init__(self, url: FtpUrl, limits: Limits, findings: list[Finding]) -> None:
        self._directory = _UnixDirectory(url, findings)
        self._lines = _ListingLines(limits)

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return filter(None, map(self._entry, self._lines.feed(octets)))

    def finish(self) -> Iterable[Entry]:
        return filter(None, map(self._entry, self._lines.finish()))

    def _entry(self, line: bytes) -> Entry | None:
        if not line:
            return None
        parts = _split_facts(line)
        if parts is None:
            return self._directory.make_unread_entry(
                "ftp:facts-line", "a line without facts and name", line, line
            )
        facts, name, twice = parts
        kind = facts.get("type", "").lower()
        if kind in ("cdir", "pdir"):
            return None
        if not _is_name(name):
            words = "leads nowhere, for it is no name in this directory"
            return self._directory.make_unread_entry("ftp:foreign-name", words, name, line)
        if twice:
            self._directory.report("ftp:facts-twice", "has a fact twice, of which the last counts", line)
        return _with_facts(self._directory.child(name, line), facts, kind)


def _split_facts(line: bytes) -> tuple[dict[str, str], bytes, bool] | None:
    """Facts and name, and whether a fact is there twice. The first `; ` ends the facts, for a value may hold
    a blank; a line that begins with a blank has none (RFC 3659 7.2)."""
    if line.startswith(b" "):
        return {}, line[1:], False
    written, ended, name = line.partition(b"; ")
    if not ended:  # some leave the last semicolon out
        written, ended, name = line.partition(b" ")
    facts = parse_facts(written) if ended else None
    if facts is None:
        return None
    return facts, name, sum(map(bool, written.split(b";"))) > len(facts)


def _with_facts(entry: Entry, facts: dict[str, str], kind: str) -> Entry:
    extra: dict[str, JsonValue] = dict(facts)
    sized = kind in ("", *_MLSD_KINDS)  # a link's size is its own, a device has none
    target = facts.get("type", "").partition(":")[2]
    if _is_link(kind) and target:
        extra["link"] = target.encode("latin-1").decode("utf-8", "surrogateescape")
    return replace(
        entry,
        kind=_MLSD_KINDS.get(kind, Kind.LINK if _is_link(kind) else Kind.UNKNOWN),
        size=_fact_size(facts.get("size", "")) if sized else None,
        modified=parse_time(facts.get("modify", "").encode("latin-1")),
        extra=extra,
    )


def _is_link(kind: str) -> bool:
    """The size that ProFTPD and Pure-FTPd tell of one is its own, and not of what it leads to."""
    return kind.startswith(("os.unix=slink", "os.unix=symlink"))


def parse_facts(written: bytes) -> dict[str, str] | None:
    """`Size=3;Type=file;` as names in lower case and values. None where something has no `=`: that is no
    line of facts but the rest of a name with a line end in it, as ProFTPD sends."""
    facts = [fact.partition("=") for fact in written.decode("latin-1").split(";") if fact]
    return {name.lower(): value for name, _, value in facts} if all(fact[1] for fact in facts) else None


def _fact_size(value: str) -> int | None:
    if not (value.isascii() and value.isdigit() and len(value) <= 19):
        return None
    size = int(value)
    return size if size <= LARGEST else None


class ListReader:
    """Lines for people, whose forms are known of many servers and promised by none (RFC 959 4.1.3): each is
    marked `source: list` in `extra`. Where most of the first lines end in CR LF, those in `_HELD` octets, LF
    alone is a part of a name; else it ends a line. `now` finds the years that are left out.

    Raises `LimitExceeded` as `NlstReader` does, and never for what a line says.
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
        yield from self._entries(self._lines.finish())

    def _settle(self) -> Iterator[Entry]:
        """From now on it is known how lines end."""
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
            unread = self._directory.make_unread_entry(
                "ftp:list-line", "a line that is not understood", line, line
            )
            return replace(unread, extra={"source": "list"})
        if read.kind is Kind.DIRECTORY and read.name in (b".", b".."):
            return None
        if not _is_name(read.name):
            words = "leads nowhere, for it is no name in this directory"
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
