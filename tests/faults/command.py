"""The command in a process of its own, and what became of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from fixtures.faulty import FaultyServer
from tests.scheduled import Stopwatch, has_ended

CHECKOUT = Path(__file__).parents[2]
#: Seconds that no test of a process should take.
_ENOUGH = 20


@dataclass
class Running:
    """A process; `err` is what it has said on standard error so far."""

    process: trio.Process
    err: bytearray = field(default_factory=bytearray)

    async def status(self) -> int:
        """Its exit status, and that of a shell where a signal ended it."""
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    async def stop(self, number: signal.Signals) -> tuple[int, float]:
        """Send it a signal; its exit status, and the seconds that it took to end."""
        pid = self.process.pid
        stopwatch = Stopwatch(pid)
        self.process.send_signal(number)
        await until(lambda: has_ended(pid))
        took = stopwatch.seconds()
        return await self.status(), took

    async def read_err(self) -> None:
        assert self.process.stderr is not None
        async for octets in self.process.stderr:
            self.err += octets


def options_for(server: FaultyServer) -> list[str]:
    return ["--allow-port", str(server.port), "--retry-delay", "0.01"]


@asynccontextmanager
async def resolve(
    folder: Path,
    *arguments: str,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.DEVNULL,
    before: Callable[[], None] | None = None,
) -> AsyncIterator[Running]:
    """`resolve` in `folder`; it is killed on leaving, if it has not ended. `before` runs in it first."""
    command = [sys.executable, "-c", "from resolver.cli import run; run()", *arguments]
    open_process = partial(
        trio.lowlevel.open_process,
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=before,
    )
    with trio.fail_after(_ENOUGH):
        running = Running(await open_process())
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(running.read_err)
                yield running
                await running.process.wait()
        finally:
            running.process.kill()
            with trio.CancelScope(shield=True):
                await running.process.wait()


async def until(holds: Callable[[], bool]) -> None:
    """Look again and again: what another process does sends no event."""
    while not holds():  # noqa: ASYNC110
        await trio.sleep(0.002)


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
