"""Digests of records (WARC 1.1, 5.8), and the payload that they cover (WARC 1.1, 2).

Our digests are `sha1:` and 32 characters of base32; other programs write other forms.

An algorithm's name may have a hyphen; its length tells whether a value is hex, base32 or base64. Letters of
any case and a missing `=` are accepted, for there are files with either.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b32decode, b64decode
from typing import Literal, NamedTuple, TypeAlias

from resolver.warc.http import MOST_HEAD, AnswerSpan, ChunkDecoder, find_answer
from resolver.warc.records import RecordHead

#: What became of a digest: `unknown` is one that we cannot compute, or that is none.
Verdict: TypeAlias = Literal["verified", "mismatch", "absent", "unknown"]

#: Algorithms by their names without a hyphen, and the octets of their digests.
_SIZES = {"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}


class DigestClaim(NamedTuple):
    """A digest that a record says: an algorithm by the name that hashlib has for it, and its octets."""

    algorithm: str
    digest: bytes


def read_claim(text: str) -> DigestClaim | None:
    """None for what we cannot compute, and for what is no digest."""
    name, _, value = text.partition(":")
    algorithm = name.strip().lower().replace("-", "")
    size, value = _SIZES.get(algorithm, 0), value.strip().rstrip("=")
    try:
        if len(value) == 2 * size:
            digest = bytes.fromhex(value)
        elif len(value) == (size * 8 + 4) // 5:
            digest = b32decode(_pad(value.upper(), 8))
        elif len(value) == (size * 8 + 5) // 6:
            digest = b64decode(_pad(value, 4), b"+/", validate=True)
        else:
            return None
    except (ValueError, binascii.Error):
        return None
    return DigestClaim(algorithm, digest) if digest and len(digest) == size else None


def _pad(value: str, unit: int) -> str:
    return value + "=" * (-len(value) % unit)


class ComputedDigest:
    """A digest that is computed as octets come, for what a field claims; None where there is no field."""

    def __init__(self, text: str | None) -> None:
        self._absent = text is None
        self._claim = None if text is None else read_claim(text)
        self._hash = (
            None if self._claim is None else hashlib.new(self._claim.algorithm, usedforsecurity=False)
        )

    def take(self, octets: bytes) -> None:
        if self._hash is not None:
            self._hash.update(octets)

    def verdict(self) -> Verdict:
        if self._claim is None or self._hash is None:
            return "absent" if self._absent else "unknown"
        return "verified" if self._hash.digest() == self._claim.digest else "mismatch"


# The payload of a record while its block is read: of an HTTP answer its body without transfer coding, of
# everything else the block (WARC 1.1, 2).


class Payload:
    """`answer` is what stands before the body, where it is an answer of http and its head has come."""

    def __init__(self, head: RecordHead) -> None:
        self.answer: AnswerSpan | None = None
        self._has_head = head.media_type == "application/http"
        self._held = bytearray()
        self._unchunked: ChunkDecoder | None = None

    def take(self, octets: bytes) -> bytes:
        """What of the payload these make; nothing of what has no head that we could read."""
        if self._has_head and self.answer is None:
            if len(self._held) > MOST_HEAD:
                return b""
            self._held += octets
            self.answer = find_answer(bytes(self._held))
            if self.answer is None:
                return b""
            octets = bytes(self._held[self.answer.interim + len(self.answer.head) :])
            self._held.clear()
            self._unchunked = ChunkDecoder(self.answer.head) if self.answer.coded else None
        return octets if self._unchunked is None else self._unchunked.take(octets)

    @property
    def is_whole(self) -> bool:
        """Has all of it come, as far as that can be told of chunks?"""
        return self._unchunked is None or self._unchunked.is_whole
