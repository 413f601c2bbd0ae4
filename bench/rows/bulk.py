"""Saving files from several hosts with a local cluster, compared with scrapy, which uses one process.

Both contestants use the same number of connections to a host, and write a file and a record for each URL. In
addition, `resolver` writes a ledger that survives a power failure, and syncs each file before the rename.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from bench.crawler import PROCESSES
from bench.row import RESOLVE, Aim, Contestant, Missing, Row, Target
from bench.rows.small import SIZE, write_small
from tests.servers.certificates import write_certificates
from tests.servers.http_servers import nginx

COUNT = 4_000
HOSTS = [f"127.0.0.{number}" for number in range(1, 11)]


@contextmanager
def _open_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    tree, state, list_file, target = folder / "tree", folder / "state", folder / "lines", Target(folder)
    state.mkdir()
    write_small(tree, count)
    with nginx(tree, state, write_certificates(state), also=HOSTS[1:]) as server:
        port = urlsplit(server.url("/")).port
        urls = (f"http://{HOSTS[n % len(HOSTS)]}:{port}/small/{n}.bin\n" for n in range(count))
        list_file.write_text("".join(urls))
        yield [
            each if isinstance(each, Missing) else _add_check(each, target, count)
            for each in _contestants(str(list_file), str(target.path), str(port), count)
        ]


def _contestants(list_file: str, folder: str, port: str, count: int) -> Iterator[Contestant | Missing]:
    """Yield each contestant twice: measured without its start, then as a complete command.

    The start of a cluster takes seconds.
    """
    crawler = [sys.executable, "-m", "bench.crawler"]
    argv = [*RESOLVE, "bulk", "-q", "--progress", "none", "--scheduler", f"local:{PROCESSES}", "--jsonl"]
    yield Contestant("resolver.bulk.run", [*crawler, "bulk", list_file, folder, port], count, is_timed=True)
    yield Contestant(
        "resolve bulk, with its start", [*argv, "--allow-port", port, "--out", folder, list_file], count
    )
    if find_spec("scrapy") is None:
        yield Missing("scrapy", "`make bench` installs it")
        return
    scrapy = [*crawler, "scrapy", list_file, folder, port]
    yield Contestant("scrapy", scrapy, count, is_timed=True)
    yield Contestant("scrapy, with its start", scrapy, count)


def _add_check(each: Contestant, target: Target, count: int) -> Contestant:
    """Return the contestant with a new folder for each run, and with a check of the files and records."""

    def after() -> None:
        files = [path for path in target.path.rglob("*.bin*") if path.is_file()]
        assert len(files) == count, f"{each.name}: {len(files)} files"
        assert all(path.stat().st_size == SIZE for path in files), each.name
        records = [line for path in target.path.rglob("*.jsonl") for line in path.read_text().splitlines()]
        assert len(records) == count, f"{each.name}: {len(records)} records"

    return replace(each, before=target.create, after=after)


ROWS = (
    Row(
        "bulk",
        f"{{:,}} files of 2 KiB from {len(HOSTS)} hosts to the disk, over a cluster of {PROCESSES} processes",
        "rate",
        COUNT,
        40,
        _open_row,
        aims=[Aim("resolver.bulk.run", "scrapy", minimum=1.0)],
        max_seconds=90,
    ),
)
