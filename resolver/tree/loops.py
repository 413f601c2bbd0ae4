"""What leads back to where somebody was already: what tells that two places are one.

A URL does, written in one way; what a server says of its things does (MLSD's `unique`, EPLF's `i`, where a
directory really is); where a link leads does, if that is told. Http tells nothing of the kind: there a
directory in which the same is listed as in two of those above it is taken for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from urllib.parse import quote

from protocols.entry import Entry
from protocols.location import JsonValue, Url
from resolver.tree.scope import names_of, place_of

#: Directories in one another, at most: none that people made are deeper.
DEEPEST = 64

#: How many listings of one way down may be the same: a directory may well hold a copy of itself.
_MOST_ALIKE = 2

_MANY = 1 << 256


def mark_of(url: Url) -> str:
    """The URL in one way of writing: escapes and dot segments make no difference (RFC 3986 6.2.2)."""
    return f"{place_of(url)}/{'/'.join(quote(name, safe='') for name in names_of(url))}"


def identity_of(place: str, extra: Mapping[str, JsonValue] | None) -> str | None:
    """What the server says by which the thing can be told from all others there. Equal is the same thing;
    from different ones nothing follows."""
    unique = (extra or {}).get("unique")
    return f"{place} {unique}" if isinstance(unique, str) and unique else None


def leads_up(entry: Entry, names: Sequence[bytes]) -> bool:
    """Is it a link, in the directory to which `names` lead, that is known to lead there or to one above?"""
    target = (entry.extra or {}).get("link")
    if not isinstance(target, str):
        return False
    octets = target.encode("utf-8", "surrogateescape")
    found = [] if octets.startswith(b"/") else list(names)
    for part in octets.split(b"/"):
        if part == b"..":
            del found[-1:]
        elif part not in (b"", b"."):
            found.append(part)
    return found == list(names[: len(found)])


class DirectoryDigest:
    """What is listed in one directory, whatever its order: equal where names, sizes and dates are."""

    def __init__(self) -> None:
        self._sum = 0
        self._count = 0

    def add(self, name: bytes, entry: Entry) -> None:
        extra = entry.extra or {}
        said = (entry.kind, entry.size, extra.get("size_text"), entry.modified, extra.get("modified_text"))
        octets = sha256(b"\0".join([name, *(str(each).encode("utf-8", "replace") for each in said)])).digest()
        self._sum = (self._sum + int.from_bytes(octets, "big")) % _MANY
        self._count += 1

    @property
    def text(self) -> str:
        return f"{self._count} {self._sum:x}"


def is_too_alike(count: int) -> bool:
    """Is a listing, the `count`th of its like on one way down, that of a loop?"""
    return count > _MOST_ALIKE
