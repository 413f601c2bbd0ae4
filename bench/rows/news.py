"""Fetching many articles by number from an INN server."""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.row import Aim, Contestant, Missing, Row, client
from tests.servers.certificates import write_certificates
from tests.servers.news_servers import inn
from tests.servers.news_spool import PROSE, Article, take

COUNT = 1_000
#: The number of articles for contestants without pipelining. These take 40 ms for each article, because the
#: server waits for a delayed TCP acknowledgment.
_SEQUENTIAL_COUNT = 100
_BODY = (b"x" * 70 + b"\r\n") * 25
_TIMEOUT = 60.0
FIRST = max(PROSE) + 1


@contextmanager
def serve_articles(folder: Path, count: int) -> Iterator[str]:
    """Serve articles, and yield their URL; `{}` is replaced by the article number, starting with `FIRST`."""
    articles = (Article(f"bench-{number}@example.test", _BODY) for number in range(count))
    with inn(folder, write_certificates(folder)) as server:
        take(server.ports["transit"], articles, _TIMEOUT)
        yield f"nntp://127.0.0.1:{server.ports['plain']}/test.prose/{{}}"


def make_nntplib_client(url: str, count: int) -> Contestant | Missing:
    if importlib.util.find_spec("nntplib") is None:
        return Missing("nntplib", f"Python {platform.python_version()} has it no more")
    return client("nntplib", "nntplib", url, count, first=FIRST)


@contextmanager
def _open_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    few = min(count, _SEQUENTIAL_COUNT)
    with serve_articles(folder, count) as url:
        yield [
            client("resolver, 128 at once", "ours", url, count, at_once=128, first=FIRST),
            client("resolver, one at a time", "ours", url, few, first=FIRST),
            make_nntplib_client(url, few),
        ]


ROWS = (
    Row(
        "nntp",
        "{:,} articles of 2 kB from INN into memory",
        "rate",
        COUNT,
        10,
        _open_row,
        aims=[Aim("resolver, 128 at once", "nntplib", minimum=130)],
    ),
)
