"""The scope of a tree: URLs of the same place and scheme whose path begins with the top URL's.

No other URL is requested, not by a redirect either. The module also selects files, detects loops and names
the entries of a directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cached_property
from hashlib import sha256
from typing import Protocol
from urllib.parse import quote

from protocols.authority import comparable_host
from protocols.location import Entry, HostUrl, JsonValue, Url
from protocols.scheme import Tree
from resolver.policy.files import local_name, local_path, name_key, number_name
from resolver.url import registry
from resolver.url.parsing import parse

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
    def from_url(cls, url: Url) -> TreeScope:
        return cls(place_of(url), names_of(url))

    def covers(self, url: Url, names: tuple[bytes, ...] | None = None) -> bool:
        """Is it in the tree, or its top? `names` lead to it, where the caller knows them."""
        names = names_of(url) if names is None else names
        top = len(self.names)
        return names[:top] == self.names and place_of(url) == self.place and _NOWHERE.isdisjoint(names[top:])


# The selection of files by their names and by their whole URLs. Directories are entered all the same, for
# their files.


@dataclass(frozen=True)
class Selection:
    """Patterns of the shell for names (`*.iso`): of `accept` one has to match, if there are any, and of
    `reject` none may. `pattern` is a regular expression that has to be found in the URL. Case counts.

    Raises `ValueError` for a pattern that is none, when it is made."""

    accept: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    pattern: str | None = None

    def __post_init__(self) -> None:
        _ = self._sought

    @property
    def takes_all(self) -> bool:
        """Does it leave nothing out?"""
        return not self.accept and not self.reject and self.pattern is None

    def takes_local(self, name: str, url: str) -> bool:
        """The same of a file here."""
        return self.takes(os.fsencode(name), url)

    def takes(self, name: bytes, url: str) -> bool:
        """Is the file of this name, which is at `url`, wanted?"""
        if self.takes_all:
            return True
        text = name.decode("utf-8", "surrogateescape")
        if self._rejected is not None and self._rejected.match(text):
            return False
        if self._accepted is not None and not self._accepted.match(text):
            return False
        return self._sought is None or self._sought.search(url) is not None

    @cached_property
    def _accepted(self) -> re.Pattern[str] | None:
        return _any_of(self.accept)

    @cached_property
    def _rejected(self) -> re.Pattern[str] | None:
        return _any_of(self.reject)

    @cached_property
    def _sought(self) -> re.Pattern[str] | None:
        if self.pattern is None:
            return None
        try:
            return re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"{self.pattern!r} is no regular expression: {error}") from error


def _any_of(globs: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(map(translate, globs))) if globs else None


# Loops: evidence that two places are one.
#
# It is a URL in a normalized spelling; an identifier that the server gives (MLSD's `unique`, EPLF's `i`, the
# real path of a directory); or the target of a link, if it is given. Http gives none of these: there a
# directory with the same listing as two of those above it is taken for one of them.

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


# The local names of the entries of one directory (S14): each safe by itself, and no two one file on any file
# system.
#
# Names are given in the order of the bytes of the raw ones, directories before files, whatever the order of
# the listing: so another run gives the same, as long as no entry comes or goes. Of names that some file
# system takes for one the first keeps its name, the next ones get it numbered.


class TakenNames(Protocol):
    """The keys of names that are taken in a directory; of each the number that was given last of those that
    wanted it."""

    def find_last_number(self, key: str) -> int:
        """0 where nobody has it."""
        ...

    def take(self, key: str, number: int) -> None: ...


def name_for(raw: bytes, taken: TakenNames) -> str:
    """The name of what a server calls `raw`, which is taken from now on. Raises `Refused` (S14) where nothing
    is left of it."""
    wanted = local_name(raw)
    key = name_key(wanted)
    number = taken.find_last_number(key) + 1
    found, its_key = number_name(wanted, number), key
    while number > 1 and taken.find_last_number(its_key := name_key(found)):
        number += 1
        found = number_name(wanted, number)
    if its_key != key:
        taken.take(its_key, 1)
    taken.take(key, number)
    return found
