"""The table of the page on reliability: the exit statuses after the failure of each system call.

`python -m tests.faults.calls FOLDER MOST SEED | python -m tests.faults.calls_table` prints it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

#: The columns: the errors.
ERRORS = (
    *("ENOSPC", "EDQUOT", "EIO", "EMFILE", "ENOMEM", "EACCES"),
    *("EINTR", "EAGAIN", "ECONNRESET", "ETIMEDOUT"),
)

#: The mark of an error that a call does not have.
NEVER = "–"

#: The exit statuses by call, kind of object and error.
Statuses: TypeAlias = Mapping[tuple[str, str, str], set[int]]


def statuses_of(results: Iterable[Mapping[str, Any]]) -> Statuses:
    """Return the exit statuses of the runs whose failure hit a call."""
    found: dict[tuple[str, str, str], set[int]] = {}
    for result in results:
        if result["status"] is not None:
            place = result["name"], result["on"], result["error"]
            found.setdefault(place, set()).add(result["status"])
    return found


def table(statuses: Statuses) -> str:
    """Return the table in Markdown."""
    return "\n".join(_lines(statuses)) + "\n"


def _lines(statuses: Statuses) -> Iterator[str]:
    yield f"| call | object | {' | '.join(ERRORS)} |"
    yield "|---" * (len(ERRORS) + 2) + "|"
    for call, on in sorted({(call, on) for call, on, _ in statuses}):
        cells = (_cell(statuses.get((call, on, error), set())) for error in ERRORS)
        yield f"| `{call}` | {on} | {' | '.join(cells)} |"


def _cell(statuses: set[int]) -> str:
    return ", ".join(map(str, sorted(statuses))) or NEVER


def read_table(page: str) -> Statuses:
    """Return the exit statuses in the table of a page."""
    found = {}
    section = page.partition("| call | object |")[2].partition("\n\n")[0]
    for call, on, cells in re.findall(r"^\| `(\w+)` \| ([a-z ]+) \| (.*) \|$", section, re.MULTILINE):
        for error, cell in zip(ERRORS, cells.split(" | "), strict=True):
            if cell != NEVER:
                found[call, on, error] = set(map(int, cell.split(", ")))
    return found


if __name__ == "__main__":
    sys.stdout.write(table(statuses_of(map(json.loads, sys.stdin))))
