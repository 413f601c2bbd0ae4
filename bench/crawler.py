"""A bulk run on a local cluster, and the same task with a competitor, each in a separate process.

`python -m bench.crawler KIND LIST OUT PORT` saves all URLs of LIST below OUT, with a record of each URL. The
last line of the output contains a `Measurement` as JSON, which excludes the start of the cluster.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from bench.clients import Measurement

#: The default limits of `resolve`: the connections to one http host, and the connections of a slice to all
#: hosts.
PER_HOST = 6
AT_ONCE = 64
#: The number of worker processes in the cluster.
PROCESSES = 2
THREADS = 16


def with_scrapy(urls: list[str], folder: Path, port: int) -> Measurement:
    import scrapy
    from scrapy.crawler import CrawlerProcess

    octets: list[int] = []

    class Files(scrapy.Spider):  # type: ignore[misc]
        name = "files"

        async def start(self) -> AsyncIterator[Any]:
            for url in urls:
                yield scrapy.Request(url, dont_filter=True)

        def parse(self, response: Any) -> Iterator[dict[str, str | int]]:
            body: bytes = response.body
            path = folder / f"{hashlib.sha1(response.url.encode()).hexdigest()}.bin"
            path.write_bytes(body)
            octets.append(len(body))
            digest = hashlib.sha256(body).hexdigest()
            yield {"url": response.url, "path": str(path), "bytes": len(body), "digest": digest}

    process = CrawlerProcess(
        {
            "FEEDS": {f"{folder}/outcomes.jsonl": {"format": "jsonlines"}},
            "CONCURRENT_REQUESTS": AT_ONCE,
            "CONCURRENT_REQUESTS_PER_DOMAIN": PER_HOST,
            "DOWNLOAD_DELAY": 0,
            "ROBOTSTXT_OBEY": False,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
        }
    )
    process.crawl(Files)
    return measure(lambda: (process.start(), sum(octets))[1])


def with_bulk(urls: list[str], folder: Path, port: int) -> Measurement:
    """Measure a run on a cluster after the start and the warm-up of the cluster."""
    from distributed import Client, LocalCluster

    import resolver
    from resolver.bulk import run

    policy = resolver.Policy(allow_port=frozenset({port}))
    cluster = LocalCluster(
        n_workers=PROCESSES, threads_per_worker=THREADS, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    with cluster, Client(cluster) as client:
        client.run(run_once)

        def work() -> int:
            summary = run(urls, client=client, out=str(folder), policy=policy, format="jsonl")
            assert summary.exit == 0, summary
            return summary.bytes

        return measure(work)


def run_once() -> None:
    """Import the modules that a worker needs for its first slice."""
    import resolver.bulk.slice  # noqa: F401


def measure(work: Callable[[], int]) -> Measurement:
    """Measure the work; the CPU time includes this process, but not the workers of a cluster."""
    start, processor_start = time.perf_counter(), time.process_time()
    octets = work()
    return Measurement(time.perf_counter() - start, time.process_time() - processor_start, octets, 0)


KINDS: dict[str, Callable[[list[str], Path, int], Measurement]] = {"scrapy": with_scrapy, "bulk": with_bulk}

if __name__ == "__main__":
    kind, list_file, folder, port = sys.argv[1:]
    measurement = KINDS[kind](Path(list_file).read_text().split(), Path(folder), int(port))
    print(json.dumps(measurement._asdict()))
