"""Retrieval from archives, without network access.

The protocol exchange (dialogue) of the scheme runs unchanged. The protocol's parsers read the archived bytes
as if a server had sent the bytes. If an object was archived without the exchange, the reply is built from the
recorded metadata and the bytes of the object.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Protocol, cast

from protocols.contract import (
    ArchivedObject,
    Credentials,
    Datagram,
    FileStatus,
    Kind,
    Line,
    LocalFile,
    Options,
    PipelineState,
    ReplayPeer,
    Reply,
    Sink,
    Url,
    Wanted,
)
from protocols.errors import Disconnected, NotFound, ResolveError, Truncated
from protocols.step import (
    DatagramReply,
    Dialogue,
    EmitBody,
    ExchangeDatagrams,
    OpenDatagrams,
    OpenedConnection,
    StartBody,
    Step,
)
from resolver.loops import running
from resolver.network.admission import Admission
from resolver.network.url_gate import UrlGate
from resolver.url import registry
from resolver.url.parsing import parse
from resolver.warc.catalog import FoundCapture, join_pieces
from resolver.warc.group import frame_pieces
from resolver.warc.http import read_answer
from resolver.warc.metadata import (
    Json,
    ReplayedConnection,
    count,
    error_of,
    findings_of,
    moment,
    read_verified,
    reply_of,
)

# Streams that return the bytes of an archive instead of the bytes of a peer.

_CUT = "the archived object is incomplete"
#: The maximum number of bytes that `ArchivedStream.receive` returns in one call.
_AT_ONCE = 65_536


class ArchivedStream:
    """A `protocols.contract.Stream` of archived bytes.

    The stream returns the bytes of `coming` and then the responses of `peer`, if a peer is set. With
    `is_cut`, the stream raises `Disconnected` at the end of the bytes.
    """

    def __init__(
        self,
        coming: Iterator[bytes],
        address: str,
        *,
        tls: bool,
        is_cut: bool = False,
        peer: ReplayPeer | None = None,
        data_over: Callable[[], bool] = lambda: True,
    ) -> None:
        self.peer = address
        self.secured = tls
        self.agreed: str | None = None
        self.received = 0
        self.close_notify_seen = False
        self.is_over = False
        self._answers: deque[Iterator[bytes | None]] = deque([coming])
        self._peer = peer
        self._data_over = data_over
        self._is_cut = is_cut
        self._held = b""
        self._waits = False

    async def send(self, *lines: Line) -> None:
        """Pass the lines to the peer, if a peer is set."""
        if self._peer is not None:
            for line in b"".join(each.octets for each in lines).splitlines():
                self._answers.append(self._peer.answer(line))

    async def receive(self) -> bytes:
        await running().checkpoint()
        octets = self._held or self._read_next()
        while octets is None:  # If a caller waits for data and for a timer, data takes precedence.
            await running().sleep_forever()
        self._held = octets[_AT_ONCE:]
        octets = octets[:_AT_ONCE]
        self.received += len(octets)
        if not octets:
            self._end()
        return octets

    def _read_next(self) -> bytes | None:
        if self._waits and not self._data_over():
            return None
        self._waits = False
        while self._answers:
            for octets in self._answers[0]:
                if octets is None and not self._data_over():
                    self._waits = True
                    return None
                if octets:
                    return octets
            self._answers.popleft()
        return b""

    def _end(self) -> None:
        self.is_over = True
        if self._is_cut:
            raise Disconnected(_CUT)
        self.close_notify_seen = self.secured

    async def move(self, sink: Sink, count: int | None) -> int:
        moved = 0
        while count is None or moved < count:
            octets = await self.receive()
            if not octets:
                break
            taken = octets if count is None else octets[: count - moved]
            self._held = octets[len(taken) :] + self._held
            self.received -= len(octets) - len(taken)
            sink.write(taken)
            moved += len(taken)
        return moved

    async def start_tls(self) -> None:
        self.secured = True

    async def aclose(self) -> None:
        self.is_over = True


@dataclass(slots=True)
class ArchivedConnection:
    """A `PooledConnection` for a single request to an archive."""

    stream: ArchivedStream
    state: object | None = None

    def keep(self, state: object) -> None:
        """Ignore the state, because each request gets a new connection."""


@dataclass(slots=True)
class ArchivedSlot:
    """A `Slot` on a connection without pipelining."""

    stream: ArchivedStream
    state: PipelineState

    async def start_request(self) -> None:
        """Return immediately."""

    async def start_response(self) -> None:
        """Return immediately."""

    def end_response(self) -> None:
        """Ignore the end of the response, because no other slot waits."""

    def start_packing(self, machine: object) -> None:
        raise Disconnected("cannot compress the replay of an archive")


class ArchivedDatagrams:
    """A `protocols.contract.Datagrams` that responds to each packet with the next archived packet."""

    port = 0

    def __init__(self, way: ReplayedConnection) -> None:
        self.peer = way.address or ""
        self.addresses = (self.peer,)
        self._coming = iter(way.heard)
        self._number = int.from_bytes(way.sent[0][1:3], "big") if way.sent else 0

    def now(self) -> float:
        return running().current_time()

    def draw_number(self) -> int:
        """Return the recorded request number, because the archived responses contain this number."""
        return self._number

    async def send(self, packet: Line) -> None:
        """Send nothing."""

    def send_at_once(self, packet: Line) -> None:
        """Send nothing."""

    async def receive(self, deadline: float | None) -> Datagram | None:
        await running().checkpoint()
        octets = next(self._coming, None)
        if octets is None:
            raise Disconnected(_CUT)
        return Datagram(octets, self.peer, self.port)

    def redirect_to(self, address: str, port: int) -> None:
        self.peer = address

    def switch_to(self, address: str) -> None:
        self.peer = address

    def close(self) -> None:
        """Return immediately, because no socket is open."""


# Archived local files and directories, from the machine on which the archive was written.

#: The maximum size in bytes of an archived directory listing.
_MOST = 67_108_864

_NOTHING = FileStatus(kind=Kind.UNKNOWN, size=None, modified=None)


class ArchivedFile:
    """A `protocols.contract.LocalFile` from an archive."""

    def __init__(self, status: FileStatus, pieces: Iterator[bytes]) -> None:
        self.status = status
        self._pieces = pieces
        self._skipped = 0
        self._names: dict[bytes, FileStatus] | None = None

    async def read(self) -> bytes:
        for octets in self._pieces:
            left = octets[self._skipped :]
            self._skipped -= len(octets) - len(left)
            if left:
                return left
        return b""

    def modified_since(self) -> bool:
        return False

    def begin_at(self, octet: int) -> None:
        self._skipped = octet

    async def move(self, sink: Sink) -> int:
        moved = 0
        while octets := await self.read():
            sink.write(octets)
            moved += len(octets)
        return moved

    async def names(self) -> list[bytes]:
        return [*self._read()]

    def status_of(self, name: bytes) -> FileStatus:
        return self._read().get(name, _NOTHING)

    def _read(self) -> dict[bytes, FileStatus]:
        if self._names is None:
            octets = join_pieces(self._pieces, _MOST, "a directory")
            self._names = dict(filter(None, map(_entry, octets.splitlines())))
        return self._names


def _entry(line: bytes) -> tuple[bytes, FileStatus] | None:
    """Return the name and status from a line of a directory listing, or None for an invalid name."""
    try:
        said = json.loads(line)
        name = said["name"].encode("latin-1")
        kind = Kind(said["kind"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not name or b"/" in name or b"\0" in name or name in (b".", b".."):
        return None
    event: Json = said
    return name, FileStatus(kind=kind, size=count(event, "size"), modified=moment(event, "modified"))


def status_from(end: Json, size: int | None, *, is_directory: bool) -> FileStatus:
    """Return the file status of the archived object."""
    kind = Kind.DIRECTORY if is_directory else Kind.DOCUMENT
    announced = count(end, "announced")
    return FileStatus(
        kind=kind,
        size=None if is_directory else size if announced is None else announced,
        modified=moment(end, "modified"),
    )


#: Matches a line of an MLSD listing, which starts with facts such as `type=file;` (RFC 3659 section 7.2).
_FACTS = re.compile(rb"(?:[A-Za-z0-9.-]+=[^;]*;)+ .")
#: The minimum and maximum time of a listing. The class `datetime` must also support the year before and the
#: year after a listing.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
#: The purposes of a retrieval that does not save the object.
_LOOKED_AT: frozenset[Wanted] = frozenset({"content", "facts", "listing"})
_COMMANDS = re.compile(r';[ \t]*commands="([A-Z_ ]*)"')


class CaptureSearch(Protocol):
    """The interface of `Archive.find`."""

    def __call__(self, url: Url, *, wants_facts: bool = False) -> FoundCapture: ...


class ArchiveGate(UrlGate):
    """A `UrlGate` that reads from an archive; the policy checks the URL as usual."""

    def __init__(self, admission: Admission, find: CaptureSearch) -> None:
        super().__init__(admission)
        self._find_capture = find
        self._data: ArchivedStream | None = None
        self._asked = 0
        self._takes_block = False
        self._mistaken: ResolveError | None = None
        self.options = replace(self.options, tls="never", prompt=False, start=0, stop=None)
        if self.row is not None and self.row.kept_as == "data":
            self.options = self._as_kept()

    @cached_property
    def _found(self) -> FoundCapture:
        """Return the capture of the URL.

        Raises:
            NotFound: The archive does not contain the URL.
            ResolveError: The archive contains only an error for the URL, which is raised again.
        """
        found = self._find()
        self._connector.peer = found.address
        if not found.has_object and found.end.get("outcome") == "failed" and "error" in found.end:
            raise error_of(found.end, found.date)
        return found

    def _find(self) -> FoundCapture:
        """Return the capture of the URL.

        If the archive contains the URL only as a directory, the directory is returned, as a server would do.
        Recursive retrieval needs the directory.
        """
        url, row, want = self._admission.url, self.row, self.options.want
        try:
            return self._find_capture(url, wants_facts=want == "facts")
        except NotFound:
            if want in _LOOKED_AT or row is None or row.tree is None:
                raise
            with suppress(NotFound):
                found = self._find_capture(row.tree.directory(url))
                reply = reply_of(found.end)
                if reply is not None and reply.kind in (Kind.DIRECTORY, Kind.GROUP):
                    return found
            raise

    # the object

    @cached_property
    def _media_type(self) -> str:
        """Return the media type of the block.

        Other programs archive MLSD listings without a media type, so MLSD listings are detected by the form
        of their lines.
        """
        found, row = self._found, self.row
        media_type = found.object_head.get_first("Content-Type") or ""
        is_foreign = found.has_object and not found.events and row is not None and row.kept_as == "data"
        if is_foreign and self._admission.url.text.endswith("/"):
            lines = next(found.block(), b"").splitlines(keepends=True)
            if lines and all(map(_FACTS.match, [line for line in lines if line.endswith(b"\n")])):
                return "text/x-ftp-mlsd"
        return media_type

    @property
    def _is_listing(self) -> bool:
        """Return whether the object is a listing that consists of archived replies."""
        kept = None if self.row is None else self.row.listing_kept
        return kept is not None and self._media_type.partition(";")[0].strip().lower() == kept.media_type

    @property
    def _is_told(self) -> bool:
        """Return whether the reply is built from the recorded metadata instead of the dialogue.

        The reply for a document of a plug-in scheme is built from metadata, because the replies at the end of
        its dialogue are not archived.
        """
        row = self.row
        if row is None or registry.is_ours(row) or row.replayed is not None:
            return False
        reply = reply_of(self._found.end)
        return reply is not None and reply.kind in (Kind.DOCUMENT, Kind.ARTICLE)

    @property
    def _how(self) -> str:
        """Return the name of the replay method, by the scheme definition and the archived object."""
        row = self.row
        if row is None:
            return ""
        if row.kept_as != "body":
            return row.kept_as
        if row.listing_kept is None:
            return "facts" if self._is_told else "stream"
        return row.listing_kept.how if self._is_listing or row.listing_kept.how == "names" else "facts"

    def _as_kept(self) -> Options:
        """Return options for a listing in the archived format, with the time of the capture as the clock."""
        try:
            found, form = self._found, self._media_type.rpartition("-")[2]
        except ResolveError:
            return self.options
        then = min(max(found.date, _FIRST), _LAST)
        return replace(
            self.options,
            mlsd=form == "mlsd",
            nlst=form == "nlst",
            detailed=self.options.detailed or form == "list",
            clock=lambda: then,
        )

    # the dialogue

    def wrap_dialogue(self, dialogue: Dialogue[object]) -> Dialogue[object]:
        """Return a dialogue whose responses come from the archive."""
        row = self.row
        if row is None or (row.transport is None and row.kept_as == "body" and row.listing_kept is None):
            return dialogue
        return self._answer_dialogue(dialogue)

    def _answer_dialogue(self, dialogue: Dialogue[object]) -> Dialogue[object]:
        try:
            found = self._found
        except ResolveError as error:
            self._mistaken = error  # Some URLs only refer to other URLs, so no request is sent.
            return (yield from dialogue)
        is_told = not found.has_object and self._how != "exchange" and not found.exchanges
        if is_told or (found.has_object and self._how == "facts"):
            reply = reply_of(found.end)
            if reply is not None or found.has_object:
                dialogue.close()
                yield from self._give(reply or Reply(kind=Kind.DOCUMENT))
                return None
        return (yield from self._replay_datagrams(dialogue))

    def _give(self, reply: Reply) -> Dialogue[None]:
        """Yield a reply with the recorded metadata and the archived bytes."""
        found, end = self._found, self._found.end
        reply.findings.extend(findings_of(end))
        if reply.media_type is None and found.has_object and not end:
            media_type = found.object_head.media_type
            reply = replace(reply, media_type=media_type)
        yield StartBody(reply)
        if self.options.want == "facts" or not found.has_object:
            return
        received = 0
        for octets in found.block():
            received += len(octets)
            yield EmitBody(octets)
        if not found.is_whole:
            words = f"the archived object is incomplete: {received} bytes"
            raise Truncated(words, received=received, expected=count(end, "expected"))
        reply.verified.update(read_verified(end))

    def _replay_datagrams(self, dialogue: Dialogue[object]) -> Dialogue[object]:
        """Run a dialogue without archived datagrams; the archived content is the response."""
        advance: Callable[[], Step] = partial(dialogue.send, None)
        try:
            while True:
                try:
                    step = advance()
                except StopIteration as done:
                    return cast(object, done.value)
                try:
                    answer = self._at_once(step)
                    if answer is None:
                        answer = yield step
                except ResolveError as error:
                    advance = partial(dialogue.throw, error)
                else:
                    advance = partial(dialogue.send, answer)
        finally:
            dialogue.close()

    def _at_once(self, step: Step) -> object:
        """Return the result of a step from the archived content, because the datagrams were not archived."""
        if isinstance(step, OpenDatagrams):
            self._takes_block = self._how == "packets" and self._asked >= len(self._found.exchanges)
            return OpenedConnection((self._found.address or "",), 1) if self._takes_block else None
        if isinstance(step, ExchangeDatagrams) and self._takes_block:
            answer = join_pieces(self._found.block(), self.limits.body, "an answer")
            return DatagramReply((answer,), self._found.address or "")
        return None

    # connections and files

    def _check(self) -> FoundCapture:
        if self._mistaken is not None:
            raise self._mistaken
        return self._found

    def _stream(self, *, tls: bool) -> ArchivedStream:
        found, how = self._check(), self._how
        peer: ReplayPeer | None = None
        if self.row is not None and self.row.replayed is not None:
            peer = self._peer()
            coming: Iterator[bytes] = iter((peer.greeting,))
        else:
            coming = self._exchange() if how == "exchange" else self._one_way()
        is_cut = found.has_object and not found.is_whole and how != "data"
        address = found.address or ""
        return ArchivedStream(coming, address, tls=tls, is_cut=is_cut, peer=peer, data_over=self._is_over)

    def _is_over(self) -> bool:
        return self._data is None or self._data.is_over

    def _peer(self) -> ReplayPeer:
        found, row = self._found, self.row
        assert row is not None
        assert row.replayed is not None, "a scheme with archived answers must define replayed"
        commands = _COMMANDS.search(self._media_type)
        end = found.end
        if not found.has_object:
            raise NotFound("the archive has only metadata for this URL")
        announced = count(end, "announced")
        if not end and found.is_whole:
            announced = found.object_head.length
        modified = None if (reply := reply_of(end)) is None else reply.modified
        kept = ArchivedObject(
            self._media_type.partition(";")[0].strip().lower(),
            () if commands is None else tuple(commands[1].split()),
            announced,
            modified,
            found.block,
        )
        peer: ReplayPeer = registry.load(row.replayed)(kept)
        return peer

    def _exchange(self) -> Iterator[bytes]:
        """Yield an HTTP response, or only its head for a request of the metadata."""
        found = self._found
        if not found.has_object:
            yield from (octets for way in found.ways for octets in way.heard)
            return
        if self.options.want != "facts":
            yield from found.block()
            return
        held, answer = read_answer(found.block())
        yield held if answer is None else held[: answer.interim + len(answer.head)]

    def _one_way(self) -> Iterator[bytes]:
        """Yield the bytes of the connection: the bytes before the object, and the object with its framing."""
        found = self._found
        way = next((each for each in reversed(found.ways) if each.has_body), None)
        if way is None:
            way = next(iter(reversed(found.ways)), None)
        heard = [] if way is None else way.heard
        yield from heard
        if not found.has_object:
            return
        if way is not None and way.framing == "dots" and found.is_whole:
            yield from frame_pieces(found.block(), has_end=way.ended == "terminator")
        else:
            yield from found.block()

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[ArchivedStream]:  # type: ignore[override]
        yield self._stream(tls=tls)

    @asynccontextmanager
    async def acquire(  # type: ignore[override]
        self, pool_key: Hashable, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AsyncIterator[ArchivedConnection]:
        yield ArchivedConnection(self._stream(tls=tls))

    @asynccontextmanager
    async def join(  # type: ignore[override]
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AsyncIterator[ArchivedSlot]:
        yield ArchivedSlot(self._stream(tls=tls), state)

    @asynccontextmanager
    async def connect_data(self, port: int) -> AsyncIterator[ArchivedStream]:  # type: ignore[override]
        found = self._check()
        self._data = ArchivedStream(found.block(), found.address or "", tls=False, is_cut=not found.is_whole)
        yield self._data
        self._data.is_over = True

    @asynccontextmanager
    async def open_datagrams(self) -> AsyncIterator[ArchivedDatagrams]:  # type: ignore[override]
        asked = self._check().exchanges
        if self._asked >= len(asked):
            raise NotFound("the archive lacks a part of the recorded exchange")
        self._asked += 1
        yield ArchivedDatagrams(asked[self._asked - 1])

    @asynccontextmanager
    async def open_file(self, segments: tuple[bytes, ...]) -> AsyncIterator[LocalFile]:  # type: ignore[override]
        found = self._check()
        size = found.object_head.length if found.has_object else None
        status = status_from(found.end, size, is_directory=self._is_listing)
        yield ArchivedFile(status, found.block() if found.has_object else iter(()))

    def derive_gate(self, location: str) -> UrlGate:
        self._admission.led_to(parse(location), self.source)
        return self

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        """Return None, because an archive does not require a login."""
        return None
