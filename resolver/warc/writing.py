"""The parts of a written record (WARC 1.1, 4): fields, block and digest."""

from __future__ import annotations

from base64 import b32encode
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha1
from typing import NamedTuple

#: The header fields of a record, as lines without line ends.
Fields = list[str]


class RecordBlock(NamedTuple):
    """A block of `size` bytes; each call of `pieces` reads the block from the start.

    `computed` is the digest of the block if another reader of the block has computed it.
    """

    size: int
    pieces: Callable[[], Iterator[bytes]]
    computed: str | None = None

    @classmethod
    def from_octets(cls, octets: bytes) -> RecordBlock:
        return cls(len(octets), lambda: iter((octets,)))

    def digest(self) -> str:
        """Return the digest in the form of a record field."""
        if self.computed is not None:
            return self.computed
        digest = sha1(usedforsecurity=False)
        for octets in self.pieces():
            digest.update(octets)
        return digest_text(digest.digest())


def digest_text(digest: bytes) -> str:
    """Return a SHA-1 digest in the common form, `sha1:` with base32."""
    return f"sha1:{b32encode(digest).decode('ascii')}"


def fields_block(lines: Iterable[str]) -> bytes:
    """Return a block of `application/warc-fields`, or the head of a record."""
    # Arguments of the command line may have bytes that are not UTF-8 (surrogate escapes, PEP 383).
    return "\r\n".join([*lines, ""]).encode("utf-8", "backslashreplace")
