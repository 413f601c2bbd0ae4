"""The capture of one request for one URL: connections, protocol exchange (dialogue), body and outcome.

Each redirect is a separate capture. A `Capture` receives all bytes of its connections (see
`resolver/network/stream_settings.py`), the steps of the dialogue, and the body. At the end, the capture is
converted to a group of records. The module neither waits nor opens files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Hashable, Iterator
from hashlib import sha1, sha256
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from protocols.contract import FileStatus, LocalFile, Reply
from protocols.errors import InvalidUrl, LocalError, Refused, ResolveError, UnsupportedScheme
from protocols.location import JsonValue
from protocols.scheme import KeptListing
from protocols.step import (
    AwaitData,
    CopiedBody,
    CopyBody,
    DatagramReply,
    Dialogue,
    ExchangeDatagrams,
    OpenFile,
    ReadNames,
    Receive,
    StartBody,
    Step,
)
from protocols.wire import Buffer, Reader, Rest
from resolver.warc.group import (
    CapturedConnection,
    CapturedObject,
    CaptureSink,
    CaptureSubject,
    DialogueEvent,
    RecordGroup,
    choose_media_type,
    make_end,
    make_metadata,
    make_resource,
    name_truncation,
)
from resolver.warc.group import DialogueRecord as Events
from resolver.warc.http import MAX_HEAD, ArchivedHead, ChunkDecoder, find_heads, mask_heads, masked_fields
from resolver.warc.writing import RecordBlock, digest_text

if TYPE_CHECKING:
    from resolver.files.archive import ByteSpool
    from resolver.network.mask import Mask
    from resolver.network.stream_settings import TappedConnection, TlsFacts


# Some listings consist of the server's replies to commands. The archive stores these replies, so that a later
# reader can parse the replies again.
#
# The scheme definition selects the stored replies (`protocols.scheme.KeptListing`). These are the replies to
# some commands, the last reply, the packets of the last reply, or the names in a local directory.


class _ReplySpan(NamedTuple):
    """The replies to the commands of one send call, from `begin` to `end` in the temporary file."""

    words: tuple[str, ...]
    begin: int
    end: int = 0


class AnswerListing:
    """A recorder that stores the replies of a listing, selected by the settings, in the file `spool`."""

    def __init__(self, settings: KeptListing, spool: ByteSpool) -> None:
        self._settings = settings
        self._spool = spool
        self._spans: list[_ReplySpan] = []
        self._current: _ReplySpan | None = None
        self._first = b""
        self._file: LocalFile | None = None

    def close(self) -> None:
        self._spool.close()

    def record_sent(self, octets: bytes) -> None:
        """Record sent commands; the bytes received after them are the replies to these commands."""
        self._complete_reply()
        if self._settings.how == "last":
            self._spans.clear()
            self._current = _ReplySpan((), self._spool.size)
        elif self._settings.how == "answers":
            words = tuple(self._parse_command(line) for line in octets.splitlines())
            if not all(word.partition("_")[0] in self._settings.commands for word in words):
                return
            # The client requested the listing again, so the earlier replies are discarded.
            if self._spans and words[0] == self._spans[0].words[0]:
                self._spans.clear()
            self._current = _ReplySpan(words, self._spool.size)

    @staticmethod
    def _parse_command(line: bytes) -> str:
        words = line.decode("latin-1").upper().split()
        return "_".join(words[:2] if words[:1] == ["LIST"] else words[:1])

    def record_received(self, octets: bytes) -> None:
        """Record received bytes as part of a reply."""
        if self._current is not None:
            self._first += octets[: 1 - len(self._first)]
            self._spool.write(octets)

    def _complete_reply(self) -> None:
        """Complete the replies to the last commands, without an error reply (4xx or 5xx)."""
        current, self._current = self._current, None
        is_error = self._settings.how == "answers" and self._first in (b"4", b"5")
        if current is not None and self._first and not is_error:
            self._spans.append(current._replace(end=self._spool.size))
        self._first = b""

    def record_step(self, step: Step, answer: object) -> None:
        """Record the result of a step of the dialogue."""
        method = self._settings.how
        if method == "packets" and isinstance(step, ExchangeDatagrams) and isinstance(answer, DatagramReply):
            self._replace_all(b"".join(answer.pieces))
        elif method == "names" and isinstance(step, OpenFile):
            self._file = cast("LocalFile", answer)
        elif method == "names" and isinstance(step, ReadNames) and self._file is not None:
            names = cast("list[bytes]", answer)
            self._replace_all(b"".join(_encode_entry(name, self._file.status_of(name)) for name in names))

    def _replace_all(self, octets: bytes) -> None:
        """Replace all stored bytes by `octets`."""
        begin = self._spool.size
        self._spool.write(octets)
        self._spans = [_ReplySpan((), begin, self._spool.size)]

    def finish(self) -> tuple[str, RecordBlock]:
        """Return the media type of the listing, and a block with all replies."""
        self._complete_reply()
        commands = [word for span in self._spans for word in span.words]
        media_type = self._settings.media_type
        if commands:
            media_type += f'; commands="{" ".join(_drop_repeated(commands))}"'
        ranges = [(span.begin, span.end - span.begin) for span in self._spans]

        def pieces() -> Iterator[bytes]:
            for begin, size in ranges:
                yield from self._spool.pieces(begin, size)

        return media_type, RecordBlock(sum(size for _, size in ranges), pieces)


def _drop_repeated(commands: list[str]) -> list[str]:
    """Return the commands without duplicates of the last command at the end of the list."""
    while len(commands) > 1 and commands[-1] == commands[-2]:
        commands = commands[:-1]
    return commands


def _encode_entry(name: bytes, status: FileStatus) -> bytes:
    """Return an entry of a local directory as a line of JSON."""
    modified = None if status.modified is None else status.modified.isoformat().replace("+00:00", "Z")
    members = {"name": name.decode("latin-1"), "kind": status.kind.value, "size": status.size}
    return json.dumps({**members, "modified": modified}, separators=(",", ":")).encode("ascii") + b"\n"


# An HTTP request and its response are stored in two records, with the bytes of the connection.

_REQUEST = re.compile(rb"[A-Z]+ [^\r\n]* HTTP/1\.[01]\r\n")
RESPONSE = "application/http;msgtype=response"


def is_request(octets: bytes) -> bool:
    """Return whether the bytes start an HTTP/1 request other than CONNECT (a proxy tunnel)."""
    return _REQUEST.match(octets) is not None and not octets.startswith(b"CONNECT ")


class HttpCaptureFacts(NamedTuple):
    """The records of an HTTP exchange.

    Attributes:
        events: the bytes outside the records, such as interim responses.
        body: the JSON members of the event that describes the body.
    """

    object: CapturedObject | None
    request: RecordBlock | None
    is_head: bool
    is_whole: bool
    version: str | None
    events: list[tuple[str, bytes]]
    body: dict[str, JsonValue]
    masked: list[str]
    expected: int | None


class HttpCapture:
    """The bytes of an HTTP request and of its response."""

    def __init__(self, key: Hashable, spool: Callable[[], ByteSpool], received: ByteSpool) -> None:
        self.key = key
        self.request = spool()
        self._received = received

    def close(self) -> None:
        self.request.close()

    def make_records(
        self, hide: Callable[[bytes], bytes], *, is_whole: bool, keeps_cookies: bool
    ) -> HttpCaptureFacts:
        """Return the records of the exchange.

        Args:
            hide: A function that masks secrets in bytes.
            is_whole: Whether a response without a length was received completely.
            keeps_cookies: Whether cookie values in the response stay unmasked.
        """
        request = self.request.read_first(MAX_HEAD)
        is_head = request.startswith(b"HEAD ")
        masked = [f"request:{name}" for name in masked_fields(request)]
        received = self._received.read_first(MAX_HEAD)
        answer = find_heads(received)

        def mask(octets: bytes) -> tuple[bytes, list[str]]:
            return mask_heads(octets, has_secrets=bool(masked), keeps_cookies=keeps_cookies, hide=hide)

        events: list[tuple[str, bytes]] = []
        if answer is None:
            octets, names = mask(received)
            masked += [f"response:{name}" for name in names]
            events = [("send", request), *([("receive", octets)] if octets else [])]
            return HttpCaptureFacts(None, None, is_head, False, None, events, {}, masked, None)
        head, names = mask(answer.head)
        if answer.interim:
            interim, early_names = mask(received[: answer.interim])
            names = early_names + names
            events.append(("receive", interim))
        masked += [f"response:{name}" for name in dict.fromkeys(names)]
        if is_head:
            events = [("send", request), *events, ("receive", head)]
            return HttpCaptureFacts(None, None, True, True, answer.version, events, {}, masked, None)
        length, begin = answer.length, answer.size
        size = self._received.size - begin
        if length is not None:
            is_whole = size >= length
            size = min(size, length)  # Bytes after the stated length are not part of the body.
        unchunked = ChunkDecoder(answer.head) if answer.is_coded else None
        captured = self._make_object(head, answer, range(begin, begin + size), unchunked)
        if unchunked is not None:
            is_whole, framing, ended = unchunked.is_whole, "chunks", "terminator"
        else:
            framing, ended = ("none", "close") if length is None else ("length", "length")
        body: dict[str, JsonValue] = {
            "count": size,
            "block": [len(head), captured.block.size],
            "framing": framing,
            "ended": ended if is_whole else "reset",
        }
        sent = RecordBlock(self.request.size, self.request.pieces)
        expected = None if is_whole else length
        return HttpCaptureFacts(
            captured, sent, False, is_whole, answer.version, events, body, masked, expected
        )

    def _make_object(
        self, head: bytes, answer: ArchivedHead, body: range, unchunked: ChunkDecoder | None
    ) -> CapturedObject:
        """Return the response record: the masked head, and the bytes of the body, which are read once."""
        raw, payload, count = sha1(usedforsecurity=False), sha256(), 0
        block = sha1(head, usedforsecurity=False)
        for piece in self._received.pieces(body.start, len(body)):
            block.update(piece)
            content = piece if unchunked is None else unchunked.take(piece)
            raw.update(content)
            payload.update(content)
            count += len(content)
        digest = digest_text(raw.digest())
        return CapturedObject(
            type="response",
            content_type=RESPONSE,
            block=RecordBlock(
                len(head) + len(body),
                lambda: chain((head,), self._received.pieces(body.start, len(body))),
                digest_text(block.digest()),
            ),
            head=head,
            payload_digest=digest if unchunked is None else None,
            digest=digest,
            sha256=payload.hexdigest(),
            size=count,
            truncated=None,
            status=answer.status,
            media_type=ArchivedHead(0, head).media_type,
            is_indexed=self.request.read_first(4) == b"GET ",
        )


T = TypeVar("T")

#: The steps that show which received bytes belong to the object.
_WATCHED = (Receive, AwaitData, CopyBody, StartBody)

_PASSWORD = re.compile(rb"(?m)^(PASS|ACCT) [^\r\n]+")


class Capture:
    """The capture of one request for one URL.

    For HTTP, the bytes of the connection are captured (`_exchange`). For other protocols, the bytes of the
    object are collected in `_block`. Outside HTTP, each received byte belongs either to the dialogue or
    to the body. Bytes of the dialogue are recorded in events, and bytes of the body are only counted. The
    `pending` bytes of a connection are received bytes that no reader has consumed. During a `CopyBody` step,
    `_copy_source` is the name of the body's source.
    """

    def __init__(self, subject: CaptureSubject, sink: CaptureSink, mask: Mask) -> None:
        self._subject = subject
        self.is_exchange = subject.row.kept_as == "exchange"
        self._sink = sink
        self._mask = mask
        self._reply: Reply | None = None
        self._block = sink.spool()
        self._exchange: HttpCapture | None = None
        listing = subject.row.listing_kept
        self._answers = None if listing is None else AnswerListing(listing, sink.spool())
        self._keeps_last_reply = listing is not None and listing.how == "last"
        self._copy_source: str | None = None
        self._has_filter = False
        self._command = b""
        self._is_whole = False
        self._is_over = False
        self._taps: dict[Hashable, TappedConnection] = {}
        self._tls_facts: dict[Hashable, TlsFacts] = {}
        self._begin()

    def _begin(self) -> None:
        self._events = Events(self._sink.now(), self._mask.hide)
        self._connections: dict[Hashable, CapturedConnection] = {}
        self._main: CapturedConnection | None = None
        subject = self._subject
        begin: dict[str, JsonValue] = {"format": 1, "url": subject.shown, "origin": subject.origin}
        if subject.attempt > 1:
            begin["attempt"] = subject.attempt
        self._events.add(self._events.begun, 0, "begin", begin)

    def _add_event(self, connection: int, event: str, members: dict[str, JsonValue]) -> DialogueEvent:
        return self._events.add(self._sink.now(), connection, event, members)

    @property
    def size(self) -> int:
        """Return the number of bytes of the object, over HTTP with the heads of the responses."""
        return self._block.size

    # the bytes of the connections

    def record_connected(self, key: Hashable, link: TappedConnection) -> None:
        self._taps[key] = link
        self._add_connection(key, link)

    def _add_connection(self, key: Hashable, link: TappedConnection) -> CapturedConnection:
        connection = self._connections[key] = CapturedConnection(len(self._connections) + 1, key, link)
        self._main = connection
        connection.opened = self._add_event(connection.number, "connect", link._asdict())
        return connection

    def _get_connection(self, key: Hashable) -> CapturedConnection:
        """Return a connection of this capture.

        A connection that was opened before the capture is first added to the capture as a reused connection.
        """
        return self._connections.get(key) or self._add_connection(key, self._taps[key]._replace(reused=True))

    def record_secured(self, key: Hashable, tls: TlsFacts) -> None:
        self._tls_facts[key] = tls
        self._add_event(self._get_connection(key).number, "tls", tls._asdict())

    def mark_data_connection(self, key: Hashable) -> None:
        data = self._get_connection(key)
        data.has_only_data = True
        if data.opened is not None:
            data.opened.members["role"] = "data"
        self._main = next(
            (other for other in reversed(self._connections.values()) if not other.has_only_data), self._main
        )

    def record_sent(self, key: Hashable, shown: bytes, *, masked: bool) -> None:
        connection = self._get_connection(key)
        self._command = shown.partition(b" ")[0].strip()
        if self.is_exchange:
            if is_request(shown):
                if self._exchange is not None:
                    self._end_exchange(None)
                    connection = self._get_connection(key)
                self._exchange = HttpCapture(key, self._sink.spool, self._block)
            if self._exchange is not None and self._exchange.key == key:
                self._exchange.request.write(shown)
                return
        # The password of an anonymous FTP login is usually an email address, so it is masked.
        if self._subject.row.kept_as == "data" and _PASSWORD.search(shown):
            shown, masked = _PASSWORD.sub(rb"\1 ****", shown), True
        if self._answers is not None:
            self._answers.record_sent(shown)
        joins = connection.link.transport == "tcp"
        self._events.log(self._sink.now(), connection.number, "send", shown, joins=joins, masked=masked)

    def record_received(self, key: Hashable, octets: bytes) -> None:
        connection = self._get_connection(key)
        if self._exchange is not None and self._exchange.key == key:
            self._block.write(octets)
        elif connection.has_only_data:
            self._count_body(connection, len(octets))
            if self._subject.row.kept_as == "data":
                self._block.write(octets)
        elif self._copy_source == "connection":
            self._count_body(connection, len(octets))
            connection.last = octets
        elif connection.link.transport == "udp":
            self._events.log(
                self._sink.now(), connection.number, "receive", octets, joins=False, masked=False
            )
        else:
            connection.pending += octets

    def record_closed(self, key: Hashable, *, by_peer: bool) -> None:
        connection = self._get_connection(key)
        self._record_pending(connection, 0)
        if by_peer and connection.body is not None and connection.ended == "stopped":
            connection.ended = "close"
        by = "peer" if by_peer else "us"
        self._add_event(connection.number, "close", {"by": by, "how": "orderly"})

    def _count_body(self, connection: CapturedConnection, octets: int) -> None:
        if connection.body is None:
            connection.body = self._add_event(connection.number, "body", {})
        connection.count += octets

    # the steps of the dialogue

    def watch_dialogue(self, dialogue: Dialogue[T]) -> Dialogue[T]:
        """Return a dialogue that records each step of `dialogue`."""
        answer: object = None
        failed: ResolveError | None = None
        try:
            while True:
                step = dialogue.send(answer) if failed is None else dialogue.throw(failed)
                answer = failed = None
                try:
                    answer = yield self._watch_step(step) if isinstance(step, _WATCHED) else step
                except ResolveError as error:
                    failed = error
                if self._answers is not None and failed is None:
                    self._answers.record_step(step, answer)
                if isinstance(step, CopyBody):
                    self._record_copied(step, answer)
        except StopIteration as done:
            self._is_whole = self._is_whole or self.is_exchange
            result: T = done.value
            return result
        finally:
            dialogue.close()

    def _watch_step(self, step: Step) -> Step:
        match step:
            case Receive() | AwaitData() if self._exchange is None:
                return step._replace(reader=self._watch_reader(step.reader))
            case CopyBody(source=source):
                self._copy_source = source
                self._has_filter = self._has_filter or step.filter is not None
                if source == "connection" and (connection := self._main) is not None and connection.pending:
                    self._count_body(connection, len(connection.pending))
                    connection.last, connection.pending = bytes(connection.pending), bytearray()
            case StartBody(reply=reply):
                self._reply = reply
                if self._keeps_last_reply and self._main is not None and self._subject.wants != "facts":
                    self._main.turn_into_body(self._events)
        return step

    def _record_copied(self, step: CopyBody, answer: object) -> None:
        self._copy_source = None
        connection = self._main
        if step.source == "connection" and connection is not None and isinstance(answer, CopiedBody):
            excess = connection.count - answer.octets
            if 0 < excess <= len(connection.last):  # The last `excess` bytes of the block follow the body.
                connection.pending[:0] = connection.last[-excess:]
                connection.count -= excess
            connection.ended = "length" if step.count is not None else connection.ended

    def _watch_reader(self, reader: Reader[T]) -> Reader[T]:
        def read_and_record(buffer: Buffer) -> Generator[Rest | None, None, T]:
            value = yield from reader(buffer)
            if self._main is not None:
                self._record_pending(self._main, len(buffer))
            return value

        return read_and_record

    def _record_pending(self, connection: CapturedConnection, unread: int) -> None:
        """Record all pending bytes, except the last `unread` bytes, as received."""
        octets = bytes(connection.pending[: len(connection.pending) - unread])
        if not octets:
            return
        del connection.pending[: len(octets)]
        if self._answers is not None:
            self._answers.record_received(octets)
        if self._reply is not None and self._subject.row.kept_as == "body":
            self._count_body(connection, len(octets))
        else:
            self._events.log(self._sink.now(), connection.number, "receive", octets, joins=True, masked=False)

    # the body

    def record_body(self, octets: bytes) -> None:
        """Record bytes that were read from the body."""
        if self._subject.row.kept_as == "body":
            self._block.write(octets)

    def record_body_end(self) -> None:
        """Record that the complete body was read."""
        self._is_whole = True

    # the end of the capture

    def end(self, error: BaseException | None, *, late: bool = False) -> None:
        """End the capture and write its records, unless the error occurred before any request.

        Args:
            error: The error of the retrieval; None after a success.
            late: Whether the total time limit passed.

        Raises:
            LocalError: The disk is full or fails.
        """
        if self._is_over:
            return
        self._is_over = True
        try:
            if self._exchange is not None:
                self._end_exchange(error, late=late)
            elif not isinstance(error, Refused | InvalidUrl | UnsupportedScheme | LocalError):
                self._end_object(error, late=late)
        finally:
            self._reply = None  # The recorded body of the reply refers to this capture.
            for spool in (self._block, self._exchange, self._answers):
                if spool is not None:
                    spool.close()

    def _end_exchange(self, error: BaseException | None, *, late: bool = False) -> None:
        """Write the records of an HTTP exchange, and start another capture for a later request."""
        exchange = self._exchange
        assert exchange is not None
        is_whole = self._is_whole and error is None
        facts = exchange.make_records(
            self._mask.hide, is_whole=is_whole, keeps_cookies=self._sink.keeps_cookies
        )
        connection = self._get_connection(exchange.key)
        now = self._sink.now()
        for event, octets in facts.events:
            self._events.log(now, connection.number, event, octets, joins=True, masked=False)
        captured = facts.object
        if captured is not None:
            self._events.add(now, connection.number, "body", facts.body)
            if not facts.is_whole:
                captured = captured._replace(truncated=name_truncation(error, late=late))
        outcome = "info" if facts.is_head else _name_outcome(captured)
        failed = error if isinstance(error, ResolveError) and outcome in ("failed", "truncated") else None
        masked, expected = facts.masked, facts.expected
        end = make_end(outcome, failed, self._reply, captured, self._mask, masked, expected)
        self._write_group(connection, facts.version, end, captured, facts.request)
        exchange.close()
        self._exchange = None
        if not self._is_over:
            self._block.close()
            self._block = self._sink.spool()
            self._begin()

    def _end_object(self, error: BaseException | None, *, late: bool) -> None:
        connection = self._main
        for opened in list(self._connections.values()):
            self._record_pending(opened, 0)
        reply, size = self._reply, self._block.size
        if connection is None and error is None and reply is not None and reply.target is not None:
            return  # The URL only refers to another URL, so no request was sent.
        is_info = self._subject.wants == "facts" or (reply is not None and reply.unchanged)
        is_session = self._subject.row.kept_as == "words" and self._is_whole and error is None
        is_object = reply is not None and not (is_info or is_session) and (size > 0 or self._is_whole)
        if not is_object or (error is not None and not size):
            outcome = "done" if is_session else "info" if error is None and is_info else "failed"
            self._finish_bodies(error, None)
            end = make_end(outcome, error, reply, None, self._mask)
            self._write_group(connection, self._subject.row.archived_as, end, None, None)
            return
        truncated = None if self._is_whole and error is None else name_truncation(error, late=late)
        assert reply is not None
        if truncated is None and (reply.start or reply.stop is not None):
            truncated = name_truncation(None, late=False)
        if self._answers is not None and reply.listing is not None and reply.records is None:
            media_type, block = self._answers.finish()
        else:
            media_type = choose_media_type(self._subject, reply, self._command, self._mask)
            block = RecordBlock(size, self._block.pieces)
        captured = make_resource(media_type, block, truncated)
        self._finish_bodies(error, None if block.size != size else size)
        end = make_end(_name_outcome(captured), error, reply, captured, self._mask)
        self._write_group(connection, self._subject.row.archived_as, end, captured, None)

    def _finish_bodies(self, error: BaseException | None, size: int | None) -> None:
        """Add an event for each connection that describes the bytes of the object."""
        connections = [item for item in list(self._connections.values()) if item.body is not None]
        verified = set() if self._reply is None else self._reply.verified
        for connection in connections:
            ended = connection.ended
            if error is not None:
                ended = "reset"
            elif "terminator" in verified:
                ended = "terminator"
            elif "close-notify" in verified:
                ended = "close_notify"
            if self._keeps_last_reply:
                framing = "messages"
            elif self._subject.row.kept_as == "body" and not self._has_filter and ended == "terminator":
                framing = "dots"
            elif ended == "length":
                framing = "length"
            elif self._has_filter and (connection.count != size or "terminator" in verified):
                framing = "dots"
            else:
                framing = "none"
            block: JsonValue = [0, size] if len(connections) == 1 and size is not None else None
            connection.describe(framing, ended, block)

    def _write_group(
        self,
        connection: CapturedConnection | None,
        protocol: str | None,
        end: dict[str, JsonValue],
        captured: CapturedObject | None,
        request: RecordBlock | None,
    ) -> None:
        now = self._sink.now()
        tls = None if connection is None else self._tls_facts.get(connection.key)
        group = RecordGroup(
            subject=self._subject,
            date=self._events.begun,
            address=None if connection is None else connection.link.address,
            protocols=[word for word in (protocol, None if tls is None else tls.version) if word],
            cipher=None if tls is None else tls.cipher,
            object=captured,
            request=request,
            metadata=make_metadata(self._subject, self._events, now, end),
        )
        self._sink.write_group(group)


def _name_outcome(captured: CapturedObject | None) -> str:
    if captured is None:
        return "failed"
    return "done" if captured.truncated is None else "truncated"
