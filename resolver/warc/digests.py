"""Digests as records have them: `sha1:` and 32 characters of base32, or what else others write (WARC 1.1,
5.8).

An algorithm's name may have a hyphen; its length tells whether a value is hex, base32 or base64. Letters of
any case and a missing `=` are taken, for there are files with either.
"""

from __future__ import annotations

import binascii
import hashlib
from base64 import b32decode, b64decode
from typing import Literal, TypeAlias

from protocols.values import NamedTuple

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
            digest = b32decode(_padded(value.upper(), 8))
        elif len(value) == (size * 8 + 5) // 6:
            digest = b64decode(_padded(value, 4), b"+/", validate=True)
        else:
            return None
    except (ValueError, binascii.Error):
        return None
    return DigestClaim(algorithm, digest) if digest and len(digest) == size else None


def _padded(value: str, unit: int) -> str:
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
