"""What a run has to remember of each of its URLs, however many they are, in memory that stays as it is.

The first are held as they are. All others stand in a temporary database that nobody else sees, and which ends
with the process: of each text a digest of 64 bits, so that two may be taken for one another. Whoever asks has
to bear that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite3 import Connection

#: Texts that are held in memory.
MOST_HELD = 10_000


class SpillMap:
    """Numbers by texts."""

    def __init__(self) -> None:
        self._held: dict[str, int] = {}
        self._database: Connection | None = None

    def get(self, text: str) -> int:
        """That of the text; 0 where it has none."""
        number = self._held.get(text)
        if number is not None or self._database is None:
            return number or 0
        found = self._database.execute("SELECT number FROM aside WHERE text=?", (_digest(text),)).fetchone()
        return 0 if found is None else int(found[0])

    def put(self, text: str, number: int) -> None:
        if len(self._held) < MOST_HELD or text in self._held:
            self._held[text] = number
            return
        if self._database is None:
            self._database = _temporary()
        self._database.execute("REPLACE INTO aside VALUES (?, ?)", (_digest(text), number))

    def put_new(self, texts: Sequence[str]) -> list[bool]:
        """Each of them gets 1, unless it has a number: which did. It costs much less than one by one."""
        new = [self._put_in_memory(text) for text in texts]
        if None in new:
            if self._database is None:
                self._database = _temporary()
            left = {text: _digest(text) for text, done in zip(texts, new, strict=True) if done is None}
            marks = ",".join("?" * len(left))
            query = f"SELECT text FROM aside WHERE text IN ({marks})"
            there = {digest for (digest,) in self._database.execute(query, list(left.values()))}
            rows = sorted(set(left.values()) - there)
            self._database.executemany("INSERT INTO aside VALUES (?, 1)", ((row,) for row in rows))
            for place, text in enumerate(texts):
                if new[place] is None:
                    new[place] = left[text] not in there
                    there.add(left[text])
        return [done is True for done in new]

    def _put_in_memory(self, text: str) -> bool | None:
        """None where it is not held here."""
        if text in self._held:
            return False
        if len(self._held) >= MOST_HELD:
            return None
        self._held[text] = 1
        return True

    def __del__(self) -> None:
        """Nobody asks any more, who may have been a task or a thread."""
        if self._database is not None:
            self._database.close()


def _temporary() -> Connection:
    import sqlite3  # few runs have so many

    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA journal_mode=OFF")
    database.execute("CREATE TABLE aside (text INTEGER PRIMARY KEY, number INTEGER NOT NULL)")
    database.execute("BEGIN")  # and never an end: nobody needs what is written
    return database


def _digest(text: str) -> int:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
