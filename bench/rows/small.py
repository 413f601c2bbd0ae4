"""Fetching many small bodies: by http from nginx, in memory or saved, and by gopher from `bench.served`."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from bench.programs import find_program
from bench.row import RESOLVE, Aim, Contestant, Missing, Open, Row, Target, client
from bench.served import run_server
from tests.servers.certificates import write_certificates
from tests.servers.http_servers import nginx

COUNT = 5_000
AT_ONCE = 32
SIZE = 2_048

#: The number of items for slow contestants, which would take minutes for all items.
_SLOW_COUNT = 500


def make_parallel_curl(url: str, count: int, at_once: int) -> Contestant | Missing:
    curl = find_program("curl")
    if curl is None:
        return Missing("curl -Z", "curl is not installed")
    argv = [curl.path, "-qsSfZ", "--parallel-max", str(at_once), "-o", os.devnull]
    return Contestant(
        "curl -Z", [*argv, url.replace("{}", f"[0-{count - 1}]")], count, environment=curl.environment
    )


def write_small(tree: Path, count: int, size: int = SIZE) -> None:
    """Write the files as `small/NUMBER.bin`."""
    (tree / "small").mkdir(parents=True)
    generator = random.Random(0)
    for number in range(count):
        (tree / "small" / f"{number}.bin").write_bytes(generator.randbytes(size))


@contextmanager
def serve_small_files(folder: Path, count: int, size: int = SIZE) -> Iterator[str]:
    """Serve small files by nginx, and yield their URL; `{}` in the URL is replaced by the number of the file.

    The file name extension of the files prevents compression by nginx.
    """
    tree, state = folder / "tree", folder / "state"
    state.mkdir()
    write_small(tree, count, size)
    with nginx(tree, state, write_certificates(state)) as server:
        yield server.url("/small/{}.bin")


@contextmanager
def serve_gopher(folder: Path, count: int) -> Iterator[str]:
    """Serve bodies by `bench.served`, and yield their URL."""
    with run_server("gopher", SIZE, 1) as port:
        yield f"gopher://127.0.0.1:{port}/9{{}}"


@contextmanager
def _open_http_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    few = min(count, _SLOW_COUNT)
    with serve_small_files(folder, count) as url:
        yield [
            client("resolver", "ours", url, count, at_once=AT_ONCE),
            client("aiohttp", "aiohttp", url, count, at_once=AT_ONCE),
            make_parallel_curl(url, count, AT_ONCE),
            client("h11 on trio, bare", "h11", url, count, at_once=AT_ONCE),
            client("requests, in threads", "requests", url, few, at_once=AT_ONCE),
            client("httpx on trio", "httpx", url, few, at_once=AT_ONCE),
            client("httpx with HttpxTransport", "transport", url, few, at_once=AT_ONCE),
        ]


@contextmanager
def _open_blocking_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    with serve_small_files(folder, count) as url:
        yield [
            client("resolver.blocking", "blocking", url, count),
            client("httpx.Client with HttpxTransport", "transport-sync", url, count),
            client("httpx.Client", "httpx-sync", url, count),
            client("requests", "requests", url, count),
        ]


@contextmanager
def _open_gopher_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    with serve_gopher(folder, count) as url:
        yield [
            client("resolver", "ours", url, count, at_once=AT_ONCE),
            client("trio, bare", "gopher", url, count, at_once=AT_ONCE),
            make_parallel_curl(url, count, AT_ONCE),
        ]


def _define_saving(sync: str, size: int = SIZE, *, has_ledger: bool = False) -> Open:
    """Return the task that saves files of `size` bytes; `sync` is the value of the option `--sync`."""

    @contextmanager
    def open_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
        target = Target(folder)
        with serve_small_files(folder, count, size) as url:
            list_file, curl_list = folder / "lines", folder / "curl.list"
            list_file.write_text("".join(f"{url.format(number)}\n" for number in range(count)))
            curl_list.write_text(
                "".join(
                    f'url = "{url.format(number)}"\noutput = "{target.path}/{number}.bin"\n'
                    for number in range(count)
                )
            )
            yield [
                each
                if isinstance(each, Missing)
                else _add_check(each, target, folder / "tree/small", range(count))
                for each in _make_savers(url, count, target.path, sync, has_ledger=has_ledger)
            ]

    return open_row


def _make_savers(
    url: str, count: int, target: Path, sync: str, *, has_ledger: bool
) -> Iterator[Contestant | Missing]:
    jobs, port = str(AT_ONCE), str(urlsplit(url).port)
    list_file, curl_list = target.with_name("lines"), target.with_name("curl.list")
    argv = [*RESOLVE, "get", "-q", "--progress", "none", "-j", jobs, "--per-host", jobs, "--sync", sync]
    argv += ["--allow-port", port, "-d", str(target), "-i", str(list_file)]
    if has_ledger:
        yield Contestant("resolve get --ledger", [*argv, "--ledger", str(target / "ledger")], count)
    yield Contestant("resolve get", argv, count)
    yield client("Resolver.save", f"saving-{sync}", url, count, at_once=AT_ONCE, more=str(target))
    if curl := find_program("curl"):
        argv = [curl.path, "-qsSfZ", "--parallel-max", jobs, "-K", str(curl_list)]
        yield Contestant("curl -Z", argv, count, environment=curl.environment)
        synced = ["sh", "-c", '"$@" && sync -f "$0"', str(target), *argv]
        yield Contestant("curl -Z, then sync", synced, count, environment=curl.environment)
    else:
        yield Missing("curl -Z", "curl is not installed")
    if aria2 := find_program("aria2"):
        argv = [aria2.path, "-q", "--no-conf", "--file-allocation=none", f"-j{jobs}", "-x1", "-s1"]
        argv += ["-d", str(target), "-i", str(list_file)]
        yield Contestant("aria2", argv, count, environment=aria2.environment)
    else:
        yield Missing("aria2", "`tests/servers/unpack.sh aria2` unpacks it")


def _add_check(each: Contestant, target: Target, source: Path, numbers: range) -> Contestant:
    """Return the contestant with a new folder for each run, and with a check of all files."""

    def after() -> None:
        for name in (f"{number}.bin" for number in numbers):
            assert (target.path / name).read_bytes() == (source / name).read_bytes(), each.name

    return replace(each, before=target.create, after=after)


ROWS = (
    Row(
        "http",
        f"{{:,}} bodies of 2 KiB from nginx into memory, {AT_ONCE} at once",
        "rate",
        COUNT,
        20,
        _open_http_row,
        aims=[Aim("resolver", "aiohttp", minimum=0.6)],
        max_seconds=60,
    ),
    Row(
        "blocking",
        "{:,} bodies of 2 KiB from nginx into memory, one at a time, without an event loop of the caller",
        "rate",
        2_000,
        20,
        _open_blocking_row,
        aims=[
            Aim("resolver.blocking", "httpx.Client", minimum=1.0),
            Aim("httpx.Client with HttpxTransport", "httpx.Client", minimum=0.8),
        ],
    ),
    Row(
        "gopher",
        f"{{:,}} bodies of 2 KiB from a server of ours into memory, {AT_ONCE} at once",
        "rate",
        COUNT,
        20,
        _open_gopher_row,
        aims=[Aim("resolver", "trio, bare", minimum=0.7)],
    ),
    Row(
        "saved",
        f"{{:,}} files of 2 KiB from nginx to the disk, {AT_ONCE} at once",
        "rate",
        COUNT,
        20,
        _define_saving("group"),
        aims=[Aim("resolve get", "curl -Z, then sync", minimum=0.4)],
        max_seconds=60,
    ),
    Row(
        "saved-unsynced",
        f"the same of {{:,}} files, and nobody waits for the disk, {AT_ONCE} at once",
        "rate",
        COUNT,
        20,
        _define_saving("never"),
        is_long=True,
    ),
    Row(
        "list",
        f"{{:,}} files of 1 kB from nginx to the disk, with a ledger, {AT_ONCE} at once",
        "rate",
        20_000,
        20,
        _define_saving("group", 1_000, has_ledger=True),
        aims=[Aim("resolve get --ledger", "curl -Z, then sync", minimum=0.4)],
        max_seconds=120,
        is_long=True,
    ),
)
