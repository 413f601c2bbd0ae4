"""The dialogue as it happens, for `-v` and `--trace`: `C:` what we sent, `S:` what came.

Octets are shown escaped and in one line each; of a long piece the first 512 are. Secrets arrive here
as `****` already.
"""

from __future__ import annotations

from protocols.errors import LocalError
from resolver.cli.streams import Trace, complain
from resolver.events import Connected, Event, Finished, Received, Retrying, Sent, Started, Warned

_MOST_SHOWN = 512


class Watcher:
    """Turns events into lines of a trace."""

    def __init__(self, path: str | None, *, aloud: bool, quiet: bool) -> None:
        self._trace = Trace(path, aloud=aloud) if path is not None or aloud else None
        self._quiet = quiet

    def watch(self, event: Event) -> None:
        """Tell a warning, and a try that follows; write down the dialogue, if somebody reads it."""
        if isinstance(event, Warned) and not self._quiet:
            complain(f"{event.url}: warning ({event.finding.rule}): {event.finding.detail}")
        if isinstance(event, Retrying) and not self._quiet:
            complain(f"{event.url}: {event.error}; again in {event.delay:.1f} s")
        if self._trace is not None and (line := _line(event)) is not None:
            self._trace.line(line)

    def close(self) -> LocalError | None:
        """What kept the trace from being written, if anything did."""
        return None if self._trace is None else self._trace.close()


def _line(event: Event) -> str | None:
    match event:
        case Started(url=url, attempt=attempt):
            return f"U: {url}" + (f" (try {attempt})" if attempt > 1 else "")
        case Connected(address=address, port=port, tls=tls):
            return f"*: connected to {address} port {port}" + (" with TLS" if tls else "")
        case Sent(octets=octets):
            return f"C: {_shown(octets)}"
        case Received(octets=octets):
            return f"S: {_shown(octets)}"
        case Retrying(error=error, delay=delay):
            return f"*: {error}; again in {delay:g} s"
        case Finished(error=error):
            return "*: done" if error is None else f"*: {type(error).__name__}: {error}"
    return None


def _shown(octets: bytes) -> str:
    text = repr(octets[:_MOST_SHOWN])[2:-1]
    return text if len(octets) <= _MOST_SHOWN else f"{text}… ({len(octets)} octets)"
