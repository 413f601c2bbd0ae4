"""The outcome table of a partition: sorted by URL, and never completely in memory."""

from __future__ import annotations

import io
import json
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from resolver.bulk import store as outcomes
from resolver.bulk.messages import Format
from resolver.bulk.store import encode_table
from resolver.ledger.book import TABLES

FORMATS: tuple[Format, ...] = ("jsonl", "parquet")


def ledger(folder: Path, count: int) -> str:
    """Create a ledger of ended requests in another order than that of their URLs."""
    path = str(folder / f"{count}.ledger")
    rows = [
        (b"%d" % number, f"http://h.example/{number * 7 % count:06}", f"h.example/{number}")
        for number in range(count)
    ]
    insert = (
        "INSERT INTO object(key, url, path, origin, without_password, status, asked, size, exit, ended) "
        "VALUES (?, ?, ?, 'user', 0, 'done', 0, 7, 0, 1.5)"
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(TABLES)
        connection.executemany(insert, rows)
        connection.commit()
    return path


def rows_of(octets: bytes, format: Format) -> list[dict[str, Any]]:
    if format == "jsonl":
        return [json.loads(line) for line in octets.splitlines()]
    table: list[dict[str, Any]] = parquet.read_table(io.BytesIO(octets)).to_pylist()
    return table


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("count", [0, 1, 9, 10])
def test_table_has_all_rows_sorted_by_url(
    count: int, format: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "_BATCH_SIZE", 3)
    rows = rows_of(encode_table(ledger(tmp_path, count), format, files=True), format)
    assert [row["url"] for row in rows] == [f"http://h.example/{number:06}" for number in range(count)]
    assert {row["path"] for row in rows} == {f"h.example/{number}" for number in range(count)}
    assert {row["bytes"] for row in rows} == {7} or not count


@pytest.mark.parametrize("format", FORMATS)
def test_table_memory_does_not_grow_with_rows(
    format: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound excludes the bytes returned; the objects of a row take five times as much."""
    monkeypatch.setattr(outcomes, "_BATCH_SIZE", 100)

    def most_held(path: str) -> tuple[int, int]:
        tracemalloc.start()
        try:
            octets = len(encode_table(path, format, files=True))
            return tracemalloc.get_traced_memory()[1], octets
        finally:
            tracemalloc.stop()

    most_held(ledger(tmp_path, 10))
    few, _ = most_held(ledger(tmp_path, 200))
    many, octets = most_held(ledger(tmp_path, 4_000))
    assert many < 2 * few + 3 * octets
