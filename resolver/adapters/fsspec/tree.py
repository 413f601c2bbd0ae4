"""Names below a directory, and the patterns that choose among them.

A server says what is below what, and may say that for ever: nothing is entered twice, no link, nothing
that is not below the directory it was found in, and nothing deeper than `DEEPEST`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from errno import ELOOP
from typing import Any, NamedTuple, Protocol

from fsspec.utils import glob_translate

import resolver
from resolver.adapters.fsspec.names import last
from resolver.adapters.fsspec.record import Record

DEEPEST = 100


class WalkLevel(NamedTuple):
    """What is in a directory, each by what it is called there."""

    directories: dict[str, Record]
    files: dict[str, Record]


def level_of(name: str, records: Iterable[Record]) -> WalkLevel:
    """Two that are called the same in it are called by their whole names from the second on."""
    level = WalkLevel({}, {})
    for record in records:
        called = "" if record["name"] == name else last(record["name"])
        if called in level.directories or called in level.files:
            called = record["name"]
        is_directory = record["type"] == "directory" and record["name"] != name
        (level.directories if is_directory else level.files)[called] = record
    return level


def check_depth(name: str, depth: int) -> None:
    if depth > DEEPEST:
        raise OSError(ELOOP, f"more than {DEEPEST} directories in one another", name)


def is_excused(error: OSError) -> bool:
    """What nobody finds or may read is left out of a walk, as `find` does; no other directory is, for what is
    not whole is an error."""
    return isinstance(error, FileNotFoundError) or isinstance(error.__cause__, resolver.AccessDenied)


class GlobPattern:
    """A name with wildcards; those that are none in this file system are `magic` no more."""

    def __init__(self, name: str, magic: str) -> None:
        authority, slash, path = name.partition("/")
        self.name = name
        self._magic = re.compile(f"[{re.escape(magic)}]")
        found = self._magic.search(path)
        self.is_one = found is not None
        self.root = name if found is None else f"{authority}{slash}{path[: found.start()]}".rpartition("/")[0]

    def depth(self, most: int | None) -> int | None:
        """Levels below the root that can match; None for all. `most` bounds those of the first `**`."""
        if "**" not in self.name:
            return self._levels
        if most is None:
            return None
        return self._levels - self.name[self.name.find("**") :].count("/") - 1 + most

    @property
    def _levels(self) -> int:
        return self.name[len(self.root) + 1 :].count("/") + 1

    def matching(
        self, key: str, records: Mapping[str, Record], keys: Mapping[str, str], *, directories: bool
    ) -> dict[str, Record]:
        """Those whose key matches the pattern `key`; with `directories` those alone."""
        slash = "/" if directories else ""
        pattern = re.compile(glob_translate(self._literal(key) + slash))
        append = directories or key.endswith("/**")
        return {
            name: record
            for name, record in sorted(records.items())
            if pattern.match(f"{keys[name]}/" if append and record["type"] == "directory" else keys[name])
        }

    def _literal(self, key: str) -> str:
        authority, slash, path = key.partition("/")
        host = re.sub(r"[*?[]", r"[\g<0>]", authority)
        return f"{host}{slash}{path if self._magic.match('?') else path.replace('?', '[?]')}"


class WalkableTree(Protocol):
    """What can be walked."""

    def ls(self, path: str, detail: bool = True, refresh: bool = False) -> list[Record]: ...

    def key(self, name: str) -> str: ...


class FileSystemWalk:
    """One walk, with what was entered on it: `depth` levels of it, `topdown` or from below, and what is to be
    done `on_error`, as fsspec has it. With `detail` it gives records, else names."""

    def __init__(
        self, tree: WalkableTree, depth: int | None, topdown: bool, on_error: object, detail: bool
    ) -> None:
        self._tree = tree
        self._depth = depth
        self._topdown = topdown
        self._on_error = on_error
        self._detail = detail
        self._entered: set[str] = set()

    def below(self, name: str, depth: int = 1) -> Iterator[tuple[str, Any, Any]]:
        """What is in it, and in all below; it is `depth` levels down itself."""
        records = self._records(name, depth)
        if records is None:
            return
        directories, files = level_of(name, records)
        shown = dict(directories) if self._detail else list(directories)
        level = (name, shown, files if self._detail else list(files))
        if self._topdown:
            yield level
        if self._depth is None or depth < self._depth:
            for called in list(shown if self._topdown else directories):
                if self._enters(name, directories[called]):
                    yield from self.below(directories[called]["name"], depth + 1)
        if not self._topdown:
            yield level

    def _records(self, name: str, depth: int) -> list[Record] | None:
        self._entered.add(self._tree.key(name))
        try:
            check_depth(name, depth)
            return self._tree.ls(name, detail=True)
        except OSError as error:
            if callable(self._on_error):
                self._on_error(error)
            elif self._on_error == "raise" or not is_excused(error):
                raise
            return None

    def _enters(self, name: str, record: Record) -> bool:
        key, above = self._tree.key(record["name"]), self._tree.key(name).rstrip("/")
        return not record.get("islink") and key.startswith(f"{above}/") and key not in self._entered
