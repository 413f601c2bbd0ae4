"""Overviews: one line an article, fields between TABs (RFC 3977 8.3).

Number, Subject, From, Date, Message-ID, References, bytes, lines; then further header fields, each in
full with its name. The first eight are fixed whatever a server says of its format. Fields at the end
may be missing, numbers empty or wrong; a line without number or with fewer than five fields says
nothing and is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from protocols.entry import Entry
from protocols.location import Finding, JsonValue, Kind
from protocols.news.article import ArticleHead, strip_brackets
from protocols.news.block import BlockLines
from protocols.news.dates import parse_date
from protocols.news.header_text import decode_field
from protocols.news.places import ArticleUrl
from protocols.news.response import is_number
from protocols.wire import encode_line

_FEWEST = 5
_FIXED = 8
_BLANKS = bytes.maketrans(b"\0\t\n\r", b"    ")


class OverviewReader:
    """An `EntryReader` for the overview of `group`. What is odd goes to `findings` at the end."""

    def __init__(
        self, group: bytes, article_url: ArticleUrl, line_limit: int, findings: list[Finding]
    ) -> None:
        self._group = group
        self._article_url = article_url
        self._lines = BlockLines(line_limit)
        self._findings = findings
        self._skipped = 0
        self._last = -1
        self._in_order = True

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return self._read(self._lines.feed(octets))

    def finish(self) -> Iterable[Entry]:
        yield from self._read(self._lines.finish())
        if self._skipped:
            detail = f"{self._skipped} lines are no overview of an article and were skipped"
            self._findings.append(Finding("nntp:overview-line", "allow", detail))
        if not self._in_order:
            self._findings.append(Finding("nntp:overview-order", "allow", "not in the order of numbers"))

    def _read(self, lines: list[bytes]) -> Iterator[Entry]:
        for line in lines:
            fields = line.split(b"\t")
            if len(fields) < _FEWEST or not is_number(fields[0]):
                self._skipped += 1
                continue
            number = int(fields[0])
            self._in_order = self._in_order and number > self._last
            self._last = number
            yield self._entry(number, line, fields)

    def _entry(self, number: int, line: bytes, fields: list[bytes]) -> Entry:
        fields += [b""] * (_FIXED - len(fields))
        message_id = strip_brackets(fields[4])
        size = _number(fields[6])
        extra: dict[str, JsonValue] = {
            "number": number,
            "from": decode_field(fields[2]),
            "date": decode_field(fields[3]),
            "message_id": None if message_id is None else decode_field(message_id),
            "references": [decode_field(word) for word in fields[5].split()],
            "bytes": size,
            "lines": _number(fields[7]),
            "fields": list(map(_further, filter(None, fields[_FIXED:]))),
        }
        return Entry(
            name=str(number),
            url=self._article_url(self._group, number, message_id),
            kind=Kind.ARTICLE,
            size=size,
            modified=parse_date(fields[3].decode("latin-1")),
            title=decode_field(fields[1]),
            raw=line,
            extra=extra,
        )


def _further(field: bytes) -> list[JsonValue]:
    name, _, value = field.partition(b":")
    return [decode_field(name), decode_field(value)]


def _number(field: bytes) -> int | None:
    field = field.strip()
    return int(field) if is_number(field) else None


def encode_overview(number: int, head: ArticleHead) -> bytes:
    """The line that a server with an overview would have given for this head, its size left empty."""
    values = [head.first(name) for name in ("subject", "from", "date", "message-id", "references")]
    fields = [b"%d" % number, *(value or b"" for value in values), b"", head.first("lines") or b""]
    xref = head.first("xref")
    if xref is not None:
        fields.append(b"Xref: " + xref)
    return encode_line(*(field.translate(_BLANKS) for field in fields), sep=b"\t").octets
