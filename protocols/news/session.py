"""A connection to a news server: the command pipeline, the session of a dialogue, and compression.

The server responds to commands in the order in which the commands were sent (RFC 3977 3.5). Therefore several
dialogues can share a connection and pipeline their commands. Each dialogue sends its request after all
earlier dialogues have sent their requests, and reads its response after all earlier dialogues have read their
responses.

`NntpState` is the state of a pooled connection, shared by several dialogues. `NntpSession` is the session of
one dialogue on the connection.

If the server requires TLS, a login or reader mode first, the outstanding responses are discarded. Every
dialogue then sends its request again (`RequestReissue`).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from protocols.contract import Line
from protocols.errors import Disconnected, ProtocolError, Truncated
from protocols.location import Finding
from protocols.news.response import (
    GROUP_VERBS,
    UNPIPELINED,
    NntpCommand,
    NntpResponse,
    NntpVerb,
    read_block,
    read_status,
    refusal,
    skip_block,
)
from protocols.options import DecodingBudget, Limits
from protocols.step import Dialogue, Receive, Send, StartRequest, StartResponse, receive
from protocols.wire import Buffer, Reader, Rest

T = TypeVar("T")

#: The maximum number of outstanding commands on a connection. INN sends 14,700 articles/s at 128 and 1,600
#: articles/s at 32 (measured). 128 commands with the longest article numbers have 3 KiB, which fits into the
#: receive buffer of every server.
WINDOW = 128
#: The maximum size in bytes of a response that is read and discarded. Closing the connection is faster than
#: reading a larger response.
SKIP_LIMIT = 67_108_864
#: The maximum size of a response to CAPABILITIES in bytes. Real servers send a few hundred bytes.
CAPABILITIES_LIMIT = 65_536


class Capabilities(NamedTuple):
    """The capabilities of a server (RFC 3977 5.2): upper-case labels with their arguments."""

    labels: dict[bytes, set[bytes]]

    def has(self, label: bytes, argument: bytes | None = None) -> bool:
        return label in self.labels and (argument is None or argument in self.labels[label])

    @property
    def in_transit(self) -> bool:
        """Return whether the server needs MODE READER before articles: transit mode (RFC 3977 5.3)."""
        return self.has(b"MODE-READER") and not self.has(b"READER")


def parse_capabilities(octets: bytes) -> Capabilities:
    labels: dict[bytes, set[bytes]] = {}
    for line in octets.split(b"\r\n"):
        label, *arguments = line.upper().split() or [b""]
        labels.setdefault(label, set()).update(arguments)
    return Capabilities(labels)


def require_response(response: Dialogue[T]) -> Dialogue[T]:
    """Read a response. If it is incomplete, raise `Disconnected` instead of `Truncated`."""
    try:
        return (yield from response)
    except Truncated as error:
        raise Disconnected(error.message) from error


class RequestReissue(Exception):
    """An exception: the request of a dialogue was discarded and must be sent again.

    Each dialogue of the connection handles this exception.
    """


class NotShareable(Exception):
    """An exception: the connection has a login with credentials for another scheme (S11).

    Every dialogue catches this exception.
    """


_QUIT = (NntpCommand(NntpVerb.QUIT).line,)


@dataclass(slots=True)
class NntpState:
    """The state of an NNTP connection (a `PipelineState`).

    Attributes:
        outstanding: The commands that were sent and not answered, oldest first.
        groups_outstanding: The number of outstanding commands that select a group.
        request_ended: Whether the dialogue that sends at present has sent its complete request. If so, the
            next dialogue may send.
        generation: The number of times that all outstanding commands were discarded. A request of an earlier
            generation must be sent again.
        closing: Whether the server announced that it will close the connection.
        reader: Whether the server is certainly in reader mode.
        reader_requested: Whether MODE READER was sent; MODE READER is sent at most once.
        tls: Whether the connection uses TLS.
        has_starttls: Whether TLS was started by STARTTLS.
        is_private: Whether the connection is safe from eavesdropping: TLS, or a peer on this machine.
        login_refused: Whether the server rejected a login. A login is not retried on the same connection.
        credentials_scheme: The scheme of the stored credentials of the login. None if the login came
            from a URL.
        group: The selected group, according to the last 211 response.
        overview: The command for overviews; None if the server does not support overviews.
        capabilities: The capabilities of the server; None before they were requested.
        lacks_capabilities: Whether the server does not support CAPABILITIES.
        is_compressed: Whether both directions of the connection are compressed; None before the request.
    """

    limits: Limits
    buffer: Buffer = field(default_factory=Buffer)
    outstanding: deque[NntpCommand] = field(default_factory=deque)
    groups_outstanding: int = 0
    greeted: bool = False
    reader: bool = False
    reader_requested: bool = False
    is_private: bool = False
    tls: bool = False
    has_starttls: bool = False
    logged_in: bool = False
    login_refused: bool = False
    credentials_scheme: str | None = None
    group: bytes | None = None
    capabilities: Capabilities | None = None
    lacks_capabilities: bool = False
    is_compressed: bool | None = None
    overview: NntpVerb | None = NntpVerb.OVER
    request_ended: bool = True
    closing: bool = False
    generation: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def may_request_reader(self) -> bool:
        """Return whether MODE READER may be sent.

        MODE READER must not be sent twice, after STARTTLS, after a login (RFC 3977 5.3.2) or on a compressed
        connection (RFC 8054 2.2.2).
        """
        return not (self.reader_requested or self.has_starttls or self.logged_in or self.is_compressed)

    @property
    def has_room(self) -> bool:
        """Return whether the pipeline has space for the request of another dialogue."""
        return self.greeted and self.request_ended and not self.closing and len(self.outstanding) < WINDOW

    @property
    def idle(self) -> bool:
        """Return whether the connection is open and has neither unanswered commands nor unread bytes."""
        return self.greeted and not (self.outstanding or self.buffer or self.buffer.at_end or self.closing)

    @property
    def farewell(self) -> tuple[Line, ...]:
        """Return the command QUIT; the client closes the connection without waiting for the response."""
        return _QUIT

    def record_sent(self, commands: tuple[NntpCommand, ...]) -> None:
        """Record that the commands were sent and are outstanding."""
        self.outstanding.extend(commands)
        for command in commands:
            self.groups_outstanding += command.verb in GROUP_VERBS

    def pop_answered(self) -> NntpCommand:
        """Remove the oldest outstanding command, because its response arrived, and return the command."""
        command = self.outstanding.popleft()
        self.groups_outstanding -= command.verb in GROUP_VERBS
        return command

    def selects(self, group: bytes) -> bool:
        """Return whether the group is certainly selected after the responses to all sent commands."""
        return self.group == group and not (
            self.groups_outstanding
            and any(command.verb in GROUP_VERBS and command.argument != group for command in self.outstanding)
        )

    def reset(self) -> None:
        """Discard the state that the server reported before TLS or a login (RFC 4642 2.2.2, RFC 4643 2.2)."""
        self.capabilities = None
        self.lacks_capabilities = False
        self.group = None
        self.is_compressed = None
        self.overview = NntpVerb.OVER


class ConnectionCompressed(Exception):
    """The signal that a command must not be sent on a compressed connection.

    Every dialogue catches this exception.
    """


class NntpSession:
    """The session of one dialogue on a shared connection.

    Attributes:
        state: The state of the connection.
        scheme: The scheme of the dialogue's URL.
        is_new: Whether this dialogue opened the connection.
        may_pack: Whether compression is allowed.
        pending: The number of outstanding commands of the dialogue.
        response_count: The number of responses that the dialogue has read.
    """

    def __init__(self, state: NntpState, scheme: str, *, is_new: bool = True, may_pack: bool = True) -> None:
        self.state = state
        self.scheme = scheme
        self.is_new = is_new
        self.may_pack = may_pack
        self.pending = 0
        self.response_count = 0
        self._generation: int | None = None
        self._request_started = False
        self._response_started = False

    def send(self, *commands: NntpCommand) -> Dialogue[None]:
        """Send commands of an unfinished request in one write.

        Other dialogues must not send commands before the last commands of this request (`send_last`).
        """
        yield from self.start_request()
        self.state.request_ended = False
        yield self._send(commands)

    def send_last(self, *commands: NntpCommand) -> Dialogue[None]:
        """Send the last commands of a request in one write, after which other dialogues may send."""
        yield from self.start_request()
        self.state.request_ended = True
        yield self._send(commands)

    def start_request(self) -> Dialogue[None]:
        """Wait until all earlier dialogues on the connection have sent their requests.

        Then no other dialogue changes the state of the connection until this dialogue has sent its commands.

        Raises:
            NotShareable: the connection has a login with credentials for another scheme.
        """
        if self._generation is None and not (self._response_started or self._request_started):
            yield StartRequest()
            self._request_started = True
            self._check_credentials()

    def _check_credentials(self) -> None:
        if self.state.credentials_scheme not in (None, self.scheme):
            raise NotShareable

    def _send(self, commands: tuple[NntpCommand, ...]) -> Send:
        state = self.state
        assert self._generation is None or len(state.outstanding) == self.pending, (
            "another dialogue sent in between"
        )
        self._generation, self._request_started = state.generation, False
        lines: tuple[Line, ...] = ()
        for command in commands:
            if command.verb in UNPIPELINED:
                assert (len(commands), len(state.outstanding), state.request_ended) == (1, 0, False), (
                    "this command must be sent alone"
                )
            lines += (command.line,)
        state.record_sent(commands)
        self.pending += len(commands)
        return Send(lines)

    def start_response(self) -> Dialogue[None]:
        """Wait until the next response belongs to this dialogue.

        Raises:
            RequestReissue: the request was discarded and must be sent again.
            NotShareable: the connection has a login with credentials for another scheme.
        """
        if not self._response_started:
            yield StartResponse()
            if self._generation not in (None, self.state.generation):
                self.pending, self._generation = 0, None
                self._check_credentials()
                raise RequestReissue
            self._response_started = True

    def read_response(self, ideal: NntpResponse) -> Dialogue[NntpResponse]:
        """Read the status line of the next response.

        Raises:
            TryLater: the response is 400; a server may send this code at any time.
        """
        if not self._response_started:
            yield from self.start_response()
        state = self.state
        command = state.outstanding[0]
        response: NntpResponse = yield Receive(
            read_status(state.limits.line, command), f"the response to {command.verb}", ideal
        )
        state.pop_answered()
        self.pending -= 1
        if response.code == 400:
            state.closing = True
            raise refusal(command, response)
        self.response_count += 1
        return response

    def request(self, command: NntpCommand, ideal: NntpResponse) -> Dialogue[NntpResponse]:
        """Send a command and read its response."""
        yield from self.send(command)
        return (yield from self.read_response(ideal))

    def request_capabilities(self, expected: bytes) -> Dialogue[None]:
        """Request the capabilities of the server, and store them in the state.

        `expected` is the expected list of capabilities in a plan.
        """
        response = yield from self.request(NntpCommand(NntpVerb.CAPABILITIES), NntpResponse(101, block=True))
        if response.block:
            octets = yield from receive(read_block(CAPABILITIES_LIMIT), "the capabilities", expected)
            self.state.capabilities = parse_capabilities(octets)
            self.state.reader |= self.state.capabilities.has(b"READER")
        else:
            self.state.lacks_capabilities |= response.code in (500, 501)

    def discard_own_responses(self) -> Dialogue[None]:
        """Read and discard the outstanding responses to this dialogue's commands."""
        if self.pending:
            yield from receive(self._skip(self.pending), "responses that are no longer needed", None)
            self.pending = 0

    def discard_all_responses(self) -> Dialogue[None]:
        """Read and discard all outstanding responses; every dialogue must then send its request again."""
        self.state.request_ended = False
        if self.state.outstanding:
            yield from receive(
                self._skip(len(self.state.outstanding)), "responses that must be requested again", None
            )
        self.state.generation += 1
        self.pending, self._generation = 0, self.state.generation

    def _skip(self, count: int) -> Reader[None]:
        state = self.state

        def reader(buffer: Buffer) -> Generator[Rest | None, None, None]:
            for _ in range(count):
                response = yield from read_status(state.limits.line, state.outstanding[0])(buffer)
                if response.block:
                    yield from skip_block(SKIP_LIMIT)(buffer)
                if state.pop_answered().verb in GROUP_VERBS:
                    state.group = None  # unknown: the discarded response may be a refusal

        return reader


def is_loopback(peer: object) -> bool:
    """Return whether the IP address is a loopback address."""
    return isinstance(peer, str) and (peer == "::1" or peer.removeprefix("::ffff:").startswith("127."))


# Raw DEFLATE (RFC 1951) in both directions of a connection, after COMPRESS DEFLATE.
#
# Each write ends with a sync flush of the compressor, so that the peer can decompress all sent data. Received
# data is decompressed on demand, within the limits of a `DecodingBudget` (S16).


class Deflate:
    """A DEFLATE compressor for sent data, and a DEFLATE decompressor for received data.

    Raises:
        ProtocolError: the input is invalid DEFLATE data, or bytes follow the end of the compressed data.
        LimitExceeded: the compression ratio exceeds the limit (ratio).
    """

    def __init__(self, budget: DecodingBudget) -> None:
        self._packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        self._budget = budget
        self._input = b""
        self._consumed = 0
        self.has_more = False

    def pack(self, octets: bytes) -> bytes:
        """Compress data to send."""
        return self._packer.compress(octets) + self._packer.flush(zlib.Z_SYNC_FLUSH)

    def feed(self, octets: bytes) -> None:
        """Feed received bytes, after the output of all earlier bytes was read."""
        assert not self.has_more, "earlier output must be read first"
        self._budget.feed(len(octets))
        self._input = octets
        self.has_more = True

    def read(self, max_size: int) -> bytes:
        """Return decompressed bytes, at most `max_size`, or empty bytes if more input is needed."""
        if not self.has_more:
            return b""
        before = len(self._input)
        try:
            octets = self._unpacker.decompress(self._input, max_size)
        except zlib.error as error:
            raise ProtocolError("the server sent invalid compressed data") from error
        if self._unpacker.unused_data:
            raise ProtocolError("bytes received after the end of the compressed data")
        self._input = self._unpacker.unconsumed_tail
        self._consumed += before - len(self._input)
        self.has_more = len(octets) == max_size or bool(self._input)
        self._budget.take(len(octets), self._consumed)
        return octets
