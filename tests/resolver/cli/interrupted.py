"""`resolve bulk` on a cluster of this machine, interrupted at a moment that a test names."""

from __future__ import annotations

import os
import signal
import sys
from operator import attrgetter
from typing import Any

import resolver.cli
import resolver.cli.bulk
from resolver.cli.targets import targets


def interrupt() -> None:
    os.killpg(0, signal.SIGINT)  # as a terminal does it


def first(owner: object, name: str, times: int) -> None:
    """It is interrupted before it does that."""
    real = getattr(owner, name)

    async def sends(self: object, *args: Any, **more: Any) -> object:
        for _ in range(times):
            interrupt()
        return await real(self, *args, **more)

    setattr(owner, name, sends)


def as_a_list_is_read() -> None:
    def interrupted(*each: Any) -> Any:
        interrupt()
        return targets(*each)

    vars(resolver.cli.bulk)["targets"] = interrupted


#: Of a class of Dask's, what it does first, and how often the interrupt comes.
MOMENTS = {
    "as the scheduler starts": ("Scheduler", "start_unsafe", 1),
    "as a worker starts": ("nanny.WorkerProcess", "start", 1),
    "as a worker has started": ("Scheduler", "add_worker", 1),
    "as the client begins": ("Client", "_ensure_connected", 1),
    "as the cluster closes": ("LocalCluster", "_close", 1),
    "as a list is read": None,
    "twice": ("nanny.WorkerProcess", "start", 2),
}


def run() -> None:
    import distributed

    moment = MOMENTS[sys.argv[1]]
    if moment is None:
        as_a_list_is_read()
    else:
        owner, name, times = moment
        first(attrgetter(owner)(distributed), name, times)
    sys.argv = ["resolve", "bulk", "-", "--config", "none", "--scheduler", "local:1", "--out", "out"]
    resolver.cli.run()
