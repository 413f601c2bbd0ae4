"""How far one more file of a list goes through the house: counted and not timed (`tests/test_calls.py`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from bench.calls import OURS
from tests.resolver.cli.command import resolve

#: At most so many calls of functions of ours for one more small file of http, on the thread of the loop: some
#: more than on an idle machine, for where a server is late more is waited for. 612 to 620 since a URL is
#: judged each time and connections are held by generators, 585 before.
MOST = 660
_FEW, _MANY = 40, 120


@contextmanager
def counted(made: list[int]) -> Iterator[None]:
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(OURS)

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        made.append(count)


def test_one_more_file_of_a_list_makes_no_more_calls(at: dict[str, str], folder: Path) -> None:
    made: list[int] = []
    for number, count in enumerate((_FEW, _FEW, _MANY)):  # what is written on first use is before the second
        (folder / "list").write_text("".join(f"{at['http']}/about.txt?{each}\n" for each in range(count)))
        with counted(made):
            done = resolve("get", "-q", "--progress", "none", "-j", "8", "-d", f"d{number}", "-i", "list")
        assert (done.status, len(list((folder / f"d{number}").iterdir()))) == (0, count)
    assert (made[2] - made[1]) / (_MANY - _FEW) <= MOST, made
