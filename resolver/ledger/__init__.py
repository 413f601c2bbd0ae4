"""A ledger: what was asked for, where it went and what became of it, in a file that outlives the runs.

`book` is the file as one run writes it, `report` what it tells of all. Here is what whoever saves a file has
to tell it, and nothing that needs a database.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from protocols.contract import Validators
from protocols.errors import LocalError

if TYPE_CHECKING:  # a ledger needs no network
    from resolver.network.mask import Masked


class LedgerFault(LocalError):
    """The ledger cannot be read or written, so nothing more should be asked for under it."""


class LedgerHeld(LedgerFault):
    """Another run is at work with it: it may be free soon."""


class CompletedFile(NamedTuple):
    """A file that is about to get its name; `final_url` is where it came from in the end."""

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
        """All of it is on the disk under another name; so is the row when this returns. Raises
        `LedgerFault`."""
        ...

    def etag_of(self, path: str, modified: datetime | None) -> str | None:
        """The entity tag of the file at this path, which has that time; None where it is not the one that was
        saved."""
        ...


#: The row of what this task saves; None where no ledger is kept.
current: ContextVar[LedgerRow | None] = ContextVar("current", default=None)


def etag_of_row(path: str, held: Validators) -> str | None:
    """The entity tag of the file that is there, as the ledger has it, if one is kept."""
    row = current.get()
    return None if row is None else row.etag_of(path, held.modified)


def make_recorder(facts: Callable[[int], CompletedFile]) -> Callable[[int], Awaitable[None]] | None:
    """What has to be done before that file gets its name, if anything: it is told the inode, of which `facts`
    makes the rest."""
    row = current.get()
    return None if row is None else partial(_note, row, facts)


async def _note(row: LedgerRow, facts: Callable[[int], CompletedFile], inode: int) -> None:
    await row.record_whole(facts(inode))
