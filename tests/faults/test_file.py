"""A file that becomes another one while it is read: what is saved is one state of it, whole."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio

from resolver import Changed
from tests.faults.cell import NAME, PATIENCE, Came, save
from tests.faults.command import size_of
from tests.faults.file_rows import FILE_ROWS, OLD, FileRow


async def strike(row: FileRow, source: Path, part: Path) -> None:
    """Make the change as soon as some octets have been read, and again in later tries, if `always`."""
    while True:
        while not size_of(part):
            await trio.lowlevel.checkpoint()
        row.change(source)
        if not row.always:
            return
        while size_of(part):
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("row", FILE_ROWS, ids=lambda row: row.name)
async def test_a_file_that_changes_while_it_is_read(
    row: FileRow, nursery: trio.Nursery, tmp_path: Path
) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    source.write_bytes(OLD)
    folder.mkdir()
    nursery.start_soon(partial(strike, row, source, folder / f"{NAME}.part"))
    came = await save(source.as_uri(), folder, None, PATIENCE)
    nursery.cancel_scope.cancel()
    _check(row, came)


def _check(row: FileRow, came: Came) -> None:
    assert came.attempts == row.tries
    if row.content is None:
        assert type(came.error) is Changed
        assert came.error is not None
        assert (came.error.exit_code, came.error.attempts) == (10, row.tries)
        assert came.files == {}
    else:
        assert came.error is None
        assert came.files == {NAME: row.content}
        assert ("save:restarted" in came.rules) == (row.tries > 1)
