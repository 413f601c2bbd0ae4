"""A large body: the time to save it to disk over http, and the CPU time to read it over TLS."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.programs import find_program
from bench.row import RESOLVE, Aim, Contestant, Missing, Row, client
from bench.served import run_server
from tests.servers.certificates import write_certificates
from tests.servers.http_servers import nginx

MIB = 1_048_576
#: The divisor for the size of the body that slow contestants fetch.
_SLOW_DIVISOR = 4


def write_source(path: Path, mebibytes: int) -> None:
    chunk = random.Random(1).randbytes(MIB)
    with path.open("wb") as file:
        for _ in range(mebibytes):
            file.write(chunk)


@contextmanager
def _open_disk_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    source, target = folder / "source", folder / "target"
    write_source(source, count)

    def after() -> None:
        assert target.stat().st_size == count * MIB
        target.unlink()

    with run_server("file", source) as port:
        url = f"http://127.0.0.1:{port}/"
        argv = [
            *RESOLVE,
            "get",
            "-q",
            "--progress",
            "none",
            "--allow-port",
            str(port),
            "-O",
            str(target),
            url,
        ]
        contestants: list[Contestant | Missing] = [Contestant("resolve get", argv, count, after=after)]
        for name in ("curl", "wget"):
            program = find_program(name)
            if program is None:
                contestants.append(Missing(name, f"{name} is not installed"))
                continue
            options = ["-qsSf", "-o"] if name == "curl" else ["-q", "--no-config", "-O"]
            argv = [program.path, *options, str(target), url]
            synced = ["sh", "-c", '"$@" && sync "$0"', str(target), *argv]
            contestants.append(Contestant(f"{name}, then sync", synced, count, after=after))
            if name == "curl":
                contestants.append(Contestant("curl", argv, count, after=after))
        yield contestants


@contextmanager
def _open_tls_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    tree, state = folder / "tree", folder / "state"
    for directory in (tree, state):
        directory.mkdir()
    write_source(tree / "large.bin", count)
    write_source(tree / "few.bin", count // _SLOW_DIVISOR or 1)
    curl = find_program("curl")
    with nginx(tree, state, write_certificates(state)) as server:
        url, few = server.url("/large.bin", "https"), server.url("/few.bin", "https")
        authority = str(server.authority)
        argv = [*RESOLVE, "cat", "-q", "--progress", "none", "--cacert", authority]
        yield [
            Contestant("resolve cat", [*argv, "--allow-port", str(server.tls_port), url], count),
            make_stream_client("resolver", "ours", url, count, authority),
            make_stream_client("ssl, bare", "ssl", url, count, authority),
            make_stream_client("httpx on trio", "httpx", few, count // _SLOW_DIVISOR or 1, authority),
            Missing("curl", "curl is not installed")
            if curl is None
            else Contestant(
                "curl",
                [curl.path, "-qsSf", "--http1.1", "--cacert", authority, "-o", os.devnull, url],
                count,
                environment=curl.environment,
            ),
        ]


def make_stream_client(name: str, kind: str, url: str, count: int, authority: str = "") -> Contestant:
    return client(name, kind, url, count, more=authority, module="streams")


ROWS = (
    Row(
        "disk",
        "{:,} MiB from a server of ours to the disk, by http",
        "seconds",
        512,
        1,
        _open_disk_row,
        aims=[Aim("resolve get", "curl, then sync", maximum=0.6)],
    ),
    Row(
        "tls",
        "{:,} MiB from nginx by https, to nowhere",
        "processor",
        1024,
        1,
        _open_tls_row,
        aims=[Aim("resolver", "curl", maximum=1.2), Aim("resolve cat", "curl", maximum=1.2)],
        max_seconds=60,
    ),
)
