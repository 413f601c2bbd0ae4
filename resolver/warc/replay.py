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
from itertools import islice
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
from resolver.warc.catalog import ArchivedCapture, join_pieces
from resolver.warc.group import frame_pieces
from resolver.warc.http import read_replay
from resolver.warc.metadata import (
    Json,
    ReplayedConnection,
    get_count,
    get_moment,
    make_error,
    make_reply,
    read_findings,
    read_verified,
)

# Streams that return the bytes of an archive instead of the bytes of a peer.

_CUT = "the archived object is incomplete"
#: The maximum number of bytes that `ArchivedStream.receive` returns in one call.
_MAX_PIECE = 65_536


class ArchivedStream:
    """A `protocols.contract.Stream` of archived bytes.

    The stream returns the bytes of `pieces` and then the responses of `peer`, if a peer is set. With
    `is_cut`, the stream raises `Disconnected` at the end of the bytes.
    """

    def __init__(
        self,
        pieces: Iterator[bytes],
        address: str,
        *,
        tls: bool,
        is_cut: bool = False,
        peer: ReplayPeer | None = None,
        is_data_over: Callable[[], bool] = lambda: True,
    ) -> None:
        self.peer = address
        self.secured = tls
        self.agreed: str | None = None
        self.received = 0
        self.close_notify_seen = False
        self.is_over = False
        self._answers: deque[Iterator[bytes | None]] = deque([pieces])
        self._peer = peer
        self._is_data_over = is_data_over
        self._is_cut = is_cut
        self._buffer = b""
        self._is_waiting = False

    async def send(self, *lines: Line) -> None:
        """Pass the lines to the peer, if a peer is set."""
        if self._peer is not None:
            for command in b"".join(line.octets for line in lines).splitlines():
                self._answers.append(self._peer.answer(command))

    async def receive(self) -> bytes:
        await running().checkpoint()
        octets = self._buffer or self._read_next()
        while octets is None:  # If a caller waits for data and for a timer, data takes precedence.
            await running().sleep_forever()
        self._buffer = octets[_MAX_PIECE:]
        octets = octets[:_MAX_PIECE]
        self.received += len(octets)
        if not octets:
            self.is_over = True
            if self._is_cut:
                raise Disconnected(_CUT)
            self.close_notify_seen = self.secured
        return octets

    def _read_next(self) -> bytes | None:
        if self._is_waiting and not self._is_data_over():
            return None
        self._is_waiting = False
        while self._answers:
            for octets in self._answers[0]:
                if octets is None and not self._is_data_over():
                    self._is_waiting = True
                    return None
                if octets:
                    return octets
            self._answers.popleft()
        return b""

    async def move(self, sink: Sink, count: int | None) -> int:
        moved = 0
        while count is None or moved < count:
            octets = await self.receive()
            if not octets:
                break
            piece = octets if count is None else octets[: count - moved]
            self._buffer = octets[len(piece) :] + self._buffer
            self.received -= len(octets) - len(piece)
            sink.write(piece)
            moved += len(piece)
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

    def __init__(self, connection: ReplayedConnection) -> None:
        self.peer = connection.address or ""
        self.addresses = (self.peer,)
        self._packets = iter(connection.received)
        self._number = int.from_bytes(connection.sent[0][1:3], "big") if connection.sent else 0

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
        octets = next(self._packets, None)
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
_MAX_LISTING = 67_108_864

_UNKNOWN = FileStatus(kind=Kind.UNKNOWN, size=None, modified=None)


class ArchivedFile:
    """A `protocols.contract.LocalFile` from an archive."""

    def __init__(self, status: FileStatus, pieces: Iterator[bytes]) -> None:
        self.status = status
        self._pieces = pieces
        self._skipped = 0
        self._names: dict[bytes, FileStatus] | None = None

    async def read(self) -> bytes:
        for octets in self._pieces:
            rest = octets[self._skipped :]
            self._skipped -= len(octets) - len(rest)
            if rest:
                return rest
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
        return self._read().get(name, _UNKNOWN)

    def _read(self) -> dict[bytes, FileStatus]:
        if self._names is None:
            octets = join_pieces(self._pieces, _MAX_LISTING, "a directory")
            self._names = dict(filter(None, map(_parse_entry, octets.splitlines())))
        return self._names


def _parse_entry(line: bytes) -> tuple[bytes, FileStatus] | None:
    """Return the name and status from a line of a directory listing, or None for an invalid name."""
    try:
        members = json.loads(line)
        name = members["name"].encode("latin-1")
        kind = Kind(members["kind"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    if not name or b"/" in name or b"\0" in name or name in (b".", b".."):
        return None
    return name, FileStatus(kind, get_count(members, "size"), get_moment(members, "modified"))


def make_status(end: Json, size: int | None, *, is_directory: bool) -> FileStatus:
    kind = Kind.DIRECTORY if is_directory else Kind.DOCUMENT
    announced = get_count(end, "announced")
    return FileStatus(
        kind=kind,
        size=None if is_directory else size if announced is None else announced,
        modified=get_moment(end, "modified"),
    )


#: Matches a line of an MLSD listing, which starts with facts such as `type=file;` (RFC 3659 section 7.2).
_FACTS = re.compile(rb"(?:[A-Za-z0-9.-]+=[^;]*;)+ .")
#: The minimum and maximum time of a listing. The class `datetime` must also support the year before and the
#: year after a listing.
_FIRST, _LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
#: The purposes of a retrieval that does not save the object.
_UNSAVED: frozenset[Wanted] = frozenset({"content", "facts", "listing"})
_COMMANDS = re.compile(r';[ \t]*commands="([A-Z_ ]*)"')


class CaptureSearch(Protocol):
    """The interface of `Archive.find`."""

    def __call__(self, url: Url, *, wants_facts: bool = False) -> ArchivedCapture: ...


class ArchiveGate(UrlGate):
    """A `UrlGate` that reads from an archive; the policy checks the URL as usual."""

    def __init__(self, admission: Admission, search: CaptureSearch) -> None:
        super().__init__(admission)
        self._search = search
        self._data: ArchivedStream | None = None
        self._opened = 0
        self._takes_block = False
        self._search_error: ResolveError | None = None
        self.options = replace(self.options, tls="never", prompt=False, start=0, stop=None)
        if self.row is not None and self.row.kept_as == "data":
            self.options = self._make_listing_options()

    @cached_property
    def _capture(self) -> ArchivedCapture:
        """Return the capture of the URL.

        Raises:
            NotFound: The archive does not contain the URL.
            ResolveError: The archive contains only an error for the URL, which is raised again.
        """
        capture = self._find()
        self._connector.peer = capture.address
        if not capture.has_object and capture.end.get("outcome") == "failed" and "error" in capture.end:
            raise make_error(capture.end, capture.date)
        return capture

    def _find(self) -> ArchivedCapture:
        """Return the capture of the URL.

        If the archive contains the URL only as a directory, the directory is returned, as a server would do.
        Recursive retrieval needs the directory.
        """
        url, row, want = self._admission.url, self.row, self.options.want
        try:
            return self._search(url, wants_facts=want == "facts")
        except NotFound:
            if want in _UNSAVED or row is None or row.tree is None:
                raise
            with suppress(NotFound):
                capture = self._search(row.tree.directory(url))
                reply = make_reply(capture.end)
                if reply is not None and reply.kind in (Kind.DIRECTORY, Kind.GROUP):
                    return capture
            raise

    # the object

    @cached_property
    def _media_type(self) -> str:
        """Return the media type of the block.

        Other programs archive MLSD listings without a media type, so MLSD listings are detected by the form
        of their lines.
        """
        capture, row = self._capture, self.row
        media_type = capture.object_head.get_first("Content-Type") or ""
        is_foreign = capture.has_object and not capture.events and row is not None and row.kept_as == "data"
        if is_foreign and self._admission.url.text.endswith("/"):
            lines = next(capture.block(), b"").splitlines(keepends=True)
            if lines and all(map(_FACTS.match, [line for line in lines if line.endswith(b"\n")])):
                return "text/x-ftp-mlsd"
        return media_type

    @property
    def _is_listing(self) -> bool:
        """Return whether the object is a listing that consists of archived replies."""
        spec = None if self.row is None else self.row.listing_kept
        return spec is not None and self._media_type.partition(";")[0].strip().lower() == spec.media_type

    @property
    def _uses_metadata(self) -> bool:
        """Return whether the reply is built from the recorded metadata instead of the dialogue.

        The reply for a document of a plug-in scheme is built from metadata, because the replies at the end of
        its dialogue are not archived.
        """
        row = self.row
        if row is None or row.name in registry.SCHEMES or row.replayed is not None:
            return False
        reply = make_reply(self._capture.end)
        return reply is not None and reply.kind in (Kind.DOCUMENT, Kind.ARTICLE)

    @property
    def _method(self) -> str:
        """Return the name of the replay method, by the scheme definition and the archived object."""
        row = self.row
        if row is None:
            return ""
        if row.kept_as == "exchange" and self._capture.has_object:  # warcit archives only the object
            return "facts" if self._capture.object_head.type == "resource" else "exchange"
        if row.kept_as != "body":
            return row.kept_as
        if row.listing_kept is None:
            return "facts" if self._uses_metadata else "stream"
        return row.listing_kept.how if self._is_listing or row.listing_kept.how == "names" else "facts"

    def _make_listing_options(self) -> Options:
        """Return options for a listing in the archived format, with the time of the capture as the clock."""
        try:
            capture, format_name = self._capture, self._media_type.rpartition("-")[2]
        except ResolveError:
            return self.options
        date = min(max(capture.date, _FIRST), _LAST)
        return replace(
            self.options,
            mlsd=format_name == "mlsd",
            nlst=format_name == "nlst",
            detailed=self.options.detailed or format_name == "list",
            clock=lambda: date,
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
            capture = self._capture
        except ResolveError as error:
            self._search_error = error  # Some URLs only refer to other URLs, so no request is sent.
            return (yield from dialogue)
        lacks_object = not capture.has_object and self._method != "exchange" and not capture.exchanges
        if lacks_object or (capture.has_object and self._method == "facts"):
            reply = make_reply(capture.end)
            if reply is not None or capture.has_object:
                dialogue.close()
                yield from self._yield_reply(reply or Reply(kind=Kind.DOCUMENT))
                return None
        return (yield from self._replay_datagrams(dialogue))

    def _yield_reply(self, reply: Reply) -> Dialogue[None]:
        """Yield a reply with the recorded metadata and the archived bytes."""
        capture, end = self._capture, self._capture.end
        reply.findings.extend(read_findings(end))
        if reply.media_type is None and capture.has_object and not end:
            head = capture.object_head
            reply = replace(reply, media_type=head.media_type, size=head.length)
        yield StartBody(reply)
        if self.options.want == "facts" or not capture.has_object:
            return
        received = 0
        for octets in capture.block():
            received += len(octets)
            yield EmitBody(octets)
        if not capture.is_whole:
            words = f"the archived object is incomplete: {received} bytes"
            raise Truncated(words, received=received, expected=get_count(end, "expected"))
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
                    answer = self._answer_step(step)
                    if answer is None:
                        answer = yield step
                except ResolveError as error:
                    advance = partial(dialogue.throw, error)
                else:
                    advance = partial(dialogue.send, answer)
        finally:
            dialogue.close()

    def _answer_step(self, step: Step) -> object:
        """Return the result of a step from the archived content, because the datagrams were not archived."""
        if isinstance(step, OpenDatagrams):
            self._takes_block = self._method == "packets" and self._opened >= len(self._capture.exchanges)
            return OpenedConnection((self._capture.address or "",), 1) if self._takes_block else None
        if isinstance(step, ExchangeDatagrams) and self._takes_block:
            answer = join_pieces(self._capture.block(), self.limits.body, "an answer")
            return DatagramReply((answer,), self._capture.address or "")
        return None

    # connections and files

    def _require_capture(self) -> ArchivedCapture:
        if self._search_error is not None:
            raise self._search_error
        return self._capture

    def _make_stream(self, *, tls: bool) -> ArchivedStream:
        capture, method = self._require_capture(), self._method
        peer: ReplayPeer | None = None
        if self.row is not None and self.row.replayed is not None:
            peer = self._make_peer()
            pieces: Iterator[bytes] = iter((peer.greeting,))
        else:
            pieces = self._read_exchange() if method == "exchange" else self._read_connection()
        is_cut = capture.has_object and not capture.is_whole and method != "data"
        address = capture.address or ""
        return ArchivedStream(pieces, address, tls=tls, is_cut=is_cut, peer=peer, is_data_over=self._is_over)

    def _is_over(self) -> bool:
        return self._data is None or self._data.is_over

    def _make_peer(self) -> ReplayPeer:
        capture, row = self._capture, self.row
        assert row is not None
        assert row.replayed is not None, "a scheme with archived answers must define replayed"
        commands = _COMMANDS.search(self._media_type)
        end = capture.end
        if not capture.has_object:
            raise NotFound("the archive has only metadata for this URL")
        announced = get_count(end, "announced")
        if not end and capture.is_whole:
            announced = capture.object_head.length
        modified = None if (reply := make_reply(end)) is None else reply.modified
        archived = ArchivedObject(
            self._media_type.partition(";")[0].strip().lower(),
            () if commands is None else tuple(commands[1].split()),
            announced,
            modified,
            capture.block,
        )
        peer: ReplayPeer = registry.load(row.replayed)(archived)
        return peer

    def _read_exchange(self) -> Iterator[bytes]:
        """Yield an HTTP response, or only its head for a request of the metadata."""
        capture = self._capture
        if not capture.has_object:
            yield from (octets for link in capture.connections for octets in link.received)
            return
        pieces = read_replay(capture.block())
        yield from islice(pieces, 1) if self.options.want == "facts" else pieces

    def _read_connection(self) -> Iterator[bytes]:
        """Yield the bytes of a connection: the bytes before the object, and the object with its framing.

        It is the last connection that carried the object, or else the last connection.
        """
        capture = self._capture
        links = sorted(capture.connections, key=lambda link: link.has_body)
        link = links[-1] if links else None
        yield from [] if link is None else link.received
        if not capture.has_object:
            return
        if link is not None and link.framing == "dots" and capture.is_whole:
            yield from frame_pieces(capture.block(), has_end=link.ended == "terminator")
        else:
            yield from capture.block()

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[ArchivedStream]:  # type: ignore[override]
        yield self._make_stream(tls=tls)

    @asynccontextmanager
    async def acquire(  # type: ignore[override]
        self, pool_key: Hashable, *, tls: bool, suits: Callable[[object], bool] | None = None
    ) -> AsyncIterator[ArchivedConnection]:
        yield ArchivedConnection(self._make_stream(tls=tls))

    @asynccontextmanager
    async def join(  # type: ignore[override]
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AsyncIterator[ArchivedSlot]:
        yield ArchivedSlot(self._make_stream(tls=tls), state)

    @asynccontextmanager
    async def connect_data(self, port: int) -> AsyncIterator[ArchivedStream]:  # type: ignore[override]
        capture = self._require_capture()
        self._data = ArchivedStream(
            capture.block(), capture.address or "", tls=False, is_cut=not capture.is_whole
        )
        yield self._data
        self._data.is_over = True

    @asynccontextmanager
    async def open_datagrams(self) -> AsyncIterator[ArchivedDatagrams]:  # type: ignore[override]
        exchanges = self._require_capture().exchanges
        if self._opened >= len(exchanges):
            raise NotFound("the archive lacks a part of the recorded exchange")
        self._opened += 1
        yield ArchivedDatagrams(exchanges[self._opened - 1])

    @asynccontextmanager
    async def open_file(self, segments: tuple[bytes, ...]) -> AsyncIterator[LocalFile]:  # type: ignore[override]
        capture = self._require_capture()
        size = capture.object_head.length if capture.has_object else None
        status = make_status(capture.end, size, is_directory=self._is_listing)
        yield ArchivedFile(status, capture.block() if capture.has_object else iter(()))

    def derive_gate(self, location: str) -> UrlGate:
        self._admission.admit_derived(parse(location), self.source)
        return self

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        """Return None, because an archive does not require a login."""
        return None
