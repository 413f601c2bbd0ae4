"""Entries of an index that is no page for people, and what every kind of index says of what it is not."""

from __future__ import annotations

import re
from datetime import datetime
from typing import NoReturn

from protocols.entry import Entry
from protocols.errors import Declined
from protocols.http.index.links import IndexDirectory, IndexLink, LinkRole
from protocols.location import BuiltUrl, Finding, Kind
from protocols.values import NamedTuple

#: What needs an escape, to be on the safe side: all but what is unreserved (RFC 3986 2.3).
_RESERVED = re.compile(rb"[^A-Za-z0-9._~-]")


class IndexRecords(NamedTuple):
    """What makes entries of the records of one directory; `source` is what they were written in."""

    directory: IndexDirectory
    findings: list[Finding]
    source: str

    def named(self, name: bytes, kind: Kind, size: int | None, modified: datetime | None) -> Entry | None:
        """Of a name in octets; None for what is no name in a directory."""
        if name in (b"", b".", b"..") or b"/" in name or b"\0" in name:
            note_foreign(self.findings, name)
            return None
        return self.linked(IndexLink(LinkRole.ENTRY, _escaped(name), name), kind, size, modified)

    def linked(self, link: IndexLink, kind: Kind, size: int | None, modified: datetime | None) -> Entry:
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


def _escaped(name: bytes) -> str:
    return _RESERVED.sub(lambda found: b"%%%02X" % found[0][0], name).decode("ascii")


def decline(findings: list[Finding], reason: str) -> NoReturn:
    """Raises `Declined`; the reason is a finding."""
    findings.append(Finding("http:no-index", "allow", reason))
    raise Declined("this is a document and not a listing; cat shows it")


def note_foreign(findings: list[Finding], name: bytes) -> None:
    """Told once a listing: how many there are is the server's choice."""
    if not any(finding.rule == "http:index-name" for finding in findings):
        shown = name[:200].decode("utf-8", "backslashreplace")
        detail = f"left out, for it is no name in this directory: {shown!r}"
        findings.append(Finding("http:index-name", "warn", detail))
