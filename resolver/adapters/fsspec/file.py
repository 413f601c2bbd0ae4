"""A file of a file system of ours, as fsspec has files: with its caches, to be read from anywhere."""

from __future__ import annotations

import threading

from fsspec.spec import AbstractBufferedFile

from resolver.adapters.fsspec.faults import translated
from resolver.adapters.fsspec.ranges import ObjectBytes


class UrlFile(AbstractBufferedFile):
    """Open for reading; `octets` are those of the object, as it is at the moment.

    Threads may share it: one at a time has the cache of fsspec. They share the position, as of any file. Once
    one of them seeks or reads while another reads, a read behind a seek begins where its own thread sought:
    DuckDB's `read_parquet` gives one file to all its threads, without a lock around seek and read.
    """

    def __init__(
        self,
        fs: object,
        path: str,
        octets: ObjectBytes,
        block_size: int | None,
        cache_type: str,
        cache_options: dict[str, object] | None,
    ) -> None:
        self._octets = octets
        self._lock = threading.Lock()
        self._own = threading.local()  # `sought`: where this thread sought and has not read yet
        self._is_contended = False
        super().__init__(
            fs,
            path,
            "rb",
            block_size=block_size,
            cache_type=cache_type,
            cache_options=cache_options,
            size=octets.size,
        )

    def _fetch_range(self, start: int, end: int) -> bytes:
        with translated(self.path):
            return self._octets.read(start, end)

    def seek(self, loc: int, whence: int = 0) -> int:
        if self._lock.locked():
            self._is_contended = True
        self._own.sought = position = super().seek(loc, whence)
        return int(position)

    def read(self, length: int = -1) -> bytes:
        if self._lock.locked():
            self._is_contended = True
        sought, self._own.sought = getattr(self._own, "sought", None), None
        with self._lock:
            if sought is not None and self._is_contended:
                self.loc = sought
            octets: bytes = super().read(length)
        return octets

    def close(self) -> None:
        with self._lock:
            if not self.closed:
                super().close()
                self._octets.close()

    def __del__(self) -> None:
        """In whatever thread it is collected, which must not wait."""
        if not self.closed:
            self._octets.forget()
