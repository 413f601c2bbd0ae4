"""Run the command repeatedly, and kill it (SIGKILL) at random moments.

`python -m tests.faults.killed_at_random TIMES ARGUMENT...` runs `resolve ARGUMENT...` TIMES times in this
directory, and prints for each run the names and sizes of the files left. Complete files are compared with the
file `content` above the directory, and removed. Most moments depend on the bytes that arrived, and some,
before the first byte, on the clock: a busy machine gets as far as an idle one. Processes are forked here
after all modules are loaded: 20 of them take little longer than their moments.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from resolver.cli import run
from tests.scheduled import has_ended

#: Duration in seconds of the start of a run on an idle machine.
_BEGINNING = 0.06

_NEEDED = (
    "protocols.ftp.dialogue",
    "protocols.http.dialogue",
    "resolver.cli.retrieval_run",
    "resolver.cli.summary",
    "resolver.transfer.saving",
)


def run_killed(arguments: list[str], moment: Callable[[], bool]) -> None:
    """Run once, killed at a moment in any state, unless it ends before."""
    child = os.fork()
    if child == 0:
        sys.argv = ["resolve", *arguments]
        run()
        os._exit(0)
    while not (moment() or has_ended(child)):
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def choose(source: random.Random, size: int) -> Callable[[], bool]:
    """Return a random moment: soon, or after a share of the missing bytes.

    If no byte is missing, never kill.
    """
    share, held = source.uniform(-0.3, 1), bytes_now()
    if share < 0:
        until = time.monotonic() + source.uniform(0, _BEGINNING)
        return lambda: time.monotonic() >= until
    return lambda: held < size and bytes_now() >= held + share * (size - held)


def bytes_now() -> int:
    return sum(size for name, size in sizes().items() if name.endswith(".part"))


def sizes() -> dict[str, int]:
    """Return the sizes of the files in this directory, which may change while the command runs."""
    found: dict[str, int] = {}
    for name in sorted(os.listdir()):
        with suppress(FileNotFoundError):
            found[name] = os.stat(name).st_size
    return found


def main(times: int, *arguments: str) -> None:
    for name in _NEEDED:
        importlib.import_module(name)
    content = Path("../content").read_bytes()
    source = random.Random(times)
    for _ in range(times):
        run_killed(list(arguments), choose(source, len(content)))
        left = sizes()
        print(json.dumps(left), flush=True)  # flush before the next fork, which would inherit the buffer
        whole = {name for name in left if not name.endswith((".part", ".part-state", ".new"))}
        assert all(Path(name).read_bytes() == content for name in whole), left
        if whole:
            for name in left:
                os.unlink(name)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
