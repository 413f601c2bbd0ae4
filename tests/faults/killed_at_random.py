"""Run the command again and again, and kill it (SIGKILL) at random moments.

`python -m tests.faults.killed_at_random TIMES SECONDS ARGUMENT...` runs `resolve ARGUMENT...` TIMES times in
this directory, each for at most SECONDS, and prints for each run the names and sizes that it left. What it
finished is checked against the file `content` above the directory, and removed. Processes are forked here,
where everything that the command needs is loaded already: so 20 of them take little more than their moments.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from resolver.cli import run
from tests.scheduled import Stopwatch, has_ended

_NEEDED = ("protocols.http.handler", "resolver.cli.online", "resolver.cli.outcome", "resolver.saving")


def killed(arguments: list[str], after: float) -> None:
    """One run, killed after so many seconds, whatever it is doing then, if it is not done. What it, we and
    the server, who is our parent, are kept waiting for a processor does not count: else on a busy machine
    nothing would have begun by then."""
    child = os.fork()
    if child == 0:
        sys.argv = ["resolve", *arguments]
        run()
        os._exit(0)
    stopwatch = Stopwatch(child, os.getppid())
    while stopwatch.seconds() < after and not has_ended(child):
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def sizes() -> dict[str, int]:
    return {name: os.stat(name).st_size for name in sorted(os.listdir())}


def main(times: int, seconds: float, *arguments: str) -> None:
    for name in _NEEDED:
        importlib.import_module(name)
    content = Path("../content").read_bytes()
    source = random.Random(times)
    for _ in range(times):
        killed(list(arguments), source.uniform(0, seconds))
        left = sizes()
        print(json.dumps(left))
        whole = {name for name in left if not name.endswith((".part", ".part-state", ".new"))}
        assert all(Path(name).read_bytes() == content for name in whole), left
        if whole:
            for name in left:
                os.unlink(name)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:])
