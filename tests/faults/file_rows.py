"""A table of the changes that a file may undergo while the client reads the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.cell import CONTENT, PATIENCE

#: More than the kernel moves in one call, so that a change can happen in between.
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
    """A change to a file after its first bytes were read, in the first attempt or in every attempt.

    `content` is the saved content; None stands for an error.
    """

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
