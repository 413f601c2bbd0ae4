"""The tables of `docs/explanation/benchmarks.md`, made from the figures in `docs/explanation/benchmarks`.

`python -m bench.page` rewrites each table between the comments `<!-- made: NAME -->` and `<!-- end -->`. The
text outside these comments is written by hand. It does not contain figures that depend on the machine.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from bench.figures import Measured, Verdict, number, sentence
from bench.sweeps import Line, Panel

PAGE = Path(__file__).parents[1] / "docs/explanation/benchmarks.md"
FOLDER = PAGE.with_suffix("")
_MADE = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

#: The minimum number of calls for a separate row; packages with fewer calls are combined in one row.
_FEW = 20
#: The client that is compared with all others.
_OURS = "resolver"

#: The contents of `rows.json`, `before.json`, `machines.json` and `sweeps.json`, by name.
Data: TypeAlias = Mapping[str, Any]


def machine(data: Data) -> Iterator[str]:
    told = data["rows"]["versions"]
    known = {name: version for name, version in told.items() if version != "not there"}
    yield f"{', '.join(f'{name} {version}' for name, version in known.items())}."


def rows(data: Data) -> Iterator[str]:
    yield "| work | runs | client | median | lowest to highest | processor, each |"
    yield "|---|---|---|---|---|---|"
    measured: Sequence[Measured] = data["rows"]["rows"]
    for row in measured:
        about = f"{row['about']} | {row['rounds']}"
        for each in row["contestants"]:
            who = f"**{each['name']}**" if each["name"].lower().startswith("resolve") else each["name"]
            spread = f"{number(each['low'])} to {number(each['high'])}"
            unit = row["unit"] if row["unit"].startswith("/") else f" {row['unit']}"
            median = f"{number(each['median'])}{unit}"
            yield f"| {about} | {who} | {median} | {spread} | {each['processor']:.2f} ms |"
            about = " |"
        for name, reason in row["missing"].items():
            yield f"| {about} | {name} | not measured: {reason} | | |"
            about = " |"


def aims(data: Data) -> Iterator[str]:
    measured: Sequence[Measured] = data["rows"]["rows"]
    for row in measured:
        yield from (f"- {row['name']}: {sentence(verdict)}" for verdict in row["aims"])


def machines(data: Data) -> Iterator[str]:
    """Yield the table of ratios: of the tables above, and of the measurements in `machines.json`."""
    measured: Sequence[Measured] = data["rows"]["rows"]
    above = {ratio_of(row, verdict): verdict["value"] for row in measured for verdict in row["aims"]}
    others: Mapping[str, Mapping[str, float]] = data["machines"]
    yield f"| ratio | above | {' | '.join(others)} |"
    yield f"|---|---|{'---|' * len(others)}"
    for name, value in above.items():
        found = [ratios.get(name) for ratios in others.values()]
        if any(found):
            cells = " | ".join("–" if each is None else number(each) for each in found)
            yield f"| {name} | {number(value)} | {cells} |"


def ratio_of(row: Measured, verdict: Verdict) -> str:
    return f"{row['name']}: {verdict['of']}{verdict['to'] and ' / '}{verdict['to']}"


def calls(data: Data) -> Iterator[str]:
    """Yield the table of calls by package before and after, with a row for each of the other clients."""
    before, after = data["before"]["calls"], data["rows"]["calls"]
    columns: list[tuple[str, Counter[str]]] = []
    for name, found in after.items():
        if isinstance(found, str):
            continue
        kind = next(iter(found))
        if isinstance(before.get(name), dict):
            columns.append((f"{name}, before", Counter(before[name][kind])))
        columns.append((name, Counter(found[kind])))
    yield f"| package | {' | '.join(head for head, _ in columns)} |"
    yield f"|---{'|---' * len(columns)}|"
    cells = " | ".join(f"**{counts.total():,.0f}**" for _, counts in columns)
    yield f"| all | {cells} |"
    most = Counter({room: max(counts[room] for _, counts in columns) for _, each in columns for room in each})
    for room, highest in most.most_common():
        if highest >= _FEW:
            yield f"| {_shown(room)} | {' | '.join(f'{counts[room]:,.0f}' for _, counts in columns)} |"
    rest = [sum(counts[room] for room in counts if most[room] < _FEW) for _, counts in columns]
    yield f"| others | {' | '.join(f'{count:,.0f}' for count in rest)} |"


def _shown(room: str) -> str:
    return f"`{room}`" if "/" in room else room


def peers(data: Data) -> Iterator[str]:
    yield "| fetch | client | calls |"
    yield "|---|---|---|"
    for name, found in data["rows"]["calls"].items():
        if isinstance(found, str):
            yield f"| {name} | not counted: {found} | |"
            continue
        for kind, rooms in found.items():
            yield f"| {name} | {_KINDS.get(kind, kind)} | {sum(rooms.values()):,.0f} |"


_KINDS = {
    "ours": "**resolver**",
    "saving-group": "**Resolver.save**",
    "saving-never": '**Resolver.save**, `sync="never"`',
    "get": "**resolve get** of a list",
    "transport": "httpx with `HttpxTransport`",
    "h11": "h11 on trio, bare",
    "gopher": "trio, bare",
}


def winners(data: Data) -> Iterator[str]:
    yield "| work | client | faster than `resolve` | slower |"
    yield "|---|---|---|---|"
    panels: Sequence[Panel] = data["sweeps"]["panels"]
    for panel in panels:
        ours = [line for line in panel["lines"] if line["name"].startswith(_OURS)]
        for other in panel["lines"]:
            if other in ours:
                continue
            for mine in ours:
                name = other["name"] if len(ours) == 1 else f"{other['name']}, compared with {mine['name']}"
                yield f"| {panel['title']} | {name} | {' | '.join(_compared(panel, mine, other))} |"


def _compared(panel: Panel, ours: Line, other: Line) -> Iterator[str]:
    """Yield the ratio of the two clients at each point of a panel at which their speed differs."""
    faster, slower = list[tuple[str, float]](), list[tuple[str, float]]()
    for place, mine, theirs in zip(panel["places"], ours["values"], other["values"], strict=True):
        if mine is None or theirs is None:
            continue
        times = theirs / mine if panel["across"] == "at once" else mine / theirs
        where = f"{place}" if panel["across"] == "at once" else f"{place} ms"
        if times >= 1:
            faster.append((where, times))
        else:
            slower.append((where, 1 / times))
    yield _places(faster)
    yield _places(slower)


def _places(found: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{where} ({times:.1f} ×)" for where, times in found) or "nowhere"


TABLES: Mapping[str, Callable[[Data], Iterator[str]]] = {
    "machine": machine,
    "rows": rows,
    "aims": aims,
    "machines": machines,
    "calls": calls,
    "peers": peers,
    "winners": winners,
}


def made(page: str, data: Data) -> str:
    """Return the page with updated tables."""

    def table(found: re.Match[str]) -> str:
        return found[1] + "\n" + "".join(f"{line}\n" for line in TABLES[found[2]](data)) + "\n" + found[3]

    return _MADE.sub(table, page)


def shipped() -> Data:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text(encoding="utf-8"), shipped()), encoding="utf-8")
