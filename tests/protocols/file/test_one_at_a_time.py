"""The driver with a dialogue that opens one file after the other: the first is closed before the next one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from protocols.contract import Gate, LocalFile
from protocols.step import Dialogue, OpenFile
from tests.protocols.opening import perform


class Files:
    """The part of a gate that opens files, and what it did."""

    def __init__(self) -> None:
        self.did: list[str] = []

    @asynccontextmanager
    async def open_file(self, segments: tuple[bytes, ...]) -> AsyncIterator[LocalFile]:
        (name,) = segments
        self.did.append(f"open {name.decode()}")
        yield cast(LocalFile, name)
        self.did.append(f"close {name.decode()}")


async def test_another_file_is_opened_in_place_of_the_first() -> None:
    def both() -> Dialogue[object]:
        ideal = cast(LocalFile, None)
        yield OpenFile((b"a",), ideal)
        return (yield OpenFile((b"b",), ideal))

    files = Files()
    assert await perform(both(), cast(Gate, files)) == b"b"
    assert files.did == ["open a", "close a", "open b", "close b"]
