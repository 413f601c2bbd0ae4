"""`bulk --dry-run`: what a run would come to, as figures; nothing is fetched, and no cluster is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocols.location import JsonValue
from resolver.cli import streams
from resolver.cli.amounts import duration
from resolver.cli.arguments import Command
from resolver.cli.bulk_words import THREADS

if TYPE_CHECKING:
    from resolver.bulk.forecast import Forecast
    from resolver.bulk.plan import Plan

#: Hosts that are shown one by one.
_SHOWN = 5


def tell(plan: Plan, command: Command) -> None:
    """The figures, or with `--json` one object."""
    from resolver.bulk.forecast import forecast

    found = forecast(plan, threads=THREADS)
    if command.json:
        streams.print_record(record_of(found))
    else:
        for line in lines_of(found):
            streams.print_line(line)


def record_of(found: Forecast) -> dict[str, JsonValue]:
    return {
        "requests": found.requests,
        "hosts": found.hosts,
        "slices": found.slices,
        "bound": round(found.bound, 3),
        "bound_by": found.bound_by,
        "expected": [
            {"workers": workers, "seconds": round(seconds, 3)} for workers, seconds in found.expected.items()
        ],
        "largest": [
            {"host": host, "requests": requests, "seconds": round(seconds, 3)}
            for host, requests, seconds in found.largest
        ],
        "histogram": [{"least": least, "hosts": hosts} for least, hosts in found.histogram],
    }


def lines_of(found: Forecast) -> Iterator[str]:
    """For people."""
    to = f"{_many(found.requests, 'request')} to {_many(found.hosts, 'host')}"
    yield f"{to}, in {_many(found.slices, 'slice')}"
    if found.bound_by:
        yield f"at least {duration(found.bound)}, whatever the cluster: {found.bound_by} takes that"
    for workers, seconds in found.expected.items():
        yield f"with {_many(workers, 'worker'):<10} of {THREADS} threads: {duration(seconds)}"
    for least, hosts in found.histogram:
        yield f"{_many(hosts, 'host')} with {least:,} to {least * 10 - 1:,}"
    for host, requests, seconds in found.largest[:_SHOWN]:
        yield f"  {host or 'files of this machine'}: {requests:,} in {duration(seconds)}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count != 1 else ''}"
