"""One connection to a news server: its pipeline, the part of one dialogue in it, and its compression.

Responses come in the order of the commands (RFC 3977 3.5), so commands are pipelined: a dialogue sends its
request as soon as the earlier dialogues have sent theirs, and reads its response when they have read theirs.
`NntpState` is state without I/O, and outlives a dialogue on a pooled connection; an `NntpSession` is the part
of one dialogue. If the server has a precondition, the outstanding responses are discarded and every dialogue
sends its request again: `RequestReissue`.
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

#: Commands that are outstanding on a connection at most. INN gives 14,700 articles/s at 128 and
#: 1,600/s at 32 (measured); 128 of the longest numbers are 3 KiB, which no server's buffer is short of.
WINDOW = 128
#: Octets of a response that nobody wants; above it closing is cheaper than reading.
SKIP_LIMIT = 67_108_864
#: Octets of a response to CAPABILITIES; real ones have some hundred.
CAPABILITIES_LIMIT = 65_536


class Capabilities(NamedTuple):
    """What the server says it can do (RFC 3977 5.2): labels with their arguments, in capitals."""

    labels: dict[bytes, frozenset[bytes]]

    def has(self, label: bytes, argument: bytes | None = None) -> bool:
        return label in self.labels and (argument is None or argument in self.labels[label])

    @property
    def in_transit(self) -> bool:
        """Reading is there only after MODE READER (RFC 3977 5.3)."""
        return self.has(b"MODE-READER") and not self.has(b"READER")


def parse_capabilities(octets: bytes) -> Capabilities:
    labels: dict[bytes, frozenset[bytes]] = {}
    for line in octets.split(b"\r\n"):
        label, *arguments = line.upper().split() or [b""]
        labels[label] = labels.get(label, frozenset()) | frozenset(arguments)
    return Capabilities(labels)


def require_whole_response(response: Dialogue[T]) -> Dialogue[T]:
    """A response that comes before there is anything to be had: where it ends inside, the peer has left."""
    try:
        return (yield from response)
    except Truncated as error:
        raise Disconnected(error.message) from error


class RequestReissue(Exception):
    """The request of this dialogue is void and has to be sent again. Never leaves a dialogue."""


class NotShareable(Exception):
    """On this connection somebody has logged in with what is held for another scheme (S11). Never leaves a
    dialogue."""


@dataclass(slots=True)
class NntpState:
    """What is known of a connection: the `PipelineState` of NNTP. `outstanding` are the commands sent and
    not answered, oldest first; `groups_outstanding` counts those that select a group. `request_ended`: who
    sent last has no more to send, so another dialogue may send its request behind it. `generation` counts
    how often all that was outstanding has been dropped: a request sent in an earlier one has to be sent
    again.

    `reader`: something has told that the server is in reader mode. `reader_requested`: MODE READER was sent,
    which is done once. `tls`: inside TLS, `secured`: by way of STARTTLS. `private`: nobody between can read
    along, for it is TLS or this machine. `login_refused`: a login is not tried again here. `held_for` is the
    scheme that a login here was held for, None where only URLs gave one. `group` is what was selected last
    with 211. `capabilities` are None until asked for; `old` says that the server does not know the question.
    `packed`: both sides compress what they say; None while nobody has asked for it. `overview` is the verb to
    try, None if there is none. `closing`: the server has said that it will close.
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
        """MODE READER must not be sent twice, nor inside TLS, nor after a login (RFC 3977 5.3.2), nor
        compressed (RFC 8054 2.2.2)."""
        return not (self.reader_requested or self.secured or self.logged_in or self.packed)

    @property
    def has_room(self) -> bool:
        """May another dialogue send its request behind what is on its way?"""
        return self.greeted and self.request_ended and not self.closing and len(self.outstanding) < WINDOW

    @property
    def idle(self) -> bool:
        """Nothing unanswered, nothing unread."""
        return self.greeted and not (self.outstanding or self.buffer or self.buffer.at_end or self.closing)

    @property
    def farewell(self) -> tuple[Line, ...]:
        """QUIT; its response is not waited for."""
        return (NntpCommand(NntpVerb.QUIT).line,)

    def record_sent(self, commands: tuple[NntpCommand, ...]) -> None:
        """These are outstanding now."""
        self.outstanding.extend(commands)
        self.groups_outstanding += sum(command.verb in SELECTING for command in commands)

    def pop_answered(self) -> NntpCommand:
        """The oldest one is answered."""
        command = self.outstanding.popleft()
        self.groups_outstanding -= command.verb in SELECTING
        return command

    def selects(self, group: bytes) -> bool:
        """Is the group certain to be the selected one once everything sent so far is answered?"""
        return self.group == group and not (
            self.groups_outstanding
            and any(command.verb in SELECTING and command.argument != group for command in self.outstanding)
        )

    def forget(self) -> None:
        """After TLS or a login nothing counts that was heard before (RFC 4642 2.2.2, RFC 4643 2.2)."""
        self.capabilities = None
        self.old = False
        self.group = None
        self.packed = None
        self.overview = NntpVerb.OVER


class CompressionState(Exception):
    """What has to be said goes on no connection that is compressed. Never leaves a dialogue."""


class NntpSession:
    """What one dialogue sends and reads on a connection. `scheme` is that of its URL; `may_pack`: the
    connection may be compressed for it. `pending` counts its own commands that are outstanding, `heard` its
    responses."""

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
        """Send commands in one write. The request goes on once these are answered, so nobody else may send
        in between."""
        yield from self.start_request()
        self.state.request_ended = False
        yield self._say(commands)

    def say_last(self, *commands: NntpCommand) -> Dialogue[None]:
        """Send the last commands of the request in one write: others may send theirs behind it."""
        yield from self.start_request()
        self.state.request_ended = True
        yield self._say(commands)

    def start_request(self) -> Dialogue[None]:
        """Wait until nobody will send any more before this dialogue does: what the state says by then of
        the commands sent is still so when the next ones are. Raises `NotShareable`."""
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
            "others have sent in between"
        )
        if any(command.verb in ALONE for command in commands):
            assert (len(commands), len(state.outstanding), state.request_ended) == (1, 0, False), (
                "this command goes alone"
            )
        self._generation, self._request_started = state.generation, False
        state.record_sent(commands)
        self.pending += len(commands)
        return Send(tuple(command.line for command in commands))

    def start_response(self) -> Dialogue[None]:
        """Wait until the next response is one to this dialogue. Raises `RequestReissue`, `NotShareable`."""
        if not self._response_started:
            yield StartResponse()
            if self._generation not in (None, self.state.generation):
                self.pending, self._generation = 0, None
                self._check_credentials()
                raise RequestReissue
            self._response_started = True

    def hear(self, ideal: NntpResponse) -> Dialogue[NntpResponse]:
        """The status line of the next response. Raises `TryLater` for 400, which may come at any time."""
        yield from self.start_response()
        state = self.state
        command = state.outstanding[0]
        response = yield from receive(
            read_response(command, state.limits.line), f"the answer to {command.verb}", ideal
        )
        state.pop_answered()
        self.pending -= 1
        if response.code == 400:
            state.closing = True
            raise refusal(command, response)
        self.heard += 1
        return response

    def request(self, command: NntpCommand, ideal: NntpResponse) -> Dialogue[NntpResponse]:
        """Send one command, read its response."""
        yield from self.say(command)
        return (yield from self.hear(ideal))

    def hear_capabilities(self, willing: bytes) -> Dialogue[NntpResponse]:
        """Ask what the server can do; the state keeps it. `willing` is what is wanted of it."""
        response = yield from self.request(NntpCommand(NntpVerb.CAPABILITIES), NntpResponse(101, block=True))
        if response.block:
            octets = yield from receive(read_block(CAPABILITIES_LIMIT), "the capabilities", willing)
            self.state.capabilities = parse_capabilities(octets)
            self.state.reader |= self.state.capabilities.has(b"READER")
        else:
            self.state.old |= response.code in (500, 501)
        return response

    def drop_own(self) -> Dialogue[None]:
        """Read over the responses that this dialogue still waits for; nobody wants them."""
        if self.pending:
            yield from receive(self._skip(self.pending), "answers that are not needed any more", None)
            self.pending = 0

    def drop_all(self) -> Dialogue[None]:
        """The same for everybody on this connection: all requests have to be sent again."""
        self.state.request_ended = False
        if self.state.outstanding:
            yield from receive(
                self._skip(len(self.state.outstanding)), "answers that have to be asked for again", None
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
                    state.group = None  # nobody has looked whether it was there

        return reader


def is_loopback(peer: object) -> bool:
    """Is the numeric address one of this machine's own?"""
    return isinstance(peer, str) and (peer == "::1" or peer.removeprefix("::ffff:").startswith("127."))


# Raw DEFLATE (RFC 1951) in both directions of a connection, as negotiated: a machine without I/O.
#
# Sent data ends in a sync flush, so that the peer can read all of it. Received data is unpacked in pieces,
# each made only on request, and within the bounds of rule S16: not more than `ratio` times the input, once it
# is more than a mebibyte, and not more than a mebibyte of input in a row that yields no output.

#: Octets that may come out whatever went in, and those that may go in with nothing out.
_GRACE = 1_048_576


class Deflate:
    """Both directions, each with its own memory of what went before. Raises `ProtocolError` for octets that
    are no DEFLATE, and behind the end of it; `LimitExceeded` (ratio)."""

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
        """What is to be sent in place of these octets."""
        return self._packer.compress(octets) + self._packer.flush(zlib.Z_SYNC_FLUSH)

    def feed(self, octets: bytes) -> None:
        """These came: all before them has been read."""
        assert not self.has_more, "what came before is read first"
        if self._in_vain >= _GRACE:
            raise LimitExceeded("ratio", f"{self._in_vain} compressed octets become nothing at all")
        self._in_vain += len(octets)
        self._waiting = octets
        self.has_more = True

    def read(self, most: int) -> bytes:
        """The next octets, at most so many; none where more has to come first."""
        if not self.has_more:
            return b""
        before = len(self._waiting)
        try:
            octets = self._unpacker.decompress(self._waiting, most)
        except zlib.error as error:
            raise ProtocolError("what the server sends is not compressed as it said") from error
        if self._unpacker.unused_data:
            raise ProtocolError("octets came behind the end of what was compressed")
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
                "ratio", f"{self._taken} compressed octets become more than {self._ratio} times as many"
            )
