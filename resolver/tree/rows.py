"""A walk and a ledger: each file of a tree has its row before anybody asks for it. Directories have none:
their listings are no files, and are read again by each run, as they tell what there is.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from resolver.loops import running
from resolver.tree.walk import TreeDirectory, TreeFile, TreeWalk

if TYPE_CHECKING:
    from resolver.ledger.book import Ledger, LedgerEntry, RequestRow


async def with_rows(
    walk: TreeWalk, ledger: Ledger | None
) -> AsyncIterator[tuple[TreeFile | TreeDirectory, LedgerEntry | None]]:
    """What the walk gives, and of files what the ledger knows. Of what is done nothing more is to be asked:
    who gets it calls its `close`. Raises `LedgerFault`."""
    async for item in walk:
        if ledger is None or isinstance(item, TreeDirectory):
            yield item, None
            continue
        files = [item, *walk.at_hand()]
        rows = await running().in_thread(ledger.admit, [_asked(file) for file in files])
        for file, row in zip(files, rows, strict=True):
            yield file, row


def _asked(file: TreeFile) -> RequestRow:
    from resolver.ledger.book import RequestRow  # it needs a database

    return RequestRow(
        url=file.url.shown,
        place=os.path.abspath(file.path),
        given=file.url.shown,
        origin=file.origin,
        referrer=file.referrer,
        without_password=file.url.shown != file.url.text,
        below=None if file.is_top else os.path.join(os.path.abspath(file.tree.top.below), ""),
    )
