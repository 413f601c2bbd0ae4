"""What became of all requests of a partition, as one table: made of its ledger, which outlives whatever was
killed, so that a run that was disturbed tells the same as one that was not.

Of two runs only `attempts` and `ended` may differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from protocols.location import JsonValue
from resolver.bulk.job import Format
from resolver.ledger.report import FinishedRow, became

if TYPE_CHECKING:
    import pyarrow

#: Rows that are made into columns at once: some 16 MB, while they are objects.
_AT_ONCE = 10_000


def table_of(ledger: str, format: Format, *, files: bool) -> bytes:
    """A file of that format, a row for each request that has ended, in the order of their URLs. Without
    `files` what came is in archives, by its URL, and has no path. Raises `LedgerFault`."""
    rows = (_row(each if files else each._replace(path=None)) for each in became(ledger))
    return _lines(rows) if format == "jsonl" else _parquet(rows)


def _row(each: FinishedRow) -> dict[str, Any]:
    return {
        "url": each.url,
        "final_url": each.final_url,
        "status": each.status,
        "exit": each.exit,
        "error": each.error,
        "message": each.message,
        "path": each.path,
        "bytes": each.size,
        "digest": each.digest,
        "media_type": each.media_type,
        "modified": each.modified,
        "attempts": each.attempts,
        "ended": each.ended,
    }


def _lines(rows: Iterable[dict[str, JsonValue]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


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


def _parquet(rows: Iterable[dict[str, Any]]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    schema = _schema()
    sink = pyarrow.BufferOutputStream()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for several in _several(rows):
            writer.write_table(pyarrow.Table.from_pylist([_typed(row) for row in several], schema))
    octets: bytes = sink.getvalue().to_pybytes()
    return octets


def _typed(row: dict[str, Any]) -> dict[str, Any]:
    """Moments as whole microseconds, and text in UTF-8: what is none is shown with its octets escaped."""
    typed: dict[str, Any] = {
        name: _text(value) if isinstance(value, str) else value for name, value in row.items()
    }
    for name in ("modified", "ended"):
        if (moment := typed[name]) is not None:
            typed[name] = round(moment * 1_000_000)
    return typed


def _text(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _several(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    following = iter(rows)
    while several := list(islice(following, _AT_ONCE)):
        yield several
