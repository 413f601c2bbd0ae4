"""A file of a file system of ours, as fsspec has files: with its caches, to be read from anywhere."""

from __future__ import annotations

from fsspec.spec import AbstractBufferedFile

from resolver.adapters.fsspec.faults import translated
from resolver.adapters.fsspec.ranges import Octets


class UrlFile(AbstractBufferedFile):
    """Open for reading; `octets` are those of the object, as it is at the moment."""

    def __init__(
        self,
        fs: object,
        path: str,
        octets: Octets,
        block_size: int | None,
        cache_type: str,
        cache_options: dict[str, object] | None,
    ) -> None:
        self._octets = octets
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

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._octets.close()

    def __del__(self) -> None:
        """In whatever thread it is collected, which must not wait."""
        if not self.closed:
            self._octets.forget()
