"""Statistics of the hosts' log: concurrent requests, requests per second, requests by name."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

#: Maximum difference of clocks in seconds.
_CLOCKS = 0.001


class Line(NamedTuple):
    """A line of the log; see `tests.bulk.front`."""

    what: str
    second: float
    number: int
    host: str
    name: str


def read(path: Path) -> list[Line]:
    """Return all complete lines."""
    whole, _, _ = path.read_text().rpartition("\n")
    split = (line.split("\t") for line in whole.splitlines())
    return [Line(what, float(second), int(number), host, name) for what, second, number, host, name in split]


def since(lines: list[Line], mark: str) -> list[Line]:
    """Return the lines from the mark on."""
    at = next(at for at, line in enumerate(lines) if line.what == "mark" and line.name == mark)
    return lines[at:]


def asked(lines: Iterable[Line]) -> Counter[tuple[str, str]]:
    """Return the number of requests for each name, by host."""
    return Counter((line.host, line.name) for line in lines if line.what == "began")


def max_concurrent(lines: Iterable[Line]) -> dict[str, int]:
    """Return the maximum of concurrent requests at each host, by the order of the lines."""
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for line in lines:
        if line.what == "began":
            now[line.host] += 1
            most[line.host] = max(most[line.host], now[line.host])
        elif line.what == "ended":
            now[line.host] -= 1
    return dict(most)


def max_per_second(lines: Iterable[Line]) -> dict[str, int]:
    """Return the maximum of requests that began at each host within a second.

    A host that paused receives the requests of a longer time together, so this is informative and must not be
    asserted.
    """
    return {
        host: max(bisect_right(begun, second + 1.0) - at for at, second in enumerate(begun))
        for host, begun in _begun(lines).items()
    }


def requests_above_rate(lines: list[Line], rate: float) -> list[tuple[str, int]]:
    """Return requests that began before the rate allows, by host and position.

    The lines begin with a mark that precedes all requests. Delays only make requests later, never earlier, so
    this may be asserted.
    """
    start = lines[0].second
    assert lines[0].what == "mark"
    return [
        (host, at)
        for host, begun in _begun(lines).items()
        for at, second in enumerate(begun)
        if second - start < at / rate - _CLOCKS
    ]


def _begun(lines: Iterable[Line]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        if line.what == "began":
            found[line.host].append(line.second)
    return found
