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

from bench.clients import read_memory
from bench.row import RESOLVE, environment
from bench.served import run_server
from tests.window.browser import Viewer, program, running
from tests.window.steps import open_

ITEMS = 100_000
TIMES = 5
AIM = 500.0
#: The maximum number of items on one page.
ALL = 10_000

_TIMINGS = """() => {
  const [way] = performance.getEntriesByType("navigation");
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return [way.responseStart, paint ? paint.startTime : 0, way.loadEventEnd, way.encodedBodySize];
}"""


class Load(NamedTuple):
    """The measurements of loading a page.

    The measurements are the milliseconds from the click to the first byte, to the first paint and to the end.
    The other measurements are the size of the page in bytes, and the CPU time of the server in milliseconds.
    """

    response: float
    paint: float
    end: float
    size: float
    processor: float


class WebServer(NamedTuple):
    """A running server, and the URL (with the access token) to open in a browser."""

    process: int
    entry: str

    @property
    def origin(self) -> str:
        return self.entry.partition("/enter")[0]


@contextmanager
def run_web_server(*arguments: str) -> Iterator[WebServer]:
    command = [*RESOLVE, "serve", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment()) as server:
        assert server.stdout is not None
        try:
            yield WebServer(server.pid, server.stdout.readline().strip())
        finally:
            server.terminate()


def processor(process: int) -> float:
    """Return the CPU time that a process has used, in milliseconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")


def load_page(page: Page, server: WebServer, url: str) -> Load:
    start = processor(server.process)
    page.goto(url)
    page.wait_for_function("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
    response, paint, end, size = page.evaluate(_TIMINGS)
    return Load(response, paint, end, size, processor(server.process) - start)


def measure(viewer: Viewer, port: int, items: int, times: int, *options: str) -> None:
    with run_web_server(*options) as server:
        page = viewer.page()
        page.goto(server.entry)
        page.wait_for_url(f"{server.origin}/")
        open_(page, f"gopher://127.0.0.1:{port}/1{items}")
        url = page.url
        url_by_name = {f"a menu of {items:,}": url}
        if not options:
            url_by_name |= {
                "its last page": f"{url}&page=1000000",
                "the items with a 7 in their name": f"{url}&q=7",
                "the last page of these items": f"{url}&q=7&page=1000000",
            }
        for name, page_url in url_by_name.items():
            loads = [load_page(page, server, page_url) for _ in range(times + 1)]
            report(name, loads[1:], AIM if options else inf)  # the first load is a warm-up
        print(f"{'peak memory of the server':32} {read_memory(server.process) / 1024:8.1f} MiB", flush=True)


def report(name: str, loads: list[Load], aim: float) -> None:
    response, paint, end, size, cpu = (median(each) for each in zip(*loads, strict=True))
    mark = "  more than the aim" if paint > aim else ""
    print(
        f"{name:32} {response:8.0f} {paint:8.0f} {end:8.0f} {cpu:8.0f} ms {size / 1000:8,.0f} kB{mark}",
        flush=True,
    )


def main(argv: list[str]) -> None:
    items, times = (int(argv[n]) if len(argv) > n else default for n, default in enumerate((ITEMS, TIMES)))
    path = program()
    if path is None:
        print("chromium is not installed (on Debian: apt-get install chromium)")
        return
    print(f"{'medians':32} {'begun':>8} {'painted':>8} {'ended':>8} {'server':>8}")
    with run_server("menu") as port, running(path) as browser:
        viewer = Viewer(browser)
        measure(viewer, port, ALL, times, "--page-size", str(ALL))
        measure(viewer, port, items, times)
        viewer.close()


if __name__ == "__main__":
    main(sys.argv[1:])
