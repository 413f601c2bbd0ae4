"""WARC archives for the tests: recorded ones, and records made by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

from fixtures.recordings import FOLDER
from resolver.warc.records import RecordHead

WARC = FOLDER / "warc"
END = b"\r\n\r\n"


class Octets:
    """A source in memory that records the largest read and the total of bytes read."""

    def __init__(self, octets: bytes) -> None:
        self._octets = octets
        self.max_size = self.read = 0

    def read_at(self, offset: int, size: int) -> bytes:
        self.max_size = max(self.max_size, size)
        octets = self._octets[offset : offset + size]
        self.read += len(octets)
        return octets


class Kept:
    """A reader that keeps the block."""

    def __init__(self, head: RecordHead) -> None:
        self.block = bytearray()

    def take(self, octets: bytes) -> None:
        self.block += octets


def source_of(path: str | Path) -> Octets:
    return Octets((WARC / path).read_bytes())


def record(block: bytes = b"12345", *, length: str | None = None, **fields: str) -> bytes:
    """Return a record of type resource, or with other fields: `WARC_Type="metadata"`."""
    values = {
        "WARC-Type": "resource",
        "WARC-Record-ID": "<urn:uuid:1>",
        "WARC-Date": "2026-11-22T00:00:00Z",
        "WARC-Target-URI": "ftp://h.example/a",
        "Content-Length": str(len(block)) if length is None else length,
        **{name.replace("_", "-"): value for name, value in fields.items()},
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in values.items())
    return b"WARC/1.1\r\n" + lines.encode() + b"\r\n" + block + END


def packed(*records: bytes) -> bytes:
    """Return the records, each compressed as a separate gzip member."""
    return b"".join(gzip.compress(member, mtime=0) for member in records)
