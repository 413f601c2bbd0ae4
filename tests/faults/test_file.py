"""A file that becomes another one while it is read: what is saved is one state of it, whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import trio

from protocols.errors import Changed, ResolveError
from tests.faults.cell import CONTENT, NAME, PATIENCE, Came, save
from tests.faults.command import size_of

#: More than the kernel moves in one go, so that something can happen in between.
OLD = CONTENT * 60
NEW = OLD[::-1]
HALF = len(OLD) // 2


def truncate(source: Path) -> None:
    os.truncate(source, HALF)


def grow(source: Path) -> None:
    with source.open("ab") as file:
        file.write(CONTENT)


def overwrite(source: Path) -> None:
    with source.open("r+b") as file:
        octets = file.read()
        file.seek(0)
        file.write(octets[::-1])


def replace(source: Path) -> None:
    fresh = source.with_name("fresh")
    fresh.write_bytes(NEW)
    fresh.rename(source)


@dataclass(frozen=True)
class FileRow:
    """`change` is made when the first octets have been read, of the first try or of all. `content` is what
    is saved then; None for an error."""

    name: str
    change: Callable[[Path], None]
    content: bytes | None
    tries: int
    always: bool = False


FILE_ROWS = (
    FileRow("truncated once", truncate, OLD[:HALF], 2),
    FileRow("grown once", grow, OLD + CONTENT, 1),
    FileRow("overwritten once", overwrite, NEW, 2),
    FileRow("overwritten always", overwrite, None, PATIENCE.tries + 1, always=True),
    FileRow("replaced once", replace, OLD, 1),
    FileRow("removed once", Path.unlink, OLD, 1),
)


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
        assert isinstance(came.error, ResolveError)
        assert (came.error.exit_code, came.error.attempts) == (10, row.tries)
        assert came.files == {}
    else:
        assert came.error is None
        assert came.files == {NAME: row.content}
        assert ("save:restarted" in came.rules) == (row.tries > 1)
