"""The medians and ratios of measurements, as values, as JSON and as text."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from bench.row import UNITS, Aim, Bound, Contestant, Measure, Row
from bench.running import Sample


class Figure(TypedDict):
    """The result of a contestant, in the unit of the row; `processor` is the CPU time per item in ms."""

    name: str
    count: int
    median: float
    low: float
    high: float
    processor: float
    samples: list[list[float]]


class Verdict(TypedDict):
    """An aim and the measured value.

    The value is the ratio of two contestants, or the value of one contestant if `to` is empty.
    """

    of: str
    to: str
    least: float | None
    most: float | None
    value: float
    reached: bool


class RowResult(TypedDict):
    name: str
    about: str
    unit: str
    rounds: int
    contestants: list[Figure]
    missing: dict[str, str]
    aims: list[Verdict]


def compute_value(measure: Measure, count: int, sample: Sample, base: float = 0.0) -> float:
    """Return the compared value of a run; `base` is the CPU time that every contestant needs."""
    match measure:
        case "rate":
            return count / sample.seconds
        case "seconds":
            return sample.seconds
        case "processor":
            return sample.processor / count * 1024
        case "over":
            return (sample.processor - base) * 1_000
        case "peak":
            return sample.peak / 1024


def evaluate_row(
    row: Row,
    count: int,
    contestants: Sequence[Contestant],
    samples: Mapping[str, Sequence[Sample]],
    missing: Mapping[str, str],
) -> RowResult:
    """Return the results of a row.

    For the measure `over`, the base is the median of the first contestant.
    """
    counts = {contestant.name: contestant.count for contestant in contestants}
    first = next(iter(samples.values()), ())
    base = statistics.median(sample.processor for sample in first) if first else 0.0
    values = {
        name: [compute_value(row.measure, counts[name], sample, base) for sample in runs]
        for name, runs in samples.items()
    }
    return {
        "name": row.name,
        "about": row.about.format(count),
        "unit": UNITS[row.measure],
        "rounds": max(map(len, samples.values()), default=0),
        "contestants": [make_figure(each, counts[each], values[each], samples[each]) for each in samples],
        "missing": dict(missing),
        "aims": list(judge_aims(row.aims, values)),
    }


def make_figure(name: str, count: int, values: Sequence[float], runs: Sequence[Sample]) -> Figure:
    return {
        "name": name,
        "count": count,
        "median": statistics.median(values),
        "low": min(values),
        "high": max(values),
        "processor": statistics.median(sample.processor for sample in runs) / count * 1_000,
        "samples": [list(sample) for sample in runs],
    }


def compute_ratio(of: Sequence[float], to: Sequence[float]) -> float:
    """Return the median of the ratios; each ratio compares two runs of the same round.

    Runs of the same round have a similar background load.
    """
    return statistics.median(a / b for a, b in zip(of, to, strict=True))


def judge_aims(aims: Sequence[Aim | Bound], values: Mapping[str, Sequence[float]]) -> Iterator[Verdict]:
    """Yield the verdict on each aim whose contestants were measured."""
    for aim in aims:
        to = aim.to if isinstance(aim, Aim) else ""
        low = aim.minimum if isinstance(aim, Aim) else None
        if aim.of not in values or (to and to not in values):
            continue
        result = compute_ratio(values[aim.of], values[to]) if to else statistics.median(values[aim.of])
        reached = (low is None or result >= low) and (aim.maximum is None or result <= aim.maximum)
        yield {"of": aim.of, "to": to, "least": low, "most": aim.maximum, "value": result, "reached": reached}


def format_row(row: RowResult) -> Iterator[str]:
    """Yield the results of a row as lines of text."""
    yield f"{row['name']}: {row['about']} (runs: {row['rounds']})"
    width = max((len(figure["name"]) for figure in row["contestants"]), default=0)
    for each in row["contestants"]:
        spread = f"{format_number(each['low'])} to {format_number(each['high'])}"
        yield (
            f"  {each['name']:{width}}  {format_number(each['median']):>8} {row['unit']}  ({spread});"
            f" {each['processor']:.2f} ms of the processor each"
        )
    for name, reason in row["missing"].items():
        yield f"  {name}: not measured: {reason}"
    for verdict in row["aims"]:
        yield f"  {format_verdict(verdict)}"


def format_verdict(verdict: Verdict) -> str:
    if verdict["least"] is not None:
        limit = f"at least {verdict['least']:g}"
    else:
        limit = f"at most {verdict['most']:g}"
    subject = f"{verdict['of']} / {verdict['to']}" if verdict["to"] else verdict["of"]
    outcome = "reached" if verdict["reached"] else "not reached"
    return f"{subject}: {verdict['value']:.2f}; the target ({limit}) is {outcome}"


def format_number(value: float) -> str:
    """Format a number with three significant digits."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
