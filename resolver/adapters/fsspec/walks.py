"""What is below what: walks, patterns and sums, over listings."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

from resolver.adapters.fsspec.listings import FileSystemListings
from resolver.adapters.fsspec.record import Record
from resolver.adapters.fsspec.tree import FileSystemWalk, GlobPattern


class Walks(FileSystemListings):
    """Whole trees of listings."""

    def walk(
        self,
        path: str,
        maxdepth: int | None = None,
        topdown: bool = True,
        on_error: Any = "omit",
        detail: bool = False,
        **kwargs: Any,
    ) -> Iterator[tuple[str, Any, Any]]:
        """As fsspec's. What cannot be read is left out if the server says so; any other failure is raised."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        walk = FileSystemWalk(self, maxdepth, topdown, on_error, detail)
        return walk.below(self._at(path))

    def find(
        self,
        path: str,
        maxdepth: int | None = None,
        withdirs: bool = False,
        detail: bool = False,
        **kwargs: Any,
    ) -> Any:
        return super().find(self._at(path), maxdepth, withdirs, detail, **kwargs)

    def expand_path(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> Any:
        return super().expand_path(self._whole(path), recursive, maxdepth, **kwargs)

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        return super().cat(self._whole(path), recursive, on_error, **kwargs)

    def _whole(self, path: Any) -> Any:
        """The whole name, or those of several."""
        return self._at(path) if isinstance(path, str | PathLike) else [self._at(each) for each in path]

    def glob(
        self,
        path: str,
        maxdepth: int | None = None,
        detail: bool = False,
        withdirs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """As fsspec's, but a host has no wildcards, and where a question mark begins a query, it is none."""
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        pattern = GlobPattern(self._at(path), self.magic)
        found = self._matching(pattern, maxdepth, withdirs, str(path).endswith("/"), kwargs)
        return found if detail else list(found)

    def _matching(
        self,
        pattern: GlobPattern,
        maxdepth: int | None,
        withdirs: bool,
        directories: bool,
        more: dict[str, Any],
    ) -> dict[str, Record]:
        if not pattern.is_one:
            return {pattern.name: self.info(pattern.name)} if self.exists(pattern.name) else {}
        root, depth = self.menu(pattern.root), pattern.depth(maxdepth)
        records = self.find(root, depth, withdirs, detail=True, **more)
        keys = {name: self.key(name) for name in records}
        return pattern.matching(self.key(pattern.name), records, keys, directories=directories)

    def du(self, path: str, total: bool = True, maxdepth: int | None = None, **kwargs: Any) -> Any:
        """Raises `OSError` for a total of sizes that the server does not tell."""
        sizes: dict[str, int | None] = super().du(path, False, maxdepth, **kwargs)
        if not total:
            return sizes
        known = [size for size in sizes.values() if size is not None]
        if len(known) < len(sizes):
            raise OSError(f"{path}: of {len(sizes) - len(known)} of {len(sizes)} files no size is told")
        return sum(known)
