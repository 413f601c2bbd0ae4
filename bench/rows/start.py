"""The startup cost: the CPU time of a command minus the CPU time of an empty Python process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.programs import find_program
from bench.row import RESOLVE, Aim, Bound, Contestant, Missing, Row
from bench.served import run_server

_URL = "gopher://h.example/0a"


@contextmanager
def _open_row(folder: Path, count: int) -> Iterator[Sequence[Contestant | Missing]]:
    curl = find_program("curl")
    with run_server("gopher", 2_048, 1) as port:
        url = f"gopher://127.0.0.1:{port}/9small"
        yield [
            run_python("bare Python", "pass"),
            run_python("import trio", "import trio"),
            run_python("import trio, httpx", "import trio, httpx"),
            run_python("import resolver", "import resolver"),
            Contestant("resolve cat", [*RESOLVE, "cat", "-q", "--allow-port", str(port), url], count),
            Contestant("resolve explain", [*RESOLVE, "explain", _URL], count),
            Contestant("resolve --version", [*RESOLVE, "--version"], count),
            Missing("curl", "curl is not installed")
            if curl is None
            else Contestant(
                "curl", [curl.path, "-qsS", "-o", os.devnull, url], count, environment=curl.environment
            ),
        ]


def run_python(name: str, code: str) -> Contestant:
    return Contestant(name, [sys.executable, "-c", code], 1)


ROWS = (
    Row(
        "start",
        "a start, over that of a Python that does nothing",
        "over",
        1,
        1,
        _open_row,
        aims=[Aim("resolve cat", "import trio", maximum=1.25), Bound("resolve explain", 45)],
        runs_per_round=5,
    ),
)
