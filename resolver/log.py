"""Events as lines of the logger `resolver`, all at the level DEBUG: off unless a program turns that on.

A line says what `-v` shows: the words of both sides, secrets as `****`, control characters escaped, and of a
piece of a body a line at most. `record.event` is the event. Progress is left to `on_event`.
"""

from __future__ import annotations

import logging

from resolver.events import Event, Kept, OnEvent, Progress, Started, Warned
from resolver.terminal import escape_line
from resolver.trace import TraceFormat, line_of

LOGGER = logging.getLogger("resolver")


def is_on() -> bool:
    """Does anybody want it?"""
    return LOGGER.isEnabledFor(logging.DEBUG)


def listening(own: OnEvent | None) -> OnEvent | None:
    """The caller's own, and the log where it is on; None where nobody listens."""
    if not is_on():
        return own
    log = _EventLogger().write
    if own is None:
        return log
    heard = own

    def both(event: Event) -> None:
        log(event)
        heard(event)

    return both


class _EventLogger:
    """Lines of one network: of a piece it is known by those before whether it is words or a body."""

    def __init__(self) -> None:
        self._words = TraceFormat()

    def write(self, event: Event) -> None:
        if (line := self._line(event)) is not None:
            LOGGER.debug("%s", escape_line(line), extra={"event": event})

    def _line(self, event: Event) -> str | None:
        match event:
            case Progress():
                return None
            case Started(attempt=attempt):
                words: str | None = f"try {attempt}"
            case Warned(finding=finding):
                words = f"warning ({finding.rule}): {finding.detail}"
            case Kept(path=path, octets=octets):
                words = f"{octets} octets stay beside {path}"
            case _:
                line = line_of(event)
                words = None if line is None else self._words.said(event, line)
        return None if words is None else f"{event.url}: {words}"
