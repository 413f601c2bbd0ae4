"""The events of one retrieval, kept as messages while they come: bounded, whatever a server says."""

from __future__ import annotations

import re
from collections.abc import Callable

from protocols.scheme import Scheme
from resolver import registry
from resolver.events import (
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
    Warned,
)
from resolver.trace import TraceFormat, words_of
from resolver.window.dialogue.ends import BoundedMessages
from resolver.window.dialogue.exchange import DiagramMessage, Kind, Place, RecordedExchange, Tone, lanes_of
from resolver.window.dialogue.planned import host_of
from resolver.window.dialogue.words import counted, lines_of, note, preview, readable, shown

#: Octets of a head or a reply that are kept until the rest of it comes.
_MOST_HELD = 65_536
_UNFINISHED = re.compile(rb"HTTP/1(?!.*\n\r?\n)|[0-9]{3}[ -][^\n]*\Z", re.DOTALL)


#: An object in a coding has other octets on the wire than those that are counted of it.
_CODED = re.compile(rb"(?im)^(?:content|transfer)-encoding:(?![ \t]*identity)")


class ExchangeRecording:
    """What is told of one URL, by `hear`; `now` gives seconds of a clock that never goes back.

    Of the messages the first and the last are kept (`BoundedMessages`). What lies in the recording holds no
    secret, so none can come out of what is made of it.
    """

    def __init__(self, now: Callable[[], float], url: str = "") -> None:
        self._now = now
        self._url = url
        self._begun: float | None = None
        self._at = 0.0
        self._elapsed: float | None = None
        self._messages = BoundedMessages()
        self._words = TraceFormat()
        self._held: Received | None = None
        self._hop: str | None = None
        self._who: dict[Place, str] = {}
        self._secured: dict[Place, bool] = {}
        self._there = False
        self._taken: DiagramMessage | None = None
        self._asked: tuple[str, ...] = ()
        self._heard = 0
        self._reported = 0
        self._coded = False
        self._pieces: DiagramMessage | None = None
        self._outcome: str | None = None
        self._failed = False

    def hear(self, event: Event) -> None:
        """Keep what it says."""
        self._at = self._now()
        if self._begun is None:
            self._begun = self._at
        if not isinstance(event, Received | Progress):
            self._let_go()
        self._words.pass_over(event)
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
                self._say(event.octets)
            case Received():
                self._receive(event)
            case Progress():
                self._progress(event)
            case Retrying(error=error, delay=delay):
                again = f"again in {delay:g} s" if delay else "again when its turn comes"
                self._note(f"{words_of(error)}; {again}", "bad")
            case Kept(path=path, octets=octets):
                self._note(f"{counted(octets)} stay beside {path}")
            case Finished():
                self._finish(event)

    @property
    def is_over(self) -> bool:
        """Has the last try ended?"""
        return self._outcome is not None

    def exchange(self) -> RecordedExchange:
        """What there is of it so far."""
        self._let_go()
        messages = self._messages.all()
        return RecordedExchange(
            url=note(self._url),
            kind="dialogue",
            title="What was said",
            lanes=lanes_of(messages, self._who, host_of(self._url)),
            messages=messages,
            left_out=self._messages.left_out,
            outcome=self._outcome,
            elapsed=self._elapsed,
            failed=self._failed,
        )

    def _start(self, event: Started) -> None:
        self._outcome, self._failed = None, False
        if event.attempt > 1:
            self._note(f"try {event.attempt}")
        self._reported = self._heard = 0
        self._pieces = None

    def _follow(self, url: str) -> None:
        """Another URL is where a redirect or a link led to."""
        if self._hop is None:
            self._url = self._url or url
        elif url != self._hop and url != self._url and self._outcome is None:
            self._note(f"goes on to {url}")
        if url != self._url or self._hop is None:
            self._hop = url

    def _look_up(self, event: LookedUp) -> None:
        if event.addresses == self._asked:
            return
        self._asked = event.addresses
        self._add("ask", (shown(f"{event.host} ?"),), "client", "names")
        told = shown(", ".join(event.addresses) or "nothing")
        self._add("answer", (told,), "names", "client")

    def _connect(self, event: Connected) -> None:
        place: Place = "data" if event.data else "server"
        who = shown(f"{event.address} port {event.port}")
        self._who[place] = who if self._who.get(place, who) == who else "one after the other"
        words = shown(f"connects to {who}")
        if self._taken is not None and not event.data:  # what was said before was said to a proxy
            self._messages.replace(self._taken, self._taken._replace(lines=(words,)))
            self._taken = None
        else:
            self._add("open", (words,), "client", place)
        self._secured[place] = False
        if not event.data:
            self._there = True
        if event.tls:
            self._begin_tls(place)

    def _begin_tls(self, place: Place) -> None:
        self._secured[place] = True
        self._add("tls", ("TLS stands: all that follows is encrypted",), "client", place)

    def _close(self, event: Closed) -> None:
        place: Place = "data" if event.data else "server"
        client: Place = "client"
        source, target = (place, client) if event.by_peer else (client, place)
        self._add("close", ("closes the connection",), source, target)
        self._secured[place] = False
        if not event.data:
            self._there = False

    def _say(self, octets: bytes) -> None:
        self._need_connection()
        self._pieces = None  # what comes now answers this
        if readable(octets):
            self._add("say", lines_of(octets), "client", "server")
        else:
            self._add("say", preview(octets), "client", "server", size=len(octets))

    def _need_connection(self) -> None:
        """What is said without one is said on a connection that was kept, or in datagrams."""
        if self._there:
            return
        self._there = True
        row = self._row()
        if row is None or row.transport != "tcp":
            self._who.setdefault("server", "in datagrams")
            return
        self._secured["server"] = row.tls == "always"
        self._taken = self._add("open", ("takes a connection that was kept",), "client", "server")

    def _row(self) -> Scheme | None:
        return registry.find((self._hop or "").partition(":")[0])

    def _receive(self, event: Received) -> None:
        if self._held is not None:
            if self._held.data == event.data and len(self._held.octets) < _MOST_HELD:
                event = Received(event.url, self._held.octets + event.octets, event.data)
                self._held = None
            else:
                self._let_go()
        if not event.data and _UNFINISHED.match(event.octets) and len(event.octets) < _MOST_HELD:
            self._held = event
        else:
            self._take(event)

    def _let_go(self) -> None:
        """What more was waited for did not come."""
        if self._held is not None:
            event, self._held = self._held, None
            self._take(event)

    def _take(self, event: Received) -> None:
        if not event.data:
            self._need_connection()
        words = self._words.of_peer(event)
        rest = event.octets[len(words) :]
        if words:
            self._coded = _CODED.search(words) is not None
            self._add("hear", lines_of(words), "server", "client")
        if rest:
            self._heard += len(rest)
            sure = event.data or bool(words)
            self._body(rest, len(rest), "data" if event.data else "server", sure=sure)

    def _body(self, octets: bytes, count: int, place: Place, *, sure: bool) -> None:
        """Octets that belong to those before are counted with them."""
        last = self._messages.latest
        if last is not None and last is self._pieces and last.source == place:
            self._count(last, count, sure=sure)
        else:
            kind: Kind = "body" if sure else "hear"
            self._pieces = self._add(kind, preview(octets), place, "client", size=count)

    def _count(self, message: DiagramMessage, count: int, *, sure: bool) -> None:
        kind: Kind = "body" if sure else message.kind
        self._pieces = message._replace(size=(message.size or 0) + count, kind=kind)
        self._messages.replace(message, self._pieces)

    def _progress(self, event: Progress) -> None:
        """It tells of what came already, and of what was moved in bulk into a file, perhaps a while ago."""
        if self._heard and self._pieces is not None:
            self._count(self._pieces, 0, sure=True)
        moved = event.received - max(self._reported, event.start) - self._heard
        if moved > 0 and not (self._heard and self._coded):
            self._let_go()
            if self._pieces is None:
                self._body(b"", moved, self._source_of_bulk(), sure=True)
            else:
                self._count(self._pieces, moved, sure=True)
        self._reported, self._heard = event.received, 0

    def _source_of_bulk(self) -> Place:
        row = self._row()
        if row is not None and row.transport is None:
            return "client"  # what is here is read here
        return "data" if "data" in self._secured else "server"

    def _finish(self, event: Finished) -> None:
        self._failed = event.error is not None
        self._elapsed = self._since()
        if event.error is None:
            self._outcome = "done"
        else:
            self._outcome = note(f"{type(event.error).__name__}: {words_of(event.error)}")
        self._note(self._outcome, "bad" if self._failed else "good")

    def _note(self, text: str, tone: Tone = "plain") -> None:
        self._messages.add(DiagramMessage("note", (note(text),), at=self._since(), tone=tone))

    def _add(
        self, kind: Kind, lines: tuple[str, ...], source: Place, target: Place, size: int | None = None
    ) -> DiagramMessage:
        beside = source if target == "client" else target
        message = DiagramMessage(
            kind, lines, source, target, self._since(), size, self._secured.get(beside, False)
        )
        self._messages.add(message)
        return message

    def _since(self) -> float:
        assert self._begun is not None, "something was heard"
        return (self._at - self._begun) * 1000
