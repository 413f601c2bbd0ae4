"""Function calls for one more file of a list, counted instead of timed (`tests/test_calls.py`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from bench.calls import PACKAGES
from tests.resolver.cli.command import resolve

#: Maximum number of calls of this project's functions for one more small HTTP file, on the thread of the
#: loop. The margin is for late servers: the client waits more often than on an idle machine. Measured: 448 to
#: 475, and 521 to 544 before steps that no display and no check needs were removed.
MAX_CALLS = 510
_FEW, _MANY = 40, 120


@contextmanager
def count_calls(counts: list[int]) -> Iterator[None]:
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(PACKAGES)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        counts.append(count)


def test_get_calls_per_file_are_bounded(at: dict[str, str], folder: Path) -> None:
    counts: list[int] = []
    for number, count in enumerate((_FEW, _FEW, _MANY)):  # the first run does the work of first use
        (folder / "list").write_text("".join(f"{at['http']}/about.txt?{each}\n" for each in range(count)))
        with count_calls(counts):
            done = resolve("get", "-q", "--progress", "none", "-j", "8", "-d", f"d{number}", "-i", "list")
        assert (done.status, len(list((folder / f"d{number}").iterdir()))) == (0, count)
    assert (counts[2] - counts[1]) / (_MANY - _FEW) <= MAX_CALLS, counts
