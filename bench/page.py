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

from bench.figures import RowResult, Verdict, format_number, format_verdict
from bench.sweeps import Line, Panel

PAGE = Path(__file__).parents[1] / "docs/explanation/benchmarks.md"
FOLDER = PAGE.with_suffix("")
_TABLE = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

#: The minimum number of calls for a separate row; packages with fewer calls are combined in one row.
_MIN_CALLS = 20
#: The client that is compared with all others.
_OURS = "resolver"

#: The contents of `rows.json`, `before.json`, `machines.json` and `sweeps.json`, by name.
Data: TypeAlias = Mapping[str, Any]


def list_versions(data: Data) -> Iterator[str]:
    versions = data["rows"]["versions"]
    installed = {name: version for name, version in versions.items() if version != "not there"}
    yield f"{', '.join(f'{name} {version}' for name, version in installed.items())}."


def list_rows(data: Data) -> Iterator[str]:
    yield "| work | runs | client | median | lowest to highest | processor, each |"
    yield "|---|---|---|---|---|---|"
    results: Sequence[RowResult] = data["rows"]["rows"]
    for row in results:
        about = f"{row['about']} | {row['rounds']}"
        for each in row["contestants"]:
            client = f"**{each['name']}**" if each["name"].lower().startswith("resolve") else each["name"]
            spread = f"{format_number(each['low'])} to {format_number(each['high'])}"
            unit = row["unit"] if row["unit"].startswith("/") else f" {row['unit']}"
            median = f"{format_number(each['median'])}{unit}"
            yield f"| {about} | {client} | {median} | {spread} | {each['processor']:.2f} ms |"
            about = " |"
        for name, reason in row["missing"].items():
            yield f"| {about} | {name} | not measured: {reason} | | |"
            about = " |"


def list_aims(data: Data) -> Iterator[str]:
    results: Sequence[RowResult] = data["rows"]["rows"]
    for row in results:
        yield from (f"- {row['name']}: {format_verdict(verdict)}" for verdict in row["aims"])


def list_ratios(data: Data) -> Iterator[str]:
    """Yield the table of ratios: of the tables above, and of the measurements in `machines.json`."""
    results: Sequence[RowResult] = data["rows"]["rows"]
    values = {format_ratio_name(row, verdict): verdict["value"] for row in results for verdict in row["aims"]}
    machines: Mapping[str, Mapping[str, float]] = data["machines"]
    yield f"| ratio | above | {' | '.join(machines)} |"
    yield f"|---|---|{'---|' * len(machines)}"
    for name, value in values.items():
        ratios = [machine.get(name) for machine in machines.values()]
        if any(ratios):
            cells = " | ".join("–" if each is None else format_number(each) for each in ratios)
            yield f"| {name} | {format_number(value)} | {cells} |"


def format_ratio_name(row: RowResult, verdict: Verdict) -> str:
    return f"{row['name']}: {verdict['of']}{verdict['to'] and ' / '}{verdict['to']}"


def list_calls(data: Data) -> Iterator[str]:
    """Yield the table of calls by package before and after, with a row for each of the other clients."""
    before, after = data["before"]["calls"], data["rows"]["calls"]
    columns: list[tuple[str, Counter[str]]] = []
    for name, calls_by_client in after.items():
        if isinstance(calls_by_client, str):
            continue
        kind = next(iter(calls_by_client))
        if isinstance(before.get(name), dict):
            columns.append((f"{name}, before", Counter(before[name][kind])))
        columns.append((name, Counter(calls_by_client[kind])))
    yield f"| package | {' | '.join(head for head, _ in columns)} |"
    yield f"|---{'|---' * len(columns)}|"
    cells = " | ".join(f"**{counts.total():,.0f}**" for _, counts in columns)
    yield f"| all | {cells} |"
    peak = Counter({name: max(counts[name] for _, counts in columns) for _, each in columns for name in each})
    for name, calls in peak.most_common():
        if calls >= _MIN_CALLS:
            yield f"| {_format_name(name)} | {' | '.join(f'{counts[name]:,.0f}' for _, counts in columns)} |"
    others = [sum(counts[name] for name in counts if peak[name] < _MIN_CALLS) for _, counts in columns]
    yield f"| others | {' | '.join(f'{count:,.0f}' for count in others)} |"


def _format_name(package: str) -> str:
    return f"`{package}`" if "/" in package else package


def list_clients(data: Data) -> Iterator[str]:
    yield "| fetch | client | calls |"
    yield "|---|---|---|"
    for name, calls_by_client in data["rows"]["calls"].items():
        if isinstance(calls_by_client, str):
            yield f"| {name} | not counted: {calls_by_client} | |"
            continue
        for kind, calls in calls_by_client.items():
            yield f"| {name} | {_KINDS.get(kind, kind)} | {sum(calls.values()):,.0f} |"


_KINDS = {
    "ours": "**resolver**",
    "saving-group": "**Resolver.save**",
    "saving-never": '**Resolver.save**, `sync="never"`',
    "get": "**resolve get** of a list",
    "transport": "httpx with `HttpxTransport`",
    "h11": "h11 on trio, bare",
    "gopher": "trio, bare",
}


def list_comparisons(data: Data) -> Iterator[str]:
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
                yield f"| {panel['title']} | {name} | {' | '.join(_compare(panel, mine, other))} |"


def _compare(panel: Panel, ours: Line, other: Line) -> Iterator[str]:
    """Yield the ratio of the two clients at each point of a panel at which their speed differs."""
    faster, slower = list[tuple[str, float]](), list[tuple[str, float]]()
    for point, our_value, value in zip(panel["places"], ours["values"], other["values"], strict=True):
        if our_value is None or value is None:
            continue
        ratio = value / our_value if panel["across"] == "at once" else our_value / value
        label = f"{point}" if panel["across"] == "at once" else f"{point} ms"
        if ratio >= 1:
            faster.append((label, ratio))
        else:
            slower.append((label, 1 / ratio))
    yield _format_ratios(faster)
    yield _format_ratios(slower)


def _format_ratios(ratios: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{label} ({ratio:.1f} ×)" for label, ratio in ratios) or "nowhere"


TABLES: Mapping[str, Callable[[Data], Iterator[str]]] = {
    "machine": list_versions,
    "rows": list_rows,
    "aims": list_aims,
    "machines": list_ratios,
    "calls": list_calls,
    "peers": list_clients,
    "winners": list_comparisons,
}


def update_tables(page: str, data: Data) -> str:
    """Return the page with updated tables."""

    def table(match: re.Match[str]) -> str:
        return match[1] + "\n" + "".join(f"{line}\n" for line in TABLES[match[2]](data)) + "\n" + match[3]

    return _TABLE.sub(table, page)


def read_figures() -> Data:
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}


if __name__ == "__main__":
    PAGE.write_text(update_tables(PAGE.read_text(encoding="utf-8"), read_figures()), encoding="utf-8")
