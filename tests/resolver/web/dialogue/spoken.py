"""Recordings of hand-written events, with a clock that advances by 1 ms per event."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from protocols.text import Masked
from resolver import Event
from resolver.web.dialogue.exchange import RecordedExchange
from resolver.web.dialogue.recording import ExchangeRecording

URL = Masked("ftp://h.example/a")


def make_clock() -> Callable[[], float]:
    """Return a clock that advances by 1 ms per call."""
    ticks = count()
    return lambda: next(ticks) / 1000


def record(events: Iterable[Event]) -> RecordedExchange:
    recording = ExchangeRecording(make_clock())
    for event in events:
        recording.record(event)
    return recording.exchange()


def message_lines(exchange: RecordedExchange) -> list[str]:
    """Return one line per message: kind, source and target, size, text."""
    lines = []
    for message in exchange.messages:
        way = f"{message.source or ''}>{message.target or ''}"
        size = "" if message.size is None else f" {message.size}"
        lines.append(f"{message.kind} {way}{size} {' | '.join(message.lines)}".rstrip())
    return lines
