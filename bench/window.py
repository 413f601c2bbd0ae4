"""Long listings in a browser: the time from the click to the first paint of a page of `resolve serve`.

`python -m bench.window [ITEMS [TIMES]]`, or `make bench-long`. Chromium opens two gopher menus, each TIMES
times (default 5). The first menu has 10,000 items on one page. The second menu has ITEMS items (default
100,000) on pages of the default length. The aim for the menu of 10,000 items is a first paint within 500 ms
of the click on an idle machine. The time includes fetching the menu.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from statistics import median
from typing import NamedTuple

from playwright.sync_api import Page

from bench.ledger import memory
from bench.row import RESOLVE, environment
from bench.served import served
from tests.window.browser import Viewer, program, running
from tests.window.steps import open_

ITEMS = 100_000
TIMES = 5
AIM = 500.0
#: The maximum number of items on one page.
ALL = 10_000

_TOLD = """() => {
  const [way] = performance.getEntriesByType("navigation");
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return [way.responseStart, paint ? paint.startTime : 0, way.loadEventEnd, way.encodedBodySize];
}"""


class Load(NamedTuple):
    """The measurements of loading a page.

    The measurements are the milliseconds from the click to the first byte, to the first paint and to the end.
    The other measurements are the size of the page in bytes, and the CPU time of the server in milliseconds.
    """

    begun: float
    painted: float
    ended: float
    octets: float
    processor: float


class Serving(NamedTuple):
    """A running server, and the URL (with the access token) to open in a browser."""

    process: int
    entry: str

    @property
    def origin(self) -> str:
        return self.entry.partition("/enter")[0]


@contextmanager
def serving(*words: str) -> Iterator[Serving]:
    command = [*RESOLVE, "serve", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as server:
        assert server.stdout is not None
        try:
            yield Serving(server.pid, server.stdout.readline().strip())
        finally:
            server.terminate()


def processor(process: int) -> float:
    """Return the CPU time that a process has used, in milliseconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def loaded(page: Page, server: Serving, where: str) -> Load:
    before = processor(server.process)
    page.goto(where)
    page.wait_for_function("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
    begun, painted, ended, octets = page.evaluate(_TOLD)
    return Load(begun, painted, ended, octets, processor(server.process) - before)


def measure(viewer: Viewer, port: int, items: int, times: int, *words: str) -> None:
    with serving(*words) as server:
        page = viewer.page()
        page.goto(server.entry)
        page.wait_for_url(f"{server.origin}/")
        open_(page, f"gopher://127.0.0.1:{port}/1{items}")
        url = page.url
        ways = {f"a menu of {items:,}": url}
        if not words:
            ways |= {
                "its last page": f"{url}&page=1000000",
                "the items with a 7 in their name": f"{url}&q=7",
                "the last page of these items": f"{url}&q=7&page=1000000",
            }
        for name, where in ways.items():
            loads = [loaded(page, server, where) for _ in range(times + 1)]
            tell(name, loads[1:], AIM if words else inf)  # the first load is a warm-up
        print(
            f"{'peak memory of the server':32} {memory(server.process, 'VmHWM') / 1024:8.1f} MiB", flush=True
        )


def tell(name: str, loads: list[Load], aim: float) -> None:
    begun, painted, ended, octets, used = (median(each) for each in zip(*loads, strict=True))
    mark = "  more than the aim" if painted > aim else ""
    print(
        f"{name:32} {begun:8.0f} {painted:8.0f} {ended:8.0f} {used:8.0f} ms {octets / 1000:8,.0f} kB{mark}",
        flush=True,
    )


def main(words: list[str]) -> None:
    items, times = (int(words[at]) if len(words) > at else each for at, each in enumerate((ITEMS, TIMES)))
    path = program()
    if path is None:
        print("chromium is not installed (on Debian: apt-get install chromium)")
        return
    print(f"{'medians':32} {'begun':>8} {'painted':>8} {'ended':>8} {'server':>8}")
    with served("menu") as port, running(path) as browser:
        viewer = Viewer(browser)
        measure(viewer, port, ALL, times, "--page-size", str(ALL))
        measure(viewer, port, items, times)
        viewer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
