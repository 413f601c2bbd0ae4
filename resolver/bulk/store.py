"""The store of a run, in a directory or an fsspec file system, and the tables of outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from protocols.errors import LocalError
from resolver.bulk.messages import Format
from resolver.files.atomic import OutputFiles, forget
from resolver.ledger.report import FinishedRow, list_finished
from resolver.url.parsing import redact

if TYPE_CHECKING:
    import pyarrow


#: The maximum number of attempts to create a directory. An attempt may fail because another worker
#: concurrently creates a parent directory.
_MAX_MAKES = 5


class RemoteStore:
    """A store in an fsspec file system.

    File names are relative to the URL of the store, with `/` as the separator. Writes are atomic only if the
    file system has atomic writes. All methods raise `LocalError`.
    """

    def __init__(self, url: str) -> None:
        from fsspec.core import url_to_fs

        self._shown = redact(url)
        with self._faults():
            self._system, self._root = url_to_fs(url)

    @property
    def local_path(self) -> str | None:
        """Return the path of a local directory, or None for a remote store."""
        from fsspec.implementations.local import LocalFileSystem

        return self._root if isinstance(self._system, LocalFileSystem) else None

    def read(self, name: str) -> bytes | None:
        """Return the content of the file, or None if the file is missing."""
        with self._faults():
            try:
                octets: bytes = self._system.cat_file(self._path(name))
            except FileNotFoundError:
                return None
            return octets

    def write(self, name: str, octets: bytes) -> None:
        path = self._path(name)
        self._write_files([path], lambda: self._system.pipe_file(path, octets))

    def fetch(self, name: str, path: str) -> bool:
        """Copy the file to a local path, and return whether the file exists.

        The result is False only if a new query to the file system confirms that the file is missing. A cached
        listing may be outdated, and a network error does not mean that the file is missing. If an existing
        ledger seemed to be missing, the run would repeat finished requests.
        """
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
        """Copy local files to the store; each item is a local path and the name in the store."""
        if files:
            sources = [path for path, _ in files]
            targets = [self._path(name) for _, name in files]
            self._write_files(targets, lambda: self._system.put(sources, targets))

    def _write_files(self, paths: Sequence[str], write: Callable[[], object]) -> None:
        """Write files, and create their directories if the file system needs directories (ftp, sftp).

        Asynchronous fsspec file systems are object stores without directories. For an object store, `mkdirs`
        is not called, because it would create a bucket.
        """
        with self._faults():
            try:
                write()
            except Exception:
                if self._system.async_impl:
                    raise
                for directory in sorted({path.rpartition("/")[0] for path in paths}):
                    self._make(directory)
                write()

    def _make(self, directory: str) -> None:
        """Create a directory, with retries.

        Other workers may create a parent directory concurrently; each file system raises another exception.
        """
        for _ in range(_MAX_MAKES):
            self._system.invalidate_cache()
            with suppress(Exception):
                return self._system.mkdirs(directory, exist_ok=True)  # type: ignore[no-any-return]
        return None

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Convert any exception of a file system to `LocalError`."""
        try:
            yield
        except Exception as error:
            raise LocalError(f"cannot access {self._shown!r}: {type(error).__name__}: {error}") from error


Store: TypeAlias = OutputFiles | RemoteStore


def open_store(out: str) -> Store:
    """Return the store at `out`, a path or a URL. Raises `LocalError` if fsspec does not support the URL."""
    if "://" not in out:
        return OutputFiles(out)
    remote = RemoteStore(out)
    return remote if remote.local_path is None else OutputFiles(remote.local_path)


# The outcomes of all requests of a partition, as one table. The table is generated from the partition's
# ledger, which survives killed processes. An interrupted and resumed run therefore has the same outcomes as
# an uninterrupted run. Only `attempts` and `ended` may differ.

#: The batch size: the number of rows that one call converts to columns. A batch uses about 16 MB of memory.
_BATCH_SIZE = 10_000


def encode_table(ledger: str, format: Format, *, files: bool) -> bytes:
    """Return a table of all ended requests, sorted by URL.

    Args:
        ledger: The ledger of the partition.
        format: The format of the table.
        files: Whether objects are stored as files instead of archives. Only objects in files have a path.

    Raises:
        LedgerFault: The ledger cannot be read.
    """
    rows = (_row(row if files else row._replace(path=None)) for row in list_finished(ledger))
    if format == "jsonl":
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    return _encode_parquet(rows)


def _row(row: FinishedRow) -> dict[str, Any]:
    return {"bytes" if name == "size" else name: value for name, value in row._asdict().items()}


def _schema() -> pyarrow.Schema:
    import pyarrow

    text, seconds = pyarrow.string(), pyarrow.timestamp("us", tz="UTC")
    return pyarrow.schema(
        {
            **dict.fromkeys(("url", "final_url", "status"), text),
            "exit": pyarrow.int32(),
            **dict.fromkeys(("error", "message", "path"), text),
            "bytes": pyarrow.int64(),
            **dict.fromkeys(("digest", "media_type"), text),
            "modified": seconds,
            "attempts": pyarrow.int32(),
            "ended": seconds,
        }
    )


def _encode_parquet(rows: Iterable[dict[str, Any]]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    schema = _schema()
    sink = pyarrow.BufferOutputStream()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        iterator = iter(rows)
        while batch := list(islice(iterator, _BATCH_SIZE)):
            writer.write_table(pyarrow.Table.from_pylist([_convert_types(row) for row in batch], schema))
    octets: bytes = sink.getvalue().to_pybytes()
    return octets


def _convert_types(row: dict[str, Any]) -> dict[str, Any]:
    """Convert times to integer microseconds, and text to UTF-8 with escaped invalid bytes."""
    typed: dict[str, Any] = {
        name: _text(value) if isinstance(value, str) else value for name, value in row.items()
    }
    for name in ("modified", "ended"):
        if (moment := typed[name]) is not None:
            typed[name] = round(moment * 1_000_000)
    return typed


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
