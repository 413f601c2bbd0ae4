"""A tree of 2,000 small files in 101 directories, by http from nginx and by ftp from vsftpd and ProFTPD, to
the disk, by commands side by side: `resolve get -r`, wget2, lftp and aria2, each over as many connections,
from a server on this machine and from one that is a round trip away.

Each is a process of its own; the runs alternate, and what it saved is compared with what is served. aria2
knows no directories: it is given the list of all files, and so has less to do; and of vsftpd it opens a
connection for each file, for it waits for a minute in vain where it should use one again. wget2 knows no ftp,
and saves the index pages, too. lftp asks nginx for the length of each file before it fetches it. What is not
there is told (`tests/servers/unpack.sh aria2 lftp wget2` unpacks them).

`python -m tests.benchmarks.trees [FILES [ROUNDS [CONNECTIONS]]]`; `make bench`.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.benchmarks.distance import far_away
from tests.servers.certificates import write_certificates
from tests.servers.ftp_servers import FtpSite, proftpd, vsftpd
from tests.servers.http_servers import nginx
from tests.servers.namespace import write_accounts
from tests.servers.packages import find

FILES = 2_000
ROUNDS = 3
CONNECTIONS = 8
ROUND_TRIPS = 0.0, 0.04
DIRECTORIES = 100
SIZES = 2_048, 20_480

_RESOLVE = [sys.executable, "-c", "from resolver.cli import run; run()", "get", "-r", "-q"]


class Program(NamedTuple):
    """Another one: its name, its environment, and what it says it is."""

    path: str
    environment: dict[str, str]
    version: str


def write_forest(top: Path, files: int) -> dict[str, bytes]:
    """Ten directories, nine more in each; the octets by their paths."""
    chance, forest = random.Random(0), dict[str, bytes]()
    for number in range(files):
        place = number % DIRECTORIES
        where = f"d{place // 10}" if place % 10 == 0 else f"d{place // 10}/e{place % 10}"
        forest[f"{where}/file-{number:05}.bin"] = chance.randbytes(chance.randint(*SIZES))
    for name, octets in forest.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(octets)
    return forest


def program(name: str, path: str) -> Program | None:
    try:
        files = find(name, path)
    except pytest.skip.Exception:
        print(f"trees: no {name}")
        return None
    found, environment = str(files.path(path)), files.environment() | {"HOME": os.devnull}
    said = subprocess.run([found, "--version"], env=environment, capture_output=True, text=True, check=True)
    version = re.search(r"\d+\.[\d.]+", said.stdout)
    assert version is not None
    return Program(found, environment, version[0])


def commands(
    url: str, names: list[str], target: Path, at_once: int, *, anew: bool
) -> Iterator[tuple[str, list[str], Program]]:
    """The words of each that can do it, by the name that is shown; all save below `target`/forest."""
    scheme, port = urlsplit(url).scheme, str(urlsplit(url).port)
    many = str(at_once)
    ours = Program(sys.executable, os.environ | {"PYTHONDONTWRITEBYTECODE": ""}, "")
    words = [*_RESOLVE, "-j", many, "--per-host", many, "--allow-port", port, "-d", str(target), url]
    yield "resolve get -r", words, ours
    if scheme == "http" and (wget2 := program("wget2", "usr/bin/wget2")):
        words = [wget2.path, "-q", "-r", "-np", "-nH", "--cut-dirs=3", "--no-config", f"--max-threads={many}"]
        yield f"wget2 {wget2.version}", [*words, "-P", str(target / "forest"), url], wget2
    if lftp := program("lftp", "usr/bin/lftp"):
        script = f"set cmd:fail-exit yes; set xfer:log no; mirror --parallel={many} {url} {target}/forest"
        yield f"lftp {lftp.version}", [lftp.path, "--norc", "-c", script], lftp
    if aria2 := program("aria2", "usr/bin/aria2c"):
        listed = target.with_name(f"{target.name}.list")
        listed.write_text("".join(f"{url}{name}\n  out=forest/{name}\n" for name in names))
        words = [aria2.path, "-q", "--no-conf", "--file-allocation=none", f"-j{many}", "-x1", "-s1"]
        words += [f"--ftp-reuse-connection={'false' if anew else 'true'}"]
        yield f"aria2c {aria2.version}", [*words, "-d", str(target), "-i", str(listed)], aria2


def measure(
    found: list[tuple[str, list[str], Program]], forest: dict[str, bytes], target: Path, rounds: int
) -> None:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in found}
    for _ in range(rounds):
        for name, words, made_by in found:
            target.mkdir()
            begun, before = time.perf_counter(), os.times()
            subprocess.run(words, env=made_by.environment, check=True)
            taken[name].append((time.perf_counter() - begun, processor(before)))
            check(target / "forest", forest, name)
            shutil.rmtree(target)
    show(taken)


def processor(before: os.times_result) -> float:
    """Seconds that a child has had the processor for."""
    now = os.times()
    return now.children_user + now.children_system - before.children_user - before.children_system


def check(top: Path, forest: dict[str, bytes], name: str) -> None:
    came = {
        path.relative_to(top).as_posix(): path.read_bytes()
        for path in top.rglob("*")
        if path.is_file() and not path.name.startswith("index.html")
    }
    assert came == forest, f"{name} has not saved what is served"


def show(taken: dict[str, list[tuple[float, float]]]) -> None:
    best = min(statistics.median(seconds for seconds, _ in runs) for runs in taken.values())
    for name, runs in taken.items():
        seconds = sorted(seconds for seconds, _ in runs)
        middle, busy = statistics.median(seconds), statistics.median(busy for _, busy in runs)
        print(
            f"  {name:16} {seconds[0]:6.2f} {middle:6.2f} {seconds[-1]:6.2f} s,"
            f" {busy:5.2f} s of the processor; {middle / best:5.2f} of the fastest",
            flush=True,
        )


def compare(folder: Path, files: int, rounds: int, at_once: int) -> None:
    tree, state = folder / "tree", folder / "state"
    forest = write_forest(tree / "pub" / "forest", files)
    print(
        f"{files:,} files of {SIZES[0] >> 10} to {SIZES[1] >> 10} KiB, {at_once} connections,"
        f" {rounds} runs in turn: fastest, median, slowest"
    )
    for name in ("nginx", "vsftpd", "proftpd"):
        place = state / name
        place.mkdir(parents=True)
        with ExitStack() as stack:
            try:
                url = serve(name, tree, place, stack)
            except pytest.skip.Exception as reason:
                print(f"trees: not measured: {reason}")
                continue
            for round_trip in ROUND_TRIPS:
                print(f" {name}, by {urlsplit(url).scheme}, {round_trip * 1_000:.0f} ms away")
                with from_afar(url, round_trip) as there:
                    target = folder / "target"
                    found = commands(there, list(forest), target, at_once, anew=name == "vsftpd")
                    measure(list(found), forest, target, rounds)


@contextmanager
def from_afar(url: str, round_trip: float) -> Iterator[str]:
    near = urlsplit(url)
    assert near.port is not None
    with far_away(near.port, round_trip) if round_trip else nullcontext(near.port) as port:
        yield near._replace(netloc=f"127.0.0.1:{port}").geturl()


def serve(name: str, tree: Path, state: Path, stack: ExitStack) -> str:
    """The URL of the tree."""
    certificates = write_certificates(state)
    if name == "nginx":
        return stack.enter_context(nginx(tree, state, certificates)).url("/rounded/pub/forest/")
    site = FtpSite(tree, certificates, write_accounts(state, tree))
    server = stack.enter_context({"vsftpd": vsftpd, "proftpd": proftpd}[name](site, state))
    return f"ftp://127.0.0.1:{server.ports['plain']}/pub/forest/"


def main(files: int = FILES, rounds: int = ROUNDS, at_once: int = CONNECTIONS) -> None:
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)  # the servers give up root
        compare(Path(name), files, rounds, at_once)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
