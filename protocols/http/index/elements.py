"""nginx's index of XML as entries: `<list>` of `<file>`, `<directory>` and `<other>`.

Names with controls, or that are not UTF-8, make it no XML at all: then nobody can tell what it lists, and it
is a document, never a shorter listing. So nothing of it goes out before its end. No DTD is read, no entity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn
from xml.parsers import expat

from protocols.entry import Entry
from protocols.errors import LimitExceeded
from protocols.http.index.cells import parse_stamp
from protocols.http.index.links import IndexDirectory
from protocols.http.index.records import IndexRecords, decline
from protocols.http.url import HttpUrl
from protocols.location import Finding, Kind
from protocols.options import Limits

_KINDS = {"file": Kind.DOCUMENT, "directory": Kind.DIRECTORY, "other": Kind.UNKNOWN}
#: Octets of a listing that is held: 100,000 names of usual length.
_LONGEST = 16_777_216


class ElementReader:
    """Raises `Declined` for what is no index, `LimitExceeded` for one that cannot be held."""

    def __init__(self, url: HttpUrl, limits: Limits, findings: list[Finding]) -> None:
        self._records = IndexRecords(IndexDirectory(url), findings, "xml")
        self._findings = findings
        self._octets = 0
        self._entries: list[Entry] = []
        self._inside: list[str] = []
        self._attributes: Mapping[str, str] = {}
        self._name: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text

    def feed(self, octets: bytes) -> Iterable[Entry]:
        self._octets += len(octets)
        if self._octets > _LONGEST:
            raise LimitExceeded(
                "body", f"an index of XML is held whole, and this is longer than {_LONGEST} octets"
            )
        self._parse(octets, last=False)
        return ()

    def finish(self) -> Iterable[Entry]:
        self._parse(b"", last=True)
        return self._entries

    def _parse(self, octets: bytes, *, last: bool) -> None:
        try:
            self._parser.Parse(octets, last)
        except (expat.ExpatError, LookupError, ValueError) as error:  # these two of an encoding
            detail = f"the index of XML is not well-formed, so nobody knows what it lists: {error}"
            self._findings.append(Finding("http:index-broken", "warn", detail))
            decline(self._findings, "it is not well-formed")

    def _doctype(self, *_: object) -> NoReturn:
        decline(self._findings, "an index of XML has no document type")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._inside.append(name)
        is_index = name == "list" if len(self._inside) == 1 else name in _KINDS and len(self._inside) == 2
        if not is_index:
            decline(self._findings, "its elements are not those of an index")
        self._attributes = attributes
        self._name.clear()

    def _text(self, text: str) -> None:
        if len(self._inside) == 2:
            self._name.append(text)

    def _end(self, name: str) -> None:
        self._inside.pop()
        if name not in _KINDS:
            return
        size = self._attributes.get("size", "")
        entry = self._records.named(
            "".join(self._name).encode("utf-8"),
            _KINDS[name],
            int(size) if size.isascii() and size.isdigit() and len(size) < 19 else None,
            parse_stamp(self._attributes.get("mtime", "")),
        )
        if entry is not None:
            self._entries.append(entry)
