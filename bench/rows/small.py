"""Fetching many small bodies: by http from nginx, in memory or saved, and by gopher from `bench.served`."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from bench.programs import program
from bench.row import RESOLVE, Aim, Contestant, Missing, Open, Row, Target, client
from bench.served import served
from tests.servers.certificates import write_certificates
from tests.servers.http_servers import nginx

COUNT = 5_000
AT_ONCE = 32
SIZE = 2_048

#: The number of items for slow contestants, which would take minutes for all items.
_OF_SLOW_ONES = 500


def curl_to_nowhere(url: str, count: int, at_once: int) -> Contestant | Missing:
    curl = program("curl")
    if curl is None:
        return Missing("curl -Z", "curl is not installed")
    words = [curl.path, "-qsSfZ", "--parallel-max", str(at_once), "-o", os.devnull]
    return Contestant(
        "curl -Z", [*words, url.replace("{}", f"[0-{count - 1}]")], count, environment=curl.environment
    )


def write_small(tree: Path, count: int, size: int = SIZE) -> None:
    """Write the files as `small/NUMBER.bin`."""
    (tree / "small").mkdir(parents=True)
    chance = random.Random(0)
    for number in range(count):
        (tree / "small" / f"{number}.bin").write_bytes(chance.randbytes(size))


@contextmanager
def small_files(folder: Path, count: int, size: int = SIZE) -> Iterator[str]:
    """Serve small files by nginx, and yield their URL; `{}` in the URL is replaced by the number of the file.

    The file name extension of the files prevents compression by nginx.
    """
    tree, state = folder / "tree", folder / "state"
    state.mkdir()
    write_small(tree, count, size)
    with nginx(tree, state, write_certificates(state)) as server:
        yield server.url("/small/{}.bin")


@contextmanager
def _http(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    slow = min(count, _OF_SLOW_ONES)
    with small_files(folder, count) as url:
        yield [
            client("resolver", "ours", url, count, at_once=AT_ONCE),
            client("aiohttp", "aiohttp", url, count, at_once=AT_ONCE),
            curl_to_nowhere(url, count, AT_ONCE),
            client("h11 on trio, bare", "h11", url, count, at_once=AT_ONCE),
            client("requests, in threads", "requests", url, slow, at_once=AT_ONCE),
            client("httpx on trio", "httpx", url, slow, at_once=AT_ONCE),
            client("httpx with HttpxTransport", "transport", url, slow, at_once=AT_ONCE),
        ]


@contextmanager
def _blocking(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    with small_files(folder, count) as url:
        yield [
            client("resolver.blocking", "blocking", url, count),
            client("httpx.Client with HttpxTransport", "transport-sync", url, count),
            client("httpx.Client", "httpx-sync", url, count),
            client("requests", "requests", url, count),
        ]


@contextmanager
def _gopher(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    with served("gopher", SIZE, 1) as port:
        url = f"gopher://127.0.0.1:{port}/9{{}}"
        yield [
            client("resolver", "ours", url, count, at_once=AT_ONCE),
            client("trio, bare", "gopher", url, count, at_once=AT_ONCE),
            curl_to_nowhere(url, count, AT_ONCE),
        ]


def _saving(kept: str, size: int = SIZE, *, has_ledger: bool = False) -> Open:
    """Return the task that saves files of `size` bytes; `kept` is the value of the option `--sync`."""

    @contextmanager
    def opened(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
        target = Target(folder)
        with small_files(folder, count, size) as url:
            lines, listed = folder / "lines", folder / "curl.list"
            lines.write_text("".join(f"{url.format(number)}\n" for number in range(count)))
            listed.write_text(
                "".join(
                    f'url = "{url.format(number)}"\noutput = "{target.path}/{number}.bin"\n'
                    for number in range(count)
                )
            )
            yield [
                each
                if isinstance(each, Missing)
                else _checked(each, target, folder / "tree/small", range(count))
                for each in _savers(url, count, target.path, kept, has_ledger=has_ledger)
            ]

    return opened


def _savers(
    url: str, count: int, target: Path, kept: str, *, has_ledger: bool
) -> Iterator[Contestant | Missing]:
    many, port = str(AT_ONCE), str(urlsplit(url).port)
    lines, listed = target.with_name("lines"), target.with_name("curl.list")
    words = [*RESOLVE, "get", "-q", "--progress", "none", "-j", many, "--per-host", many, "--sync", kept]
    words += ["--allow-port", port, "-d", str(target), "-i", str(lines)]
    if has_ledger:
        yield Contestant("resolve get --ledger", [*words, "--ledger", str(target / "ledger")], count)
    yield Contestant("resolve get", words, count)
    yield client("Resolver.save", f"saving-{kept}", url, count, at_once=AT_ONCE, more=str(target))
    if curl := program("curl"):
        words = [curl.path, "-qsSfZ", "--parallel-max", many, "-K", str(listed)]
        yield Contestant("curl -Z", words, count, environment=curl.environment)
        synced = ["sh", "-c", '"$@" && sync -f "$0"', str(target), *words]
        yield Contestant("curl -Z, then sync", synced, count, environment=curl.environment)
    else:
        yield Missing("curl -Z", "curl is not installed")
    if aria2 := program("aria2"):
        words = [aria2.path, "-q", "--no-conf", "--file-allocation=none", f"-j{many}", "-x1", "-s1"]
        words += ["-d", str(target), "-i", str(lines)]
        yield Contestant("aria2", words, count, environment=aria2.environment)
    else:
        yield Missing("aria2", "`tests/servers/unpack.sh aria2` unpacks it")


def _checked(each: Contestant, target: Target, source: Path, numbers: range) -> Contestant:
    """Return the contestant with a new folder for each run, and with a check of all files."""

    def after() -> None:
        for name in (f"{number}.bin" for number in numbers):
            assert (target.path / name).read_bytes() == (source / name).read_bytes(), each.name

    return replace(each, before=target.anew, after=after)


ROWS = (
    Row(
        "http",
        f"{{:,}} bodies of 2 KiB from nginx into memory, {AT_ONCE} at once",
        "rate",
        COUNT,
        20,
        _http,
        aims=[Aim("resolver", "aiohttp", least=0.6)],
        seconds=60,
    ),
    Row(
        "blocking",
        "{:,} bodies of 2 KiB from nginx into memory, one at a time, without an event loop of the caller",
        "rate",
        2_000,
        20,
        _blocking,
        aims=[
            Aim("resolver.blocking", "httpx.Client", least=1.0),
            Aim("httpx.Client with HttpxTransport", "httpx.Client", least=0.8),
        ],
    ),
    Row(
        "gopher",
        f"{{:,}} bodies of 2 KiB from a server of ours into memory, {AT_ONCE} at once",
        "rate",
        COUNT,
        20,
        _gopher,
        aims=[Aim("resolver", "trio, bare", least=0.7)],
    ),
    Row(
        "saved",
        f"{{:,}} files of 2 KiB from nginx to the disk, {AT_ONCE} at once",
        "rate",
        COUNT,
        20,
        _saving("group"),
        aims=[Aim("resolve get", "curl -Z, then sync", least=0.4)],
        seconds=60,
    ),
    Row(
        "saved-unsynced",
        f"the same of {{:,}} files, and nobody waits for the disk, {AT_ONCE} at once",
        "rate",
        COUNT,
        20,
        _saving("never"),
        long=True,
    ),
    Row(
        "list",
        f"{{:,}} files of 1 kB from nginx to the disk, with a ledger, {AT_ONCE} at once",
        "rate",
        20_000,
        20,
        _saving("group", 1_000, has_ledger=True),
        aims=[Aim("resolve get --ledger", "curl -Z, then sync", least=0.4)],
        seconds=120,
        long=True,
    ),
)
