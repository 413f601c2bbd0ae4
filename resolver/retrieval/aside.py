"""What a run has to remember of each of its URLs, however many they are, in memory that stays as it is.

The first are held as they are. All others stand in a temporary database that nobody else sees, and which ends
with the process: of each text a digest of 64 bits, so that two may be taken for one another. Whoever asks has
to bear that.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite3 import Connection

#: Texts that are held in memory.
MOST_HELD = 10_000


class Aside:
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
