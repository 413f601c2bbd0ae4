"""How the entries of one directory are called here (S14): each safe by itself, and no two one file on any
file system.

Names are given in the order of the octets of the raw ones, directories before files, whatever the order of
the listing: so another run gives the same, as long as nothing comes or goes. The first of those that some
file system takes for one keeps its name, the next ones get it numbered.
"""

from __future__ import annotations

from typing import Protocol

from resolver.policy import local_name, name_key, numbered


class TakenNames(Protocol):
    """The keys of names that are taken in a directory; of each the number that was given last of those that
    wanted it."""

    def last(self, key: str) -> int:
        """0 where nobody has it."""
        ...

    def take(self, key: str, number: int) -> None: ...


def name_for(raw: bytes, taken: TakenNames) -> str:
    """The name of what a server calls `raw`, which is taken from now on. Raises `Refused` (S14) where nothing
    is left of it."""
    wanted = local_name(raw)
    key = name_key(wanted)
    number = taken.last(key) + 1
    found, its_key = numbered(wanted, number), key
    while number > 1 and taken.last(its_key := name_key(found)):
        number += 1
        found = numbered(wanted, number)
    if its_key != key:
        taken.take(its_key, 1)
    taken.take(key, number)
    return found
