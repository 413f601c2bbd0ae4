"""Reports about a ledger, even during a run, and the requeuing of failed requests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from protocols.location import JsonValue
from resolver.files.atomic import LedgerFile, reading_parameters
from resolver.ledger import LedgerFault
from resolver.ledger.book import connect, convert_errors, decode_number, decode_string, has_ledger

_NOT_DONE = "status NOT IN ('done', 'skipped')"
_PENDING_COLUMNS = "url, origin, referrer, without_password, error, exit, message, attempts, more"


class FailedRow(NamedTuple):
    """A kind of failure: the class of the error, the exit status, and the number of failures."""

    error: str
    exit: int
    objects: int


class LedgerReport(NamedTuple):
    """The totals of a ledger.

    Attributes:
        size: The total size of all files in bytes.
        brought: The number of bytes received over the network for these files.
        elapsed: The total duration of all runs in seconds. A killed run counts until its last write to the
            ledger.
    """

    objects: int
    done: int
    skipped: int
    failed: int
    refused: int
    left: int
    size: int
    brought: int
    attempts: int
    runs: int
    elapsed: float
    failures: tuple[FailedRow, ...]

    @property
    def rate(self) -> float | None:
        """Return the average transfer rate in bytes per second, or None if no bytes were received."""
        return self.brought / self.elapsed if self.brought and self.elapsed > 0 else None


class PendingRow(NamedTuple):
    """The row of an unfinished or failed request.

    `without_password` is true if the URL had a password, which the ledger does not store.
    """

    url: str
    origin: str
    referrer: tuple[str, str | None] | None
    without_password: bool
    error: str | None
    exit: int | None
    message: str | None
    attempts: int
    more: dict[str, JsonValue]


class ReportRow(NamedTuple):
    """A row with any status; `path` is empty until the file is saved."""

    request: PendingRow
    status: str
    path: str
    size: int
    digest: str | None


def read(path: str) -> LedgerReport:
    """Return the totals of a ledger. Raises `LedgerFault`."""
    with _open_ledger(path) as connection:
        count = dict(connection.execute("SELECT status, count(*) FROM object GROUP BY status"))
        size_sum = "sum(size) FILTER (WHERE status IN ('done', 'skipped'))"
        whole = [
            f"CAST(coalesce({total}, 0) AS INTEGER)" for total in (size_sum, "sum(brought)", "sum(attempts)")
        ]
        sums = f"SELECT {', '.join(whole)} FROM object"
        size, brought, attempts = connection.execute(sums).fetchone()
        runs, elapsed = connection.execute(
            "SELECT count(*), coalesce(sum(ended-begun), 0.0) FROM run"
        ).fetchone()
        kinds = "SELECT error, exit, count(*) FROM object WHERE status IN ('failed', 'refused')"
        failures = connection.execute(f"{kinds} GROUP BY error, exit ORDER BY count(*) DESC, error, exit")
        return LedgerReport(
            objects=sum(count.values()),
            done=count.get("done", 0),
            skipped=count.get("skipped", 0),
            failed=count.get("failed", 0),
            refused=count.get("refused", 0),
            left=count.get("queued", 0) + count.get("whole", 0),
            size=size,
            brought=brought,
            attempts=attempts,
            runs=runs,
            elapsed=max(0.0, elapsed),
            failures=tuple(
                FailedRow(decode_string(error) or "", decode_number(status), count)
                for error, status, count in failures
            ),
        )


def list_pending(path: str) -> Iterator[PendingRow]:
    """Yield the rows of failed and unfinished requests, in request order. Raises `LedgerFault`."""
    with _open_ledger(path) as connection:
        for row in connection.execute(f"SELECT {_PENDING_COLUMNS} FROM object WHERE {_NOT_DONE} ORDER BY id"):
            with _convert_value_errors(path):
                yield _make_pending_row(row)


def list_newest(path: str, max_rows: int) -> list[ReportRow]:
    """Return the rows of the last `max_rows` requests, in request order. Raises `LedgerFault`."""
    select = f"SELECT {_PENDING_COLUMNS}, status, path, size, digest FROM object ORDER BY id DESC LIMIT ?"
    with _open_ledger(path) as connection, _convert_value_errors(path):
        rows = [
            ReportRow(
                _make_pending_row(columns),
                decode_string(status) or "",
                decode_string(saved_path) or "",
                decode_number(size),
                decode_string(digest),
            )
            for *columns, status, saved_path, size, digest in connection.execute(select, (max_rows,))
        ]
    return rows[::-1]


class FinishedRow(NamedTuple):
    """The row of a finished or failed request.

    Attributes:
        path: The path as stored in the row, which may be relative.
        modified: The modification time as a Unix timestamp.
        ended: The end of the request as a Unix timestamp.
    """

    url: str
    final_url: str | None
    status: str
    exit: int
    error: str | None
    message: str | None
    path: str | None
    size: int
    digest: str | None
    media_type: str | None
    modified: float | None
    attempts: int
    ended: float | None


def list_finished(path: str) -> Iterator[FinishedRow]:
    """Yield the rows of all ended requests, sorted by URL. Raises `LedgerFault`.

    SQLite sorts the rows, on the disk if necessary, so that little memory is needed.
    """
    columns = "url, final_url, status, exit, error, message, path, size, digest, media_type, modified"
    of_ended = "FROM object WHERE status NOT IN ('queued', 'whole') ORDER BY url, key"
    select = f"SELECT {columns}, attempts, ended {of_ended}"
    with _open_ledger(path) as connection:
        for row in connection.execute(select):
            with _convert_value_errors(path):
                yield _make_finished_row(row)


def _make_finished_row(row: tuple[object, ...]) -> FinishedRow:
    url, final_url, status, code, error, message, stored, size, digest, media, modified, attempts, ended = row
    is_saved = decode_string(status) in ("done", "skipped")
    return FinishedRow(
        url=decode_string(url) or "",
        final_url=decode_string(final_url) if is_saved else None,
        status=decode_string(status) or "",
        exit=decode_number(code),
        error=decode_string(error),
        message=decode_string(message),
        path=decode_string(stored) if is_saved else None,
        size=decode_number(size) if is_saved else 0,
        digest=decode_string(digest) if is_saved else None,
        media_type=decode_string(media) if is_saved else None,
        modified=modified if is_saved and isinstance(modified, float) else None,
        attempts=decode_number(attempts),
        ended=ended if isinstance(ended, float) else None,
    )


@contextmanager
def _convert_value_errors(path: str) -> Iterator[None]:
    """Convert errors that are caused by invalid column values to `LedgerFault`."""
    try:
        yield
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise LedgerFault(f"the ledger {path!r} has an invalid row: {error}") from error


def _make_pending_row(row: Sequence[Any]) -> PendingRow:
    """Return the row with these column values.

    Raises:
        ValueError, TypeError, LookupError: A column value is invalid.
    """
    url, origin, referrer, without_password, error, status, message, attempts, more = row
    pair = None if referrer is None else json.loads(referrer)
    return PendingRow(
        url=decode_string(url) or "",
        origin=decode_string(origin) or "",
        referrer=None if pair is None else (pair[0], pair[1]),
        without_password=bool(without_password),
        error=decode_string(error),
        exit=None if status is None else decode_number(status),
        message=decode_string(message),
        attempts=decode_number(attempts),
        more={} if more is None else dict(json.loads(more)),
    )


def requeue_errors(path: str, kind: str) -> int:
    """Set the status of rows to `queued`, and return the number of rows.

    Args:
        path: The ledger.
        kind: An error class, an exit status (0 for finished requests), or `all` for all failures.

    Raises:
        LedgerFault: The ledger cannot be written, or another run has locked it.
    """
    where: tuple[str, tuple[Any, ...]] = ("status IN ('failed', 'refused') AND error=?", (kind,))
    if kind == "all":
        where = ("status IN ('failed', 'refused')", ())
    elif kind.isdecimal():
        where = ("exit=? AND status NOT IN ('queued', 'whole')", (int(kind),))
    file = LedgerFile(path)
    with convert_errors(path):
        file.acquire(make=False)
        try:
            with closing(connect(file.path)) as connection:
                _check_ledger(connection, path)
                reset = "status='queued', exit=NULL, error=NULL, message=NULL, attempts=0, ended=NULL"
                return connection.execute(f"UPDATE object SET {reset} WHERE {where[0]}", where[1]).rowcount
        finally:
            file.close()


@contextmanager
def _open_ledger(path: str) -> Iterator[sqlite3.Connection]:
    with convert_errors(path), closing(connect(path, query=reading_parameters(path))) as connection:
        connection.execute("PRAGMA query_only=1")
        connection.execute("BEGIN")  # A transaction reads one consistent snapshot during concurrent writes.
        _check_ledger(connection, path)
        yield connection


def _check_ledger(connection: sqlite3.Connection, path: str) -> None:
    if not has_ledger(connection, path):
        raise LedgerFault(f"{path!r} is not a ledger: the file is empty")
