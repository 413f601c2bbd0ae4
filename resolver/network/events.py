"""Events of a retrieval, as values and as lines, for `on_event`, `--trace`, `-v`, progress and the log.

Events are frozen and are passed synchronously, in order. They never hold a password: sent data is given in
its shown form, URLs redacted.

`transfer` is the number of a request in its session, the same in all tries, hops and mirrors: it identifies
one of several concurrent transfers, even of the same URL. Events of different transfers are equal if they
report the same.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from protocols.errors import ResolveError
from protocols.location import Finding
from resolver.terminal.text import escape_line


@dataclass(frozen=True, slots=True)
class Started:
    """A try begins: the first is number 1."""

    url: str
    attempt: int
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Warned:
    """A rule of the policy fired and did not refuse."""

    url: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What the name `host` stands for, as the system said now or within the last minute. An address is not
    looked up."""

    url: str
    host: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection stands, to the numeric `address` that was checked: `data` where it is beside another one,
    for a transfer (FTP). What is said with no connection before is said on one that was kept."""

    url: str
    address: str
    port: int
    tls: bool
    data: bool = field(default=False, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TlsBegun:
    """TLS stands on a connection on which octets went in the clear before, or which is one for `data`."""

    url: str
    data: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """A connection is closed, first `by_peer` where it said so and we saw it. One that is kept for what
    follows is not closed."""

    url: str
    by_peer: bool
    data: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """Octets left, secrets as `****`."""

    url: str
    octets: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """Octets came: `data` on a connection that has nothing else (FTP's for a transfer). Those moved in bulk
    into a file are counted by `Progress` and not shown."""

    url: str
    octets: bytes
    data: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """So many octets of the object are here, those before `start` since before this try; `expected` is None
    where nobody announced a size."""

    url: str
    received: int
    expected: int | None
    start: int = 0
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Retrying:
    """A try failed and another follows after `delay` seconds."""

    url: str
    error: Exception
    delay: float
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Finished:
    """A try is over; `error` is None if it succeeded."""

    url: str
    error: Exception | None
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Kept:
    """What was to be saved is not whole: so many octets of it stay beside the file `path`. Where the scheme
    `resumes`, another run goes on behind them."""

    url: str
    path: str
    octets: int
    resumes: bool
    transfer: int = field(default=0, compare=False, kw_only=True)


Event: TypeAlias = (
    Kept
    | Started
    | Warned
    | LookedUp
    | Connected
    | TlsBegun
    | Closed
    | Sent
    | Received
    | Progress
    | Retrying
    | Finished
)
OnEvent: TypeAlias = Callable[[Event], None]


class Listener:
    """One who hears of these kinds alone. What goes over the wire, and progress, is not even made an event
    for who hears of none of it; what else there is may be told all the same."""

    def __init__(self, hear: OnEvent, kinds: Iterable[type[Event]]) -> None:
        self._hear = hear
        self._kinds = frozenset(kinds)

    def __call__(self, event: Event) -> None:
        self._hear(event)

    def hears(self, kinds: frozenset[type[Event]]) -> bool:
        return not self._kinds.isdisjoint(kinds)


#: What goes over the wire, and what it goes over.
WIRE: frozenset[type[Event]] = frozenset({LookedUp, Connected, TlsBegun, Closed, Sent, Received})
PROGRESS: frozenset[type[Event]] = frozenset({Progress})


def select_listener(own: OnEvent | None, kinds: frozenset[type[Event]]) -> OnEvent | None:
    """Who is to be told of these kinds; None where nobody would hear of any."""
    return None if isinstance(own, Listener) and not own.hears(kinds) else own


# Events as lines, for `-v`, `--trace` and the log: `C:` for sent data, `S:` for received data.
#
# Bytes are shown escaped and in one line each; of a long piece the first 512 are. Secrets arrive here as
# `****` already. `TraceFormat` selects the peer's words of a line, without bytes of a body: heads of http,
# replies that begin with a code, else the first line; the rest of the bytes is counted.

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

    def select_words(self, event: Event, line: str) -> str | None:
        """The line for a person; None for what is nothing but octets of a body."""
        if not isinstance(event, Received):
            self.pass_over(event)
            return line
        words = self.of_peer(event) or self._first_line(event)
        rest = len(event.octets) - len(words)
        if not rest:
            return line
        return f"S: {_show_octets(words)} (and {rest} octets)" if words else None

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
            return f"C: {_show_octets(octets)}"
        case Received(octets=octets):
            return f"S: {_show_octets(octets)}"
        case Retrying(error=error, delay=delay):
            return f"*: {words_of(error)}; again in {delay:g} s"
        case Finished(error=error):
            return "*: done" if error is None else f"*: {type(error).__name__}: {words_of(error)}"
    return None


def words_of(error: Exception) -> str:
    """What an error says, without the URL that stands before it already."""
    return error.message if isinstance(error, ResolveError) else str(error)


def _show_octets(octets: bytes) -> str:
    text = ascii(octets[:_MOST_SHOWN].decode("latin-1"))[1:-1]
    return text if len(octets) <= _MOST_SHOWN else f"{text}… ({len(octets)} octets)"


# Events as lines of the logger `resolver`, all at the level DEBUG: off unless a program turns it on.
#
# A line is what `-v` shows: the words of both sides, secrets as `****`, control characters escaped, and of a
# piece of a body a line at most. `record.event` is the event. Progress is reported by `on_event` only.

LOGGER = logging.getLogger("resolver")


def is_on() -> bool:
    """Does anybody want it?"""
    return LOGGER.isEnabledFor(logging.DEBUG)


def combine_listeners(own: OnEvent | None) -> OnEvent | None:
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
                words = None if line is None else self._words.select_words(event, line)
        return None if words is None else f"{event.url}: {words}"
