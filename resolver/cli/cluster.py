"""The cluster of a run: an existing one, or processes of this machine for the duration of the run.

Only this module of the command imports Dask, when a run begins.
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


#: The address of the local scheduler, workers and pages.
_LOOPBACK = "127.0.0.1"

#: Settings of a cluster without an open dashboard: worker profiles are only for the dashboard.
_NO_PAGES = {"distributed.worker.profile.enabled": False}


def client_of(address: str) -> AbstractContextManager[Client]:
    """Return a client of the cluster. Raises `Unreachable` if the scheduler does not answer."""
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
def _start_cluster(many: str) -> Iterator[Client]:
    with (
        dask.config.set(_NO_PAGES),
        _loop() as loop,
        LocalCluster(
            n_workers=int(many or CPU_COUNT),
            threads_per_worker=THREADS,
            host=_LOOPBACK,
            dashboard_address=f"{_LOOPBACK}:0",
            worker_dashboard_address=f"{_LOOPBACK}:0",
            scheduler_kwargs={"dashboard": False},
            # The scheduler runs code of any client, so connections are authenticated.
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
    """Yield the event loop of a local cluster, in a thread that blocks SIGINT.

    The processes that are started there inherit the block, also during their start. The command handles
    Ctrl-C and ends them.
    """
    # Without this call, the first thread that needs the tracker would unblock SIGINT.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner = LoopRunner()
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    yield runner.loop
    runner.stop()


# The last action of a worker on this machine: cancel its task, because no process waits for it. Dask loads
# this module by its name (`--preload`).


def dask_teardown(worker: object) -> None:
    portal().end()
