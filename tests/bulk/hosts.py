"""The forty hosts for a test: their URLs, their content, and their log."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.bulk import log
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[2]
SCHEMES = ("ftp", "http", "gopher", "nntp")
#: Hosts of each scheme.
EACH = 10

_PATHS = {"ftp": "bulk/{}.bin", "http": "bulk/{}.bin", "gopher": "9/bulk/{}.bin", "nntp": "test.prose/{}"}

#: One of so many objects is missing. No gopher object is: gopher has no error for a missing object.
_MISSING = 50


def content(scheme: str, number: int) -> bytes:
    """Return from one to some thousand bytes."""
    end = b"\r\n" if scheme == "nntp" else b"\n"
    return b"object %d by %s%b" % (number, scheme.encode(), end) * (1 + number * 37 % 101)


def is_missing(scheme: str, number: int) -> bool:
    return scheme != "gopher" and number % _MISSING == 2


class Hosts:
    """The hosts: `ports` are those of all hosts; `whole` maps a URL to its content, None if missing."""

    def __init__(self, process: subprocess.Popen[str], path: Path, objects: int) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input: IO[str] = process.stdin
        self._output: IO[str] = process.stdout
        self._path = path
        self._marks: set[str] = set()
        hosts = json.loads(self._said())
        self.ports = frozenset(port for _, _, port in hosts)
        self.whole: dict[str, bytes | None] = {}
        self._names: dict[str, tuple[str, str]] = {}
        for number in range(1, objects + 1):
            for scheme, host, port in hosts:
                path_of = _PATHS[scheme].format(number)
                url = f"{scheme}://{host}:{port}/{path_of}"
                self.whole[url] = None if is_missing(scheme, number) else content(scheme, number)
                self._names[url] = (host, path_of.rpartition("/")[2])

    @property
    def urls(self) -> list[str]:
        return list(self.whole)

    def named(self, url: str) -> tuple[str, str]:
        """Return the host and name of the URL in the log."""
        return self._names[url]

    def mark(self, name: str) -> None:
        """Write a mark into the log; later events follow it. The name must be unique."""
        assert " " not in name, name
        assert name not in self._marks, name
        self._marks.add(name)
        self._tell(f"mark {name}")
        while self._said() != "marked\n":
            pass  # a late reply to `trip`, from a request of another run

    def wait(self, requests: int, process: int) -> bool:
        """Wait for so many more requests, or the end of the process; return whether they began."""
        self._tell(f"trip {requests}")
        return self._output.fileno() in ended(process, self._output) and self._said() == "tripped\n"

    def lines(self, mark: str | None = None) -> list[log.Line]:
        """Return the log, or its part after the mark."""
        found = log.read(self._path)
        return found if mark is None else log.since(found, mark)

    def asked(self, mark: str | None = None) -> dict[str, int]:
        """Return the number of requests for each URL."""
        counts = log.asked(self.lines(mark))
        return {url: counts[name] for url, name in self._names.items() if counts[name]}

    def _tell(self, line: str) -> None:
        self._input.write(f"{line}\n")
        self._input.flush()

    def _said(self) -> str:
        line = self._output.readline()
        assert line, "the hosts are gone"
        return line


def ended(process: int, *others: IO[str]) -> list[int]:
    """Wait for the end of the process or readable files; return the ready descriptors."""
    descriptor = os.pidfd_open(process)
    try:
        ready, _, _ = select.select([descriptor, *(each.fileno() for each in others)], [], [], HANG)
    finally:
        os.close(descriptor)
    assert ready, "it hangs"
    return ready


@contextmanager
def open_hosts(
    folder: Path,
    *,
    objects: int,
    pause: float = 0.002,
    real: Mapping[str, Sequence[tuple[str, int]]] | None = None,
) -> Iterator[Hosts]:
    """Run all hosts, with so many objects each; see `tests.bulk.peers`. The log is in the folder."""
    words = [str(folder / "hosts.log"), str(pause), str(objects), json.dumps(real or {})]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bulk.peers", *words],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    with process:
        yield Hosts(process, folder / "hosts.log", objects)
