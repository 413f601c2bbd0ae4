"""Small files of http to the disk, a process each: 5,000 of 2 KiB from nginx, 32 at once.

By `Resolver.save` and the command, each with `sync` group and never, by `curl -Z` and by aria2, which both
leave it to the system when what they wrote gets to the disk.

The runs alternate, and what came is compared with what is served. What is not there is told. Each run has a
directory of its own, and nothing is removed before all are over: ext4 looks through the inodes of files that
were removed within half a minute whenever it makes one, which then takes ten times as long, whoever makes it.
Besides: calls of functions for one more file, by cProfile, which do not depend on the machine.

`python -m tests.benchmarks.files [FILES [ROUNDS [AT_ONCE]]]`; `make bench`.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
import trio

import resolver
from resolver.disk.group_commit import Sync
from tests.benchmarks.trees import Program, processor, program
from tests.servers.certificates import write_certificates
from tests.servers.http_servers import nginx

FILES = 5_000
ROUNDS = 3
AT_ONCE = 32
SIZE = 2_048

#: Files that are saved under cProfile: what the second number makes more than the first is the warm ones.
FEW, MANY = 200, 600

_RESOLVE = [sys.executable, "-c", "from resolver.cli import run; run()", "get", "-q", "--progress", "none"]


async def save(url: str, target: str, files: int, at_once: int, sync: Sync) -> None:
    left = iter(range(files))

    async def work(session: resolver.Resolver) -> None:
        for number in left:
            await session.save(f"{url}{number}", f"{target}/{number}")

    policy = resolver.Policy(allow_port=frozenset({urlsplit(url).port or 80}))
    async with resolver.Resolver(policy=policy, sync=sync) as session, trio.open_nursery() as nursery:
        for _ in range(at_once):
            nursery.start_soon(work, session)


def calls_of_one(url: str, folder: Path, at_once: int) -> float:
    counts: list[int] = []
    for number, files in enumerate((FEW, FEW, MANY)):  # the first time much is imported
        target = folder / f"calls{number}"
        target.mkdir()
        profile = cProfile.Profile()
        profile.runcall(trio.run, save, url, str(target), files, at_once, "group")
        counts.append(cast(int, pstats.Stats(profile).total_calls))  # type: ignore[attr-defined]
    return (counts[2] - counts[1]) / (MANY - FEW)


def commands(url: str, target: Path, files: int, at_once: int) -> Iterator[tuple[str, list[str], Program]]:
    """The words of each that is there, by the name that is shown."""
    ours = Program(sys.executable, os.environ | {"PYTHONDONTWRITEBYTECODE": ""}, "")
    many, port = str(at_once), str(urlsplit(url).port)
    lines = target.with_name("lines")
    lines.write_text("".join(f"{url}{number}\n" for number in range(files)))
    for sync in ("group", "never"):
        words = [sys.executable, "-m", __spec__.name, "save", url, str(target), str(files), many, sync]
        yield f"Resolver.save, sync={sync}", words, ours
        words = [*_RESOLVE, "-j", many, "--per-host", many, "--allow-port", port, "--sync", sync]
        yield f"resolve get --sync {sync}", [*words, "-d", str(target), "-i", str(lines)], ours
    if curl := shutil.which("curl"):
        version = subprocess.run([curl, "--version"], capture_output=True, text=True, check=True).stdout
        listed = target.with_name("curl.list")
        listed.write_text(
            "".join(f'url = "{url}{number}"\noutput = "{target}/{number}"\n' for number in range(files))
        )
        found = re.search(r"\d+\.[\d.]+", version)
        assert found is not None
        words = [curl, "-qsZ", "--parallel-max", many, "-K", str(listed)]
        yield f"curl -Z {found[0]}", words, Program(curl, dict(os.environ), found[0])
    else:
        print("files: no curl")
    if aria2 := program("aria2", "usr/bin/aria2c"):
        words = [aria2.path, "-q", "--no-conf", "--file-allocation=none", f"-j{many}", "-x1", "-s1"]
        yield f"aria2c {aria2.version}", [*words, "-d", str(target), "-i", str(lines)], aria2


def measure(url: str, folder: Path, contents: dict[str, bytes], rounds: int, at_once: int) -> None:
    taken: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        target = folder / f"target{number}"
        for name, words, made_by in commands(url, target, len(contents), at_once):
            target.mkdir()
            os.sync()  # what others left to be written is not paid for by this one
            begun, before = time.perf_counter(), os.times()
            subprocess.run(words, env=made_by.environment, check=True, stderr=subprocess.DEVNULL)
            taken.setdefault(name, []).append((time.perf_counter() - begun, processor(before)))
            came = {path.name: path.read_bytes() for path in target.iterdir()}
            assert came == contents, f"{name} has not saved what is served"
            target.rename(folder / f"{number} {name}")
    for name, runs in taken.items():
        wall, busy = (statistics.median(column) for column in zip(*runs, strict=True))
        rate, each = len(contents) / wall, busy / len(contents) * 1_000
        print(f"{rate:8,.0f} files/s {each:6.2f} ms of the processor each  {name}")
    print(f"{calls_of_one(url, folder, at_once):8,.0f} calls for one more file by Resolver.save")


def main(files: int = FILES, rounds: int = ROUNDS, at_once: int = AT_ONCE) -> None:
    chance = random.Random(0)
    contents = {str(number): chance.randbytes(SIZE) for number in range(files)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # the server gives up root
        tree, state = folder / "tree", folder / "state"
        for place in (tree / "small", state):
            place.mkdir(parents=True)
        for each, octets in contents.items():
            (tree / "small" / each).write_bytes(octets)
        print(f"{files:,} files of {SIZE} octets saved, {at_once} at once; medians of {rounds} runs in turn:")
        try:
            with nginx(tree, state, write_certificates(state)) as server:
                measure(server.url("/small/"), folder, contents, rounds, at_once)
        except pytest.skip.Exception as reason:
            print(f"files: not measured: {reason}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["save"]:
        _, _, place, into, count, together, how = sys.argv
        trio.run(save, place, into, int(count), int(together), cast(Sync, how))
    else:
        main(*map(int, sys.argv[1:]))
