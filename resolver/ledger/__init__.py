"""The ledger: a database file that records the requests of runs, with their files and outcomes.

The module `book` writes the ledger during a run, and `report` reads the ledger. This module contains the
interface for code that saves files, and does not import sqlite3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol

from protocols.contract import Validators
from protocols.errors import LocalError


class LedgerFault(LocalError):
    """An error for a ledger that cannot be read or written, so that the run must stop."""


class LedgerHeld(LedgerFault):
    """An error for a ledger that another run has locked; a retry may succeed."""


class LedgerRow(Protocol):
    """The row of an object that is being saved."""

    def record_whole(self, saved: Mapping[str, Any], known: Validators, inode: int) -> Callable[[], None]:
        """Queue the record of a file that is synced to the disk under its temporary name.

        `saved` are the attributes of the `Saved` of the file, by name.
        The returned function syncs all queued records to the disk. The function raises `LedgerFault`, and may
        be called in a worker thread.
        """
        ...

    def find_etag(self, path: str, modified: datetime | None) -> str | None:
        """Return the entity tag of a file, or None if the path or the modification time differs."""
        ...


#: The row of the object that the current task saves; None without a ledger.
current: ContextVar[LedgerRow | None] = ContextVar("current", default=None)


def etag_of_row(path: str, validators: Validators) -> str | None:
    """Return the entity tag of an existing file from the ledger, or None without a ledger."""
    row = current.get()
    return None if row is None else row.find_etag(path, validators.modified)
