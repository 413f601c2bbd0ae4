"""`bulk --dry-run`: what a run would come to; nothing is fetched, and no cluster is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocols.location import JsonValue
from resolver.cli import streams
from resolver.cli.arguments import Command
from resolver.cli.bulk_words import THREADS
from resolver.cli.forecasts import glyphs_for, picture

if TYPE_CHECKING:
    from resolver.bulk.forecast import Forecast
    from resolver.bulk.plan import BulkPlan


def tell(plan: BulkPlan, command: Command) -> None:
    """The picture, or with `--json` one object."""
    from resolver.bulk.forecast import forecast

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
