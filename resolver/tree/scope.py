"""What is below the URL that a person typed, and so belongs to its tree: at the same place, by the same
scheme, and by a path that begins with that URL's. Nothing else is asked for, not by a redirect either.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocols.location import HostUrl, Url
from protocols.scheme import Tree
from resolver import registry

#: Names that lead elsewhere than down, should anything hold them that takes no path apart.
_NOWHERE = frozenset({b"", b".", b".."})


def tree_of(url: Url) -> Tree | None:
    """How the URLs of its scheme make trees; None where they make none."""
    row = registry.find(url.scheme)
    return None if row is None else row.tree


def names_of(url: Url) -> tuple[bytes, ...]:
    """What leads from the top of its server to what it names."""
    tree = tree_of(url)
    return () if tree is None else tree.names(url)


def place_of(url: Url) -> str:
    """The scheme, host and port: the same for all URLs of a tree."""
    if isinstance(url, HostUrl):
        return f"{url.scheme}://{url.host.lower()}:{url.effective_port}"
    return f"{url.scheme}:"


@dataclass(frozen=True, slots=True)
class Scope:
    """A tree: where it is, and the names that lead to its top."""

    place: str
    names: tuple[bytes, ...]

    @classmethod
    def of(cls, url: Url) -> Scope:
        return cls(place_of(url), names_of(url))

    def covers(self, url: Url) -> bool:
        """Is it in the tree, or its top?"""
        names = names_of(url)
        top = len(self.names)
        return place_of(url) == self.place and names[:top] == self.names and _NOWHERE.isdisjoint(names[top:])
