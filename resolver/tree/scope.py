"""What is below the URL that a person typed, and so belongs to its tree: at the same place, by the same
scheme, and by a path that begins with that URL's. Nothing else is asked for, not by a redirect either.
"""

from __future__ import annotations

from protocols.authority import comparable_host
from protocols.location import HostUrl, Url
from protocols.scheme import Tree
from protocols.values import dataclass
from resolver import registry
from resolver.policy import local_path
from resolver.url import parse

#: Names that lead elsewhere than down, should anything hold them that takes no path apart.
_NOWHERE = frozenset({b"", b".", b".."})


def tree_of(url: Url) -> Tree | None:
    """How the URLs of its scheme make trees; None where they make none."""
    row = registry.find(url.scheme)
    return None if row is None else row.tree


def walked_as(url: Url) -> Url:
    """What is walked where that URL is meant: the group itself, or the same one by another scheme."""
    row = registry.find(url.scheme)
    text = None if row is None or row.walked_as is None else row.walked_as(url)
    return url if text is None else parse(text)


def names_of(url: Url) -> tuple[bytes, ...]:
    """What leads from the top of its server to what it names."""
    tree = tree_of(url)
    return () if tree is None else tree.names(url)


def place_of(url: Url) -> str:
    """The scheme, host and port: the same for all URLs of a tree."""
    if isinstance(url, HostUrl):
        return f"{url.scheme}://{comparable_host(url.host)}:{url.effective_port}"
    return f"{url.scheme}:"


def path_of_top(url: Url, *, host: bool, cut: int | None) -> str:
    """Where the top of a tree goes: it is called by its last name, or by its host if it has none. As of any
    file `host` and the directories behind the first `cut` come before that. Raises `Refused` (S14)."""
    names = names_of(url)
    place = [url.host.encode()] if isinstance(url, HostUrl) and url.host else []
    if not names:
        return local_path(place or [b"root"])
    above = names[:-1][cut or 0 :] if host or cut is not None else ()
    return local_path([*(place if host else ()), *above, names[-1]])


@dataclass(frozen=True, slots=True)
class TreeScope:
    """A tree: where it is, and the names that lead to its top."""

    place: str
    names: tuple[bytes, ...]

    @classmethod
    def of(cls, url: Url) -> TreeScope:
        return cls(place_of(url), names_of(url))

    def covers(self, url: Url, names: tuple[bytes, ...] | None = None) -> bool:
        """Is it in the tree, or its top? `names` lead to it, where the caller knows them."""
        names = names_of(url) if names is None else names
        top = len(self.names)
        return names[:top] == self.names and place_of(url) == self.place and _NOWHERE.isdisjoint(names[top:])
