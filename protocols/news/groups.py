"""Lists of groups: LIST ACTIVE, and LIST NEWSGROUPS for their descriptions (RFC 3977 7.6.3, 7.6.6).

The octets read here are the two lists with a line of one period between them; the second may be
missing. LIST ACTIVE decides what exists. Its numbers are *high, low*: the reverse of GROUP's. Old
servers ignore a pattern, so names are matched again here.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from protocols.entry import Entry
from protocols.location import Finding, JsonValue, Kind
from protocols.news.block import BlockLines, DataBlock
from protocols.news.places import GroupUrl
from protocols.news.response import decode_text, is_number
from protocols.values import NamedTuple
from protocols.wire import Buffer, Reader

#: Octets of LIST ACTIVE that wait for their descriptions, with those that came: ten times what 100,000
#: groups have.
HOLD_LIMIT = 67_108_864

#: What may be done in a group (RFC 3977 7.6.3, RFC 6048 3.1); another letter tells nothing.
_STATUS = frozenset({b"y", b"n", b"m", b"x", b"j"})


# The wildcards of a wildmat.
_STAR = ord("*")
_ANY = ord("?")


class ActiveLine(NamedTuple):
    """A line of LIST ACTIVE. `status` is a letter, or `=` and the group that articles are filed in."""

    name: bytes
    high: int
    low: int
    status: bytes | None
    raw: bytes

    @property
    def is_empty(self) -> bool:
        return self.high < self.low or self.high == self.low == 0


def parse_active(line: bytes) -> ActiveLine | None:
    """None for what is no such line: without a name or two numbers."""
    name, *words = line.split() or [b""]
    if len(words) < 2 or not is_number(words[0]) or not is_number(words[1]):
        return None
    status = words[2] if len(words) > 2 else b""
    known = status in _STATUS or (status.startswith(b"=") and len(status) > 1)
    return ActiveLine(name, int(words[0]), int(words[1]), status if known else None, line)


def parse_description(line: bytes) -> tuple[bytes, bytes]:
    """Name and description of a line of LIST NEWSGROUPS; the description may be empty."""
    name, *rest = line.split(maxsplit=1) or [b""]
    return name, rest[0].strip() if rest else b""


class GroupReader:
    """An `EntryReader` for the groups whose names match `pattern`. Entries come when their descriptions
    are known, which is at the end; without those to come where more than `hold` octets would have to wait."""

    def __init__(
        self,
        pattern: bytes,
        group_url: GroupUrl,
        line_limit: int,
        findings: list[Finding],
        hold: int = HOLD_LIMIT,
    ) -> None:
        self._pattern = pattern
        self._group_url = group_url
        self._lines = BlockLines(line_limit)
        self._findings = findings
        self._hold = hold
        self._held: list[ActiveLine] = []
        self._held_octets = 0
        self._descriptions: dict[bytes, bytes] = {}
        self._describing = False
        self._gave_up = False
        self._skipped = 0

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return self._take(self._lines.feed(octets))

    def finish(self) -> Iterable[Entry]:
        yield from self._take(self._lines.finish())
        yield from self._give()
        if self._skipped:
            detail = f"{self._skipped} lines are no newsgroups and were skipped"
            self._findings.append(Finding("nntp:group-line", "allow", detail))
        if self._gave_up:
            detail = f"more than {self._hold} octets of groups: without descriptions"
            self._findings.append(Finding("nntp:descriptions", "allow", detail))

    def _take(self, lines: list[bytes]) -> Iterator[Entry]:
        for line in lines:
            if self._describing:
                self._describe(*parse_description(line))
            elif line == b".":
                self._describing = True
            else:
                self._hold_line(line)
            if self._held_octets > self._hold or self._gave_up:
                self._gave_up = True
                yield from self._give()

    def _hold_line(self, line: bytes) -> None:
        active = parse_active(line)
        if active is None:
            self._skipped += 1
        elif matches(self._pattern, active.name):
            self._held.append(active)
            self._held_octets += len(line)

    def _describe(self, name: bytes, description: bytes) -> None:
        if description and self._held and matches(self._pattern, name):
            self._descriptions[name] = description
            self._held_octets += len(name) + len(description)

    def _give(self) -> Iterator[Entry]:
        held, self._held, self._held_octets = self._held, [], 0
        for active in held:
            yield self._entry(active)
        self._descriptions.clear()

    def _entry(self, active: ActiveLine) -> Entry:
        description = self._descriptions.get(active.name)
        extra: dict[str, JsonValue] = {
            "high": active.high,
            "low": active.low,
            "empty": active.is_empty,
            "status": None if active.status is None else decode_text(active.status),
        }
        return Entry(
            name=decode_text(active.name),
            url=self._group_url(active.name),
            kind=Kind.GROUP,
            title=None if description is None else decode_text(description),
            raw=active.raw,
            extra=extra,
        )


def count_groups(pattern: bytes, line_limit: int) -> Reader[int]:
    """A reader for a block of LIST ACTIVE that keeps nothing of it but how many groups match."""

    def reader(buffer: Buffer) -> Generator[None, None, int]:
        block, lines, count = DataBlock(), BlockLines(line_limit), 0
        while not block.ended:
            active = map(parse_active, lines.feed((yield from block.read(buffer))))
            count += sum(line is not None and matches(pattern, line.name) for line in active)
        return count

    return reader


def matches(pattern: bytes, name: bytes) -> bool:
    """Does the whole name match (RFC 3977 4.2, as far as RFC 5538 has patterns in URLs)?

    `*` is any run of octets, `?` any one, everything else itself. Matching takes time proportional to pattern
    times name at worst, whatever either of them is.
    """
    at = index = 0
    star, resumed = -1, 0
    while index < len(name):
        if at < len(pattern) and pattern[at] == _STAR:
            star, resumed = at, index
            at += 1
        elif at < len(pattern) and pattern[at] in (_ANY, name[index]):
            at += 1
            index += 1
        elif star >= 0:  # the last star takes one octet more
            resumed += 1
            at, index = star + 1, resumed
        else:
            return False
    return pattern[at:].strip(b"*") == b""
