"""Attributes as entries and as JSON: what a listing shows of records and forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from protocols.contract import Entry, Finding, JsonValue, Kind
from protocols.gopher.attributes import Admin, Record, RecordReader
from protocols.gopher.forms import Form, parse_form
from protocols.gopher.item import line_text
from protocols.gopher.lines import LINE_LIMIT
from protocols.gopher.menu import Items
from protocols.gopher.url import GopherUrl


def form_of(record: Record) -> Form | None:
    """The form in an ASK block."""
    block = record.block("ASK")
    return None if block is None else parse_form(block.lines)


def missing_findings(names: Iterable[str]) -> Iterator[Finding]:
    """What to say about attributes that were asked for and did not come."""
    for name in names:
        yield Finding("gopher:attribute-missing", "warn", f"the server sent no +{name}")


def record_json(record: Record, missing: Iterable[str]) -> dict[str, JsonValue]:
    """A record's blocks: `attributes` as lines of text by name, the well-known ones also taken apart
    (null where absent), and the names that were asked for and did not come."""
    admin, form = record.admin, form_of(record)
    return {
        "attributes": {
            name: [line_text(line) for block in record.blocks if block.name == name for line in block.lines]
            for name in record.names
        },
        "references": {
            block.name: block.reference.as_json()
            for block in map(record.block, record.names)
            if block is not None and block.reference is not None and not block.lines
        },
        "admin": None if admin is None else _admin_json(admin),
        "views": [view.as_json() for view in record.views],
        "abstract": record.abstract,
        "form": None if form is None else [line.as_json() for line in form.lines],
        "missing": list(missing),
    }


def _admin_json(admin: Admin) -> dict[str, JsonValue]:
    return {
        "name": admin.name,
        "address": admin.address,
        "modified_local": None if admin.modified is None else admin.modified.strftime("%Y-%m-%dT%H:%M:%S"),
        "ttl": admin.seconds_to_live,
        "facts": dict(admin.facts),
    }


class RecordEntries:
    """An `EntryReader` for attribute records: one entry an item, its blocks in `extra`, reduced to
    `names` if there are any. Names that came with no record at all are told to `report`."""

    def __init__(
        self,
        menu: GopherUrl,
        names: Iterable[str],
        report: Callable[[Finding], None],
        line_limit: int = LINE_LIMIT,
    ) -> None:
        self._names = tuple(names)
        self._never_came = set(self._names)
        self._report = report
        self._items = Items(menu)
        self._records = RecordReader(line_limit=line_limit)

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return map(self._entry, self._records.feed(octets))

    def finish(self) -> Iterator[Entry]:
        yield from map(self._entry, self._records.finish())
        for finding in missing_findings(name for name in self._names if name in self._never_came):
            self._report(finding)

    def _entry(self, record: Record) -> Entry:
        reduced, missing = record.select(self._names)
        self._never_came.intersection_update(missing)
        known = record_json(reduced, missing)
        if record.info is None:
            return Entry(name="", extra=known)
        entry = self._items.entry(record.info)
        admin = reduced.admin
        return replace(
            entry, modified=None if admin is None else admin.modified, extra={**(entry.extra or {}), **known}
        )


class FormEntries:
    """An `EntryReader` for the record of an item with a form: one entry a line of the form."""

    def __init__(self, line_limit: int = LINE_LIMIT) -> None:
        self._records = RecordReader(line_limit=line_limit)

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return self._entries(self._records.feed(octets))

    def finish(self) -> Iterable[Entry]:
        return self._entries(self._records.finish())

    def _entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        for form in filter(None, map(form_of, records)):
            for line in form.lines:
                yield Entry(name=line.prompt, kind=Kind.INFO, extra=line.as_json())
