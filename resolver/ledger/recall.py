"""What an earlier run had, found by the lines of its list: they need not be read as URLs to be passed over.

Rows stand in the order in which they were asked for, and that is the order of the list. So the next lines are
most likely those of the next rows, which are read many at a time and in a row. A line that is not among them
is looked up by its key, as if there were nothing but that; where that finds it done, it goes on from there.

A row counts only where its file is where it would be put now: named in the same way, below the same
directory, and under the very place of its key.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from protocols.values import NamedTuple
from resolver.disk.whole import has_size
from resolver.ledger.book import Ledger, RequestRow

#: Rows that are held at once. More than lines are asked for together, for some may be gone from the list.
_AT_ONCE = 640


class CompletedRow(NamedTuple):
    """What is done, and still there; `where` is its path below the directory for files."""

    where: str
    path: str
    size: int
    digest: str | None


class LedgerRecall:
    """The rows of a ledger beside the lines of a list. `how` says how files are named, `directory` is the one
    for files."""

    def __init__(self, ledger: Ledger, how: str, directory: str) -> None:
        self._ledger = ledger
        self._how = how
        self._below = os.path.join(os.path.abspath(directory), "")
        self._behind = 0
        self._held: dict[str, list[tuple[int, CompletedRow]]] | None = None

    def find(self, lines: Sequence[str]) -> list[CompletedRow | None]:
        """Of each line what is done. Raises `LedgerFault`."""
        if self._held is None:
            self._held = self._read()
        found = [self._take(self._held, line) for line in lines]
        last = max((number for number, _ in filter(None, found)), default=None)
        if last is not None:
            self.go_on_behind(last)
        return [None if each is None else self._if_there(each[1]) for each in found]

    def go_on_behind(self, number: int) -> None:
        """What comes next in the list most likely comes behind this row."""
        self._behind, self._held = number, None

    def _read(self) -> dict[str, list[tuple[int, CompletedRow]]]:
        held: dict[str, list[tuple[int, CompletedRow]]] = {}
        for row in self._ledger.rows_behind(self._behind, _AT_ONCE):
            if row.status != "done" or row.how != self._how or not row.path.startswith(self._below):
                continue
            if RequestRow(row.url, row.path, row.url).key == row.key:
                known = CompletedRow(row.path[len(self._below) :], row.path, row.size, row.digest)
                held.setdefault(row.url, []).append((row.number, known))
        return held

    @staticmethod
    def _take(held: dict[str, list[tuple[int, CompletedRow]]], line: str) -> tuple[int, CompletedRow] | None:
        rows = held.get(line)
        return rows.pop(0) if rows else None

    @staticmethod
    def _if_there(known: CompletedRow) -> CompletedRow | None:
        return known if has_size(known.path, known.size) else None
