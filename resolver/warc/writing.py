"""The writer of records (WARC 1.1, 4). In a compressed file, each record is a separate gzip member."""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha1
from itertools import chain
from typing import NamedTuple, Protocol
from zlib import Z_BEST_COMPRESSION, compressobj

from resolver.warc.records import GZIP_ONLY

#: The header fields of a record, as lines without line ends.
Fields = list[str]

#: The size in bytes below which a block is written together with its head, in one piece.
_AT_ONCE = 1_048_576


class WarcOutput(Protocol):
    """The output file of a writer."""

    def write(self, octets: bytes, /) -> object: ...


class RecordBlock(NamedTuple):
    """A block of `size` bytes; each call of `pieces` reads the block from the start.

    `known` is the digest of the block if another reader of the block has computed it.
    """

    size: int
    pieces: Callable[[], Iterator[bytes]]
    known: str | None = None

    @classmethod
    def from_octets(cls, octets: bytes) -> RecordBlock:
        return cls(len(octets), lambda: iter((octets,)))

    def digest(self) -> str:
        """Return the digest in the form of a record field."""
        if self.known is not None:
            return self.known
        digest = sha1(usedforsecurity=False)
        for octets in self.pieces():
            digest.update(octets)
        return digest_text(digest.digest())


def digest_text(digest: bytes) -> str:
    """Return a SHA-1 digest in the common form, `sha1:` with base32."""
    return f"sha1:{b32encode(digest).decode('ascii')}"


def fields_block(lines: Iterable[str]) -> bytes:
    """Return a block of `application/warc-fields`, or the head of a record."""
    return "\r\n".join([*lines, ""]).encode()


_RECORD_END = fields_block(["", ""])


class Writer:
    """A writer of records to one WARC file."""

    def __init__(self, out: WarcOutput, *, packed: bool) -> None:
        self._out = out
        self._packed = packed

    def write(self, type: str, id: str, fields: Fields, content_type: str | None, block: RecordBlock) -> None:
        """Write one record; `fields` must not contain its type, its ID, and the fields about the block."""
        written = ["WARC/1.1", f"WARC-Type: {type}", f"WARC-Record-ID: {id}", *fields]
        written.append(f"WARC-Block-Digest: {block.digest()}")
        if content_type is not None:
            written.append(f"Content-Type: {content_type}")
        head = fields_block([*written, f"Content-Length: {block.size}", ""])
        pieces: Iterable[bytes] = chain((head,), block.pieces(), (_RECORD_END,))
        if block.size < _AT_ONCE:
            pieces = (b"".join(pieces),)
        for octets in _compress(pieces) if self._packed else pieces:
            self._out.write(octets)


def _compress(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces as one gzip member, which is as small as possible."""
    member = compressobj(Z_BEST_COMPRESSION, wbits=GZIP_ONLY)
    yield from map(member.compress, pieces)
    yield member.flush()
