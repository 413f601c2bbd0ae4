"""The peak memory of fetching one large body, and of fetching many small bodies concurrently."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.programs import find_program
from bench.row import RESOLVE, Bound, Contestant, Missing, Row, client
from bench.rows.large import make_stream_client, write_source
from bench.served import run_server


@contextmanager
def _open_body_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    source, target = folder / "source", folder / "target"
    write_source(source, count)
    curl = find_program("curl")
    with run_server("file", source) as port:
        url = f"http://127.0.0.1:{port}/"
        options = ["-q", "--progress", "none", "--allow-port", str(port)]
        yield [
            Contestant("resolve cat", [*RESOLVE, "cat", *options, url], count),
            Contestant(
                "resolve get", [*RESOLVE, "get", *options, "-O", str(target), url], count, after=target.unlink
            ),
            make_stream_client("resolver", "ours", url, count),
            make_stream_client("httpx on trio", "httpx", url, count),
            make_stream_client("trio, bare", "trio", url, count),
            Missing("curl", "curl is not installed")
            if curl is None
            else Contestant("curl", [curl.path, "-qsSf", "-o", os.devnull, url], count),
        ]


@contextmanager
def _open_concurrent_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    """Yield contestants for concurrent fetches; the server responds after it has received all requests."""
    with run_server("gopher", 2_048, count) as port:
        url = f"gopher://127.0.0.1:{port}/9{{}}"
        yield [
            client("resolver", "ours", url, count, at_once=count),
            client("trio, bare", "gopher", url, count, at_once=count),
            Missing("curl -Z", "it has 300 transfers at once at most, whatever it is told"),
        ]


ROWS = (
    Row(
        "memory",
        "{:,} MiB from a server of ours by http: the most memory at any time",
        "peak",
        1024,
        1,
        _open_body_row,
        aims=[Bound("resolve cat", 40), Bound("resolve get", 40), Bound("resolver", 40)],
    ),
    Row(
        "memory-at-once",
        "{:,} gopher fetches at once: the most memory at any time",
        "peak",
        1_000,
        10,
        _open_concurrent_row,
        aims=[Bound("resolver", 100)],
    ),
)
