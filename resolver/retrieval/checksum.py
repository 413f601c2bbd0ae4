"""Digests as they are written: by a person, in headers, in files beside an object. No I/O."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from protocols.values import dataclass

_LENGTHS = {"md5": 32, "sha1": 40, "sha224": 56, "sha256": 64, "sha384": 96, "sha512": 128}
_HEX = re.compile(r"[0-9a-fA-F]+\Z")
_HEADER_NAMES = {"sha-256": "sha256", "sha-512": "sha512", "sha-384": "sha384", "sha": "sha1", "md5": "md5"}
_HEADER_ITEM = re.compile(r"\s*([A-Za-z0-9-]+)=:?([A-Za-z0-9+/=]+?):?\s*(?:,|\Z)")
#: A line of md5sum and its kin: the digest, a blank, a blank or an asterisk, the name.
_SUM_LINE = re.compile(r"\\?([0-9a-fA-F]{32,128})(?:[ \t]+[ *]?(.+))?\Z")
#: A line of the BSD tools: `SHA256 (name) = digest`.
_BSD_LINE = re.compile(r"([A-Z0-9-]+) ?\((.+)\) ?= ?([0-9a-fA-F]{32,128})\Z")


@dataclass(frozen=True, slots=True)
class Checksum:
    """The digest a file must have, in hex; `algorithm` is `auto` for the one that its place publishes."""

    algorithm: str
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> Checksum:
        """`ALG:HEX` or `auto`. Raises `ValueError` that says what is wrong."""
        if text == "auto":
            return cls("auto")
        algorithm, colon, digest = text.partition(":")
        algorithm = algorithm.lower().replace("-", "")
        if not colon or algorithm not in _LENGTHS:
            raise ValueError(f"a checksum is auto or ALG:HEX with ALG of {', '.join(_LENGTHS)}, not {text!r}")
        if len(digest) != _LENGTHS[algorithm] or not _HEX.match(digest):
            raise ValueError(f"{algorithm} has {_LENGTHS[algorithm]} hex digits, not {digest!r}")
        return cls(algorithm, digest.lower())


def header_checksums(meta: tuple[tuple[str, str], ...]) -> Iterator[Checksum]:
    """The digests of a reply's headers that we can compute, the strongest first."""
    found: dict[str, Checksum] = {}
    for name, value in meta:
        if name.lower() not in ("repr-digest", "digest"):
            continue
        for item in _HEADER_ITEM.finditer(value):
            algorithm = _HEADER_NAMES.get(item[1].lower())
            digest = _from_base64(item[2])
            if algorithm is not None and len(digest) == _LENGTHS[algorithm]:
                found[algorithm] = Checksum(algorithm, digest)
    yield from (found[name] for name in ("sha512", "sha256", "sha384", "sha1", "md5") if name in found)


def _from_base64(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).hex()
    except binascii.Error:
        return ""


def find_digest(text: str, name: str, algorithm: str, *, listed: bool = False) -> Checksum | None:
    """The digest of `name` in a sidecar or manifest. A sidecar may hold nothing but the digest; in a
    manifest (`listed`) only a line with the name counts."""
    for line in text.splitlines():
        digest, named = _read_line(line.strip())
        right_name = named is not None and named.rpartition("/")[2] == name
        if len(digest) == _LENGTHS[algorithm] and (right_name or (named is None and not listed)):
            return Checksum(algorithm, digest.lower())
    return None


def _read_line(line: str) -> tuple[str, str | None]:
    if (bsd := _BSD_LINE.match(line)) is not None:
        return bsd[3], bsd[2]
    plain = _SUM_LINE.match(line)
    return ("", None) if plain is None else (plain[1], plain[2])
