"""Records as they are written, by warcio: each in a member of its own where the file is packed.

warcio would parse heads of http and write them anew, and adds digests of its own where none belong; so it is
handed blocks that are ready, with their lengths and digests (WARC 1.1, 5).
"""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Callable, Iterator
from hashlib import sha1
from typing import NamedTuple, Protocol

from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

#: A field's name and value.
Fields = list[tuple[str, str]]


class WarcOutput(Protocol):
    """What it is written to."""

    def write(self, octets: bytes, /) -> object: ...

    def flush(self) -> None: ...


class RecordBlock(NamedTuple):
    """`size` octets, as often as they are asked for."""

    size: int
    pieces: Callable[[], Iterator[bytes]]

    @classmethod
    def from_octets(cls, octets: bytes) -> RecordBlock:
        return cls(len(octets), lambda: iter((octets,)))

    def digest(self) -> str:
        """As records have it."""
        digest = sha1(usedforsecurity=False)
        for octets in self.pieces():
            digest.update(octets)
        return digest_text(digest.digest())


def digest_text(digest: bytes) -> str:
    """A SHA-1 in the form that all tools know."""
    return f"sha1:{b32encode(digest).decode('ascii')}"


class _BlockReader:
    """A block as warcio reads one."""

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
    """Digests are there already."""

    def ensure_digest(self, record: object, block: bool = True, payload: bool = True) -> None:
        """Nothing is added."""


class Writer:
    """Of one file."""

    def __init__(self, out: WarcOutput, *, packed: bool) -> None:
        self._writer = _ReadyRecord(out, gzip=packed, warc_version="1.1")

    def write(self, type: str, fields: Fields, content_type: str | None, block: RecordBlock) -> None:
        """One record, whole; `fields` are those that are neither its type nor about its block."""
        head = StatusAndHeaders("", [("WARC-Type", type), *fields], protocol="WARC/1.1")
        head.add_header("WARC-Block-Digest", block.digest())
        reading = _BlockReader(block.pieces())
        if type == "revisit":  # of which warcio writes the head alone
            record = ArcWarcRecord("warc", type, head, reading, None, content_type, block.size)
            record.http_headers = _Head(b"".join(block.pieces()))
            record.payload_length = 0
        else:
            record = ArcWarcRecord("warc", type, head, reading, None, content_type, block.size)
        self._writer.write_record(record)


class _Head:
    """A head of http as it came."""

    def __init__(self, octets: bytes) -> None:
        self.headers_buff = octets

    def compute_headers_buffer(self, header_filter: object) -> None:
        """It is what it is."""
