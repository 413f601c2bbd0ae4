"""`resolve bulk` on a local cluster, interrupted at the moment that the first argument names."""

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
    os.killpg(0, signal.SIGINT)  # a terminal signals the process group, too


def interrupt_before(owner: object, name: str, times: int) -> None:
    """Send the interrupt `times` times before the method runs."""
    real = getattr(owner, name)

    async def sends(self: object, *args: Any, **more: Any) -> object:
        for _ in range(times):
            interrupt()
        return await real(self, *args, **more)

    setattr(owner, name, sends)


def interrupt_list_reading() -> None:
    def interrupted(*each: Any) -> Any:
        interrupt()
        return targets(*each)

    vars(resolver.cli.bulk)["targets"] = interrupted


#: The class of Dask, the method that is interrupted before it runs, and the number of interrupts.
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
        interrupt_list_reading()
    else:
        owner, name, times = moment
        interrupt_before(attrgetter(owner)(distributed), name, times)
    sys.argv = ["resolve", "bulk", "-", "--config", "none", "--scheduler", "local:1", "--out", "out"]
    resolver.cli.run()
