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
    SpooledBytes,
    end_of,
    metadata_of,
    resource_of,
    truncation_of,
    type_of,
)
from resolver.warc.group import DialogueRecord as Events
from resolver.warc.http import MAX_HEAD, AnswerSpan, ChunkDecoder, find_answer, mask_answer, masked_fields
from resolver.warc.writing import RecordBlock, digest_text

if TYPE_CHECKING:
    from resolver.network.mask import Mask
    from resolver.network.stream_settings import TappedConnection, TlsFacts


# Some listings consist of the server's replies to commands. The archive stores these replies, so that a later
# reader can parse the replies again.
#
# The scheme definition selects the stored replies (`protocols.scheme.KeptListing`). These are the replies to
# some commands, the last reply, the packets of the last reply, or the names in a local directory.


class _AnswerSpan(NamedTuple):
    """The replies to the commands of one send call; `begin` is their offset in the temporary file."""

    words: tuple[str, ...]
    begin: int


class AnswerListing:
    """A recorder of the replies that form a listing.

    The settings `wanted` select the replies, and `spool` is the temporary file for the replies.
    """

    def __init__(self, wanted: KeptListing, spool: SpooledBytes) -> None:
        self._wanted = wanted
        self._spool = spool
        self._stretches: list[_AnswerSpan] = []
        self._ranges: list[tuple[int, int]] = []
        self._current: _AnswerSpan | None = None
        self._first = b""
        self._file: LocalFile | None = None

    def close(self) -> None:
        self._spool.close()

    def record_sent(self, octets: bytes) -> None:
        """Record sent commands; the bytes received after them are the replies to these commands."""
        self._settle()
        if self._wanted.how == "last":
            self._stretches, self._ranges = [], []
            self._current = _AnswerSpan((), self._spool.size)
        elif self._wanted.how == "answers":
            words = tuple(self._word(line) for line in octets.splitlines())
            if not all(word.partition("_")[0] in self._wanted.commands for word in words):
                return
            # The client requested the listing again, so the earlier replies are discarded.
            if self._stretches and words[0] == self._stretches[0].words[0]:
                self._stretches, self._ranges = [], []
            self._current = _AnswerSpan(words, self._spool.size)

    @staticmethod
    def _word(line: bytes) -> str:
        words = line.decode("latin-1").upper().split()
        return "_".join(words[:2] if words[:1] == ["LIST"] else words[:1])

    def record_received(self, octets: bytes) -> None:
        """Record received bytes as part of a reply."""
        if self._current is not None:
            self._first += octets[: 1 - len(self._first)]
            self._spool.write(octets)

    def _settle(self) -> None:
        """Complete the replies to the last commands, without an error reply (4xx or 5xx)."""
        current, self._current = self._current, None
        is_no = self._wanted.how == "answers" and self._first in (b"4", b"5")
        if current is not None and self._first and not is_no:
            self._stretches.append(current)
            self._ranges.append((current.begin, self._spool.size))
        self._first = b""

    def record_step(self, step: Step, answer: object) -> None:
        """Record the result of a step of the dialogue."""
        how = self._wanted.how
        if how == "packets" and isinstance(step, ExchangeDatagrams) and isinstance(answer, DatagramReply):
            self._put(b"".join(answer.pieces))
        elif how == "names" and isinstance(step, OpenFile):
            self._file = cast("LocalFile", answer)
        elif how == "names" and isinstance(step, ReadNames) and self._file is not None:
            names = cast("list[bytes]", answer)
            self._put(b"".join(_line(name, self._file.status_of(name)) for name in names))

    def _put(self, octets: bytes) -> None:
        """Replace all stored bytes by `octets`."""
        begin = self._spool.size
        self._spool.write(octets)
        self._ranges = [(begin, self._spool.size)]

    def finish(self) -> tuple[str, RecordBlock]:
        """Return the media type of the listing, and a block with all replies."""
        self._settle()
        commands: list[str] = []
        for stretch in self._stretches:
            commands += stretch.words
        media_type = self._wanted.media_type
        if commands:
            media_type += f'; commands="{" ".join(_drop_repeated(commands))}"'
        ranges = list(self._ranges)

        def pieces() -> Iterator[bytes]:
            for begin, end in ranges:
                yield from self._spool.pieces(begin, end - begin)

        return media_type, RecordBlock(sum(end - begin for begin, end in ranges), pieces)


def _drop_repeated(commands: list[str]) -> list[str]:
    """Return the commands without duplicates of the last command at the end of the list."""
    while len(commands) > 1 and commands[-1] == commands[-2]:
        commands = commands[:-1]
    return commands


def _line(name: bytes, status: FileStatus) -> bytes:
    """Return an entry of a local directory as a line of JSON."""
    modified = None if status.modified is None else status.modified.isoformat().replace("+00:00", "Z")
    said = {
        "name": name.decode("latin-1"),
        "kind": status.kind.value,
        "size": status.size,
        "modified": modified,
    }
    return json.dumps(said, separators=(",", ":")).encode("ascii") + b"\n"


# An HTTP request and its response are stored in two records, with the bytes of the connection.

_REQUEST = re.compile(rb"[A-Z]+ [^\r\n]* HTTP/1\.[01]\r\n")
RESPONSE = "application/http;msgtype=response"


def is_request(octets: bytes) -> bool:
    """Return whether the bytes start an HTTP/1 request other than CONNECT (a proxy tunnel)."""
    return _REQUEST.match(octets) is not None and not octets.startswith(b"CONNECT ")


class HttpCaptureFacts(NamedTuple):
    """The records of an HTTP exchange.

    Attributes:
        said: the bytes outside the records, such as interim responses.
        body: the JSON members of the event that describes the body.
    """

    object: CapturedObject | None
    request: RecordBlock | None
    is_head: bool
    is_whole: bool
    version: str | None
    said: list[tuple[str, bytes]]
    body: dict[str, JsonValue]
    masked: list[str]
    expected: int | None


class HttpCapture:
    """The bytes of an HTTP request (`asked`) and of its response."""

    def __init__(self, way: Hashable, spool: Callable[[], SpooledBytes], came: SpooledBytes) -> None:
        self.way = way
        self.asked = spool()
        self._came = came

    def close(self) -> None:
        self.asked.close()

    def make_records(
        self, hide: Callable[[bytes], bytes], *, is_whole: bool, keeps_cookies: bool
    ) -> HttpCaptureFacts:
        """Return the records of the exchange.

        Args:
            hide: A function that masks secrets in bytes.
            is_whole: Whether a response without a length was received completely.
            keeps_cookies: Whether cookie values in the response stay unmasked.
        """
        request = self.asked.read_first(MAX_HEAD)
        is_head = request.startswith(b"HEAD ")
        masked = [f"request:{name}" for name in masked_fields(request)]
        came = self._came.read_first(MAX_HEAD)
        answer = find_answer(came)

        def mask(octets: bytes) -> tuple[bytes, list[str]]:
            return mask_answer(octets, has_secrets=bool(masked), keeps_cookies=keeps_cookies, hide=hide)

        said: list[tuple[str, bytes]] = []
        if answer is None:
            octets, names = mask(came)
            masked += [f"response:{name}" for name in names]
            said = [("send", request), *([("receive", octets)] if octets else [])]
            return HttpCaptureFacts(None, None, is_head, False, None, said, {}, masked, None)
        head, names = mask(answer.head)
        if answer.interim:
            interim, early_names = mask(came[: answer.interim])
            names = early_names + names
            said.append(("receive", interim))
        masked += [f"response:{name}" for name in dict.fromkeys(names)]
        if is_head:
            said = [("send", request), *said, ("receive", head)]
            return HttpCaptureFacts(None, None, True, True, answer.version, said, {}, masked, None)
        coded, length = answer.is_coded, answer.length
        begin = answer.interim + len(answer.head)
        size = self._came.size - begin
        if length is not None:
            is_whole = size >= length
            size = min(size, length)  # Bytes after the stated length are not part of the body.
        raw, payload, count = sha1(usedforsecurity=False), sha256(), 0
        block = sha1(head, usedforsecurity=False)
        unchunked = ChunkDecoder(answer.head) if coded else None
        for piece in self._came.pieces(begin, size):
            block.update(piece)
            made = piece if unchunked is None else unchunked.take(piece)
            raw.update(made)
            payload.update(made)
            count += len(made)
        if unchunked is not None:
            is_whole = unchunked.is_whole
        digest = digest_text(raw.digest())
        kept = CapturedObject(
            type="response",
            content_type=RESPONSE,
            block=RecordBlock(
                len(head) + size,
                lambda: chain((head,), self._came.pieces(begin, size)),
                digest_text(block.digest()),
            ),
            head=head,
            payload_digest=None if coded else digest,
            digest=digest,
            sha256=payload.hexdigest(),
            size=count,
            truncated=None,
            status=answer.status,
            media_type=AnswerSpan(0, head).media_type,
            is_found=request.startswith(b"GET "),
        )
        body: dict[str, JsonValue] = {
            "count": size,
            "block": [len(head), kept.block.size],
            "framing": "chunks" if coded else "none" if length is None else "length",
            "ended": "reset" if not is_whole else "terminator" if coded else "length",
        }
        if is_whole and not coded and length is None:
            body["ended"] = "close"
        asked = RecordBlock(self.asked.size, self.asked.pieces)
        expected = None if is_whole else length
        return HttpCaptureFacts(kept, asked, False, is_whole, answer.version, said, body, masked, expected)


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
    `_passing` is the name of the body's source.
    """

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

    @property
    def size(self) -> int:
        """Return the number of bytes of the object, over HTTP with the heads of the responses."""
        return self._block.size

    # the bytes of the connections

    def record_connected(self, way: Hashable, link: TappedConnection) -> None:
        self._known[way] = link
        self._take(way, link)

    def _take(self, key: Hashable, link: TappedConnection) -> CapturedConnection:
        way = self._ways[key] = CapturedConnection(len(self._ways) + 1, key, link)
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
        """Return a connection of this capture.

        A connection that was opened before the capture is first added to the capture as a reused connection.
        """
        found = self._ways.get(key)
        return self._take(key, self._known[key]._replace(reused=True)) if found is None else found

    def record_secured(self, way: Hashable, tls: TlsFacts) -> None:
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

    def record_sent(self, way: Hashable, shown: bytes, *, masked: bool) -> None:
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
        # The password of an anonymous FTP login is usually an email address, so it is masked.
        if self._subject.kept_as == "data" and _PASSWORD.search(shown):
            shown, masked = _PASSWORD.sub(rb"\1 ****", shown), True
        if self._answers is not None:
            self._answers.record_sent(shown)
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
                if self._answers is not None:
                    self._answers.record_step(step, answer)
                if isinstance(step, CopyBody):
                    self._record_copied(step, answer)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            dialogue.close()

    def _watch_step(self, step: Step) -> Step:
        match step:
            case Receive() | AwaitData() if self._exchange is None:
                return step._replace(reader=self._watch_reader(step.reader))
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

    def _record_copied(self, step: CopyBody, answer: object) -> None:
        self._passing = None
        way = self._main
        if step.source == "connection" and way is not None and isinstance(answer, CopiedBody):
            over = way.count - answer.octets
            if 0 < over <= len(way.last):  # The last `over` bytes of the block follow the body.
                way.pending[:0] = way.last[-over:]
                way.count -= over
            way.ended = "length" if step.count is not None else way.ended

    def _watch_reader(self, reader: Reader[T]) -> Reader[T]:
        def heeding(buffer: Buffer) -> Generator[Rest | None, None, T]:
            value = yield from reader(buffer)
            if self._main is not None:
                self._heard(self._main, len(buffer))
            return value

        return heeding

    def _heard(self, way: CapturedConnection, left: int) -> None:
        """Record all pending bytes, except the last `left` bytes, as received."""
        heard = bytes(way.pending[: len(way.pending) - left])
        if not heard:
            return
        del way.pending[: len(heard)]
        if self._answers is not None:
            self._answers.record_received(heard)
        if self._reply is not None and self._subject.kept_as == "body":
            self._count(way, len(heard))
        else:
            self._events.say(self._keeper.now(), way.number, "receive", heard, joins=True, masked=False)

    # the body

    def record_body(self, octets: bytes) -> None:
        """Record bytes that were read from the body."""
        if self._subject.kept_as == "body":
            self._block.write(octets)

    def body_ended(self) -> None:
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
        """Write the records of an HTTP exchange.

        Then start another capture for a later request for the URL.
        """
        exchange = self._exchange
        assert exchange is not None
        is_whole = self._is_whole and error is None
        facts = exchange.make_records(
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
            self._events.add(now, way.number, "body", facts.body)
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
            return  # The URL only refers to another URL, so no request was sent.
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
        """Add an event for each connection that describes the bytes of the object."""
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
        tls = None if way is None else self._tls.get(way.key)
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
