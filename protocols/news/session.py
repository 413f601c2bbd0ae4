"""A connection to a news server: its pipeline, the part of one dialogue in it, and its compression.

The server answers commands in the order in which they were sent (RFC 3977 3.5), so commands are pipelined. A
dialogue sends its request as soon as all earlier dialogues have sent their requests. It reads its response
when all earlier dialogues have read theirs. `NntpState` is the state of a pooled connection, without I/O;
several dialogues use it. An `NntpSession` belongs to one dialogue.

If the server requires TLS, a login or another mode first, the outstanding responses are discarded and every
dialogue sends its request again: `RequestReissue`.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from protocols.contract import Line
from protocols.errors import Disconnected, LimitExceeded, ProtocolError, Truncated
from protocols.location import Finding
from protocols.news.response import (
    ALONE,
    SELECTING,
    NntpCommand,
    NntpResponse,
    NntpVerb,
    read_block,
    read_response,
    refusal,
    skip_block,
)
from protocols.options import Limits
from protocols.step import Dialogue, Send, StartRequest, StartResponse, receive
from protocols.wire import Buffer, Reader, Rest

T = TypeVar("T")

#: The maximum number of outstanding commands on a connection. INN gives 14,700 articles/s at 128 and 1,600/s
#: at 32 (measured). 128 commands with the longest numbers are 3 KiB, which fits into the buffer of every
#: server.
WINDOW = 128
#: The maximum size in bytes of a response that is read and discarded. For a larger response, closing the
#: connection is faster.
SKIP_LIMIT = 67_108_864
#: The maximum size in bytes of a response to CAPABILITIES; responses of real servers have a few hundred
#: bytes.
CAPABILITIES_LIMIT = 65_536


class Capabilities(NamedTuple):
    """The capabilities of a server (RFC 3977 5.2): labels with their arguments, in capitals."""

    labels: dict[bytes, frozenset[bytes]]

    def has(self, label: bytes, argument: bytes | None = None) -> bool:
        return label in self.labels and (argument is None or argument in self.labels[label])

    @property
    def in_transit(self) -> bool:
        """Return whether the server can read articles only after MODE READER (RFC 3977 5.3)."""
        return self.has(b"MODE-READER") and not self.has(b"READER")


def parse_capabilities(octets: bytes) -> Capabilities:
    labels: dict[bytes, frozenset[bytes]] = {}
    for line in octets.split(b"\r\n"):
        label, *arguments = line.upper().split() or [b""]
        labels[label] = labels.get(label, frozenset()) | frozenset(arguments)
    return Capabilities(labels)


def require_whole_response(response: Dialogue[T]) -> Dialogue[T]:
    """Read a response; if it is truncated, raise `Disconnected`: the server closed the connection."""
    try:
        return (yield from response)
    except Truncated as error:
        raise Disconnected(error.message) from error


class RequestReissue(Exception):
    """The request of this dialogue was discarded and must be sent again. Never leaves a dialogue."""


class NotShareable(Exception):
    """The connection is logged in with credentials held for another scheme (S11).

    Never leaves a dialogue.
    """


@dataclass(slots=True)
class NntpState:
    """The state of a connection: the `PipelineState` of NNTP.

    The pipeline:
    - `outstanding`: the commands sent and not answered, oldest first.
    - `groups_outstanding`: the number of outstanding commands that select a group.
    - `request_ended`: the dialogue that sends has sent its complete request, so the next dialogue may send.
    - `generation`: how often all outstanding commands were discarded; a request of an earlier generation must
      be sent again.
    - `closing`: the server announced that it will close the connection.

    The server and the login:
    - `reader`: the server is known to be in reader mode. `reader_requested`: MODE READER was sent; it is sent
      at most once.
    - `tls`: the connection uses TLS; `secured`: TLS was started by STARTTLS. `private`: others cannot read
      the connection, because of TLS or because the peer is this machine.
    - `login_refused`: the server rejected a login; no login is tried again on this connection. `held_for`:
      the scheme for which the caller holds the login's credentials, None if the login came from a URL.
    - `group`: the group that was selected last with 211. `overview`: the command for overviews, None if the
      server has none.
    - `capabilities`: None until requested; `old`: the server does not support CAPABILITIES.
    - `packed`: both directions are compressed; None until compression was requested.
    """

    limits: Limits
    buffer: Buffer = field(default_factory=Buffer)
    outstanding: deque[NntpCommand] = field(default_factory=deque)
    groups_outstanding: int = 0
    greeted: bool = False
    reader: bool = False
    reader_requested: bool = False
    private: bool = False
    tls: bool = False
    secured: bool = False
    logged_in: bool = False
    login_refused: bool = False
    held_for: str | None = None
    group: bytes | None = None
    capabilities: Capabilities | None = None
    old: bool = False
    packed: bool | None = None
    overview: NntpVerb | None = NntpVerb.OVER
    request_ended: bool = True
    closing: bool = False
    generation: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def may_request_reader(self) -> bool:
        """Return whether MODE READER may be sent.

        MODE READER must not be sent twice, inside TLS, after a login (RFC 3977 5.3.2) or on a compressed
        connection (RFC 8054 2.2.2).
        """
        return not (self.reader_requested or self.secured or self.logged_in or self.packed)

    @property
    def has_room(self) -> bool:
        """Return whether the pipeline has room for the request of another dialogue."""
        return self.greeted and self.request_ended and not self.closing and len(self.outstanding) < WINDOW

    @property
    def idle(self) -> bool:
        """Return whether the connection is open and has neither unanswered commands nor unread bytes."""
        return self.greeted and not (self.outstanding or self.buffer or self.buffer.at_end or self.closing)

    @property
    def farewell(self) -> tuple[Line, ...]:
        """Return QUIT; the client does not wait for the response."""
        return (NntpCommand(NntpVerb.QUIT).line,)

    def record_sent(self, commands: tuple[NntpCommand, ...]) -> None:
        """Record that these commands were sent and are outstanding."""
        self.outstanding.extend(commands)
        self.groups_outstanding += sum(command.verb in SELECTING for command in commands)

    def pop_answered(self) -> NntpCommand:
        """Record that the oldest command was answered, and return it."""
        command = self.outstanding.popleft()
        self.groups_outstanding -= command.verb in SELECTING
        return command

    def selects(self, group: bytes) -> bool:
        """Return whether the group is certain to be selected after all sent commands are answered."""
        return self.group == group and not (
            self.groups_outstanding
            and any(command.verb in SELECTING and command.argument != group for command in self.outstanding)
        )

    def forget(self) -> None:
        """Discard the state that the server reported before TLS or a login (RFC 4642 2.2.2, RFC 4643 2.2)."""
        self.capabilities = None
        self.old = False
        self.group = None
        self.packed = None
        self.overview = NntpVerb.OVER


class CompressionState(Exception):
    """The error for a command that must not be sent compressed. Never leaves a dialogue."""


class NntpSession:
    """The commands and responses of one dialogue on a connection.

    `scheme` is the scheme of the dialogue's URL; `may_pack` allows compression. `pending` is the number of
    the dialogue's outstanding commands, `heard` the number of responses that it has read.
    """

    def __init__(self, state: NntpState, scheme: str, *, may_pack: bool = True) -> None:
        self.state = state
        self.scheme = scheme
        self.may_pack = may_pack
        self.pending = 0
        self.heard = 0
        self._generation: int | None = None
        self._request_started = False
        self._response_started = False

    def say(self, *commands: NntpCommand) -> Dialogue[None]:
        """Send commands in one write.

        The dialogue sends more commands after their responses, so other dialogues must not send in between.
        """
        yield from self.start_request()
        self.state.request_ended = False
        yield self._say(commands)

    def say_last(self, *commands: NntpCommand) -> Dialogue[None]:
        """Send the last commands of the request in one write; other dialogues may send after them."""
        yield from self.start_request()
        self.state.request_ended = True
        yield self._say(commands)

    def start_request(self) -> Dialogue[None]:
        """Wait until earlier dialogues have sent everything.

        After this wait no other dialogue changes the state until this dialogue has sent its commands.

        Raises:
            NotShareable: the connection is logged in for another scheme.
        """
        if self._generation is None and not (self._response_started or self._request_started):
            yield StartRequest()
            self._request_started = True
            self._check_credentials()

    def _check_credentials(self) -> None:
        if self.state.held_for not in (None, self.scheme):
            raise NotShareable

    def _say(self, commands: tuple[NntpCommand, ...]) -> Send:
        state = self.state
        assert self._generation is None or len(state.outstanding) == self.pending, (
            "another dialogue sent in between"
        )
        if any(command.verb in ALONE for command in commands):
            assert (len(commands), len(state.outstanding), state.request_ended) == (1, 0, False), (
                "this command must be sent alone"
            )
        self._generation, self._request_started = state.generation, False
        state.record_sent(commands)
        self.pending += len(commands)
        return Send(tuple(command.line for command in commands))

    def start_response(self) -> Dialogue[None]:
        """Wait until the next response belongs to this dialogue.

        Raises:
            RequestReissue: the request was discarded and must be sent again.
            NotShareable: the connection is logged in for another scheme.
        """
        if not self._response_started:
            yield StartResponse()
            if self._generation not in (None, self.state.generation):
                self.pending, self._generation = 0, None
                self._check_credentials()
                raise RequestReissue
            self._response_started = True

    def hear(self, ideal: NntpResponse) -> Dialogue[NntpResponse]:
        """Read the status line of the next response.

        Raises:
            TryLater: the response is 400, which may come at any time.
        """
        yield from self.start_response()
        state = self.state
        command = state.outstanding[0]
        response = yield from receive(
            read_response(command, state.limits.line), f"the response to {command.verb}", ideal
        )
        state.pop_answered()
        self.pending -= 1
        if response.code == 400:
            state.closing = True
            raise refusal(command, response)
        self.heard += 1
        return response

    def request(self, command: NntpCommand, ideal: NntpResponse) -> Dialogue[NntpResponse]:
        """Send a command and read its response."""
        yield from self.say(command)
        return (yield from self.hear(ideal))

    def hear_capabilities(self, willing: bytes) -> Dialogue[NntpResponse]:
        """Request the capabilities and store them in the state.

        `willing` is the expected reply of a server that offers the wanted capability.
        """
        response = yield from self.request(NntpCommand(NntpVerb.CAPABILITIES), NntpResponse(101, block=True))
        if response.block:
            octets = yield from receive(read_block(CAPABILITIES_LIMIT), "the capabilities", willing)
            self.state.capabilities = parse_capabilities(octets)
            self.state.reader |= self.state.capabilities.has(b"READER")
        else:
            self.state.old |= response.code in (500, 501)
        return response

    def drop_own(self) -> Dialogue[None]:
        """Discard the outstanding responses to this dialogue's commands."""
        if self.pending:
            yield from receive(self._skip(self.pending), "responses that are no longer needed", None)
            self.pending = 0

    def drop_all(self) -> Dialogue[None]:
        """Discard all outstanding responses on the connection: every dialogue must send its request again."""
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
                response = yield from read_response(state.outstanding[0], state.limits.line)(buffer)
                if response.block:
                    yield from skip_block(SKIP_LIMIT)(buffer)
                if state.pop_answered().verb in SELECTING:
                    state.group = None  # the skipped response may be a refusal

        return reader


def is_loopback(peer: object) -> bool:
    """Return whether the IP address is a loopback address."""
    return isinstance(peer, str) and (peer == "::1" or peer.removeprefix("::ffff:").startswith("127."))


# Raw DEFLATE (RFC 1951) in both directions of a connection, as negotiated. No I/O.
#
# Sent data ends in a sync flush, so that the peer can decompress all of it. Received data is decompressed in
# pieces, each only on request, and within the bounds of rule S16 (resource limits):
# - at most `ratio` times the input, once the output is more than a mebibyte
# - at most a mebibyte of input in a row without output

#: The number of output bytes without a ratio check, and the maximum number of input bytes without output.
_GRACE = 1_048_576


class Deflate:
    """A compressor and a decompressor, each with its own history.

    Raises:
        ProtocolError: the input is not DEFLATE, or bytes follow the end of the compressed data.
        LimitExceeded: the output is too large for the input (ratio).
    """

    def __init__(self, ratio: int) -> None:
        self._packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        self._ratio = ratio
        self._waiting = b""
        self._taken = 0
        self._given = 0
        self._in_vain = 0
        self.has_more = False

    def pack(self, octets: bytes) -> bytes:
        """Return the compressed form of these bytes."""
        return self._packer.compress(octets) + self._packer.flush(zlib.Z_SYNC_FLUSH)

    def feed(self, octets: bytes) -> None:
        """Feed received bytes; the output of earlier bytes must have been read completely."""
        assert not self.has_more, "earlier output must be read first"
        if self._in_vain >= _GRACE:
            raise LimitExceeded("ratio", f"{self._in_vain} compressed bytes expand to nothing")
        self._in_vain += len(octets)
        self._waiting = octets
        self.has_more = True

    def read(self, most: int) -> bytes:
        """Return at most `most` bytes of output; empty if more input is needed first."""
        if not self.has_more:
            return b""
        before = len(self._waiting)
        try:
            octets = self._unpacker.decompress(self._waiting, most)
        except zlib.error as error:
            raise ProtocolError("the server sent invalid compressed data") from error
        if self._unpacker.unused_data:
            raise ProtocolError("bytes received after the end of the compressed data")
        self._waiting = self._unpacker.unconsumed_tail
        self._taken += before - len(self._waiting)
        self.has_more = len(octets) == most or bool(self._waiting)
        self._count(len(octets))
        return octets

    def _count(self, octets: int) -> None:
        self._given += octets
        self._in_vain = 0 if octets else self._in_vain
        if self._given > _GRACE and self._given > self._ratio * self._taken:
            raise LimitExceeded(
                "ratio", f"{self._taken} compressed bytes expand to more than {self._ratio} times as many"
            )
