"""The command in a separate process, and its exit status and messages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import trio

from fixtures.faulty import FaultyServer
from tests.begun import Begun, begin
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[2]
#: Whether Python buffers standard output: it does in a user's shell, but not in many containers.
BUFFERING = {"buffered": {}, "unbuffered": {"PYTHONUNBUFFERED": "1"}}


@dataclass
class Running:
    """A running process; `err` is its standard error output so far."""

    process: trio.Process | Begun
    err: bytearray = field(default_factory=bytearray)

    async def status(self) -> int:
        """Return the exit status; if a signal ended the process, the status that a shell reports."""
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

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
    buffering: str = "buffered",
) -> AsyncIterator[Running]:
    """Run `resolve` in `folder`, and kill it on exit if it still runs; `before` runs in the child first."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment = {**inherited, **BUFFERING[buffering], "PYTHONPATH": str(CHECKOUT)}
    with trio.fail_after(HANG):
        if before is None and buffering == "buffered":
            running = Running(_forked(folder, arguments, environment, stdin, stdout))
        else:
            running = Running(await _started(folder, arguments, environment, stdin, stdout, before))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(running.read_err)
                yield running
                await running.process.wait()
        finally:
            running.process.kill()
            with trio.CancelScope(shield=True):
                await running.process.wait()
            if isinstance(running.process, Begun):
                running.process.close()


async def _started(
    folder: Path,
    arguments: Collection[str],
    environment: Mapping[str, str],
    stdin: int,
    stdout: int,
    before: Callable[[], None] | None,
) -> trio.Process:
    open_process = partial(
        trio.lowlevel.open_process,
        [sys.executable, "-c", "from resolver.cli import run; run()", *arguments],
        cwd=folder,
        env=environment,
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        preexec_fn=partial(_reset_signals, before),
    )
    return await open_process()


def _forked(
    folder: Path, arguments: Collection[str], environment: Mapping[str, str], stdin: int, stdout: int
) -> Begun:
    with ExitStack() as given:

        def place(stream: int) -> int:
            if stream != subprocess.DEVNULL:
                return stream
            return given.enter_context(open(os.devnull, "r+b")).fileno()

        def pipe() -> tuple[int, trio.lowlevel.FdStream]:
            reading, writing = os.pipe()
            given.callback(os.close, writing)
            return writing, trio.lowlevel.FdStream(reading)

        err, told = pipe()
        out, read = pipe() if stdout == subprocess.PIPE else (place(stdout), None)
        process = begin(arguments, folder=folder, environment=environment, streams=(place(stdin), out, err))
    process.stdout, process.stderr = read, told
    return process


def _reset_signals(before: Callable[[], None] | None) -> None:
    """Reset signals in the new process: background shells ignore SIGINT, and children inherit that."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if before is not None:
        before()


async def json_lines_of(*command: str) -> list[dict[str, Any]]:
    """Return the JSON objects, one per line, that a test program prints; a limit applies to each read."""
    told: list[dict[str, Any]] = []
    octets = b""
    async with trio.open_nursery() as nursery:
        run = partial(
            trio.run_process, [sys.executable, "-m", *command], cwd=CHECKOUT, stdout=subprocess.PIPE
        )
        process = await nursery.start(run)
        while True:
            with trio.fail_after(HANG):
                more = await process.stdout.receive_some()
            if not more:
                return told
            *lines, octets = (octets + more).split(b"\n")
            told += map(json.loads, lines)


async def until(holds: Callable[[], bool]) -> None:
    """Poll the condition, because another process cannot send an event."""
    while not holds():  # noqa: ASYNC110
        await trio.sleep(0.002)


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
