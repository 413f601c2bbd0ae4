"""A ledger: what was asked for, where it went and what became of it, in a file that outlives the runs.

`book` is the file as one run writes it, `report` what it tells of all. Here is what whoever saves a file has
to tell it, and nothing that needs a database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from typing import NamedTuple, Protocol

from protocols.contract import Validators
from protocols.errors import LocalError


class LedgerFault(LocalError):
    """The ledger cannot be read or written, so nothing more should be asked for under it."""


class Whole(NamedTuple):
    """A file that is about to get its name."""

    path: str
    inode: int
    size: int
    digest: str | None
    known: Validators


class Row(Protocol):
    """The row of an object that is being saved."""

    async def whole(self, facts: Whole) -> None:
        """All of it is on the disk under another name; so is the row when this returns. Raises
        `LedgerFault`."""
        ...


#: The row of what this task saves; None where no ledger is kept.
current: ContextVar[Row | None] = ContextVar("current", default=None)


def noting(facts: Whole) -> Callable[[], Awaitable[None]] | None:
    """What has to be done before that file gets its name, if anything."""
    row = current.get()
    return None if row is None else partial(row.whole, facts)
