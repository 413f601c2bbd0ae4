"""Listings as entries: NLST, the names of RFC 959; MLSD, the names with facts of RFC 3659; LIST, lines for
people.

Names are octets. Each becomes a URL one step below the listing's, with every octet but unreserved ones
escaped; the URL's password is left out, for entries are shown and stored. Of MLSD and LIST every line is an
entry: one that is not understood has no URL, and is told of once a listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from protocols.contract import BuiltUrl, Entry, Finding, JsonValue, Kind, Limits
from protocols.errors import LimitExceeded
from protocols.ftp.facts import parse_time
from protocols.ftp.list_line import LARGEST, ListLine, is_heading, read_line
from protocols.ftp.url import FtpUrl, build
from protocols.syntax import encode
from protocols.values import replace

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

    def unread(self, rule: str, words: str, name: bytes, raw: bytes) -> Entry:
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
            return self._directory.unread("ftp:facts-line", "a line without facts and name", line, line)
        facts, name, twice = parts
        kind = facts.get("type", "").lower()
        if kind in ("cdir", "pdir"):
            return None
        if not _is_name(name):
            words = "leads nowhere, for it is no name in this directory"
            return self._directory.unread("ftp:foreign-name", words, name, line)
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
            unread = self._directory.unread("ftp:list-line", "a line that is not understood", line, line)
            return replace(unread, extra={"source": "list"})
        if read.kind is Kind.DIRECTORY and read.name in (b".", b".."):
            return None
        if not _is_name(read.name):
            words = "leads nowhere, for it is no name in this directory"
            unread = self._directory.unread("ftp:list-name", words, read.name, line)
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
