"""Recordings of retrievals: the conversion of events to a limited number of messages."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from protocols.scheme import Scheme
from protocols.text import format_count, own_text
from resolver.network.events import (
    Closed,
    Connected,
    Event,
    Finished,
    Kept,
    LookedUp,
    Progress,
    Received,
    Retrying,
    Sent,
    Started,
    TlsBegun,
    TraceFormat,
    Warned,
    format_error,
)
from resolver.url import registry
from resolver.web.dialogue.exchange import (
    DiagramMessage,
    Kind,
    Place,
    RecordedExchange,
    Tone,
    find_host,
    is_readable,
    list_lanes,
    make_preview,
    show_line,
    show_note,
    split_message,
)

# For a long protocol exchange, only the first and the last messages are stored. The messages in the middle
# are only counted.

#: The maximum number of messages that are stored from the beginning. The same number is stored from the end.
MAX_HALF_MESSAGES = 250


class BoundedMessages:
    """A list that stores only the first and the last `MAX_HALF_MESSAGES` messages."""

    def __init__(self) -> None:
        self._first: list[DiagramMessage] = []
        self._last: deque[DiagramMessage] = deque(maxlen=MAX_HALF_MESSAGES)
        self.left_out = 0

    def add(self, message: DiagramMessage) -> None:
        if len(self._first) < MAX_HALF_MESSAGES:
            self._first.append(message)
            return
        if len(self._last) == MAX_HALF_MESSAGES:
            self.left_out += 1
        self._last.append(message)

    @property
    def latest(self) -> DiagramMessage | None:
        messages = self._last or self._first
        return messages[-1] if messages else None

    def replace(self, old: DiagramMessage, new: DiagramMessage) -> None:
        """Replace a stored message; do nothing if the message was omitted."""
        for messages in (self._last, self._first):
            for at in range(len(messages) - 1, -1, -1):
                if messages[at] is old:
                    messages[at] = new
                    return

    def list_all(self) -> tuple[DiagramMessage, ...]:
        """Return the stored messages, with one message of the kind `gap` for the omitted messages."""
        if not self.left_out:
            return (*self._first, *self._last)
        gap = DiagramMessage("gap", (f"{self.left_out:,} messages omitted",))
        return (*self._first, gap, *self._last)


#: Maximum size in bytes of an incomplete header block or reply that is buffered.
_MAX_PENDING = 65_536
_UNFINISHED = re.compile(rb"HTTP/1(?!.*\n\r?\n)|[0-9]{3}[ -][^\n]*\Z", re.DOTALL)


#: Matches a header of a content coding or transfer coding. With a coding, the transferred size differs from
#: the size in progress events.
_CODING = re.compile(rb"(?im)^(?:content|transfer)-encoding:(?![ \t]*identity)")


class ExchangeRecording:
    """The recording of the retrieval of one URL.

    `record` receives the events. `now` returns seconds of a monotonic clock. Only the first and the last
    messages are stored (`BoundedMessages`). Secrets in the messages are redacted.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._url = ""
        self._begun: float | None = None
        self._at = 0.0
        self._elapsed: float | None = None
        self._messages = BoundedMessages()
        self._trace = TraceFormat()
        self._pending: Received | None = None
        self._hop: str | None = None
        self._who: dict[Place, str] = {}
        self._secured: dict[Place, bool] = {}
        self._is_connected = False
        self._pooled: DiagramMessage | None = None
        self._addresses: tuple[str, ...] = ()
        self._received = 0
        self._reported = 0
        self._is_coded = False
        self._body_message: DiagramMessage | None = None
        self._outcome: str | None = None
        self._failed = False

    def record(self, event: Event) -> None:
        self._at = self._now()
        if self._begun is None:
            self._begun = self._at
        if not isinstance(event, Received | Progress):
            self._flush()
        self._trace.end_body(event)
        self._follow(event.url)
        match event:
            case Started():
                self._start(event)
            case Warned(finding=finding):
                self._note(f"warning ({finding.rule}): {finding.detail}")
            case LookedUp():
                self._look_up(event)
            case Connected():
                self._connect(event)
            case TlsBegun(data=data):
                self._begin_tls("data" if data else "server")
            case Closed():
                self._close(event)
            case Sent():
                self._add_sent(event.octets)
            case Received():
                self._receive(event)
            case Progress():
                self._progress(event)
            case Retrying(error=error, delay=delay):
                again = f"retrying in {delay:g} s" if delay else "retrying later"
                self._note(f"{format_error(error)}; {again}", "bad")
            case Kept(path=path, octets=octets):
                self._note(f"{format_count(octets, 'byte')} kept beside {path}")
            case Finished():
                self._finish(event)

    @property
    def is_over(self) -> bool:
        """Return whether the last attempt of the retrieval has ended."""
        return self._outcome is not None

    def exchange(self) -> RecordedExchange:
        """Return the exchange recorded so far."""
        self._flush()
        messages = self._messages.list_all()
        return RecordedExchange(
            url=own_text(show_note(self._url)),
            kind="dialogue",
            title="Protocol exchange",
            lanes=list_lanes(messages, self._who, find_host(self._url)),
            messages=messages,
            left_out=self._messages.left_out,
            outcome=self._outcome,
            elapsed=self._elapsed,
            failed=self._failed,
        )

    def _start(self, event: Started) -> None:
        self._outcome, self._failed = None, False
        if event.attempt > 1:
            self._note(f"attempt {event.attempt}")
        self._reported = self._received = 0
        self._body_message = None

    def _follow(self, url: str) -> None:
        """Add a note if a redirect or a link has changed the URL of the event."""
        if self._hop is None:
            self._url = self._url or url
        elif url != self._hop and url != self._url and self._outcome is None:
            self._note(f"continues with {url}")
        if url != self._url or self._hop is None:
            self._hop = url

    def _look_up(self, event: LookedUp) -> None:
        if event.addresses == self._addresses:
            return
        self._addresses = event.addresses
        self._add("ask", (show_line(f"{event.host} ?"),), "client", "names")
        addresses = show_line(", ".join(event.addresses) or "nothing")
        self._add("answer", (addresses,), "names", "client")

    def _connect(self, event: Connected) -> None:
        place: Place = "data" if event.data else "server"
        who = show_line(f"{event.address} port {event.port}")
        self._who[place] = who if self._who.get(place, who) == who else "several addresses"
        words = show_line(f"connects to {who}")
        if self._pooled is not None and not event.data:  # the bytes before the tunnel were sent to a proxy
            self._messages.replace(self._pooled, self._pooled._replace(lines=(words,)))
            self._pooled = None
        else:
            self._add("open", (words,), "client", place)
        self._secured[place] = False
        if not event.data:
            self._is_connected = True
        if event.tls:
            self._begin_tls(place)

    def _begin_tls(self, place: Place) -> None:
        self._secured[place] = True
        self._add("tls", ("TLS established: all further data is encrypted",), "client", place)

    def _close(self, event: Closed) -> None:
        place: Place = "data" if event.data else "server"
        client: Place = "client"
        source, target = (place, client) if event.by_peer else (client, place)
        self._add("close", ("closes the connection",), source, target)
        self._secured[place] = False
        if not event.data:
            self._is_connected = False

    def _add_sent(self, octets: bytes) -> None:
        self._need_connection()
        self._body_message = None  # data that is received later belongs to a new reply
        if is_readable(octets):
            self._add("say", split_message(octets), "client", "server")
        else:
            self._add("say", make_preview(octets), "client", "server", size=len(octets))

    def _need_connection(self) -> None:
        """Add a note (pooled connection or datagrams) if data is sent without a connection event."""
        if self._is_connected:
            return
        self._is_connected = True
        row = self._row()
        if row is None or row.transport != "tcp":
            self._who.setdefault("server", "in datagrams")
            return
        self._secured["server"] = row.tls == "always"
        self._pooled = self._add("open", ("reuses a pooled connection",), "client", "server")

    def _row(self) -> Scheme | None:
        return registry.find((self._hop or "").partition(":")[0])

    def _receive(self, event: Received) -> None:
        if self._pending is not None:
            if self._pending.data == event.data and len(self._pending.octets) < _MAX_PENDING:
                event = Received(event.url, self._pending.octets + event.octets, event.data)
                self._pending = None
            else:
                self._flush()
        if not event.data and _UNFINISHED.match(event.octets) and len(event.octets) < _MAX_PENDING:
            self._pending = event
        else:
            self._add_received(event)

    def _flush(self) -> None:
        """Record the buffered reply, even if the reply is incomplete."""
        if self._pending is not None:
            event, self._pending = self._pending, None
            self._add_received(event)

    def _add_received(self, event: Received) -> None:
        if not event.data:
            self._need_connection()
        reply = self._trace.protocol_text(event)
        rest = event.octets[len(reply) :]
        if reply:
            self._is_coded = _CODING.search(reply) is not None
            self._add("hear", split_message(reply), "server", "client")
        if rest:
            self._received += len(rest)
            is_body = event.data or bool(reply)
            self._add_body(rest, len(rest), "data" if event.data else "server", is_body=is_body)

    def _add_body(self, octets: bytes, count: int, place: Place, *, is_body: bool) -> None:
        """Add received data; bytes of the same body are added to the size of one message."""
        last = self._messages.latest
        if last is not None and last is self._body_message and last.source == place:
            self._add_size(last, count, is_body=is_body)
        else:
            kind: Kind = "body" if is_body else "hear"
            self._body_message = self._add(kind, make_preview(octets), place, "client", size=count)

    def _add_size(self, message: DiagramMessage, count: int, *, is_body: bool) -> None:
        kind: Kind = "body" if is_body else message.kind
        self._body_message = message._replace(size=(message.size or 0) + count, kind=kind)
        self._messages.replace(message, self._body_message)

    def _progress(self, event: Progress) -> None:
        """Count bytes that were copied directly to a file, which only progress events report."""
        if self._received and self._body_message is not None:
            self._add_size(self._body_message, 0, is_body=True)
        moved = event.received - max(self._reported, event.start) - self._received
        if moved > 0 and not (self._received and self._is_coded):
            self._flush()
            if self._body_message is None:
                self._add_body(b"", moved, self._source_of_bulk(), is_body=True)
            else:
                self._add_size(self._body_message, moved, is_body=True)
        self._reported, self._received = event.received, 0

    def _source_of_bulk(self) -> Place:
        row = self._row()
        if row is not None and row.transport is None:
            return "client"  # a local file is read without a server
        return "data" if "data" in self._secured else "server"

    def _finish(self, event: Finished) -> None:
        self._failed = event.error is not None
        self._elapsed = self._compute_elapsed()
        if event.error is None:
            self._outcome = "done"
        else:
            self._outcome = show_note(f"{type(event.error).__name__}: {format_error(event.error)}")
        self._note(self._outcome, "bad" if self._failed else "good")

    def _note(self, text: str, tone: Tone = "plain") -> None:
        self._messages.add(DiagramMessage("note", (show_note(text),), at=self._compute_elapsed(), tone=tone))

    def _add(
        self, kind: Kind, lines: tuple[str, ...], source: Place, target: Place, size: int | None = None
    ) -> DiagramMessage:
        peer = source if target == "client" else target
        message = DiagramMessage(
            kind, lines, source, target, self._compute_elapsed(), size, self._secured.get(peer, False)
        )
        self._messages.add(message)
        return message

    def _compute_elapsed(self) -> float:
        assert self._begun is not None, "an event was recorded"
        return (self._at - self._begun) * 1000


# A run has a recording for each requested URL. If a run has many recordings, only its first and its last
# recordings are stored.

#: The maximum number of recordings that are stored from the beginning of a run. The same number is stored
#: from the end.
MAX_HALF_RECORDINGS = 50

#: The recording of the current task. The URL of an event does not identify the recording, because a redirect
#: target may also be requested separately.
_CURRENT: ContextVar[ExchangeRecording | None] = ContextVar("_CURRENT", default=None)


@contextmanager
def record_exchange(now: Callable[[], float]) -> Iterator[ExchangeRecording]:
    """Record the retrieval in this block, and in the tasks that it starts.

    The `on_event` callback of the session must call `record_event`.

    Args:
        now: Returns seconds of a monotonic clock.
    """
    recording = ExchangeRecording(now)
    token = _CURRENT.set(recording)
    try:
        yield recording
    finally:
        _CURRENT.reset(token)


def record_event(event: Event) -> None:
    """Record an event in the recording of the current block; ignore an event outside of a block."""
    recording = _CURRENT.get()
    if recording is not None:
        recording.record(event)


class Recordings:
    """The recordings of all retrievals of a session; `now` returns seconds of a monotonic clock."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._recordings: dict[int, ExchangeRecording] = {}
        self._by_url: dict[str, ExchangeRecording] = {}
        self._last: ExchangeRecording | None = None
        self.left_out = 0

    def record(self, event: Event) -> None:
        """Add an event to the recording of its retrieval."""
        recording = (
            self._start_recording(event) if isinstance(event, Started) else self._find_recording(event)
        )
        if recording is not None:
            recording.record(event)

    def list_all(self) -> tuple[ExchangeRecording, ...]:
        """Return the recordings in the order in which the retrievals started."""
        return tuple(self._recordings.values())

    def _start_recording(self, event: Started) -> ExchangeRecording:
        recording = self._recordings.get(event.transfer)
        if recording is None:
            recording = self._recordings[event.transfer] = ExchangeRecording(self._now)
            self._drop_middle()
        self._by_url[event.url] = recording
        self._last = recording
        _CURRENT.set(recording)
        return recording

    def _find_recording(self, event: Event) -> ExchangeRecording | None:
        if isinstance(event, Progress | Retrying | Finished | Kept) and event.transfer in self._recordings:
            return self._recordings[event.transfer]
        current = _CURRENT.get()
        if (
            current is not None
            and not current.is_over
            and any(current is stored for stored in self._recordings.values())
        ):
            return current
        return self._by_url.get(event.url, self._last)

    def _drop_middle(self) -> None:
        if len(self._recordings) > 2 * MAX_HALF_RECORDINGS:
            number = list(self._recordings)[MAX_HALF_RECORDINGS]
            dropped = self._recordings.pop(number)
            self._by_url = {url: other for url, other in self._by_url.items() if other is not dropped}
            self.left_out += 1
