"""Reading many small files with one call of `cat`, by the adapter and by fsspec's own file systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from bench.distance import far_away
from bench.row import Aim, Contestant, Row, client
from bench.rows import ftp, small

ROUND_TRIP = 0.04

#: A function that serves `count` small files in a folder, and yields their URL.
Serve = Callable[[Path, int], AbstractContextManager[str]]


_small_http = partial(small.small_files, size=1_000)


@contextmanager
def _far_ftp(folder: Path, count: int) -> Iterator[str]:
    with ftp.small_files(folder, count) as url, far_away(urlsplit(url).port or 0, ROUND_TRIP) as port:
        yield f"ftp://127.0.0.1:{port}/small/{{}}"


@contextmanager
def _cat(serve: Serve, folder: Path, count: int) -> Iterator[Sequence[Contestant]]:
    with serve(folder, count) as url:
        scheme = urlsplit(url).scheme
        yield [
            client("resolver", f"cat-resolve+{scheme}", url, count),
            client("fsspec", f"cat-{scheme}", url, count),
        ]


def _row(name: str, place: str, count: int, serve: Serve, *, most: float, long: bool = False) -> Row:
    about = f"{{:,}} files of 1 kB {place} with one call of cat of an fsspec file system"
    aims = [Aim("resolver", "fsspec", most=most)]
    return Row(name, about, "seconds", count, 2 if long else 10, partial(_cat, serve), aims, long=long)


ROWS = (
    _row("cat-http", "from nginx", 400, _small_http, most=1.2),
    _row("cat-ftp", "from vsftpd", 400, ftp.small_files, most=1.2),
    _row("cat-ftp-far", f"from vsftpd, {ROUND_TRIP * 1000:g} ms away", 100, _far_ftp, most=0.5, long=True),
)
