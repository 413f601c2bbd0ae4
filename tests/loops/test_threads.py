"""Threads under asyncio: a task waits for threads that work on a local file, not for a DNS lookup."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from resolver import Outcome, Resolver
from resolver.files import local as file
from resolver.files import partial_file
from resolver.files.commit import PendingFile
from resolver.files.part import PartFile
from resolver.ledger.book import Ledger
from resolver.loops import running
from resolver.transfer.batch import RunningBatch
from tests.fresh import environment
from tests.hang import HANG
from tests.loops.cancels import turns
from tests.loops.conftest import Run

CHECKOUT = Path(__file__).parents[2]


class Gate:
    """A replacement for a function called by a thread: it blocks until `opened` is set."""

    def __init__(self, function: Callable[..., object], number: int) -> None:
        self._function = function
        self._left = number
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.passed = False

    def __call__(self, *given: object, **named: object) -> object:
        self._left -= 1
        if self._left == 0:
            self.reached.set()
            assert self.opened.wait(HANG)
        found = self._function(*given, **named)
        self.passed = True
        return found


#: Lines of a file with a partial file, and of a file held in memory until it is complete.
LARGE, SMALL = 10_000, 1_000

#: Work in threads during a save: the class or module, the function, the number of the call, and the size.
WORK = {
    "what it is of": (PartFile, "record_state", 1, LARGE),
    "its digest": (partial_file, "_hash_block", 1, LARGE),
    "that it is whole": (PartFile, "record_state", 2, LARGE),
    "its name": (PartFile, "publish", 1, LARGE),
    "a small one": (PendingFile, "complete", 1, SMALL),
    "the name of a small one": (PendingFile, "publish", 1, SMALL),
}


@pytest.mark.parametrize("what", WORK)
def test_cancel_waits_for_thread_working_on_file(
    what: str, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """After any number of cancellations, the work ends first, and the file is complete or resumable."""
    place, name, number, lines = WORK[what]
    gate = Gate(getattr(place, name), number)
    monkeypatch.setattr(place, name, lambda *given, **named: gate(*given, **named))
    (tmp_path / "from").write_bytes(b"some octets\n" * lines)
    path = tmp_path / "into"

    async def main() -> None:
        async with Resolver() as session:
            url = (tmp_path / "from").as_uri()
            saving = asyncio.create_task(session.save(url, path, digest=True))
            await asyncio.to_thread(gate.reached.wait, HANG)
            await cancel_without_effect(saving)
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError):
                await saving
            assert gate.passed
            if not path.exists():
                await session.save(url, path)

    run(main())
    assert path.read_bytes() == (tmp_path / "from").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["from", "into"]


def test_cancel_closes_ledger_that_thread_opened(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gate = Gate(Ledger._prepare, 1)
    monkeypatch.setattr(Ledger, "_prepare", lambda *given: gate(*given))
    (tmp_path / "from").write_bytes(b"some octets\n")

    async def main() -> list[str]:
        async with Resolver() as session:

            def save() -> RunningBatch[Outcome]:
                url = (tmp_path / "from").as_uri()
                return session.save_all([url], directory=tmp_path / "into", ledger=tmp_path / "ledger")

            closed = save()
            waiting = asyncio.create_task(anext(closed))
            await asyncio.to_thread(gate.reached.wait, HANG)
            closing = asyncio.create_task(closed.aclose())
            await turns()
            gate.opened.set()
            await closing
            with pytest.raises(RuntimeError):
                await waiting
            return [outcome.status async for outcome in save()]

    assert run(main()) == ["done"]


def test_cancel_waits_for_thread_reading_directory(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The directory's descriptor is closed only after the thread ends: another file may get the number."""
    gate = Gate(file._sorted_names, 1)
    monkeypatch.setattr(file, "_sorted_names", gate)

    async def main() -> None:
        async with Resolver() as session:
            fetching = asyncio.create_task(session.fetch(tmp_path.as_uri()))
            await asyncio.to_thread(gate.reached.wait, HANG)
            await cancel_without_effect(fetching)
            gate.opened.set()
            with pytest.raises(asyncio.CancelledError):
                await fetching

    run(main())
    assert gate.passed


async def cancel_without_effect(task: asyncio.Task[object]) -> None:
    """Cancel the task several times, and check that it does not end."""
    for _ in range(3):
        task.cancel()
        await turns()
        assert not task.done()


_HANGING = """
import asyncio, socket, sys, threading
import resolver

def hang(*given, **named):
    threading.Event().wait()

socket.getaddrinfo = hang
limits = resolver.Limits(connect=0.1)

async def main():
    try:
        await resolver.fetch("gopher://h.example/0a", limits=limits)
    except resolver.TimedOut as error:
        print("timed out")
    try:
        async with asyncio.timeout(0.1):
            await resolver.fetch("gopher://i.example/0a")
    except TimeoutError:
        print("cancelled")

{start}(main())
print("the run has ended")
"""


@pytest.mark.parametrize("start", ["asyncio.run", "__import__('uvloop').run"])
def test_hanging_lookup_delays_no_exit(start: str) -> None:
    """Neither the caller, nor the end of the run, nor the end of the process waits."""
    command = [sys.executable, "-W", "error", "-c", _HANGING.format(start=start)]
    done = subprocess.run(
        command, cwd=CHECKOUT, env=environment(), capture_output=True, encoding="utf-8", timeout=HANG
    )
    assert (done.stdout.splitlines(), done.stderr) == (["timed out", "cancelled", "the run has ended"], "")


def test_lookup_may_end_after_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lookup's thread finds no waiting task, and ends."""
    gate = Gate(lambda *given, **named: [], 1)
    monkeypatch.setattr("socket.getaddrinfo", gate)

    async def main() -> None:
        fetching = asyncio.create_task(Resolver().fetch("gopher://h.example/0a"))
        await asyncio.to_thread(gate.reached.wait, HANG)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching

    before = set(threading.enumerate())
    run(main())
    gate.opened.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(HANG)
        assert not thread.is_alive()
    assert gate.passed


def test_thread_that_cannot_start_is_a_system_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(BlockingIOError):
            await running().in_thread(os.getpid)

    run(main())
