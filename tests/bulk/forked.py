"""A scheduler, workers and clients as separate processes, which can be killed one by one.

They are forked from a process in which all modules are loaded: `python -m tests.bulk.forked FOLDER`. A line
of its input is a command in JSON, and a line of its output the reply:
- `["start", ROLE, …]` returns the process and its address, if it listens
- `["kill", PROCESS]` kills it in any state, and returns its exit status
- `["wait", PROCESS]` waits for its end, and returns its exit status

Their output is in the folder. All end with the input.
"""

from __future__ import annotations

import asyncio
import faulthandler
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, Any

from tests.bulk import client
from tests.bulk.hosts import ended

CHECKOUT = Path(__file__).parents[2]
LOOPBACK = "127.0.0.1"

#: Threads of a worker: the number of concurrent slices.
THREADS = 8

#: Settings that stop the idle work of Dask processes for the dashboard: some hundredths of a CPU for each
#: process.
QUIET = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "10s",
}

#: pyarrow imports pandas when it makes its first table.
_NEEDED = ("distributed", "distributed.http", "pyarrow.parquet", "pandas", "resolver.bulk")
_NEEDED_BY_TESTS = ("tests.bulk.elsewhere",)
_NEEDED_BY_URLS = ("protocols.ftp.dialogue", "protocols.http.dialogue", "protocols.gopher.dialogue")


def _scheduler(said: IO[str], folder: str) -> None:
    from distributed import Scheduler

    async def serve() -> None:
        place = {"port": 0, "dashboard": False, "dashboard_address": f"{LOOPBACK}:0"}
        async with Scheduler(host=LOOPBACK, **place) as scheduler:
            print(scheduler.address, file=said, flush=True)
            await scheduler.finished()

    asyncio.run(serve())


def _worker(said: IO[str], folder: str, scheduler: str) -> None:
    from distributed import Worker

    async def serve() -> None:
        place = {"local_directory": folder, "host": LOOPBACK, "dashboard": False, "memory_limit": 0}
        async with Worker(scheduler, nthreads=THREADS, **place) as worker:
            print(worker.address, file=said, flush=True)
            await worker.finished()

    asyncio.run(serve())


def _client(said: IO[str], folder: str, *words: str) -> None:
    print("", file=said, flush=True)
    client.main(*words)


ROLES: dict[str, Callable[..., None]] = {"scheduler": _scheduler, "worker": _worker, "client": _client}


def _start(folder: str, role: str, *words: str) -> tuple[int, str]:
    """Start a process; return its id and the first line of its output."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        status = 1
        try:
            log = os.open(f"{folder}/{role}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for target, source in enumerate((nothing, log, log)):
                os.dup2(source, target)
            os.close(reading)
            os.setsid()
            faulthandler.register(signal.SIGUSR1)  # prints the stacks of all threads
            with os.fdopen(writing, "w") as said:
                ROLES[role](said, folder, *words)
            status = 0
        except BaseException:  # noqa: BLE001 - the traceback is logged, and the status shows the failure
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            sys.stdout.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as heard:
        return process, heard.readline().strip()


def _obey(folder: str, running: set[int], verb: str, *words: Any) -> Any:
    if verb == "start":
        process, said = _start(folder, *words)
        running.add(process)
        return process, said
    (process,) = words
    if verb == "kill":
        os.kill(process, signal.SIGKILL)
    running.discard(process)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main(folder: str) -> None:
    for name in (*_NEEDED, *_NEEDED_BY_TESTS, *_NEEDED_BY_URLS):
        importlib.import_module(name)
    importlib.import_module("dask").config.set(QUIET)
    running: set[int] = set()
    try:
        for line in sys.stdin:
            print(json.dumps(_obey(folder, running, *json.loads(line))), flush=True)
    finally:
        for process in running:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


class Cluster:
    """The launcher's processes, each identified by its process id."""

    def __init__(self, process: Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input: IO[str] = process.stdin
        self._output: IO[str] = process.stdout

    def start(self, role: str, *words: str) -> tuple[int, str]:
        """Start a process; return its id and address when it is ready."""
        process, said = self._ask("start", role, *words)
        return process, said

    def kill(self, process: int) -> int:
        """Kill the process, wait for its end, and return its status."""
        status: int = self._ask("kill", process)
        return status

    def wait(self, process: int) -> int:
        """Wait until the process ends on its own; return its exit status."""
        ended(process)
        status: int = self._ask("wait", process)
        return status

    def _ask(self, *words: str | int) -> Any:
        self._input.write(json.dumps(words) + "\n")
        self._input.flush()
        return json.loads(self._output.readline())


@contextmanager
def open_cluster(folder: Path) -> Iterator[Cluster]:
    process = Popen(
        [sys.executable, "-m", "tests.bulk.forked", str(folder)],
        cwd=CHECKOUT,
        stdin=PIPE,
        stdout=PIPE,
        text=True,
    )
    with process:
        yield Cluster(process)


if __name__ == "__main__":
    main(sys.argv[1])
