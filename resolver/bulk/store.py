"""Where a run keeps what it brings: a directory that all workers reach, or whatever fsspec does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

from protocols.errors import LocalError
from resolver.disk.shelf import OutputFiles, forget
from resolver.url import redact

#: How often it is tried to make a directory: whoever makes one above it at the same time has done so then.
_MAKES = 5


class RemoteStore:
    """A place of fsspec's. Names are paths below it, with `/`; what is written is there as a whole or not at
    all, where the place is one that promises that. All raise `LocalError`."""

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self._shown = redact(url)
        with self._faults():
            self._system, self._root = url_to_fs(url)

    @property
    def here(self) -> str | None:
        """The path of the directory, where it is one of this machine."""
        from fsspec.implementations.local import LocalFileSystem

        return self._root if isinstance(self._system, LocalFileSystem) else None

    def read(self, name: str) -> bytes | None:
        """None where there is none."""
        with self._faults():
            try:
                octets: bytes = self._system.cat_file(self._path(name))
            except FileNotFoundError:
                return None
            return octets

    def write(self, name: str, octets: bytes) -> None:
        path = self._path(name)
        self._put([path], lambda: self._system.pipe_file(path, octets))

    def fetch(self, name: str, path: str) -> bool:
        """Copy it into a file here, if it is there. That there is none is said by the place, and not by what
        it had listed before, nor by a fault on the way: what is done would be done again."""
        with self._faults():
            try:
                self._system.get_file(self._path(name), path)
            except Exception:
                forget(path)
                if self._has(self._path(name)):
                    raise
                return False
            return True

    def _has(self, path: str) -> bool:
        self._system.invalidate_cache()
        try:
            self._system.info(path)
        except FileNotFoundError:
            return False
        return True

    def send(self, files: Sequence[tuple[str, str]]) -> None:
        """Copy files of this machine there, each path under its name."""
        if files:
            here = [path for path, _ in files]
            there = [self._path(name) for _, name in files]
            self._put(there, lambda: self._system.put(here, there))

    def _put(self, paths: Sequence[str], put: Callable[[], object]) -> None:
        """With their directories, where a place wants them made (ftp, sftp). Those that are asynchronous are
        stores of objects, which have none: there that would make a bucket."""
        with self._faults():
            try:
                put()
            except Exception:
                if self._system.async_impl:
                    raise
                for directory in sorted({path.rpartition("/")[0] for path in paths}):
                    self._make(directory)
                put()

    def _make(self, directory: str) -> None:
        """Others may make those above it in the same moment, and what says so has many names."""
        for _ in range(_MAKES):
            self._system.invalidate_cache()
            with suppress(Exception):
                return self._system.mkdirs(directory, exist_ok=True)  # type: ignore[no-any-return]
        return None

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Whatever somebody else's file system raises, it cannot be used."""
        try:
            yield
        except Exception as error:
            raise LocalError(f"{self._shown!r} cannot be used: {type(error).__name__}: {error}") from error


Store: TypeAlias = OutputFiles | RemoteStore


def store_of(out: str) -> Store:
    """Raises `LocalError` for a URL that fsspec does not know."""
    if "://" not in out:
        return OutputFiles(out)
    remote = RemoteStore(out)
    return remote if remote.here is None else OutputFiles(remote.here)
