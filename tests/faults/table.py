"""The table of the page on reliability: the number of cells for each fault and scheme.

`python -m tests.faults.table` prints it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.faults.file_rows import FILE_ROWS
from tests.faults.rows import ROWS, Row

SCHEMES = ("ftp", "ftps", "http", "https", "gopher", "gophers", "nntp", "nntps", "wais", "file")

_CHANGED = "the object changed between two tries, or while read; offsets refused, lied about"
_BY_KIND = {
    "reset": "reset: connect, greeting, login, at 0, 10, 50, 99 %, after the body",
    "close": "orderly close at the same moments",
    "silence": "silence at the same moments",
    "cut": "TLS cut without close_notify at the same moments",
    "never": "nobody listens; a data connection that never comes",
    "later": "not now (421, 503, 400), in the middle too",
    "stray": "garbage, endless lines",
    "short": "shorter, longer than announced; a lying 226; a failure behind the last octet",
}
_LIKE = {"endless": "stray", "long": "short", "final": "short"}


def fault_of(row: Row) -> str:
    """Return the line of the table in which a cell is counted."""
    manner, fault = row.manner, row.manner.fault
    if manner.changes or manner.offsets != "yes":
        return _CHANGED
    assert fault is not None
    kind = "never" if fault.at == "data" else fault.kind
    return _BY_KIND[_LIKE.get(kind, kind)]


def table() -> str:
    """Return the table in Markdown."""
    return "\n".join(_lines()) + "\n"


def cells() -> int:
    """Return the total number of cells."""
    return len(ROWS) + len(FILE_ROWS)


def _lines() -> Iterator[str]:
    counts = Counter((fault_of(row), row.scheme) for row in ROWS)
    counts[_CHANGED, "file"] = len(FILE_ROWS)
    yield f"| fault | {' | '.join(SCHEMES)} |"
    yield "|---" * (len(SCHEMES) + 1) + "|"
    faults = (*_BY_KIND.values(), _CHANGED)
    for fault in faults:
        yield _line(fault, [counts[fault, scheme] for scheme in SCHEMES])
    yield _line("all", [sum(counts[fault, scheme] for fault in faults) for scheme in SCHEMES])


def _line(name: str, numbers: list[int]) -> str:
    return f"| {name} | {' | '.join(str(number or '') for number in numbers)} |"


if __name__ == "__main__":
    print(f"{cells()} cells\n\n{table()}", end="")
