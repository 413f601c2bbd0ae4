"""Reading many small files with one call of `cat`, by the adapter and by fsspec's own file systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench.distance import run_relay
from bench.row import Aim, Contestant, Row, client
from bench.rows import ftp, small

ROUND_TRIP = 0.04

#: A function that serves `count` small files in a folder, and yields their URL.
Serve = Callable[[Path, int], AbstractContextManager[str]]


_serve_http = partial(small.serve_small_files, size=1_000)


@contextmanager
def _far_ftp(folder: Path, count: int) -> Iterator[str]:
    with ftp.serve_small_files(folder, count) as url, run_relay(urlsplit(url).port or 0, ROUND_TRIP) as port:
        yield f"ftp://127.0.0.1:{port}/small/{{}}"


@contextmanager
def _open_row(serve: Serve, folder: Path, count: int) -> Iterator[Sequence[Contestant]]:
    with serve(folder, count) as url:
        scheme = urlsplit(url).scheme
        yield [
            client("resolver", f"cat-resolve+{scheme}", url, count),
            client("fsspec", f"cat-{scheme}", url, count),
        ]


def _row(name: str, origin: str, count: int, serve: Serve, limit: float, *, is_far: bool = False) -> Row:
    about = f"{{:,}} files of 1 kB {origin} with one call of cat of an fsspec file system"
    aims = [Aim("resolver", "fsspec", maximum=limit)]
    return Row(
        name, about, "seconds", count, 2 if is_far else 10, partial(_open_row, serve), aims, is_long=is_far
    )


ROWS = (
    _row("cat-http", "from nginx", 400, _serve_http, 1.2),
    _row("cat-ftp", "from vsftpd", 400, ftp.serve_small_files, 1.2),
    _row("cat-ftp-far", f"from vsftpd, {ROUND_TRIP * 1000:g} ms away", 100, _far_ftp, 0.5, is_far=True),
)
