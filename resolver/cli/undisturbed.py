"""What a worker of a cluster of this machine does first: Ctrl-C is for the command alone, which then takes
back what its workers have. Dask knows this module by its name (`--preload`)."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
