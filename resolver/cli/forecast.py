"""The forecast of `bulk --dry-run` as a chart or a JSON object, without requests and without a cluster."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from protocols.location import JsonValue
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
_WIDEST = 110

#: Minimum columns of a bar, and minimum columns of a label. If a line is too short for both, the chart omits
#: the bars.
_LEAST_BAR = 8
_LEAST_LABEL = 16


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


def glyphs_for(encoding: str | None) -> BarGlyphs:
    """Return the characters of the chart: block characters, or ASCII if the encoding has no blocks."""
    try:
        "".join(BLOCKS).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return BLOCKS


def picture(found: Forecast, columns: int, *, threads: int, glyphs: BarGlyphs = BLOCKS) -> list[str]:
    """Return the lines of the chart.

    A line is wider than `columns` only if the numbers in the line do not fit. `threads` is the number of
    threads per worker.
    """
    columns = min(columns, _WIDEST)
    lines = [
        f"{_format_count(found.requests, 'request')} to {_format_count(found.hosts, 'host')}, "
        f"in {_format_count(found.slices, 'slice')} of at most a minute"
    ]
    if found.largest:
        lines += ["", "Slowest hosts", *_draw_rows(_hosts(found), columns, glyphs)]
        lines += ["", "Hosts by number of requests", *_draw_rows(_crowds(found), columns, glyphs)]
    title = f"Expected time, with {_format_count(threads, 'thread')} per worker"
    lines += ["", title, *_draw_rows(_workers(found), columns, glyphs)]
    if found.bound_by is not None:
        lines += [f"{found.bound_by} needs {duration(found.bound)} with any number of workers"]
    if found.requests:
        lines += [f"{duration(found.each)} per request is an estimate: no server was contacted"]
    return [
        part for line in lines for part in ([line] if line[:1] in ("", " ") else textwrap.wrap(line, columns))
    ]


def _hosts(found: Forecast) -> list[BarRow]:
    most = max(seconds for _, _, seconds in found.largest) or 1.0
    return [
        BarRow(host, (f"{requests:,}", duration(seconds)), seconds / most)
        for host, requests, seconds in found.largest
    ]


def _crowds(found: Forecast) -> list[BarRow]:
    most = max(hosts for _, hosts in found.histogram)
    return [
        BarRow(f"{least:,} to {least * 10 - 1:,}", (f"{hosts:,}",), hosts / most)
        for least, hosts in found.histogram
    ]


def _workers(found: Forecast) -> list[BarRow]:
    """Return a bar for the duration with each number of workers; the last bar is the minimum duration."""
    most = max((found.bound, *found.expected.values())) or 1.0
    rows = [
        BarRow(
            _format_count(workers, "worker"),
            (duration(seconds),),
            min(seconds, found.bound) / most,
            max(0.0, seconds - found.bound) / most,
        )
        for workers, seconds in found.expected.items()
    ]
    return [*rows, BarRow("at least", (duration(found.bound),), found.bound / most)]


def _draw_rows(rows: Sequence[BarRow], columns: int, glyphs: BarGlyphs) -> list[str]:
    """Format the rows of the chart as lines with labels, aligned numbers and bars.

    On a narrow terminal, only the last figure of each row is shown. On an even narrower terminal, the bars
    are omitted.
    """
    wanted = min(_LEAST_LABEL, max(len(row.label) for row in rows)) + len("  ") + _LEAST_BAR
    most = len(rows[0].figures)
    kept = next((many for many in range(most, 0, -1) if wanted <= _room(rows, many, columns)), 0)
    room = _room(rows, kept or 1, columns)
    longest = max(len(row.label) for row in rows)
    label = min(longest, max(_LEAST_LABEL, room // 2)) if kept else min(longest, room)
    return [
        (
            f"  {_fit_label(row.label, label, glyphs)}{figures}"
            + ("  " + _bar(row, room - label - len("  "), glyphs) if kept else "")
        ).rstrip()
        for row, figures in zip(rows, _figures(rows, kept or 1), strict=True)
    ]


def _room(rows: Sequence[BarRow], many: int, columns: int) -> int:
    """Return the width for the label and the bar of a line with `many` figures."""
    return columns - len("  ") - len(_figures(rows, many)[0])


def _figures(rows: Sequence[BarRow], many: int) -> list[str]:
    """Format the last `many` figures of each row of the chart in right-aligned columns."""
    told = [row.figures[-many:] for row in rows]
    widths = [max(map(len, column)) for column in zip(*told, strict=True)]
    return [
        "".join(f"  {figure:>{width}}" for figure, width in zip(each, widths, strict=True)) for each in told
    ]


def _fit_label(label: str, width: int, glyphs: BarGlyphs) -> str:
    return fit(label, width).replace(BLOCKS.cut, glyphs.cut).ljust(width)


def _bar(row: BarRow, width: int, glyphs: BarGlyphs) -> str:
    """Draw the bar of a row; for a value above 0, it has at least one character."""
    full = max(round(row.full * width), 1 if row.full else 0)
    light = min(round((row.full + row.light) * width), width) - full
    return glyphs.full * full + glyphs.light * light


def _format_count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def tell(plan: BulkPlan, command: Command) -> None:
    """Print the forecast of a bulk run as a chart, or with `--json` as one JSON object."""
    from resolver.bulk.plan import forecast

    found = forecast(plan, threads=THREADS)
    if command.json:
        streams.print_record(record_of(found))
        return
    glyphs = glyphs_for(streams.output_encoding())
    for line in picture(found, streams.output_columns(), threads=THREADS, glyphs=glyphs):
        streams.print_line(line)


def record_of(found: Forecast) -> dict[str, JsonValue]:
    return {
        "requests": found.requests,
        "hosts": found.hosts,
        "slices": found.slices,
        "bound": round(found.bound, 3),
        "bound_by": found.bound_by,
        "each": round(found.each, 6),
        "expected": [
            {"workers": workers, "seconds": round(seconds, 3)} for workers, seconds in found.expected.items()
        ],
        "largest": [
            {"host": host, "requests": requests, "seconds": round(seconds, 3)}
            for host, requests, seconds in found.largest
        ],
        "histogram": [{"least": least, "hosts": hosts} for least, hosts in found.histogram],
    }
