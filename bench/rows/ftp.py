"""Fetching many small files by ftp from vsftpd, over one connection and over four connections."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.programs import find_program
from bench.row import Aim, Contestant, Missing, Row, client
from tests.servers.certificates import write_certificates
from tests.servers.ftp_servers import FtpSite, vsftpd
from tests.servers.namespace import write_accounts

COUNT = 1_000


def make_sequential_curl(url: str, count: int) -> Contestant | Missing:
    """Return the contestant curl, which fetches all files over one connection."""
    curl = find_program("curl")
    if curl is None:
        return Missing("curl, one connection", "curl is not installed")
    argv = [curl.path, "-qsSf", "-o", os.devnull, url.replace("{}", f"[0-{count - 1}]")]
    return Contestant("curl, one connection", argv, count, environment=curl.environment)


@contextmanager
def serve_small_files(folder: Path, count: int) -> Iterator[str]:
    """Serve small files, and yield their URL; `{}` in the URL is replaced by the number of the file."""
    tree, state = folder / "tree", folder / "state"
    (tree / "small").mkdir(parents=True)
    state.mkdir()
    for number in range(count):
        (tree / "small" / f"{number}").write_bytes(b"%04d\n" % number * 200)
    site = FtpSite(tree, write_certificates(state), write_accounts(state, tree))
    with vsftpd(site, state) as server:
        yield f"ftp://127.0.0.1:{server.ports['plain']}/small/{{}}"


@contextmanager
def _open_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    with serve_small_files(folder, count) as url:
        yield [
            client("resolver, one at a time", "ours", url, count),
            client("resolver, four at once", "ours", url, count, at_once=4),
            make_sequential_curl(url, count),
        ]


ROWS = (
    Row(
        "ftp",
        "{:,} files of 1,000 octets from vsftpd into memory",
        "seconds",
        COUNT,
        10,
        _open_row,
        aims=[
            Aim("resolver, one at a time", "curl, one connection", maximum=1.1),
            Aim("resolver, four at once", "curl, one connection", maximum=0.6),
        ],
    ),
)
