"""What the log of the hosts says: how many requests were under way, how many began, what was asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

#: Seconds that clocks may differ by.
_CLOCKS = 0.001


class Line(NamedTuple):
    """See `tests.bulk.front`."""

    what: str
    second: float
    number: int
    host: str
    name: str


def read(path: Path) -> list[Line]:
    """All lines that are whole."""
    whole, _, _ = path.read_text().rpartition("\n")
    split = (line.split("\t") for line in whole.splitlines())
    return [Line(what, float(second), int(number), host, name) for what, second, number, host, name in split]


def since(lines: list[Line], mark: str) -> list[Line]:
    """Those behind the mark."""
    at = next(at for at, line in enumerate(lines) if line.what == "mark" and line.name == mark)
    return lines[at:]


def asked(lines: Iterable[Line]) -> Counter[tuple[str, str]]:
    """How often each name was asked for, at each host."""
    return Counter((line.host, line.name) for line in lines if line.what == "began")


def at_once(lines: Iterable[Line]) -> dict[str, int]:
    """How many requests were under way at each host at most, by the order of the lines."""
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for line in lines:
        if line.what == "began":
            now[line.host] += 1
            most[line.host] = max(most[line.host], now[line.host])
        elif line.what == "ended":
            now[line.host] -= 1
    return dict(most)


def in_any_second(lines: Iterable[Line]) -> dict[str, int]:
    """How many requests began at each host at most within a second. A host that stood still has heard at
    once what was sent over a while, so this is to be looked at and not asserted."""
    return {
        host: max(bisect_right(begun, second + 1.0) - at for at, second in enumerate(begun))
        for host, begun in _begun(lines).items()
    }


def sooner(lines: list[Line], rate: float) -> list[tuple[str, int]]:
    """Requests that were begun sooner than so many a second allow, by host and place in the order. The lines
    begin with a mark that was set before anything was asked for: whatever is late then excuses nobody, for
    it makes requests later, and so this may be asserted."""
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
