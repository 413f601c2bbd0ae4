"""Events as lines, for `-v`, `--trace` and the log: `C:` what we sent, `S:` what came.

Octets are shown escaped and in one line each; of a long piece the first 512 are. Secrets arrive here
as `****` already. `TraceFormat` are those of a line that are the peer's words, and no octets of a body: heads
of http, replies that begin with a code, else the first line; how much more came is counted.
"""

from __future__ import annotations

import re

from protocols.errors import ResolveError
from resolver.events import Connected, Event, Finished, Received, Retrying, Sent, Started

_MOST_SHOWN = 512
#: The head of an http answer, up to the line that ends it; replies with a code, as many as there are; a line.
_HEAD = re.compile(rb"HTTP/1.*?(?:\r?\n){2}", re.DOTALL)
_INTERIM = re.compile(rb"HTTP/1\.\d 1")
_REPLIES = re.compile(rb"(?:[0-9]{3}[ -][^\n]*(?:\n[ ][^\n]*)*(?:\n|\Z))+")
_LINE = re.compile(rb"[^\n]{0,200}\n?")


class TraceFormat:
    """What of the dialogue is words, and what an object: the one that a person sees of `-v`."""

    def __init__(self) -> None:
        self._within: set[str] = set()

    def said(self, event: Event, line: str) -> str | None:
        """The line for a person; None for what is nothing but octets of a body."""
        if not isinstance(event, Received):
            self.pass_over(event)
            return line
        words = self.of_peer(event) or self._first_line(event)
        rest = len(event.octets) - len(words)
        if not rest:
            return line
        return f"S: {_shown(words)} (and {rest} octets)" if words else None

    def pass_over(self, event: Event) -> None:
        """What is said to the peer, and the end of a try, end a body too."""
        if isinstance(event, Sent | Started | Finished):
            self._within.discard(event.url)

    def of_peer(self, event: Received) -> bytes:
        """The heads or replies that a piece begins with; nothing where it begins with octets of a body, or is
        of a peer that has neither."""
        if event.octets.startswith(b"HTTP/1"):
            return self._heads(event.url, event.octets)
        if self._is_body(event):
            return b""
        found = _REPLIES.match(event.octets)
        return b"" if found is None else found[0]

    def _first_line(self, event: Received) -> bytes:
        found = None if self._is_body(event) else _LINE.match(event.octets)
        return b"" if found is None else found[0]

    def _is_body(self, event: Received) -> bool:
        return event.data or event.url in self._within

    def _heads(self, url: str, octets: bytes) -> bytes:
        """Interim ones, too; behind the last one the body is."""
        end = 0
        while (found := _HEAD.match(octets, end)) is not None:
            end = found.end()
            if not _INTERIM.match(found[0]):
                self._within.add(url)
                return octets[:end]
        return octets


def line_of(event: Event) -> str | None:
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
            return f"*: {words_of(error)}; again in {delay:g} s"
        case Finished(error=error):
            return "*: done" if error is None else f"*: {type(error).__name__}: {words_of(error)}"
    return None


def words_of(error: Exception) -> str:
    """What an error says, without the URL that stands before it already."""
    return error.message if isinstance(error, ResolveError) else str(error)


def _shown(octets: bytes) -> str:
    text = ascii(octets[:_MOST_SHOWN].decode("latin-1"))[1:-1]
    return text if len(octets) <= _MOST_SHOWN else f"{text}… ({len(octets)} octets)"
