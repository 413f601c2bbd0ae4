"""The Dask cluster of a `bulk` run: an existing cluster, or local processes for the duration of the run.

No other module of the command imports Dask. This module is imported at the start of a run.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

import dask.config
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster, Security
from distributed.utils import LoopRunner

from protocols.errors import Unreachable
from resolver.blocking.portal import portal
from resolver.cli.arguments import THREADS, is_local

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tornado.ioloop import IOLoop


#: The loopback address of a local cluster. The scheduler, the workers and their web pages listen on this IP
#: address.
_LOOPBACK = "127.0.0.1"

#: Settings of a cluster without a dashboard. Profiles of workers are disabled, because only the dashboard
#: shows them.
_SETTINGS = {"distributed.worker.profile.enabled": False}


def open_client(address: str) -> AbstractContextManager[Client]:
    """Return a client of the cluster. Raises `Unreachable` if the scheduler cannot be reached."""
    return _start_cluster(address.partition(":")[2]) if is_local(address) else _connect_cluster(address)


@contextmanager
def _connect_cluster(address: str) -> Iterator[Client]:
    try:
        client = Client(address, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise Unreachable(f"the scheduler at {address} cannot be used: {error}") from error
    with client:
        yield client


@contextmanager
def _start_cluster(worker_count: str) -> Iterator[Client]:
    with (
        dask.config.set(_SETTINGS),
        _loop() as loop,
        LocalCluster(
            n_workers=int(worker_count or CPU_COUNT),
            threads_per_worker=THREADS,
            host=_LOOPBACK,
            dashboard_address=f"{_LOOPBACK}:0",
            worker_dashboard_address=f"{_LOOPBACK}:0",
            scheduler_kwargs={"dashboard": False},
            # The scheduler runs code that clients send. Connections are therefore authenticated with TLS.
            security=Security.temporary(),
            silence_logs=logging.CRITICAL,
            preload=["resolver.cli.cluster"],
            loop=loop,
        ) as cluster,
        Client(cluster, set_as_default=False, loop=loop) as client,
    ):
        yield client


@contextmanager
def _loop() -> Iterator[IOLoop]:
    """Yield the event loop of a local cluster.

    The loop runs in a thread that blocks SIGINT.

    Worker processes inherit the blocked signal, so Ctrl-C does not interrupt them. This process handles
    Ctrl-C and ends the workers.
    """
    # When the resource tracker of multiprocessing starts, it unblocks SIGINT in the current thread. The
    # tracker must therefore be started before SIGINT is blocked.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner = LoopRunner()
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    yield runner.loop
    runner.stop()


# Before a local worker ends, the worker cancels the running task, because no process waits for the result.
# Dask imports this module by its name (`preload`) and calls `dask_teardown`.


def dask_teardown(worker: object) -> None:
    portal().end()
