"""Saving a file of 256 MiB over one or four connections by `resolve get`, aria2 and curl (one connection).

The nginx server limits each response to 16 MiB/s. Each command is a separate process; the runs of the
commands alternate. `resolve` also syncs the file before it renames the file. A missing program is skipped
(`tests/servers/unpack.sh aria2` unpacks aria2).
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from bench.programs import find_program
from bench.row import RESOLVE
from bench.rows.large import write_source
from tests.servers.certificates import write_certificates
from tests.servers.http_servers import HttpServer, nginx

SIZE = 268_435_456
RUNS = 3


def commands(server: HttpServer, target: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Return the commands with their environment variables, by name."""
    url, environment = server.url("/limited/source"), dict(os.environ)
    command_by_name: dict[str, tuple[list[str], dict[str, str]]] = {}
    for segments in (1, 4):
        argv = [*RESOLVE, "get", "-q", "--allow-port", str(server.port), "--segments", str(segments)]
        argv += ["-O", str(target), url]
        command_by_name[f"resolve get --segments {segments}"] = argv, environment
    if aria2 := find_program("aria2"):
        for count in (1, 4):
            argv = [aria2.path, "-q", "--no-conf", f"-x{count}", f"-s{count}", "-k1M"]
            argv += ["--file-allocation=none", "-d", str(target.parent), "-o", target.name, url]
            command_by_name[f"aria2c -x{count} -s{count}"] = argv, aria2.environment
    if curl := find_program("curl"):
        command_by_name["curl"] = [curl.path, "-sS", "-f", "-o", str(target), url], environment
    return command_by_name


def measure(server: HttpServer, target: Path) -> dict[str, list[float]]:
    """Return the duration of each run in seconds, by command."""
    command_by_name = commands(server, target)
    durations: dict[str, list[float]] = {name: [] for name in command_by_name}
    for _ in range(RUNS):
        for name, (argv, environment) in command_by_name.items():
            start = time.perf_counter()
            subprocess.run(argv, env=environment, check=True)
            durations[name].append(time.perf_counter() - start)
            assert target.stat().st_size == SIZE
            target.unlink()
    return durations


def compare(folder: Path) -> None:
    tree, state = folder / "tree", folder / "state"
    tree.mkdir()
    state.mkdir()
    write_source(tree / "source", SIZE >> 20)
    with nginx(tree, state, write_certificates(state)) as server:
        durations = measure(server, folder / "target")
    print(f"{SIZE >> 20} MiB from nginx at 16 MiB/s a request, {RUNS} runs in turn: fastest, median, slowest")
    for name, seconds in durations.items():
        fastest, middle, slowest = min(seconds), statistics.median(seconds), max(seconds)
        print(
            f"  {name:25} {fastest:6.2f} {middle:6.2f} {slowest:6.2f} s; {SIZE / middle / 2**20:4.0f} MiB/s"
        )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            compare(Path(name))
        except pytest.skip.Exception as reason:
            print(f"segments: not measured: {reason}")


if __name__ == "__main__":
    main()
