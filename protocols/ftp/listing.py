"""Listings as entries: NLST, the names of RFC 959, and MLSD, the names with facts of RFC 3659.

Names are octets. Each becomes a URL one step below the listing's, with every octet but unreserved ones
escaped; the URL's password is left out, for entries are shown and stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from protocols.contract import Entry, Finding, JsonValue, Kind, Limits
from protocols.errors import LimitExceeded
from protocols.ftp.facts import parse_time
from protocols.ftp.url import FtpUrl, build
from protocols.syntax import encode

_LARGEST = 2**63 - 1
_MLSD_KINDS = {"file": Kind.DOCUMENT, "dir": Kind.DIRECTORY}


def shown_name(name: bytes) -> str:
    """A name for a listing line: UTF-8, other octets as surrogates; CR and LF written out."""
    text = name.decode("utf-8", "surrogateescape")
    return text.replace("\r", "\\x0d").replace("\n", "\\x0a")


class _Directory:
    """The directory that is listed: makes entries of names, and keeps out what is no name in it."""

    def __init__(self, url: FtpUrl, findings: list[Finding]) -> None:
        cwds = (*url.cwds, url.name) if url.name else url.cwds
        self._base = build(replace(url, cwds=cwds, name=b"", typecode=None, password=None, fragment=None))
        self._findings = findings
        self._told = False

    def entry(self, name: bytes, raw: bytes) -> Entry | None:
        """None for the directory itself, its parent, and for names that lead elsewhere (S14)."""
        if name in (b"", b".", b".."):
            return None
        if b"/" in name or b"\0" in name:
            self._tell(name)
            return None
        return Entry(name=shown_name(name), url=self._base + encode(name), raw=raw)

    def _tell(self, name: bytes) -> None:
        """Once a listing: how many there are is the server's choice."""
        if not self._told:
            detail = f"left out, for it is no name in this directory: {name[:200]!r}"
            self._findings.append(Finding("ftp:foreign-name", "warn", detail))
            self._told = True


class NlstReader:
    """Names, one a line. Nothing comes out before the end, because both how lines end and whether names
    begin with the argument of NLST (`argument`, may be empty) is a matter of all of them.

    Holds at most `limits.body` octets: `LimitExceeded` beyond.
    """

    def __init__(self, url: FtpUrl, argument: bytes, limits: Limits, findings: list[Finding]) -> None:
        self._directory = _Directory(url, findings)
        self._argument = argument
        self._limit = limits.body
        self._octets = bytearray()

    def feed(self, octets: bytes) -> Iterable[Entry]:
        self._octets += octets
        if len(self._octets) > self._limit:
            raise LimitExceeded("body", f"the listing is longer than {self._limit} octets")
        return ()

    def finish(self) -> Iterable[Entry]:
        lines = [line for line in split_lines(bytes(self._octets)) if line]
        prefix = self._common_prefix(lines)
        for line in lines:
            entry = self._directory.entry(line[len(prefix) :], line)
            if entry is not None:
                yield entry

    def _common_prefix(self, lines: list[bytes]) -> bytes:
        if not self._argument:
            return b""
        prefix = self._argument if self._argument.endswith(b"/") else self._argument + b"/"
        return prefix if all(line.startswith(prefix) for line in lines) else b""


def split_lines(octets: bytes) -> list[bytes]:
    """Lines end in CR LF if each does, else in LF with or without CR. A name with LF in it cannot be told."""
    if octets.count(b"\n") == octets.count(b"\r\n"):
        return octets.split(b"\r\n")
    return [line.removesuffix(b"\r") for line in octets.split(b"\n")]


class MlsdReader:
    """`fact=value;…; name`, one a line; entries come as lines do. A line without a blank has no name,
    and is left out as is one that begins with no facts; those of unknown name are kept in `extra`."""

    def __init__(self, url: FtpUrl, limits: Limits, findings: list[Finding]) -> None:
        self._directory = _Directory(url, findings)
        self._limit = limits.line
        self._rest = b""

    def feed(self, octets: bytes) -> Iterable[Entry]:
        *lines, self._rest = (self._rest + octets).split(b"\n")
        if len(self._rest) > self._limit:
            raise LimitExceeded("line", f"a line of the listing is longer than {self._limit} octets")
        return self._entries(lines)

    def finish(self) -> Iterable[Entry]:
        rest, self._rest = self._rest, b""
        return self._entries([rest])

    def _entries(self, lines: list[bytes]) -> Iterator[Entry]:
        for line in lines:
            entry = self._entry(line.removesuffix(b"\r"))
            if entry is not None:
                yield entry

    def _entry(self, line: bytes) -> Entry | None:
        written, _, name = line.partition(b" ")
        facts = parse_facts(written)
        if facts is None:
            return None
        kind = facts.get("type", "").lower()
        if kind in ("cdir", "pdir"):
            return None
        entry = self._directory.entry(name, line)
        if entry is None:
            return None
        extra: dict[str, JsonValue] = dict(facts)
        return replace(
            entry,
            kind=_MLSD_KINDS.get(kind, Kind.LINK if "slink" in kind or "symlink" in kind else Kind.UNKNOWN),
            size=_fact_size(facts.get("size", "")),
            modified=parse_time(facts.get("modify", "").encode("latin-1")),
            extra=extra,
        )


def parse_facts(written: bytes) -> dict[str, str] | None:
    """`Size=3;Type=file;` as names in lower case and values. None where something has no `=`: that is no
    line of facts but the rest of a name with a line end in it, as ProFTPD sends."""
    facts = [fact.partition("=") for fact in written.decode("latin-1").split(";") if fact]
    return {name.lower(): value for name, _, value in facts} if all(fact[1] for fact in facts) else None


def _fact_size(value: str) -> int | None:
    if not (value.isascii() and value.isdigit() and len(value) <= 19):
        return None
    size = int(value)
    return size if size <= _LARGEST else None
