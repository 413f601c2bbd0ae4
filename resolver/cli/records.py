"""`cat --json` of a telnet session: what happens, a record each as it does, and its outcome behind them."""

from __future__ import annotations

from collections.abc import Callable

from protocols.options import Options
from protocols.values import replace
from resolver.cli import streams
from resolver.events import Connected, Event


def telling(options: Options) -> Options:
    """The same, of which a session that is written down tells what happens in it."""
    assert options.transcript is not None
    return replace(options, transcript=replace(options.transcript, tell=streams.note_record))


def told_to(watch: Callable[[Event], None]) -> Callable[[Event], None]:
    """Who watches, and a record for whom it is spoken to."""

    def hear(event: Event) -> None:
        watch(event)
        if isinstance(event, Connected):
            streams.note_record({"event": "connected", "peer": event.address})

    return hear
