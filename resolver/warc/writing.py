"""The writer of records, based on warcio. In a compressed file, each record is a separate gzip member.

By default, warcio parses HTTP heads, changes their form, and adds digests. To prevent changes, this module
passes complete blocks with their lengths and digests (WARC 1.1, 5).
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Callable, Iterator
from hashlib import sha1
from typing import NamedTuple, Protocol

from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

#: The header fields of a record, as pairs of name and value.
Fields = list[tuple[str, str]]


class WarcOutput(Protocol):
    """The output file of a writer."""

    def write(self, octets: bytes, /) -> object: ...

    def flush(self) -> None: ...


class RecordBlock(NamedTuple):
    """A block of `size` bytes; each call of `pieces` reads the block from the start."""

    size: int
    pieces: Callable[[], Iterator[bytes]]

    @classmethod
    def from_octets(cls, octets: bytes) -> RecordBlock:
        return cls(len(octets), lambda: iter((octets,)))

    def digest(self) -> str:
        """Return the digest in the form of a record field."""
        digest = sha1(usedforsecurity=False)
        for octets in self.pieces():
            digest.update(octets)
        return digest_text(digest.digest())


def digest_text(digest: bytes) -> str:
    """Return a SHA-1 digest in the common form, `sha1:` with base32."""
    return f"sha1:{b32encode(digest).decode('ascii')}"


class _BlockReader:
    """A file-like object for warcio that reads a block."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    def read(self, size: int) -> bytes:
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._held = piece
        octets, self._held = self._held[:size], self._held[size:]
        return octets


class _ReadyRecord(WARCWriter):
    """A warcio writer that does not compute digests."""

    def ensure_digest(self, record: object, block: bool = True, payload: bool = True) -> None:
        """Leave the digests of the record unchanged."""


class Writer:
    """A writer of records to one WARC file."""

    def __init__(self, out: WarcOutput, *, packed: bool) -> None:
        self._writer = _ReadyRecord(out, gzip=packed, warc_version="1.1")

    def write(self, type: str, fields: Fields, content_type: str | None, block: RecordBlock) -> None:
        """Write one record; `fields` must not contain the record type and the fields about the block."""
        head = StatusAndHeaders("", [("WARC-Type", type), *fields], protocol="WARC/1.1")
        head.add_header("WARC-Block-Digest", block.digest())
        reading = _BlockReader(block.pieces())
        if type == "revisit":  # warcio writes only the HTTP head of a revisit record.
            record = ArcWarcRecord("warc", type, head, reading, None, content_type, block.size)
            record.http_headers = _Head(b"".join(block.pieces()))
            record.payload_length = 0
        else:
            record = ArcWarcRecord("warc", type, head, reading, None, content_type, block.size)
        self._writer.write_record(record)


class _Head:
    """An HTTP head that warcio writes unchanged."""

    def __init__(self, octets: bytes) -> None:
        self.headers_buff = octets

    def compute_headers_buffer(self, header_filter: object) -> None:
        """Leave the buffer unchanged, because it already contains the head."""
