"""A ledger: a file that outlives the runs and records requests, their files and their outcomes.

`book` writes the file during a run, `report` reads it. This module holds the interface for code that saves
files, and needs no database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from protocols.contract import Validators
from protocols.errors import LocalError

if TYPE_CHECKING:  # The import is only for type checks: a ledger does not need the network package.
    from resolver.network.mask import Masked


class LedgerFault(LocalError):
    """A ledger that cannot be read or written. The run must not send further requests with such a ledger."""


class LedgerHeld(LedgerFault):
    """A ledger that another run has locked. The lock may be released soon."""


class CompletedFile(NamedTuple):
    """A file that is about to get its name; `final_url` is the URL after redirects."""

    path: str
    inode: int
    size: int
    digest: str | None
    known: Validators
    final_url: Masked | None = None
    media_type: Masked | None = None


class LedgerRow(Protocol):
    """The row of an object that is being saved."""

    async def record_whole(self, facts: CompletedFile) -> None:
        """Record a file that is on the disk under its temporary name.

        The row is on the disk when this returns. Raises `LedgerFault`.
        """
        ...

    def etag_of(self, path: str, modified: datetime | None) -> str | None:
        """Return the entity tag of the file at this path with that time; None for another file."""
        ...


#: The row of the object that this task saves; None without a ledger.
current: ContextVar[LedgerRow | None] = ContextVar("current", default=None)


def etag_of_row(path: str, held: Validators) -> str | None:
    """Return the entity tag of an existing file from the ledger; None without a ledger."""
    row = current.get()
    return None if row is None else row.etag_of(path, held.modified)


def make_recorder(facts: Callable[[int], CompletedFile]) -> Callable[[int], Awaitable[None]] | None:
    """Return a callback that records a file before it gets its name; None without a ledger.

    The callback receives the inode and passes it to `facts`.
    """
    row = current.get()
    return None if row is None else partial(_note, row, facts)


async def _note(row: LedgerRow, facts: Callable[[int], CompletedFile], inode: int) -> None:
    await row.record_whole(facts(inode))
