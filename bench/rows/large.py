"""A large body: the time to save it to disk over http, and the CPU time to read it over TLS."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.programs import program
from bench.row import RESOLVE, Aim, Contestant, Missing, Row, client
from bench.served import served
from tests.servers.certificates import write_certificates
from tests.servers.http_servers import nginx

MIB = 1_048_576
#: The divisor for the size of the body that slow contestants fetch.
_OF_SLOW_ONES = 4


def write_source(path: Path, mebibytes: int) -> None:
    piece = random.Random(1).randbytes(MIB)
    with path.open("wb") as file:
        for _ in range(mebibytes):
            file.write(piece)


@contextmanager
def _to_disk(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    source, target = folder / "source", folder / "target"
    write_source(source, count)

    def after() -> None:
        assert target.stat().st_size == count * MIB
        target.unlink()

    with served("file", source) as port:
        url = f"http://127.0.0.1:{port}/"
        words = [
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
        found: list[Contestant | Missing] = [Contestant("resolve get", words, count, after=after)]
        for name in ("curl", "wget"):
            other = program(name)
            if other is None:
                found.append(Missing(name, f"{name} is not installed"))
                continue
            quiet = ["-qsSf", "-o"] if name == "curl" else ["-q", "--no-config", "-O"]
            words = [other.path, *quiet, str(target), url]
            synced = ["sh", "-c", '"$@" && sync "$0"', str(target), *words]
            found.append(Contestant(f"{name}, then sync", synced, count, after=after))
            if name == "curl":
                found.append(Contestant("curl", words, count, after=after))
        yield found


@contextmanager
def _tls(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    tree, state = folder / "tree", folder / "state"
    for place in (tree, state):
        place.mkdir()
    write_source(tree / "large.bin", count)
    write_source(tree / "few.bin", count // _OF_SLOW_ONES or 1)
    curl = program("curl")
    with nginx(tree, state, write_certificates(state)) as server:
        url, few = server.url("/large.bin", "https"), server.url("/few.bin", "https")
        authority = str(server.authority)
        words = [*RESOLVE, "cat", "-q", "--progress", "none", "--cacert", authority]
        yield [
            Contestant("resolve cat", [*words, "--allow-port", str(server.tls_port), url], count),
            stream("resolver", "ours", url, count, authority),
            stream("ssl, bare", "ssl", url, count, authority),
            stream("httpx on trio", "httpx", few, count // _OF_SLOW_ONES or 1, authority),
            Missing("curl", "curl is not installed")
            if curl is None
            else Contestant(
                "curl",
                [curl.path, "-qsSf", "--http1.1", "--cacert", authority, "-o", os.devnull, url],
                count,
                environment=curl.environment,
            ),
        ]


def stream(name: str, kind: str, url: str, count: int, authority: str = "") -> Contestant:
    return client(name, kind, url, count, more=authority, module="streams")


ROWS = (
    Row(
        "disk",
        "{:,} MiB from a server of ours to the disk, by http",
        "seconds",
        512,
        1,
        _to_disk,
        aims=[Aim("resolve get", "curl, then sync", most=0.6)],
    ),
    Row(
        "tls",
        "{:,} MiB from nginx by https, to nowhere",
        "processor",
        1024,
        1,
        _tls,
        aims=[Aim("resolver", "curl", most=1.2), Aim("resolve cat", "curl", most=1.2)],
        seconds=60,
    ),
)
