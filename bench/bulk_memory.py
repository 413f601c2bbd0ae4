"""The peak memory of a cluster run with a long list. Scheduler, worker and client are separate processes.

    python -m bench.bulk_memory [REQUESTS ...] [--hosts N]

The policy refuses all URLs, so the measurement includes all steps except the requests.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from time import perf_counter

from bench.clients import read_memory

_CLIENT = """
import resource, sys
from distributed import Client
from resolver import Policy
from resolver.bulk import run
address, out, requests, hosts = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
urls = (f"gopher://h{number % hosts}.example:25/0{number}" for number in range(requests))
with Client(address) as client:
    summary = run(urls, client=client, out=out, policy=Policy.untrusted())
assert summary.refused == requests, summary
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, summary.slices)
"""


@contextmanager
def _process(module: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", f"distributed.cli.{module}", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _address(scheduler: subprocess.Popen[str]) -> str:
    assert scheduler.stderr is not None
    for line in scheduler.stderr:
        if "Scheduler at:" in line:
            return line.split()[-1]
    raise RuntimeError("no scheduler")


def measure(requests: int, hosts: int) -> tuple[float, list[int], int]:
    """Measure a run.

    Returns:
        The duration in seconds, the peak memory of scheduler, worker and client in MiB, and the number of
        slices.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ui = ("--dashboard-address", "127.0.0.1:0")
        scheduler = stack.enter_context(_process("dask_scheduler", "--host", "127.0.0.1", "--port", "0", *ui))
        address = _address(scheduler)
        threads = ("--nthreads", "8", "--no-nanny", "--local-directory", folder)
        worker = stack.enter_context(_process("dask_worker", address, *threads, *ui))
        start = perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", _CLIENT, address, f"{folder}/out", str(requests), str(hosts)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        client, slices = map(int, done.stdout.split())
        peaks = [read_memory(scheduler.pid), read_memory(worker.pid), client]
        return perf_counter() - start, [peak // 1024 for peak in peaks], slices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("requests", nargs="*", type=int, default=[10_000, 100_000])
    parser.add_argument("--hosts", type=int, default=10_000)
    options = parser.parse_args()
    print(f"{'requests':>9} {'slices':>7} {'s':>7} {'scheduler':>10} {'worker':>7} {'client':>7}  MiB")
    for requests in options.requests:
        seconds, (scheduler, worker, client), slices = measure(requests, options.hosts)
        print(f"{requests:>9} {slices:>7} {seconds:>7.1f} {scheduler:>10} {worker:>7} {client:>7}")


if __name__ == "__main__":
    main()
