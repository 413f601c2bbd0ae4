"""The throughput of each client by number of concurrent requests, and by round-trip time.

`python -m bench.sweeps FILE [--rounds N] [--tiny]` writes the figures as JSON; `plots` draws the figures. At
each point of a curve, the contestants run in turn, as in the benchmark rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypedDict
from urllib.parse import urlsplit

import pytest

from bench.distance import run_relay
from bench.figures import format_number
from bench.programs import versions
from bench.row import Contestant, Missing, client
from bench.rows import ftp, news, small
from bench.running import run, run_in_turn

ROUNDS = 3
AT_ONCE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
#: The simulated round-trip times, in milliseconds.
DISTANCES = (0, 10, 50, 200)
#: The number of concurrent requests in the curves whose variable is the round-trip time.
AT_ONCE_FAR = 32
#: The built-in maximum of concurrent transfers in curl.
_MAX_CURL_TRANSFERS = 300
_SLOW_COUNT = 500

#: The variable of a curve: the number of concurrent requests, or the round-trip time in ms.
Across: TypeAlias = Literal["at once", "ms"]


class Line(TypedDict):
    """The curve of a client, with a figure for each point; None for a point without a measurement."""

    name: str
    values: list[float | None]


class Panel(TypedDict):
    """A panel of a picture; `across` is the variable, and `unit` is the unit of the values."""

    name: str
    title: str
    across: Across
    unit: str
    places: list[int]
    lines: list[Line]
    missing: dict[str, str]


_Contestants: TypeAlias = Callable[[str, int, int], Sequence[Contestant | Missing]]


class Sweep(NamedTuple):
    """A series of measurements.

    `open` runs a server with a number of items, and yields the URL of the items. `contestants` returns the
    contestants for the URL, the number of items, and the number of concurrent requests. If the variable is
    the round-trip time, the number of concurrent requests is `AT_ONCE_FAR`.
    """

    name: str
    title: str
    across: Across
    open: Callable[[Path, int], AbstractContextManager[str]]
    contestants: _Contestants
    items: int


def list_http(url: str, count: int, at_once: int) -> Sequence[Contestant | Missing]:
    few = max(min(count, _SLOW_COUNT), at_once)
    return [
        client("resolver", "ours", url, count, at_once=at_once),
        client("aiohttp", "aiohttp", url, count, at_once=at_once),
        client("h11 on trio, bare", "h11", url, count, at_once=at_once),
        client("requests, in threads", "requests", url, few, at_once=at_once),
        client("httpx on trio", "httpx", url, few, at_once=at_once),
        _curl(url, count, at_once),
    ]


def list_gopher(url: str, count: int, at_once: int) -> Sequence[Contestant | Missing]:
    return [
        client("resolver", "ours", url, count, at_once=at_once),
        client("trio, bare", "gopher", url, count, at_once=at_once),
        _curl(url, count, at_once),
    ]


def _curl(url: str, count: int, at_once: int) -> Contestant | Missing:
    if at_once > _MAX_CURL_TRANSFERS:
        return Missing("curl -Z", f"it has {_MAX_CURL_TRANSFERS} transfers at once at most")
    return small.make_parallel_curl(url, count, at_once)


def list_ftp(url: str, count: int, at_once: int) -> Sequence[Contestant | Missing]:
    return [
        client("resolver, one at a time", "ours", url, count),
        client("resolver, four at once", "ours", url, count, at_once=4),
        ftp.make_sequential_curl(url, count),
    ]


def list_news(url: str, count: int, at_once: int) -> Sequence[Contestant | Missing]:
    return [
        client("resolver, one at a time", "ours", url, count, first=news.FIRST),
        client("resolver, 32 at once", "ours", url, count, at_once=at_once, first=news.FIRST),
        news.make_nntplib_client(url, count),
    ]


SWEEPS = (
    Sweep("http", "http: bodies of 2 KiB from nginx", "at once", small.serve_small_files, list_http, 1_500),
    Sweep(
        "gopher",
        "gopher: bodies of 2 KiB, a connection each",
        "at once",
        small.serve_gopher,
        list_gopher,
        2_000,
    ),
    Sweep("http-far", "http: 2 KiB, 32 at once", "ms", small.serve_small_files, list_http, 320),
    Sweep("gopher-far", "gopher: 2 KiB, 32 at once", "ms", small.serve_gopher, list_gopher, 320),
    Sweep("ftp-far", "ftp: 1,000 octets from vsftpd", "ms", ftp.serve_small_files, list_ftp, 40),
    Sweep("nntp-far", "nntp: 2 kB from INN", "ms", news.serve_articles, list_news, 64),
)


def run_sweep(sweep: Sweep, rounds: int, *, tiny: bool = False) -> Panel:
    """Measure all points; if `tiny` is set, measure one round of the first two points with few items."""
    places = list(AT_ONCE if sweep.across == "at once" else DISTANCES)[: 2 if tiny else None]
    count = 4 if tiny else sweep.items
    missing: dict[str, str] = {}
    lines: dict[str, list[float | None]] = {}
    with tempfile.TemporaryDirectory(prefix="resolve-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # access for servers that drop root privileges
        try:
            limit = max(places) if sweep.across == "at once" else AT_ONCE_FAR
            with sweep.open(folder, max(count, limit)) as url:
                for nth, point in enumerate(places):
                    for client_name, value in _measure_point(sweep, url, point, count, rounds, missing):
                        values = lines.setdefault(client_name, [None] * len(places))
                        values[nth] = value
        except pytest.skip.Exception as reason:
            missing["all of it"] = str(reason)
    unit = "fetches a second" if sweep.across == "at once" else "ms a fetch"
    return {
        "name": sweep.name,
        "title": sweep.title,
        "across": sweep.across,
        "unit": unit,
        "places": places,
        "lines": [{"name": client_name, "values": values} for client_name, values in lines.items()],
        "missing": missing,
    }


def _measure_point(
    sweep: Sweep, url: str, point: int, count: int, rounds: int, missing: dict[str, str]
) -> Iterator[tuple[str, float]]:
    """Measure one point; yield the figure of each contestant."""
    at_once, milliseconds = (point, 0) if sweep.across == "at once" else (AT_ONCE_FAR, point)
    with _add_latency(url, milliseconds) as far_url:
        candidates = sweep.contestants(far_url, max(count, at_once), at_once)
        missing |= {each.name: each.reason for each in candidates if isinstance(each, Missing)}
        contestants = [each for each in candidates if isinstance(each, Contestant)]
        samples, failed = run_in_turn(contestants, rounds, run)
    missing |= {name: f"with {point} {sweep.across}: {reason}" for name, reason in failed.items()}
    for each in contestants:
        if each.name in samples:
            seconds = statistics.median(sample.seconds for sample in samples[each.name])
            rate = each.count / seconds
            yield each.name, round(rate if sweep.across == "at once" else 1_000 / rate, 3)


@contextmanager
def _add_latency(url: str, milliseconds: int) -> Iterator[str]:
    parts = urlsplit(url)
    assert parts.port is not None
    with run_relay(parts.port, milliseconds / 1_000) if milliseconds else nullcontext(parts.port) as port:
        yield url.replace(f":{parts.port}/", f":{port}/", 1)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sweeps", allow_abbrev=False)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tiny", action="store_true", help="a few items of each, as a test")
    options = parser.parse_args(arguments)
    panels: list[Panel] = []
    for sweep in SWEEPS:
        panels.append(run_sweep(sweep, 1 if options.tiny else options.rounds, tiny=options.tiny))
        print("\n".join(format_panel(panels[-1])), flush=True)
    results = {"versions": versions(), "rounds": options.rounds, "panels": panels}
    options.file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def format_panel(panel: Panel) -> Iterator[str]:
    yield f"{panel['title']}; {panel['unit']}, by {panel['across']}"
    yield " " * 26 + "".join(f"{point:>9}" for point in panel["places"])
    for line in panel["lines"]:
        cells = ("" if value is None else format_number(value) for value in line["values"])
        yield f"  {line['name']:24}" + "".join(f"{cell:>9}" for cell in cells)
    for name, reason in panel["missing"].items():
        yield f"  {name}: {reason}"


if __name__ == "__main__":
    main(sys.argv[1:])
