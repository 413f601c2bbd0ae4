"""All benchmark rows by name, with their tasks, contestants and aims."""

from __future__ import annotations

from collections.abc import Mapping

from bench.row import Row
from bench.rows import archives, bulk, cat, ftp, large, memory, news, small, start, trees

ROWS: Mapping[str, Row] = {
    row.name: row
    for module in (start, small, ftp, cat, news, large, memory, trees, archives, bulk)
    for row in module.ROWS
}
