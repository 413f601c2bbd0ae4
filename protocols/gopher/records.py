"""Attribute records as replies have them: those of one item, which are facts, its form, and those of a
directory, one entry each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from protocols.entry import Entry
from protocols.errors import ProtocolError
from protocols.gopher.attributes import (
    RECORD_LIMIT,
    AdminBlock,
    AttributeRecord,
    RecordReader,
    parse_records,
    reduce_record,
)
from protocols.gopher.forms import AskForm, parse_form
from protocols.gopher.item import line_text
from protocols.gopher.lines import LINE_LIMIT
from protocols.gopher.menu import MenuItems
from protocols.gopher.url import GopherUrl
from protocols.location import Finding, JsonValue, Kind
from protocols.reply import Reply
from protocols.step import Dialogue, EmitBody, StartBody
from protocols.values import replace

if TYPE_CHECKING:
    from protocols.entry import EntryReader
    from protocols.gopher.answer import GopherAnswer

#: What a willing server says of an item: it has a form.
_WILLING = b"+INFO: \n+ASK:\n Ask: \n"


def give_record(answer: GopherAnswer) -> Dialogue[None]:
    """The attributes of one item, reduced to those that were asked for."""
    octets = yield from answer.content.gather(RECORD_LIMIT, _WILLING)
    records = parse_records(octets, answer.line_limit)
    if not records:
        raise ProtocolError("the reply to a request for attributes holds none")
    names = answer.command.attributes
    reduced, missing = records[0].select(names)
    for finding in missing_findings(missing):
        answer.completeness.report(finding)
    shown = reduce_record(octets, names)
    reply = _reply(answer, octets, len(shown), record_json(reduced, missing), record_entries(answer))
    yield StartBody(replace(reply, legible=True))
    yield EmitBody(shown)


def give_form(answer: GopherAnswer) -> Dialogue[bool]:
    """The item's form, its lines as a listing; False if it has none."""
    octets = yield from answer.content.gather(RECORD_LIMIT, _WILLING)
    records = parse_records(octets, answer.line_limit)
    form = form_of(records[0]) if records else None
    if form is None:
        return False
    for finding in form.findings(in_clear=not answer.completeness.secured):
        answer.completeness.report(finding)
    extra = record_json(records[0], ())
    yield StartBody(_reply(answer, octets, len(octets), extra, FormEntries(answer.line_limit)))
    yield EmitBody(octets)
    return True


def _reply(
    answer: GopherAnswer, octets: bytes, size: int, extra: Mapping[str, JsonValue], listing: EntryReader
) -> Reply:
    restore = answer.content.restore
    raw = octets if restore is None else restore(octets)
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
    """A listing of all records of the answer."""
    return RecordEntries(answer.url, answer.command.attributes, answer.completeness.report, answer.line_limit)


def form_of(record: AttributeRecord) -> AskForm | None:
    """The form in an ASK block."""
    block = record.block("ASK")
    return None if block is None else parse_form(block.lines)


def missing_findings(names: Iterable[str]) -> Iterator[Finding]:
    """What to say about attributes that were asked for and did not come."""
    for name in names:
        yield Finding("gopher:attribute-missing", "warn", f"the server sent no +{name}")


def record_json(record: AttributeRecord, missing: Iterable[str]) -> dict[str, JsonValue]:
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


def _admin_json(admin: AdminBlock) -> dict[str, JsonValue]:
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
        self._items = MenuItems(menu)
        self._records = RecordReader(line_limit=line_limit)

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return map(self._entry, self._records.feed(octets))

    def finish(self) -> Iterator[Entry]:
        yield from map(self._entry, self._records.finish())
        for finding in missing_findings(name for name in self._names if name in self._never_came):
            self._report(finding)

    def _entry(self, record: AttributeRecord) -> Entry:
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

    def _entries(self, records: Iterable[AttributeRecord]) -> Iterator[Entry]:
        for form in filter(None, map(form_of, records)):
            for line in form.lines:
                yield Entry(name=line.prompt, kind=Kind.INFO, extra=line.as_json())
