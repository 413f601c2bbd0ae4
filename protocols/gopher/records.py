"""Attribute records in replies (Gopher+ memo 2.3): the metadata of an item, its form, and directories.

The record of one item becomes metadata. The form of an item becomes a listing with an entry for each line.
The records of a directory become the entries of a listing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from protocols.contract import Reply
from protocols.errors import ProtocolError
from protocols.gopher.attributes import (
    RECORD_LIMIT,
    AdminBlock,
    AskForm,
    AttributeRecord,
    RecordReader,
    parse_form,
    parse_records,
    reduce_record,
)
from protocols.gopher.menu import LINE_LIMIT, MenuItem, MenuItems, line_text
from protocols.gopher.reply import GopherAnswer
from protocols.gopher.url import GopherUrl
from protocols.location import Entry, Finding, JsonValue, Kind
from protocols.step import Dialogue, EmitBody, StartBody

if TYPE_CHECKING:
    from protocols.location import EntryReader

#: The expected attribute record of an item with a form.
_EXPECTED_RECORD = b"+INFO: \n+ASK:\n Ask: \n"


def emit_records(answer: GopherAnswer) -> Dialogue[None]:
    """Emit the requested attributes of one item, or of each item of a directory.

    The attributes of a single item are read completely before the body begins, because they are metadata. The
    attributes of a directory are streamed.
    """
    if answer.command.requested != "attributes":
        yield from answer.emit(record_entries(answer))
        return
    octets = yield from answer.read_all(RECORD_LIMIT, _EXPECTED_RECORD)
    records = parse_records(octets, answer.line_limit)
    if not records:
        raise ProtocolError("reply to a request for attributes has none")
    names = answer.command.attributes
    reduced, missing = records[0].select(names)
    for finding in list_missing(missing):
        answer.completeness.report(finding)
    shown = reduce_record(octets, names)
    reply = _reply(answer, octets, len(shown), record_json(reduced, missing), record_entries(answer))
    yield StartBody(replace(reply, legible=True))
    yield EmitBody(shown)


def emit_form(answer: GopherAnswer) -> Dialogue[bool]:
    """Emit the lines of the item's form as a listing, or return False if the item has no form."""
    octets = yield from answer.read_all(RECORD_LIMIT, _EXPECTED_RECORD)
    records = parse_records(octets, answer.line_limit)
    form = find_form(records[0]) if records else None
    if form is None:
        return False
    for finding in form.findings(in_clear=not answer.completeness.is_encrypted):
        answer.completeness.report(finding)
    extra = record_json(records[0], ())
    yield StartBody(_reply(answer, octets, len(octets), extra, FormEntries(answer.line_limit)))
    yield EmitBody(octets)
    return True


def _reply(
    answer: GopherAnswer, octets: bytes, size: int, extra: Mapping[str, JsonValue], listing: EntryReader
) -> Reply:
    raw = octets if answer.restore is None else answer.restore(octets)
    return Reply(
        kind=answer.shape.kind,
        media_type=answer.shape.media_type,
        size=size,
        extra=extra,
        listing=listing,
        raw=lambda _: raw,
        findings=answer.completeness.findings,
        verified=answer.completeness.verified,
    )


def record_entries(answer: GopherAnswer) -> RecordEntries:
    """Return a reader that converts attribute records to the entries of a listing."""
    return RecordEntries(answer.url, answer.command.attributes, answer.completeness.report, answer.line_limit)


def find_form(record: AttributeRecord) -> AskForm | None:
    """Return the form in the ASK block of a record, or None if the record has no form."""
    block = record.block("ASK")
    return None if block is None else parse_form(block.lines)


def list_missing(names: Iterable[str]) -> Iterator[Finding]:
    """Yield a warning for each requested attribute that the server did not send."""
    for name in names:
        yield Finding("gopher:attribute-missing", "warn", f"the server sent no +{name}")


def record_json(record: AttributeRecord, missing: Iterable[str]) -> dict[str, JsonValue]:
    """Return the attribute blocks of a record as JSON.

    The member `attributes` maps the name of each block to the block's lines. The well-known blocks are also
    parsed, into separate members. A member is null if its block is absent. The member `missing` lists the
    requested names that the server did not send.
    """
    admin, form = record.admin, find_form(record)
    attributes: dict[str, list[JsonValue]] = {}
    references: dict[str, MenuItem | None] = {}
    # A record of 64 KiB may have 13,000 blocks. Each block is visited only once (otherwise quadratic time).
    for block in record.blocks:
        attributes.setdefault(block.name, []).extend(map(line_text, block.lines))
        references.setdefault(block.name, block.reference)
    return {
        "attributes": {**attributes},
        "references": {
            name: reference.as_json()
            for name, reference in references.items()
            if reference is not None and not attributes[name]
        },
        "admin": None if admin is None else _admin_json(admin),
        "views": [view.as_json() for view in record.views],
        "abstract": record.abstract,
        "form": None if form is None else [line.as_json() for line in form.lines],
        "missing": list(missing),
    }


def _admin_json(admin: AdminBlock) -> dict[str, JsonValue]:
    return {
        "name": admin.name,
        "address": admin.address,
        "modified_local": None if admin.modified is None else admin.modified.isoformat()[:19],
        "ttl": admin.seconds_to_live,
        "facts": dict(admin.facts),
    }


class RecordEntries:
    """An `EntryReader` for attribute records: one entry per item, with the item's blocks in `extra`.

    If `names` is not empty, only the blocks with these names are kept. A name that no record has is passed to
    `report`.
    """

    def __init__(
        self,
        menu: GopherUrl,
        names: Iterable[str],
        report: Callable[[Finding], None],
        line_limit: int = LINE_LIMIT,
    ) -> None:
        self._names = tuple(names)
        self._missing = set(self._names)
        self._report = report
        self._items = MenuItems(menu)
        self._records = RecordReader(line_limit=line_limit)

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return map(self._entry, self._records.feed(octets))

    def finish(self) -> Iterator[Entry]:
        yield from map(self._entry, self._records.finish())
        for finding in list_missing(name for name in self._names if name in self._missing):
            self._report(finding)

    def _entry(self, record: AttributeRecord) -> Entry:
        reduced, missing = record.select(self._names)
        self._missing.intersection_update(missing)
        extra = record_json(reduced, missing)
        if record.info is None:
            return Entry(name="", extra=extra)
        entry = self._items.entry(record.info)
        admin = reduced.admin
        return replace(
            entry, modified=None if admin is None else admin.modified, extra={**(entry.extra or {}), **extra}
        )


class FormEntries:
    """An `EntryReader` for a form. Each line of the form becomes an entry."""

    def __init__(self, line_limit: int = LINE_LIMIT) -> None:
        self._records = RecordReader(line_limit=line_limit)

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return self._entries(self._records.feed(octets))

    def finish(self) -> Iterable[Entry]:
        return self._entries(self._records.finish())

    def _entries(self, records: Iterable[AttributeRecord]) -> Iterator[Entry]:
        for form in filter(None, map(find_form, records)):
            for line in form.lines:
                yield Entry(name=line.prompt, kind=Kind.INFO, extra=line.as_json())
