"""Octets on their way to a slow reader: who waits, for whom, and what others see of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import trio
import trio.testing

from resolver.cli import output as outflow
from resolver.cli.streams import write_all
from tests.cli.command import resolve
from tests.hang import HANG

LARGE = bytes(range(256)) * 4_096


@pytest.fixture(name="pipe")
def _pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        for fd in (reader, writer):
            with suppress(OSError):  # a test may have closed it
                os.close(fd)


@contextmanager
def closing_of(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)


@contextmanager
def opened(fd: int) -> Iterator[outflow.Outflow]:
    found = outflow.Outflow(fd)
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(name="hops")
def _hops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many octets each call of a worker thread was to write."""
    made: list[int] = []

    def counted(fd: int, octets: memoryview) -> None:
        made.append(len(octets))
        write_all(fd, octets)

    monkeypatch.setattr(outflow, "write_all", counted)
    return made


def test_what_has_room_goes_out_at_once(pipe: tuple[int, int], tmp_path: Path, hops: list[int]) -> None:
    """And nobody else's descriptor is made one that does not wait."""
    reader, writer = pipe
    file = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_WRONLY)

    async def put() -> None:
        for fd in (writer, file, nothing):
            with opened(fd) as out:
                await out.put(b"first ")
                await out.put(b"second")
            assert os.get_blocking(fd)

    trio.run(put)
    assert os.read(reader, 100) == (tmp_path / "file").read_bytes() == b"first second"
    os.close(file)
    os.close(nothing)
    assert hops == []


def test_of_a_large_body_no_thread_is_asked(folder: Path, hops: list[int]) -> None:
    (folder / "large").write_bytes(LARGE)
    assert resolve("cat", (folder / "large").as_uri()).out == LARGE
    assert resolve("-q", "-O", os.devnull, (folder / "large").as_uri()).status == 0
    assert hops == []


def test_a_slow_reader_gets_all_of_it(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    came = bytearray()

    async def read() -> None:
        while octets := await trio.to_thread.run_sync(os.read, reader, 5_000):
            came.extend(octets)

    async def put() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            with opened(writer) as out:
                for start in range(0, len(LARGE), 100_000):
                    await out.put(LARGE[start : start + 100_000])
            os.close(writer)

    trio.run(put)
    assert bytes(came) == LARGE


@pytest.mark.parametrize("read_first", [0, 10_000], ids=["full", "a little was read"])
def test_a_cancel_waits_for_no_reader(read_first: int, pipe: tuple[int, int], hops: list[int]) -> None:
    """Neither before the pipe has room, nor in the thread that waits when it had too little."""
    reader, writer = pipe

    async def put() -> None:
        with trio.fail_after(HANG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(out.put, LARGE)
                await trio.testing.wait_all_tasks_blocked()
                if read_first:
                    assert len(os.read(reader, read_first)) == read_first
                while read_first and not hops:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()

    with opened(writer) as out:
        trio.run(put)
    assert len(hops) == bool(read_first)


@pytest.mark.parametrize("read_first", [0, 10_000], ids=["full", "a little was read"])
def test_a_reader_that_leaves_is_told_of(read_first: int, pipe: tuple[int, int]) -> None:
    reader, writer = pipe

    async def put() -> None:
        with trio.fail_after(HANG):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_put, out)
                await trio.testing.wait_all_tasks_blocked()
                if read_first:
                    os.read(reader, read_first)
                    await trio.testing.wait_all_tasks_blocked()
                os.close(reader)

    async def _put(out: outflow.Outflow) -> None:
        with pytest.raises(BrokenPipeError):
            await out.put(LARGE)

    with opened(writer) as out:
        trio.run(put)


def test_a_descriptor_that_somebody_made_not_wait(pipe: tuple[int, int]) -> None:
    """As programs do that have it, too: it is waited for all the same."""
    reader, writer = pipe
    os.set_blocking(writer, False)

    def write() -> None:
        with closing_of(writer):
            write_all(writer, LARGE)

    thread = threading.Thread(target=write)
    thread.start()
    came = bytearray()
    while octets := os.read(reader, 4_096):
        came.extend(octets)
    thread.join()
    assert bytes(came) == LARGE
