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

from bench.distance import far_away
from bench.figures import number
from bench.programs import versions
from bench.row import Contestant, Missing, client
from bench.rows import ftp, news, small
from bench.running import in_turn, run
from bench.served import served

ROUNDS = 3
AT_ONCE = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
#: The simulated round-trip times, in milliseconds.
DISTANCES = (0, 10, 50, 200)
#: The number of concurrent requests in the curves whose variable is the round-trip time.
AT_ONCE_FAR = 32
#: The built-in maximum of concurrent transfers in curl.
_OF_CURL = 300
_OF_SLOW_ONES = 500

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
    things: int


def of_http(url: str, things: int, at_once: int) -> Sequence[Contestant | Missing]:
    few = max(min(things, _OF_SLOW_ONES), at_once)
    return [
        client("resolver", "ours", url, things, at_once=at_once),
        client("aiohttp", "aiohttp", url, things, at_once=at_once),
        client("h11 on trio, bare", "h11", url, things, at_once=at_once),
        client("requests, in threads", "requests", url, few, at_once=at_once),
        client("httpx on trio", "httpx", url, few, at_once=at_once),
        _curl(url, things, at_once),
    ]


def of_gopher(url: str, things: int, at_once: int) -> Sequence[Contestant | Missing]:
    return [
        client("resolver", "ours", url, things, at_once=at_once),
        client("trio, bare", "gopher", url, things, at_once=at_once),
        _curl(url, things, at_once),
    ]


def _curl(url: str, things: int, at_once: int) -> Contestant | Missing:
    if at_once > _OF_CURL:
        return Missing("curl -Z", f"it has {_OF_CURL} transfers at once at most")
    return small.curl_to_nowhere(url, things, at_once)


@contextmanager
def gophers(folder: Path, count: int) -> Iterator[str]:
    with served("gopher", small.SIZE, 1) as port:
        yield f"gopher://127.0.0.1:{port}/9{{}}"


def of_ftp(url: str, things: int, at_once: int) -> Sequence[Contestant | Missing]:
    return [
        client("resolver, one at a time", "ours", url, things),
        client("resolver, four at once", "ours", url, things, at_once=4),
        ftp.curl_one_by_one(url, things),
    ]


def of_news(url: str, things: int, at_once: int) -> Sequence[Contestant | Missing]:
    return [
        client("resolver, one at a time", "ours", url, things, first=news.FIRST),
        client("resolver, 32 at once", "ours", url, things, at_once=at_once, first=news.FIRST),
        news.with_nntplib(url, things),
    ]


SWEEPS = (
    Sweep("http", "http: bodies of 2 KiB from nginx", "at once", small.small_files, of_http, 1_500),
    Sweep("gopher", "gopher: bodies of 2 KiB, a connection each", "at once", gophers, of_gopher, 2_000),
    Sweep("http-far", "http: 2 KiB, 32 at once", "ms", small.small_files, of_http, 320),
    Sweep("gopher-far", "gopher: 2 KiB, 32 at once", "ms", gophers, of_gopher, 320),
    Sweep("ftp-far", "ftp: 1,000 octets from vsftpd", "ms", ftp.small_files, of_ftp, 40),
    Sweep("nntp-far", "nntp: 2 kB from INN", "ms", news.articles, of_news, 64),
)


def sweep(asked: Sweep, rounds: int, *, tiny: bool = False) -> Panel:
    """Measure all points; if `tiny` is set, measure one round of the first two points with few items."""
    places = list(AT_ONCE if asked.across == "at once" else DISTANCES)[: 2 if tiny else None]
    things = 4 if tiny else asked.things
    missing: dict[str, str] = {}
    found: dict[str, list[float | None]] = {}
    with tempfile.TemporaryDirectory(prefix="resolve-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # access for servers that drop root privileges
        try:
            most = max(places) if asked.across == "at once" else AT_ONCE_FAR
            with asked.open(folder, max(things, most)) as url:
                for nth, place in enumerate(places):
                    for client_name, value in _at(asked, url, place, things, rounds, missing):
                        line = found.setdefault(client_name, [None] * len(places))
                        line[nth] = value
        except pytest.skip.Exception as reason:
            missing["all of it"] = str(reason)
    unit = "fetches a second" if asked.across == "at once" else "ms a fetch"
    return {
        "name": asked.name,
        "title": asked.title,
        "across": asked.across,
        "unit": unit,
        "places": places,
        "lines": [{"name": client_name, "values": values} for client_name, values in found.items()],
        "missing": missing,
    }


def _at(
    asked: Sweep, url: str, place: int, things: int, rounds: int, missing: dict[str, str]
) -> Iterator[tuple[str, float]]:
    """Measure one point; yield the figure of each contestant."""
    at_once, away = (place, 0) if asked.across == "at once" else (AT_ONCE_FAR, place)
    with _from_afar(url, away) as there:
        every = asked.contestants(there, max(things, at_once), at_once)
        missing |= {each.name: each.reason for each in every if isinstance(each, Missing)}
        contestants = [each for each in every if isinstance(each, Contestant)]
        samples, failed = in_turn(contestants, rounds, run)
    missing |= {name: f"with {place} {asked.across}: {reason}" for name, reason in failed.items()}
    for each in contestants:
        if each.name in samples:
            seconds = statistics.median(sample.seconds for sample in samples[each.name])
            rate = each.count / seconds
            yield each.name, round(rate if asked.across == "at once" else 1_000 / rate, 3)


@contextmanager
def _from_afar(url: str, milliseconds: int) -> Iterator[str]:
    near = urlsplit(url)
    assert near.port is not None
    with far_away(near.port, milliseconds / 1_000) if milliseconds else nullcontext(near.port) as port:
        yield url.replace(f":{near.port}/", f":{port}/", 1)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sweeps", allow_abbrev=False)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tiny", action="store_true", help="a few items of each, as a test")
    asked = parser.parse_args(words)
    panels: list[Panel] = []
    for each in SWEEPS:
        panels.append(sweep(each, 1 if asked.tiny else asked.rounds, tiny=asked.tiny))
        print("\n".join(shown(panels[-1])), flush=True)
    told = {"versions": versions(), "rounds": asked.rounds, "panels": panels}
    asked.file.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def shown(panel: Panel) -> Iterator[str]:
    yield f"{panel['title']}; {panel['unit']}, by {panel['across']}"
    yield " " * 26 + "".join(f"{place:>9}" for place in panel["places"])
    for line in panel["lines"]:
        cells = ("" if value is None else number(value) for value in line["values"])
        yield f"  {line['name']:24}" + "".join(f"{cell:>9}" for cell in cells)
    for name, reason in panel["missing"].items():
        yield f"  {name}: {reason}"


if __name__ == "__main__":
    main(sys.argv[1:])
