"""Events of a retrieval, as objects and as text, for `on_event`, `--trace`, `-v`, the progress and the log.

Events are immutable. Listeners are called synchronously, in the order of the events. Sent data and URLs are
redacted, so no event contains a password.

The field `transfer` is the number of a transfer in its session. All attempts, redirects and mirrors of a
transfer have the same number. Concurrent transfers of the same URL have different numbers. Comparisons of
events ignore the number.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from protocols.errors import ResolveError
from protocols.location import Finding
from protocols.text import Masked, own_text
from resolver.terminal.text import escape_line


@dataclass(frozen=True, slots=True)
class Started:
    """The start of an attempt. The first attempt has the number 1."""

    url: Masked
    attempt: int
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of the policy about a URL that the policy allows."""

    url: Masked
    finding: Finding


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The result of a DNS lookup: the addresses of the name `host`.

    The result may come from the DNS cache, and may be up to one minute old. If the host is an IP address, no
    lookup and no `LookedUp` event occur.
    """

    url: Masked
    host: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Connected:
    """An established connection to the checked IP address `address`.

    `data` is true for a data connection. FTP opens data connections in addition to the control connection. A
    pooled connection causes no `Connected` event, so its first event is `Sent`.
    """

    url: Masked
    address: str
    port: int
    tls: bool
    data: bool = field(default=False, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class TlsBegun:
    """The start of TLS on a data connection, or on a connection that was unencrypted at first (STARTTLS)."""

    url: Masked
    data: bool = False


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed connection. `by_peer` is true if the peer closed the connection first.

    If a connection returns to the connection pool, no `Closed` event occurs.
    """

    url: Masked
    by_peer: bool
    data: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """Sent bytes, with secrets as `****`."""

    url: Masked
    octets: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """Received bytes; `data` is true for an FTP data connection.

    Bytes that the kernel moves directly into a file cause only `Progress` events.
    """

    url: Masked
    octets: bytes
    data: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """The number of bytes of the object received so far.

    During a bulk copy of a body into a file, five events occur per second, and one event at the end.

    Attributes:
        received: the number of bytes, including the first `start` bytes. The number is smaller than before if
            an attempt starts from the beginning.
        expected: the size in bytes that the server announced; None without an announced size.
        start: the number of bytes from earlier attempts.
    """

    url: Masked
    received: int
    expected: int | None
    start: int = 0
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Retrying:
    """A failed attempt that will be retried after `delay` seconds."""

    url: Masked
    error: Exception
    delay: float
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an attempt, with the error of a failed attempt."""

    url: Masked
    error: Exception | None
    transfer: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Kept:
    """An incomplete download; its first `octets` bytes stay in a partial file next to `path`.

    If `resumes` is true, the next run resumes the download after these bytes.
    """

    url: Masked
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
    """A listener for selected types of events.

    If `kinds` contains no type of one of the groups `ATTEMPTS`, `PROGRESS` and `WIRE`, no retrieval creates
    events of this group. All other events reach the listener, even if `kinds` does not contain their type.

    Args:
        hear: the function that is called with each event.
        kinds: the selected types.
    """

    def __init__(self, hear: OnEvent, kinds: Iterable[type[Event]]) -> None:
        self._hear = hear
        self._kinds = frozenset(kinds)

    def __call__(self, event: Event) -> None:
        self._hear(event)

    def hears(self, kinds: frozenset[type[Event]]) -> bool:
        return not self._kinds.isdisjoint(kinds)


#: The types of events about DNS lookups, connections, and the bytes on the connections.
WIRE: frozenset[type[Event]] = frozenset({LookedUp, Connected, TlsBegun, Closed, Sent, Received})
PROGRESS: frozenset[type[Event]] = frozenset({Progress})
ATTEMPTS: frozenset[type[Event]] = frozenset({Started, Finished})


def select_listener(listener: OnEvent | None, kinds: frozenset[type[Event]]) -> OnEvent | None:
    """Return the listener, or None if the listener ignores all event types in `kinds`."""
    return None if isinstance(listener, Listener) and not listener.hears(kinds) else listener


# Events as text for `-v`, `--trace` and the log. `C:` marks data that the client sent, `S:` marks data that
# the server sent.
#
# Each block of bytes becomes one escaped line with at most the first 512 bytes of the block. The event
# already contains `****` instead of secrets. `TraceFormat` selects the protocol text of a block, and omits
# body bytes. Protocol text is an HTTP response head, or a reply that begins with a code. For other protocols,
# the protocol text is the first line. All other bytes are only counted in the output.

_MAX_SHOWN = 512
#: The head of an HTTP/1 response, up to the empty line.
_RESPONSE_HEAD = rb"(?s)HTTP/1.*?(?:\r?\n){2}"
_INTERIM = rb"HTTP/1\.\d 1"
_REPLIES = rb"(?:[0-9]{3}[ -][^\n]*(?:\n[ ][^\n]*)*(?:\n|\Z))+"
_LINE = rb"[^\n]{0,200}\n?"


class TraceFormat:
    """A filter for the output of `-v`. It separates protocol text from body bytes."""

    def __init__(self) -> None:
        self._urls_in_body: set[str] = set()

    def select_text(self, event: Event, line: Masked) -> Masked | None:
        """Return the line to print; None for a block that contains only body bytes."""
        if not isinstance(event, Received):
            self.end_body(event)
            return line
        words = self.protocol_text(event) or self._first_line(event)
        rest = len(event.octets) - len(words)
        if not rest:
            return line
        return Masked(f"S: {_show_octets(words)} (and {rest} bytes)") if words else None

    def end_body(self, event: Event) -> None:
        """Record the end of a body if the event starts a request or an attempt, or ends an attempt."""
        if isinstance(event, Sent | Started | Finished):
            self._urls_in_body.discard(event.url)

    def protocol_text(self, event: Received) -> bytes:
        """Return the HTTP response headers or replies at the start of a block.

        Returns:
            The protocol text. The text is empty if the block starts with body bytes. The text is also empty
            if the protocol has neither headers nor reply codes.
        """
        if event.octets.startswith(b"HTTP/1"):
            return self._response_heads(event.url, event.octets)
        if self._is_body(event):
            return b""
        match = re.match(_REPLIES, event.octets)
        return b"" if match is None else match[0]

    def _first_line(self, event: Received) -> bytes:
        match = None if self._is_body(event) else re.match(_LINE, event.octets)
        return b"" if match is None else match[0]

    def _is_body(self, event: Received) -> bool:
        return event.data or event.url in self._urls_in_body

    def _response_heads(self, url: str, octets: bytes) -> bytes:
        """Return the response headers, including the headers of interim (1xx) responses."""
        end = 0
        while (match := re.compile(_RESPONSE_HEAD).match(octets, end)) is not None:
            end = match.end()
            if not re.match(_INTERIM, match[0]):
                self._urls_in_body.add(url)
                return octets[:end]
        return octets


def format_event(event: Event) -> Masked | None:
    match event:
        case Started(url=url, attempt=attempt):
            return Masked(f"U: {url}" + (f" (try {attempt})" if attempt > 1 else ""))
        case Connected(address=address, port=port, tls=tls):
            return Masked(f"*: connected to {own_text(address)} port {port}" + (" with TLS" if tls else ""))
        case Sent(octets=octets):
            return Masked(f"C: {_show_octets(octets)}")
        case Received(octets=octets):
            return Masked(f"S: {_show_octets(octets)}")
        case Retrying(error=error, delay=delay):
            return Masked(f"*: {format_error(error)}; again in {delay:g} s")
        case Finished(error=error):
            name = own_text(type(error).__name__)
            return Masked("*: done" if error is None else f"*: {name}: {format_error(error)}")
    return None


def format_warning(event: Warned) -> Masked:
    return own_text(f"warning ({event.finding.rule}): {event.finding.detail}")


def format_error(error: Exception) -> Masked:
    """Return the message of an error without the URL, because the trace line already shows the URL."""
    return error.message if isinstance(error, ResolveError) else own_text(str(error))


def _show_octets(octets: bytes) -> Masked:
    """Return bytes of an event, in which the connection has masked the secrets, as text."""
    text = own_text(ascii(octets[:_MAX_SHOWN].decode("latin-1"))[1:-1])
    return text if len(octets) <= _MAX_SHOWN else Masked(f"{text}… ({len(octets)} bytes)")


# Events as records of the logger `resolver`. The level is DEBUG, so the application must enable the logger.
#
# The text is the same as with `-v`: the protocol text, with `****` instead of secrets and with escaped
# control characters. The attribute `event` of a log record is the event object. Progress events are not
# logged; only `on_event` receives progress events.

LOGGER = logging.getLogger("resolver")


def is_enabled() -> bool:
    """Return whether the logger is enabled for DEBUG."""
    return LOGGER.isEnabledFor(logging.DEBUG)


def combine_listeners(listener: OnEvent | None) -> OnEvent | None:
    """Return a listener that passes events to the caller and to the log, or None if both are disabled."""
    if not is_enabled():
        return listener
    trace = TraceFormat()

    def notify(event: Event) -> None:
        if (words := _format_record(event, trace)) is not None:
            line = escape_line(Masked(f"{event.url}: {words}"))
            LOGGER.debug("%s", line, extra={"event": event})
        if listener is not None:
            listener(event)

    return notify


def _format_record(event: Event, trace: TraceFormat) -> Masked | None:
    match event:
        case Progress():
            return None
        case Started(attempt=attempt):
            return Masked(f"try {attempt}")
        case Warned():
            return format_warning(event)
        case Kept(path=path, octets=octets):
            return Masked(f"{octets} bytes kept in a partial file next to {own_text(path)}")
    line = format_event(event)
    return None if line is None else trace.select_text(event, line)
