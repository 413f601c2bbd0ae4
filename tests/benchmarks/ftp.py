"""1,000 small files from one vsftpd, side by side: `Resolver` on one pooled connection, and curl on one.

Needs root, the unpacked server (`make servers`) and curl; says what is missing and measures nothing else.
Both take the same files in the same order into memory or /dev/null; the runs alternate.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import trio

from resolver import Resolver
from tests.servers.certificates import write_certificates
from tests.servers.ftp_servers import FtpServer, FtpSite, vsftpd
from tests.servers.namespace import write_accounts

FILES = 1_000
RUNS = 5


def main() -> None:
    if shutil.which("curl") is None:
        print("ftp: curl is not installed: nothing to compare with")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            compare(folder)
        except pytest.skip.Exception as reason:
            print(f"ftp: not measured: {reason}")


def compare(folder: Path) -> None:
    tree = folder / "tree"
    directory = tree / "pub" / "small"
    directory.mkdir(parents=True)
    for number in range(FILES):
        (directory / f"f{number:04}").write_bytes(b"%04d\n" % number * 200)
    state = folder / "state"
    state.mkdir()
    site = FtpSite(tree, write_certificates(state), write_accounts(state, tree))
    with vsftpd(site, state) as server:
        ours, theirs = [], []
        for _ in range(RUNS):
            ours.append(timed(lambda: trio.run(with_resolver, server)))
            theirs.append(timed(lambda: with_curl(server)))
    print(f"{FILES} files of 1,000 octets from one vsftpd, {RUNS} runs in turn: fastest, median, slowest")
    print(f"  resolver, one pooled connection  {figures(ours)}")
    print(f"  curl, one connection             {figures(theirs)}")


def figures(seconds: list[float]) -> str:
    fastest, middle, slowest = min(seconds), statistics.median(seconds), max(seconds)
    return f"{fastest:6.2f} {middle:6.2f} {slowest:6.2f} s; {FILES / middle:5.0f} files/s in the median"


def timed(run: object) -> float:
    assert callable(run)
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


async def with_resolver(server: FtpServer) -> None:
    async with Resolver() as session:
        for number in range(FILES):
            response = await session.fetch(f"{root(server)}f{number:04}")
            assert len(response.content) == 1_000


def with_curl(server: FtpServer) -> None:
    command = ["curl", "-sS", "-o", os.devnull, f"{root(server)}f[0000-{FILES - 1:04}]"]
    subprocess.run(command, check=True)


def root(server: FtpServer) -> str:
    return f"ftp://127.0.0.1:{server.ports['plain']}/pub/small/"


if __name__ == "__main__":
    main()
