"""One retrieval of one URL over one hop, as it is kept: what came, what was said for it, what became of it.

A `Capture` hears of all that goes over its connections (see `resolver/gate/tap.py`), of the steps of the
dialogue, and of the body; when it ends, it is a group of records. It waits for nothing and opens nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Hashable
from typing import TYPE_CHECKING, TypeVar

from protocols.errors import InvalidUrl, LocalError, Refused, ResolveError, UnsupportedScheme
from protocols.location import JsonValue
from protocols.reply import Reply
from protocols.step import AwaitData, CopiedBody, CopyBody, Dialogue, Receive, StartBody, Step
from protocols.wire import Buffer, Reader, Rest
from resolver.warc.answers import AnswerListing
from resolver.warc.dialogue import DialogueEvent
from resolver.warc.dialogue import DialogueRecord as Events
from resolver.warc.exchange import HttpCapture, is_request
from resolver.warc.group import (
    CapturedObject,
    CaptureSubject,
    RecordGroup,
    end_of,
    metadata_of,
    resource_of,
    truncation_of,
    type_of,
)
from resolver.warc.keeper import CaptureSink
from resolver.warc.way import CapturedConnection
from resolver.warc.writing import RecordBlock

if TYPE_CHECKING:
    from resolver.gate import Mask
    from resolver.gate.tap import TappedConnection, TlsFacts

T = TypeVar("T")

_PASSWORD = re.compile(rb"(?m)^(PASS|ACCT) [^\r\n]+")


class Capture:
    """`late`: the time for all of it was over."""

    def __init__(self, subject: CaptureSubject, keeper: CaptureSink, mask: Mask) -> None:
        self._subject = subject
        self._keeper = keeper
        self._mask = mask
        self._reply: Reply | None = None
        self._block = keeper.spool()
        self._exchange: HttpCapture | None = None
        kept = subject.listing_kept
        self._answers = None if kept is None else AnswerListing(kept, keeper.spool())
        self._is_framed = kept is not None and kept.how == "last"
        self._passing: str | None = None
        self._framed = False
        self._command = b""
        self._is_whole = False
        self._is_over = False
        self._known: dict[Hashable, TappedConnection] = {}
        self._tls: dict[Hashable, TlsFacts] = {}
        self._begin()

    def _begin(self) -> None:
        self._events = Events(self._keeper.now(), self._mask.hide)
        self._ways: dict[Hashable, CapturedConnection] = {}
        self._main: CapturedConnection | None = None
        subject = self._subject
        begin: dict[str, JsonValue] = {"format": 1, "url": subject.shown, "origin": subject.origin}
        if subject.attempt > 1:
            begin["attempt"] = subject.attempt
        self._events.add(self._events.begun, 0, "begin", begin)

    def _add(self, way: int, event: str, members: dict[str, JsonValue]) -> DialogueEvent:
        return self._events.add(self._keeper.now(), way, event, members)

    # what goes over its connections

    def connected(self, way: Hashable, link: TappedConnection) -> None:
        self._known[way] = link
        self._take(way, link)

    def _take(self, key: Hashable, link: TappedConnection) -> CapturedConnection:
        way = self._ways[key] = CapturedConnection(len(self._ways) + 1, link)
        self._main = way
        way.opened = self._add(
            way.number,
            "connect",
            {
                "host": link.host,
                "address": link.address,
                "port": link.port,
                "transport": link.transport,
                "role": link.role,
                "reused": link.reused,
            },
        )
        return way

    def _way(self, key: Hashable) -> CapturedConnection:
        """One that stood before this began is taken up again."""
        found = self._ways.get(key)
        return self._take(key, self._known[key]._replace(reused=True)) if found is None else found

    def secured(self, way: Hashable, tls: TlsFacts) -> None:
        self._tls[way] = tls
        self._add(
            self._way(way).number,
            "tls",
            {
                "version": tls.version,
                "cipher": tls.cipher,
                "alpn": tls.alpn,
                "name": tls.name,
                "certificate": tls.certificate,
                "verified": tls.verified,
                "resumed": tls.resumed,
            },
        )

    def has_only_data(self, way: Hashable) -> None:
        data = self._way(way)
        data.has_only_data = True
        if data.opened is not None:
            data.opened.members["role"] = "data"
        self._main = next(
            (each for each in reversed(self._ways.values()) if not each.has_only_data), self._main
        )

    def sent(self, way: Hashable, shown: bytes, *, masked: bool) -> None:
        found = self._way(way)
        self._command = shown.partition(b" ")[0].strip()
        if self._subject.kept_as == "exchange":
            if is_request(shown):
                if self._exchange is not None:
                    self._end_exchange(None)
                    found = self._way(way)
                self._exchange = HttpCapture(way, self._keeper.spool, self._block)
            if self._exchange is not None and self._exchange.way == way:
                self._exchange.asked.write(shown)
                return
        if self._subject.kept_as == "data" and _PASSWORD.search(shown):  # that of anonymous, too
            shown, masked = _PASSWORD.sub(rb"\1 ****", shown), True
        if self._answers is not None:
            self._answers.sent(shown)
        joins = found.link.transport == "tcp"
        self._events.say(self._keeper.now(), found.number, "send", shown, joins=joins, masked=masked)

    def received(self, way: Hashable, octets: bytes) -> None:
        found = self._way(way)
        if self._exchange is not None and self._exchange.way == way:
            self._block.write(octets)
        elif found.has_only_data:
            self._count(found, len(octets))
            if self._subject.kept_as == "data":
                self._block.write(octets)
        elif self._passing == "connection":
            self._count(found, len(octets))
            found.last = octets
        elif found.link.transport == "udp":
            self._events.say(self._keeper.now(), found.number, "receive", octets, joins=False, masked=False)
        else:
            found.pending += octets

    def closed(self, way: Hashable, *, by_peer: bool) -> None:
        found = self._way(way)
        self._heard(found, 0)
        if by_peer and found.body is not None and found.ended == "stopped":
            found.ended = "close"
        how = "orderly"
        self._add(found.number, "close", {"by": "peer" if by_peer else "us", "how": how})

    def _count(self, way: CapturedConnection, octets: int) -> None:
        if way.body is None:
            way.body = self._add(way.number, "body", {})
        way.count += octets

    # the steps of the dialogue

    def watched(self, dialogue: Dialogue[T]) -> Dialogue[T]:
        """The same dialogue, whose steps are looked at as they are done."""
        advance: Callable[[], Step] = lambda: dialogue.send(None)  # noqa: E731
        try:
            while True:
                try:
                    step = advance()
                except StopIteration as done:
                    result: T = done.value
                    return result
                try:
                    answer = yield self._before(step)
                except ResolveError as error:
                    self._after(step, None)
                    advance = _throwing(dialogue, error)
                else:
                    self._after(step, answer)
                    advance = _sending(dialogue, answer)
        finally:
            dialogue.close()

    def _before(self, step: Step) -> Step:
        match step:
            case Receive() | AwaitData():
                return step._replace(reader=self._heeding(step.reader))
            case CopyBody(source=source):
                self._passing = source
                self._framed = self._framed or step.filter is not None
                if source == "connection" and (way := self._main) is not None and way.pending:
                    self._count(way, len(way.pending))
                    way.last, way.pending = bytes(way.pending), bytearray()
            case StartBody(reply=reply):
                self._reply = reply
                if self._is_framed and self._main is not None and self._subject.wants != "facts":
                    self._main.turn_into_body(self._events)
        return step

    def _after(self, step: Step, answer: object) -> None:
        if self._answers is not None:
            self._answers.done(step, answer)
        if not isinstance(step, CopyBody):
            return
        self._passing = None
        way = self._main
        if step.source == "connection" and way is not None and isinstance(answer, CopiedBody):
            over = way.count - answer.octets
            if 0 < over <= len(way.last):  # it came with the body, and is none of it
                way.pending[:0] = way.last[-over:]
                way.count -= over
            way.ended = "length" if step.count is not None else way.ended

    def _heeding(self, reader: Reader[T]) -> Reader[T]:
        def heeding(buffer: Buffer) -> Generator[Rest | None, None, T]:
            value = yield from reader(buffer)
            if self._main is not None:
                self._heard(self._main, len(buffer))
            return value

        return heeding

    def _heard(self, way: CapturedConnection, left: int) -> None:
        """All that came there but the last octets was heard."""
        heard = bytes(way.pending[: len(way.pending) - left])
        if not heard:
            return
        del way.pending[: len(heard)]
        if self._answers is not None:
            self._answers.heard(heard)
        if self._reply is not None and self._subject.kept_as == "body":
            self._count(way, len(heard))
        else:
            self._events.say(self._keeper.now(), way.number, "receive", heard, joins=True, masked=False)

    # the body

    def given(self, octets: bytes) -> None:
        """So much of the body was read."""
        if self._subject.kept_as == "body":
            self._block.write(octets)

    def body_ended(self) -> None:
        """All of it was."""
        self._is_whole = True

    # the end

    def end(self, error: BaseException | None, *, late: bool = False) -> None:
        """It is over, and kept. Raises `LocalError` where the disk takes no more."""
        if self._is_over:
            return
        self._is_over = True
        try:
            if self._exchange is not None:
                self._end_exchange(error, late=late)
            elif not _is_nothing(error):
                self._end_object(error, late=late)
        finally:
            for spool in (self._block, self._exchange, self._answers):
                if spool is not None:
                    spool.close()

    def _end_exchange(self, error: BaseException | None, *, late: bool = False) -> None:
        """Records of an http exchange; what follows on the same URL is one of its own."""
        exchange = self._exchange
        assert exchange is not None
        is_whole = self._is_whole and error is None
        facts = exchange.finished(
            self._mask.hide, is_whole=is_whole, keeps_cookies=self._keeper.keeps_cookies
        )
        way = self._way(exchange.way)
        now = self._keeper.now()
        for event, octets in facts.said:
            self._events.say(now, way.number, event, octets, joins=True, masked=False)
        truncated = None
        if facts.object is not None:
            if not facts.is_whole:
                truncated = truncation_of(error, late=late)
            self._add(way.number, "body", facts.body)
        if truncated is not None and facts.object is not None:
            facts = facts._replace(object=facts.object._replace(truncated=truncated))
        outcome = "info" if facts.is_head else "failed" if facts.object is None else _outcome(truncated)
        failed = error if isinstance(error, ResolveError) and outcome in ("failed", "truncated") else None
        masked, expected = facts.masked, facts.expected
        end = end_of(outcome, failed, self._reply, facts.object, self._mask, masked, expected)
        self._keep(way, facts.version, end, facts.object, facts.request)
        exchange.close()
        self._exchange = None
        if not self._is_over:
            self._block.close()
            self._block = self._keeper.spool()
            self._begin()

    def _end_object(self, error: BaseException | None, *, late: bool) -> None:
        way = self._main
        for each in list(self._ways.values()):
            self._heard(each, 0)
        reply, size = self._reply, self._block.size
        if way is None and error is None and reply is not None and reply.target is not None:
            return  # it only leads elsewhere, and nothing was said
        is_info = self._subject.wants == "facts" or (reply is not None and reply.unchanged)
        is_session = self._subject.kept_as == "words" and self._is_whole and error is None
        is_object = reply is not None and not (is_info or is_session) and (size > 0 or self._is_whole)
        if not is_object or (error is not None and not size):
            outcome = "done" if is_session else "info" if error is None and is_info else "failed"
            self._finish_bodies(error, None)
            end = end_of(outcome, error, reply, None, self._mask)
            self._keep(way, self._subject.protocol, end, None, None)
            return
        truncated = None if self._is_whole and error is None else truncation_of(error, late=late)
        assert reply is not None
        if truncated is None and (reply.start or reply.stop is not None):
            truncated = truncation_of(None, late=False)
        if self._answers is not None and reply.listing is not None and reply.records is None:
            media_type, block = self._answers.finish()
        else:
            media_type = type_of(self._subject, reply, self._command, self._mask)
            block = RecordBlock(size, self._block.pieces)
        kept = resource_of(media_type, block, truncated)
        self._finish_bodies(error, None if block.size != size else size)
        end = end_of(_outcome(truncated), error, reply, kept, self._mask)
        self._keep(way, self._subject.protocol, end, kept, None)

    def _finish_bodies(self, error: BaseException | None, size: int | None) -> None:
        """What came for the object, by its connection; all of it became the block."""
        bodies = [way for way in list(self._ways.values()) if way.body is not None]
        verified = set() if self._reply is None else self._reply.verified
        for way in bodies:
            ended = way.ended
            if error is not None:
                ended = "reset"
            elif "terminator" in verified:
                ended = "terminator"
            elif "close-notify" in verified:
                ended = "close_notify"
            changed = self._framed and (way.count != size or "terminator" in verified)
            framing = "length" if ended == "length" else "dots" if changed else "none"
            if self._is_framed:
                framing = "messages"
            elif self._subject.kept_as == "body" and not self._framed and ended == "terminator":
                framing = "dots"
            whole: JsonValue = [0, size] if len(bodies) == 1 and size is not None else None
            way.describe(framing, ended, whole)

    def _keep(
        self,
        way: CapturedConnection | None,
        protocol: str | None,
        end: dict[str, JsonValue],
        kept: CapturedObject | None,
        request: RecordBlock | None,
    ) -> None:
        now = self._keeper.now()
        key = next((key for key, each in list(self._ways.items()) if each is way), None)
        tls = self._tls.get(key)
        group = RecordGroup(
            subject=self._subject,
            date=self._events.begun,
            address=None if way is None else way.link.address,
            protocols=[word for word in (protocol, None if tls is None else tls.version) if word],
            cipher=None if tls is None else tls.cipher,
            object=kept,
            request=request,
            metadata=metadata_of(self._subject, self._events, now, end),
        )
        self._keeper.keep(group)


def _outcome(truncated: str | None) -> str:
    return "done" if truncated is None else "truncated"


def _is_nothing(error: BaseException | None) -> bool:
    """Is this the error of a URL of which nothing was fetched, so that nothing is written?"""
    return isinstance(error, Refused | InvalidUrl | UnsupportedScheme | LocalError)


def _throwing(dialogue: Dialogue[object], error: ResolveError) -> Callable[[], Step]:
    return lambda: dialogue.throw(error)


def _sending(dialogue: Dialogue[object], answer: object) -> Callable[[], Step]:
    return lambda: dialogue.send(answer)
