"""What a list calls a file: a path below the directory for files, never one that leads out of it (S14)."""

from __future__ import annotations

from protocols.errors import Refused
from resolver.lists.listed import BadItem
from resolver.policy import listing_name_ok, local_path

#: Octets of a name: what common systems take for a path.
_LONGEST = 4_096


def parts_of(name: str) -> list[bytes]:
    """The directories that it is in and its own name. `./` before them leads nowhere. Raises `BadItem`."""
    octets = name.encode("utf-8", "surrogateescape")
    if len(octets) > _LONGEST:
        raise BadItem(f"its name is longer than {_LONGEST} octets")
    while octets.startswith(b"./"):
        octets = octets[2:]
    parts = octets.split(b"/")
    if not all(map(listing_name_ok, parts)):
        raise BadItem(f"{name!r} is no name of a file below a directory (S14)")
    return parts


def safe_path(parts: list[bytes]) -> str:
    """Where it is saved: each part made as harmless as the name of any other file. Raises `BadItem`."""
    try:
        return local_path(parts)
    except Refused as error:
        raise BadItem(error.message) from error
