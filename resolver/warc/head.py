"""What a record of a WARC says of itself: its head (WARC 1.1, 4 and 5)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from protocols.headers import Headers
from protocols.values import NamedTuple
from resolver.warc.stretch import DamagedRecord, RecordStream

#: Bounds of a head (S16): octets of a line, lines, octets in all.
MOST_LINE = 65_536
MOST_LINES = 1_000
MOST_HEAD = 262_144

_VERSIONS = {b"WARC/1.0": "1.0", b"WARC/1.1": "1.1"}
#: First lines of what others archive in.
_OTHERS = (
    (re.compile(rb"WARC/[0-9]+\.[0-9]+\r?\n"), "a WARC of another version than 1.0 and 1.1"),
    (re.compile(rb"filedesc:"), "an ARC file, which came before WARC"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "packed by zstd: unpack it first"),
)
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
#: WARC-Date: W3CDTF, from a year to nanoseconds (WARC 1.1, 5.4).
_DATE = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?Z)?)?)?",
    re.ASCII,
)
#: These may be there more than once.
_SEVERAL = frozenset({"warc-concurrent-to", "warc-protocol"})


class RecordHead(NamedTuple):
    """One. `length` is that of the block. A field that is there twice counts as it is said first."""

    version: str
    fields: Headers
    length: int

    def first(self, name: str) -> str | None:
        values = self.fields.get_list(name)
        return values[0] if values else None

    @property
    def type(self) -> str:
        return (self.first("WARC-Type") or "").lower()

    @property
    def id(self) -> str | None:
        return self.first("WARC-Record-ID")

    @property
    def target(self) -> str | None:
        """The URL, without the brackets that some write around it."""
        text = self.first("WARC-Target-URI")
        return text[1:-1] if text is not None and text[:1] == "<" and text[-1:] == ">" else text

    @property
    def date(self) -> datetime | None:
        """When what is in the record came, in UTC; None where that is no date."""
        return read_date(self.first("WARC-Date") or "")

    @property
    def media_type(self) -> str | None:
        """What the block is, in lower case and without parameters."""
        text = self.first("Content-Type")
        return None if text is None else text.partition(";")[0].strip().lower()

    def repeated(self) -> list[str]:
        """Names of the fields that are there twice and may not be."""
        return [
            name
            for name in self.fields.keys()  # noqa: SIM118  # pairs are what it iterates over
            if name not in _SEVERAL and len(self.fields.get_list(name)) > 1
        ]


def read_head(stretch: RecordStream) -> RecordHead | None:
    """The head that comes next; None at the end. Raises `DamagedRecord`."""
    first = stretch.line(MOST_LINE)
    if not first:
        return None
    version = _VERSIONS.get(_without_end(first))
    if version is None:
        for beginning, what in _OTHERS:
            if beginning.match(first):
                raise DamagedRecord(f"this is {what}", is_other=True)
        raise DamagedRecord("no record of a WARC begins here")
    fields = Headers(tuple(_fields(stretch, MOST_HEAD - len(first))))
    return RecordHead(version, fields, _length(fields.get_list("Content-Length")))


def _fields(stretch: RecordStream, most: int) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for _ in range(MOST_LINES):
        line = stretch.line(min(MOST_LINE, most))
        most -= len(line)
        if not line.endswith(b"\n"):
            raise DamagedRecord("the file ends within a head", is_cut=True)
        text = _without_end(line)
        if not text:
            return pairs
        if b"\0" in text:
            raise DamagedRecord("a line of a head holds a NUL")
        if text[0] in b" \t" and pairs:  # folded, as 1.0 allows
            name, value = pairs[-1]
            pairs[-1] = (name, f"{value} {_text(text)}".strip())
            continue
        octets, colon, value_octets = text.partition(b":")
        if not colon or not _TOKEN.fullmatch(octets):
            raise DamagedRecord("a line of a head has no name and colon")
        pairs.append((octets.decode("ascii"), _text(value_octets)))
    raise DamagedRecord(f"a head has more than {MOST_LINES} lines")


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape").strip(" \t")


def _length(values: list[str]) -> int:
    if len(values) != 1:
        raise DamagedRecord(f"it says its length {len(values)} times")
    if not _LENGTH.fullmatch(values[0]):
        raise DamagedRecord("its length is no number of octets")
    return int(values[0])


def read_date(text: str) -> datetime | None:
    """A WARC-Date; what it does not say is the first: the first month, day, hour. None for what is none."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction = match.groups()
    try:
        return datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int(((fraction or "") + "000000")[:6]),
            tzinfo=UTC,
        )
    except ValueError:
        return None
