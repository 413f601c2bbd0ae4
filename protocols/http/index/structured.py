"""The parser for JSON and XML indexes: the JSON arrays of nginx and Caddy, and the `<list>` of nginx.

A JSON document is an index if its first thousand objects all have the members that nginx or Caddy writes. An
empty array is not accepted. In the JSON of nginx, the bytes of a name may be invalid UTF-8. In the JSON of
Caddy, invalid bytes in `name` are replaced, so the name is parsed from `url`. Objects are parsed one at a
time, so a document can have any length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import NoReturn
from xml.parsers import expat

from protocols.errors import LimitExceeded, ProtocolError
from protocols.http.index.entries import (
    IndexDirectory,
    IndexRecords,
    LinkRole,
    decline,
    note_foreign,
    parse_stamp,
)
from protocols.http.response import parse_date
from protocols.http.url import HttpUrl
from protocols.location import Entry, Finding, Kind
from protocols.options import Limits

#: The maximum size of a file in bytes, because file offsets are signed 64-bit numbers.
_MAX_SIZE = 2**63 - 1
#: The number of objects that are buffered before the document is accepted as an index.
_MIN_OBJECTS = 1_000
_KINDS = {"file": Kind.DOCUMENT, "directory": Kind.DIRECTORY, "other": Kind.UNKNOWN}
#: The permission bits. Go sets higher mode bits for everything except a regular file.
_MODE = 0o777
#: Patterns for a JSON array of objects: the start of the array, and the separator between objects.
_FIRST = re.compile(r"[ \t\r\n]*\[[ \t\r\n]*(?=\{)")
_OTHER = re.compile(r"[ \t\r\n]*,[ \t\r\n]*(?=\{)")
_EMPTY = re.compile(rb"\s*\[\s*\]\s*")
_END = re.compile(rb"\s*\]\s*")


class ObjectReader:
    """A reader for a JSON index.

    Raises:
        Declined: the document is not an index.
        ProtocolError: a later object of an accepted document is not an index object.
        LimitExceeded: an object is longer than `limits.line`.
    """

    def __init__(self, url: HttpUrl, limits: Limits, findings: list[Finding]) -> None:
        self._records = IndexRecords(IndexDirectory(url), findings, "json")
        self._max_size = limits.line
        self._findings = findings
        self._decoder = json.JSONDecoder()
        self._rest = b""
        self._count = 0
        self._pending: list[Entry] | None = []

    def feed(self, octets: bytes) -> Iterable[Entry]:
        self._rest += octets
        entries = list(filter(None, self._objects()))
        self._check_length(self._rest)
        return self._release(entries)

    def _check_length(self, octets: bytes) -> None:
        if len(octets) > self._max_size:
            raise LimitExceeded("line", f"an object of the listing is longer than {self._max_size} bytes")

    def finish(self) -> Iterable[Entry]:
        if not self._count:
            empty = _EMPTY.fullmatch(self._rest) is not None
            self._refuse(
                "an empty array does not prove an index"
                if empty
                else "the document is not an array of objects"
            )
        if not _END.fullmatch(self._rest):
            self._refuse("the array of objects is not closed")
        self._count = max(self._count, _MIN_OBJECTS)
        return self._release([])

    def _release(self, entries: list[Entry]) -> list[Entry]:
        if self._pending is None:
            return entries
        self._pending += entries
        if self._count < _MIN_OBJECTS:
            return []
        pending, self._pending = self._pending, None
        return pending

    def _objects(self) -> Iterator[Entry | None]:
        """Yield the entries of the complete objects. An incomplete object is stored for the next call."""
        text = self._rest.decode("utf-8", "surrogateescape")
        at = 0
        while (begin := (_OTHER if self._count else _FIRST).match(text, at)) is not None:
            try:
                item, end = self._decoder.raw_decode(text, begin.end())
            except (ValueError, RecursionError):
                break  # an incomplete object raises an error later: at the size limit, or at the end
            self._check_length(text[at:end].encode("utf-8", "surrogateescape"))
            self._count += 1
            at = end
            yield self._entry(item)
        self._rest = text[at:].encode("utf-8", "surrogateescape")

    def _entry(self, item: object) -> Entry | None:
        assert isinstance(item, dict), "an object begins with a brace"
        match item:
            case {"name": str(name), "type": str(kind), "mtime": str(date)} if kind in _KINDS:
                modified = parse_date(date)
                if modified is not None:
                    return self._of_nginx(name, _KINDS[kind], modified, item)
            case {"name": str(name), "url": str(url), "mod_time": str(stamp), "is_dir": bool(is_directory)}:
                return self._of_caddy(url, parse_stamp(stamp), item, is_directory=is_directory)
        self._refuse("the objects are not those of an index")

    def _of_nginx(
        self, name: str, kind: Kind, modified: datetime, item: Mapping[str, object]
    ) -> Entry | None:
        try:
            octets = name.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            note_foreign(self._findings, name.encode("utf-8", "backslashreplace"))
            return None
        return self._records.make_named_entry(octets, kind, _size(item), modified)

    def _of_caddy(
        self, url: str, modified: datetime | None, item: Mapping[str, object], *, is_directory: bool
    ) -> Entry | None:
        try:
            link = self._records.directory.read(url)
        except UnicodeEncodeError:  # JSON allows the escape of a lone surrogate, such as `\\ud800`
            link = None
        if link is None or link.role is not LinkRole.ENTRY:
            note_foreign(self._findings, url.encode("utf-8", "backslashreplace"))
            return None
        mode = item.get("mode")
        odd = isinstance(mode, int) and mode > _MODE and item.get("is_symlink") is not True
        kind = Kind.DIRECTORY if is_directory else Kind.UNKNOWN if odd else Kind.DOCUMENT
        return self._records.make_linked_entry(link, kind, _size(item), modified)

    def _refuse(self, reason: str) -> NoReturn:
        if self._pending is None:
            raise ProtocolError(f"invalid listing: {reason}")
        decline(self._findings, reason)


def _size(item: Mapping[str, object]) -> int | None:
    size = item.get("size")
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= _MAX_SIZE else None


# The XML index of nginx: a `<list>` of `<file>`, `<directory>` and `<other>`.
#
# nginx does not escape control characters or invalid UTF-8 in names. The XML is then malformed.
# Malformed XML is treated as a document and not as an index, because a truncated listing would hide files.
# Therefore the entries are emitted only after the complete XML was parsed. DTDs and entities are not
# processed (XXE).

#: The maximum size of the stored listing in bytes, enough for 100,000 names of usual length.
_LONGEST = 16_777_216


class ElementReader:
    """A reader for an XML index.

    Raises:
        Declined: the document is not an index.
        LimitExceeded: the document is too large for memory.
    """

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
            raise LimitExceeded("body", f"the XML index is longer than the limit of {_LONGEST} bytes")
        self._parse(octets, last=False)
        return ()

    def finish(self) -> Iterable[Entry]:
        self._parse(b"", last=True)
        return self._entries

    def _parse(self, octets: bytes, *, last: bool) -> None:
        try:
            self._parser.Parse(octets, last)
        # `LookupError` and `ValueError`: the encoding is unknown or wrong
        except (expat.ExpatError, LookupError, ValueError) as error:
            detail = f"the XML index is not well-formed, so its entries are unknown: {error}"
            self._findings.append(Finding("http:index-broken", "warn", detail))
            decline(self._findings, "the document is not well-formed XML")

    def _doctype(self, *_: object) -> NoReturn:
        decline(self._findings, "an XML index must not have a document type")

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._inside.append(name)
        is_index = name == "list" if len(self._inside) == 1 else name in _KINDS and len(self._inside) == 2
        if not is_index:
            decline(self._findings, "the elements are not those of an index")
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
        entry = self._records.make_named_entry(
            "".join(self._name).encode("utf-8"),
            _KINDS[name],
            int(size) if size.isascii() and size.isdigit() and len(size) < 19 else None,
            parse_stamp(self._attributes.get("mtime", "")),
        )
        if entry is not None:
            self._entries.append(entry)
