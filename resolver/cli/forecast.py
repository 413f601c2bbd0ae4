"""The forecast of `bulk --dry-run` as a chart or a JSON object, without requests and without a cluster."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from protocols.location import JsonValue
from protocols.text import format_count
from resolver.cli import streams
from resolver.cli.arguments import THREADS, Command
from resolver.cli.listing import fit
from resolver.cli.transfers import duration

if TYPE_CHECKING:
    from resolver.bulk.plan import BulkPlan, Forecast


# The chart of a bulk run's plan, as lines of text. The chart shows the slowest hosts, the number of requests
# per host, and the expected time by number of workers. The chart does not use color. The value of each bar is
# also printed as a number, so that a screen reader can read the chart.

#: Maximum columns of the chart, because wider lines are hard to read.
_MAX_COLUMNS = 110

#: Minimum columns of a bar, and minimum columns of a label. If a line is too short for both, the chart omits
#: the bars.
_MIN_BAR = 8
_MIN_LABEL = 16


class BarGlyphs(NamedTuple):
    """The characters of the chart.

    Attributes:
        full: the character of the first segment of a bar.
        light: the character of the second segment: the time that more workers can save.
        cut: the mark of a shortened label.
    """

    full: str
    light: str
    cut: str


BLOCKS = BarGlyphs("█", "░", "…")
ASCII = BarGlyphs("=", ".", "~")


class BarRow(NamedTuple):
    """A line of the chart with a label, figures and a bar.

    `full` and `light` are the lengths of the two segments of the bar, as fractions of the bar's width.
    """

    label: str
    figures: tuple[str, ...]
    full: float
    light: float = 0.0


def draw_chart(forecast: Forecast, columns: int, *, threads: int, glyphs: BarGlyphs = BLOCKS) -> list[str]:
    """Return the lines of the chart.

    A line is wider than `columns` only if the numbers in the line do not fit. `threads` is the number of
    threads per worker.
    """
    columns = min(columns, _MAX_COLUMNS)
    lines = [
        f"{format_count(forecast.requests, 'request')} to {format_count(forecast.hosts, 'host')}, "
        f"in {format_count(forecast.slices, 'slice')} of at most a minute"
    ]
    if forecast.largest:
        lines += ["", "Slowest hosts", *_draw_rows(_host_rows(forecast), columns, glyphs)]
        lines += ["", "Hosts by number of requests", *_draw_rows(_histogram_rows(forecast), columns, glyphs)]
    title = f"Expected time, with {format_count(threads, 'thread')} per worker"
    lines += ["", title, *_draw_rows(_worker_rows(forecast), columns, glyphs)]
    if forecast.bound_by is not None:
        lines += [f"{forecast.bound_by} needs {duration(forecast.bound)} with any number of workers"]
    if forecast.requests:
        lines += [f"{duration(forecast.request_seconds)} per request is an estimate: no server was contacted"]
    return [
        part for line in lines for part in ([line] if line[:1] in ("", " ") else textwrap.wrap(line, columns))
    ]


def _host_rows(forecast: Forecast) -> list[BarRow]:
    maximum = max(seconds for _, _, seconds in forecast.largest) or 1.0
    return [
        BarRow(host, (f"{requests:,}", duration(seconds)), seconds / maximum)
        for host, requests, seconds in forecast.largest
    ]


def _histogram_rows(forecast: Forecast) -> list[BarRow]:
    maximum = max(hosts for _, hosts in forecast.histogram)
    return [
        BarRow(f"{minimum:,} to {minimum * 10 - 1:,}", (f"{hosts:,}",), hosts / maximum)
        for minimum, hosts in forecast.histogram
    ]


def _worker_rows(forecast: Forecast) -> list[BarRow]:
    """Return a bar for the duration with each number of workers; the last bar is the minimum duration."""
    maximum = max((forecast.bound, *forecast.expected.values())) or 1.0
    rows = [
        BarRow(
            format_count(workers, "worker"),
            (duration(seconds),),
            min(seconds, forecast.bound) / maximum,
            max(0.0, seconds - forecast.bound) / maximum,
        )
        for workers, seconds in forecast.expected.items()
    ]
    return [*rows, BarRow("at least", (duration(forecast.bound),), forecast.bound / maximum)]


def _draw_rows(rows: Sequence[BarRow], columns: int, glyphs: BarGlyphs) -> list[str]:
    """Format the rows of the chart as lines with labels, aligned numbers and bars.

    On a narrow terminal, only the last figure of each row is shown. On an even narrower terminal, the bars
    are omitted.
    """
    min_width = min(_MIN_LABEL, max(len(row.label) for row in rows)) + len("  ") + _MIN_BAR
    maximum = len(rows[0].figures)
    count = next((n for n in range(maximum, 0, -1) if min_width <= _room(rows, n, columns)), 0)
    room = _room(rows, count or 1, columns)
    longest = max(len(row.label) for row in rows)
    label = min(longest, max(_MIN_LABEL, room // 2)) if count else min(longest, room)
    return [
        (
            f"  {fit(row.label, label).replace(BLOCKS.cut, glyphs.cut).ljust(label)}{figures}"
            + ("  " + _bar(row, room - label - len("  "), glyphs) if count else "")
        ).rstrip()
        for row, figures in zip(rows, _figures(rows, count or 1), strict=True)
    ]


def _room(rows: Sequence[BarRow], count: int, columns: int) -> int:
    """Return the width for the label and the bar of a line with `count` figures."""
    return columns - len("  ") - len(_figures(rows, count)[0])


def _figures(rows: Sequence[BarRow], count: int) -> list[str]:
    """Format the last `count` figures of each row of the chart in right-aligned columns."""
    figures = [row.figures[-count:] for row in rows]
    widths = [max(map(len, column)) for column in zip(*figures, strict=True)]
    return [
        "".join(f"  {figure:>{width}}" for figure, width in zip(row, widths, strict=True)) for row in figures
    ]


def _bar(row: BarRow, width: int, glyphs: BarGlyphs) -> str:
    """Draw the bar of a row; for a value above 0, it has at least one character."""
    full = max(round(row.full * width), 1 if row.full else 0)
    light = min(round((row.full + row.light) * width), width) - full
    return glyphs.full * full + glyphs.light * light


def show(plan: BulkPlan, command: Command) -> None:
    """Print the forecast of a bulk run as a chart, or with `--json` as one JSON object."""
    from resolver.bulk.plan import forecast

    prediction = forecast(plan, threads=THREADS)
    if command.json:
        streams.print_record(make_record(prediction))
        return
    glyphs = BLOCKS if streams.can_encode("".join(BLOCKS), streams.output_encoding()) else ASCII
    for line in draw_chart(prediction, streams.output_columns(), threads=THREADS, glyphs=glyphs):
        streams.print_line(line)


def make_record(forecast: Forecast) -> dict[str, JsonValue]:
    return {
        "requests": forecast.requests,
        "hosts": forecast.hosts,
        "slices": forecast.slices,
        "bound": round(forecast.bound, 3),
        "bound_by": forecast.bound_by,
        "each": round(forecast.request_seconds, 6),
        "expected": [
            {"workers": workers, "seconds": round(seconds, 3)}
            for workers, seconds in forecast.expected.items()
        ],
        "largest": [
            {"host": host, "requests": requests, "seconds": round(seconds, 3)}
            for host, requests, seconds in forecast.largest
        ],
        "histogram": [{"least": minimum, "hosts": hosts} for minimum, hosts in forecast.histogram],
    }
