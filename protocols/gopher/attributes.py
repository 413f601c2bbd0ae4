"""Attribute blocks (Gopher+ memo 2.2 to 2.5): the records that `!` and `$` bring, as the lines come.

A record is an item line and blocks of lines with names. Nothing else is required: blocks come in any
order, under any name, and real servers leave out even those that the memo asks for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from protocols.errors import LimitExceeded
from protocols.gopher.item import MenuItem, display_text, line_text, parse_item
from protocols.gopher.lines import LINE_LIMIT, MenuLines, TextLine
from protocols.gopher.views import AlternateView, parse_view
from protocols.instant import in_utc
from protocols.values import dataclass

INFO = "INFO"

#: One item's attributes are a page of text; beyond this they are no description but a flood, and what is made
#: of them is made in one go.
RECORD_LIMIT = 65_536

#: Octets of a line that tell which block it opens; no name is longer.
_OPENING_LIMIT = 4_096

_OPENING = re.compile(rb"\+([^+: \t\r\n]+)(?::| |\Z) ?")
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")  # a CR alone ends no line, here as in `MenuLines`
_FACT = re.compile(rb"[ \t]*([A-Za-z0-9-]+)[ \t]*:[ \t]*")
_INSTANT = re.compile(rb"<([0-9]{4})" + rb"([0-9]{2})" * 5 + rb">")
_SECONDS = re.compile(rb"[0-9]{1,9}\Z")


@dataclass(frozen=True, slots=True)
class AttributeBlock:
    """One block: its name, its lines without the blank in front, and the item that its opening line
    refers to instead, None if there is none. Where there are both, the lines count."""

    name: str
    lines: tuple[bytes, ...] = ()
    reference: MenuItem | None = None

    @property
    def text(self) -> str:
        return "\n".join(map(line_text, self.lines))


@dataclass(frozen=True, slots=True)
class AdminBlock:
    """Block ADMIN. `modified` is the server's local time; it does not say in which zone. `facts` are
    all lines as name and value."""

    name: str | None = None
    address: str | None = None
    modified: datetime | None = None
    seconds_to_live: int | None = None
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class AttributeRecord:
    """The attributes of one item. `info` is None where blocks came before any +INFO line; `cut` says
    that lines too long to be kept are missing."""

    info: MenuItem | None
    blocks: tuple[AttributeBlock, ...] = ()
    cut: bool = False

    def block(self, name: str) -> AttributeBlock | None:
        """The block of that name; of several the one with lines."""
        named = [block for block in self.blocks if block.name == name]
        return next((block for block in named if block.lines), named[0] if named else None)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the blocks, each once, in the order they came."""
        return tuple(dict.fromkeys(block.name for block in self.blocks))

    @property
    def admin(self) -> AdminBlock | None:
        block = self.block("ADMIN")
        return None if block is None else parse_admin(block.lines)

    @property
    def views(self) -> tuple[AlternateView, ...]:
        """The item's views; the server's preference first."""
        block = self.block("VIEWS")
        return () if block is None else tuple(parse_view(line) for line in block.lines)

    @property
    def abstract(self) -> str | None:
        block = self.block("ABSTRACT")
        return block.text if block is not None and block.lines else None

    def select(self, names: Iterable[str]) -> tuple[AttributeRecord, tuple[str, ...]]:
        """This record reduced to +INFO and the blocks named, and the names that did not come. No names
        means all: servers take named attributes as a wish, so the choice is made here."""
        wanted = tuple(dict.fromkeys(names))
        if not wanted:
            return self, ()
        kept = tuple(block for block in self.blocks if block.name in wanted)
        came = {block.name for block in kept} | {INFO}
        return AttributeRecord(self.info, kept, self.cut), tuple(name for name in wanted if name not in came)


class BlockFilter:
    """Records as octets, without the blocks that are not named; all of them where none is. Holds one line at
    most, and no more of it than may tell which block it opens."""

    def __init__(self, names: Iterable[str]) -> None:
        self._wanted = {INFO, *names}
        self._held = b""
        self._inside = False
        self._keep = True

    def feed(self, octets: bytes) -> bytes:
        if self._wanted == {INFO}:
            return octets
        kept: list[bytes] = []
        waiting, self._held = self._held + octets, b""
        for piece in _LINE.findall(waiting):
            ended = piece.endswith(b"\n")
            if ended or self._inside or len(piece) > _OPENING_LIMIT:
                kept.append(self._take(piece))
                self._inside = not ended
            else:
                self._held = piece
        return b"".join(kept)

    def finish(self) -> bytes:
        held, self._held = self._held, b""
        return self._take(held)

    def _take(self, piece: bytes) -> bytes:
        """A line, or a piece of one; its first piece says which block it is of."""
        if not self._inside and (found := _OPENING.match(piece.removesuffix(b"\n").removesuffix(b"\r"))):
            self._keep = display_text(found[1]) in self._wanted
        return piece if self._keep else b""


def reduce_record(octets: bytes, names: Iterable[str]) -> bytes:
    """The octets of a record without the blocks that are not named; all of it where none is."""
    blocks = BlockFilter(names)
    return blocks.feed(octets) + blocks.finish()


class RecordReader:
    """Octets to records; holds one record at most, and no more of it than `limit` octets
    (`LimitExceeded`). Lines longer than `line_limit` octets are left out."""

    def __init__(self, limit: int = RECORD_LIMIT, line_limit: int = LINE_LIMIT) -> None:
        self._lines = MenuLines(line_limit)
        self._limit = limit
        self._open: _OpenRecord | None = None

    def feed(self, octets: bytes) -> Iterator[AttributeRecord]:
        return self._records(self._lines.feed(octets))

    def finish(self) -> Iterator[AttributeRecord]:
        yield from self._records(self._lines.finish())
        if self._open is not None:
            yield self._open.record()
            self._open = None

    def _records(self, lines: Iterable[TextLine]) -> Iterator[AttributeRecord]:
        for line in lines:
            found = _OPENING.match(line.octets)
            name = None if found is None else display_text(found[1])
            if name == INFO and found is not None:
                if self._open is not None:
                    yield self._open.record()
                self._open = _OpenRecord(parse_item(line.octets[found.end() :]), self._limit)
                continue
            if self._open is None:
                if line.octets in (b"", b"."):
                    continue
                self._open = _OpenRecord(None, self._limit)
            self._open.add(line, name, b"" if found is None else line.octets[found.end() :])


def parse_records(octets: bytes, line_limit: int = LINE_LIMIT) -> list[AttributeRecord]:
    """All records in octets at hand."""
    reader = RecordReader(line_limit=line_limit)
    return [*reader.feed(octets), *reader.finish()]


class _OpenRecord:
    """A record whose lines are still coming."""

    def __init__(self, info: MenuItem | None, limit: int) -> None:
        self._info = info
        self._room = limit
        self._blocks: list[tuple[str, MenuItem | None, list[bytes]]] = []
        self._cut = False

    def add(self, line: TextLine, opens: str | None, rest: bytes) -> None:
        if not line.whole:
            self._cut = True  # it is not kept, so it takes no room
            return
        self._room -= len(line.octets) + 1
        if self._room < 0:
            raise LimitExceeded("body", "the attributes of one item are larger than any description")
        if opens is not None:
            self._blocks.append((opens, parse_item(rest) if rest else None, []))
        elif self._blocks:
            # exactly one blank marks a line of the block; a line without it is malformed, and kept
            self._blocks[-1][2].append(line.octets.removeprefix(b" "))

    def record(self) -> AttributeRecord:
        blocks = tuple(
            AttributeBlock(name, tuple(lines), reference) for name, reference, lines in self._blocks
        )
        return AttributeRecord(self._info, blocks, self._cut)


def parse_admin(lines: Iterable[bytes]) -> AdminBlock:
    """The lines of an ADMIN block; those that are no `Name: value` are left out."""
    facts: dict[str, bytes] = {}
    for line in lines:
        if found := _FACT.match(line):
            facts.setdefault(found[1].decode("ascii"), line[found.end() :])
    known = {name.lower(): value for name, value in facts.items()}
    name, address = _angle(known.get("admin", b""))
    seconds = _SECONDS.match(known.get("ttl", b"").strip())
    return AdminBlock(
        name=name,
        address=address,
        modified=_parse_instant(known.get("mod-date", b"")),
        seconds_to_live=None if seconds is None else int(seconds[0]),
        facts=tuple((name, display_text(value)) for name, value in facts.items()),
    )


def _angle(value: bytes) -> tuple[str | None, str | None]:
    """`text <address>`; either may be missing."""
    text, _, rest = value.partition(b"<")
    address = rest.partition(b">")[0]
    return display_text(text.strip()) or None, display_text(address.strip()) or None


def _parse_instant(value: bytes) -> datetime | None:
    """`text <YYYYMMDDhhmmss>`: the text is for people, in whatever language, and is not read. The zone
    is unknown; the value is given as if it were UTC."""
    found = _INSTANT.search(value)
    return None if found is None else in_utc(found.groups())
