"""Lines of digests: those of `sha256sum` and its kin, and of the BSD tools.

    HEX  name    HEX *name    HEX name    SHA256 (name) = HEX    SHA256(name)= HEX

A backslash before the line says that the name has escapes: `\\\\`, `\\n`, `\\r`. Without a word for it the
algorithm is the one whose digests have this length, of MD5, SHA-1 and SHA-2.
"""

from __future__ import annotations

import re

from protocols.values import NamedTuple
from resolver.lists.listed import BadItem
from resolver.retrieval.checksum import Checksum

#: No URL begins like this: none has a blank.
_PLAIN = re.compile(r"(\\?)([0-9A-Fa-f]{32,128})[ \t][ *]?(.+)", re.DOTALL)
_TAGGED = re.compile(r"(\\?)([A-Z][A-Za-z0-9/-]{1,15}) ?\((.+)\) ?= ?([0-9A-Fa-f]{32,128})", re.DOTALL)
_ALGORITHMS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
_ESCAPES = {"\\\\": "\\", "\\n": "\n", "\\r": "\r"}
_ESCAPE = re.compile(r"\\.?", re.DOTALL)


class ListedDigest(NamedTuple):
    """The digest of the file of that name."""

    name: str
    checksum: Checksum


def parse_sum(line: str) -> ListedDigest | None:
    """One line without its line end; None for what is none of digests. Raises `BadItem` for one that means
    nothing here."""
    if (tagged := _TAGGED.fullmatch(line)) is not None:
        escaped, algorithm, name, digest = tagged.groups()
    elif (plain := _PLAIN.fullmatch(line)) is not None:
        escaped, digest, name = plain.groups()
        algorithm = _ALGORITHMS.get(len(digest), f"{len(digest)} digits")
    else:
        return None
    try:
        checksum = Checksum.parse(f"{algorithm}:{digest}")
    except ValueError as error:
        raise BadItem(f"a digest of {algorithm} is not known here") from error
    return ListedDigest(_unescaped(name) if escaped else name, checksum)


def _unescaped(name: str) -> str:
    def meaning(escape: re.Match[str]) -> str:
        if escape[0] not in _ESCAPES:
            raise BadItem(f"the name {name!r} has no escape {escape[0]!r}")
        return _ESCAPES[escape[0]]

    return _ESCAPE.sub(meaning, name)
