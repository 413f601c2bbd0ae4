"""The forty hosts as a test has them: their URLs, what is there, and the log that they keep."""

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

#: Of so many objects one is not there. Of gopher all are: it has no word for what is missing.
_MISSING = 50


def content(scheme: str, number: int) -> bytes:
    """Of one to some thousand octets."""
    end = b"\r\n" if scheme == "nntp" else b"\n"
    return b"object %d by %s%b" % (number, scheme.encode(), end) * (1 + number * 37 % 101)


def is_missing(scheme: str, number: int) -> bool:
    return scheme != "gopher" and number % _MISSING == 2


class House:
    """`ports` are those of all hosts; `whole` of a URL is what there is, None where it is not there."""

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
        """What the log calls it."""
        return self._names[url]

    def mark(self, name: str) -> None:
        """What is in the log by now came to pass before what comes behind this. No other one has the name."""
        assert " " not in name, name
        assert name not in self._marks, name
        self._marks.add(name)
        self._tell(f"mark {name}")
        while self._said() != "marked\n":
            pass  # a request of another run has begun meanwhile, for which somebody had waited

    def wait(self, requests: int, process: int) -> bool:
        """Until so many more have begun, or the process has ended; have they?"""
        self._tell(f"trip {requests}")
        return self._output.fileno() in ended(process, self._output) and self._said() == "tripped\n"

    def lines(self, mark: str | None = None) -> list[log.Line]:
        """The log, or what of it is behind the mark."""
        found = log.read(self._path)
        return found if mark is None else log.since(found, mark)

    def asked(self, mark: str | None = None) -> dict[str, int]:
        """How often each URL was asked for."""
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
    """Until it has, or others have something to say: their descriptors."""
    descriptor = os.pidfd_open(process)
    try:
        ready, _, _ = select.select([descriptor, *(each.fileno() for each in others)], [], [], HANG)
    finally:
        os.close(descriptor)
    assert ready, "it hangs"
    return ready


@contextmanager
def open_house(
    folder: Path,
    *,
    objects: int,
    pause: float = 0.002,
    real: Mapping[str, Sequence[tuple[str, int]]] | None = None,
) -> Iterator[House]:
    """All hosts, with so many objects each; see `tests.bulk.peers`. The folder gets the log."""
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
        yield House(process, folder / "hosts.log", objects)
