"""Recorded exchanges with news servers, split into answers, and a server that replays them."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fixtures import recordings
from protocols.contract import Line, PipelineState
from protocols.news.response import NntpResponse, read_block, read_status
from protocols.wire import Buffer, Reader
from resolver import Credentials, Disconnected, Limits, Options
from resolver.testing import Cutter, whole
from tests.protocols.in_memory import MemoryGate, MemoryStream
from tests.protocols.news.memory import MemorySlot

FOLDER = recordings.FOLDER / "nntp"
MAX_BYTES = 1 << 24

#: Response codes with a block after every command (page "news", section 5). 211 has a block only after
#: LISTGROUP.
BLOCK_CODES = {100, 101, 215, 220, 221, 222, 224, 225, 230, 231, 282}
#: The last uncompressed line of each side.
LAST_CLEAR_LINE = {
    "client": b"COMPRESS DEFLATE\r\n",
    "server": b"206 Compression now active; enjoy the speed!\r\n",
}
#: Response codes after which a repeated command may get another answer.
RETRY_CODES = {281, 382}


@dataclass(frozen=True)
class Exchange:
    """A command and the bytes of its answer.

    `command` is empty for the greeting; its keywords are in upper case.
    """

    command: bytes
    octets: bytes
    answer: NntpResponse
    content: bytes | None


def load(name: str) -> list[tuple[str, bytes]]:
    """Return (direction, bytes) of each recorded exchange, in order."""
    record = json.loads((FOLDER / f"{name}.json").read_text())
    return [(each["dir"], bytes.fromhex(each["hex"])) for each in record["exchanges"]]


def bytes_of_side(name: str, side: str) -> bytes:
    """Return all bytes of one side, with compressed data (RFC 8054) inflated."""
    octets = b"".join(octets for speaker, octets in load(name) if speaker == side)
    if name != "compress_deflate":
        return octets
    plain, found, packed = octets.partition(LAST_CLEAR_LINE[side])
    return plain + found + zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed)


def commands(name: str) -> list[bytes]:
    """Return the lines that the client sent in clear text."""
    text = bytes_of_side(name, "client")
    if name == "starttls":
        text = text[: text.index(b"\x16\x03")]
    return [normalize(line) for line in text.split(b"\r\n")[:-1]]


def normalize(line: bytes) -> bytes:
    """Normalize a command.

    Keywords are case-insensitive (RFC 3977 3.1); a bare LIST means LIST ACTIVE, and the pattern "*" is the
    default (7.6.1).
    """
    words = line.split(b" ")
    own = 2 if words[0].upper() in (b"AUTHINFO", b"MODE", b"LIST") else 1
    words = [word.upper() for word in words[:own]] + words[own:]
    if words == [b"LIST"]:
        words.append(b"ACTIVE")
    return b" ".join(words[:2] if words[0] == b"LIST" and words[2:] == [b"*"] else words)


class RecordingBuffer(Buffer):
    """A buffer that records the consumed bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = b""

    def take(self, count: int | None = None) -> bytes:
        octets = super().take(count)
        self.taken += octets
        return octets


def read(buffer: Buffer, reader: Reader[object]) -> object:
    waiting = reader(buffer)
    while True:
        try:
            next(waiting)
        except StopIteration as done:
            return done.value
        buffer.feed(b"")


def exchanges(name: str) -> list[Exchange]:
    """Return every answer with its command; bytes that belong to no command are an error."""
    buffer = RecordingBuffer()
    octets = bytes_of_side(name, "server")
    buffer.feed(octets)
    found = []
    for command in [b"", *commands(name)]:
        if not buffer:
            break  # the client or the server closed the connection
        buffer.taken = b""
        answer = read(buffer, read_status(MAX_BYTES))
        assert isinstance(answer, NntpResponse)
        block = answer.code in BLOCK_CODES or (answer.code == 211 and command.startswith(b"LISTGROUP"))
        content = read(buffer, read_block(MAX_BYTES)) if block else None
        assert content is None or isinstance(content, bytes)
        found.append(Exchange(command, buffer.taken, answer, content))
    assert not buffer, f"{len(buffer)} bytes belong to no command"
    return found


class RecordedServer:
    """A server that answers each command as in the captures, those of the first capture first.

    The same command may have another answer after a login or TLS. Answers to commands without a recorded
    answer:

    - CAPABILITIES and COMPRESS are unknown.
    - OVER gets the answer of XOVER.
    - LIST with a pattern gets the answer without a pattern.
    - MODE READER gets the greeting, as from INN.
    - Any other command gets a recorded answer that demands a login or another mode.

    An `ending` server closes the connection after the last recorded answer.
    """

    def __init__(self, *names: str, ending: bool = False) -> None:
        self.said: list[bytes] = []
        self._ending = ending
        self._state = 0
        self._answers: dict[tuple[int, bytes], list[Exchange]] = {}
        self._refusals: list[bytes] = []
        for name in names:
            self._learn(exchanges(name))

    def _learn(self, recorded: list[Exchange]) -> None:
        state = 0
        for each in recorded:
            self._answers.setdefault((state, each.command), []).append(each)
            state += each.answer.code in RETRY_CODES
            if each.answer.code in (401, 480):
                self._refusals.append(each.octets)

    def answer(self, command: bytes) -> bytes:
        self.said.append(command)
        waiting = self._answers.get((self._state, normalize(command)))
        if waiting is None:
            return self._otherwise(command)
        each = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        self._state += each.answer.code in RETRY_CODES
        return each.octets

    def _otherwise(self, command: bytes) -> bytes:
        if command == b"QUIT" or self._ending:
            return b""
        if command in (b"CAPABILITIES", b"COMPRESS DEFLATE"):
            return b"500 What?\r\n"
        if command == b"MODE READER":
            return self._answers[0, b""][0].octets
        if command.startswith(b"OVER "):
            return self._answers[self._state, b"X" + command][0].octets
        if command.startswith(b"LIST "):
            return self._answers[self._state, b" ".join(command.split()[:2])][0].octets
        assert self._refusals, f"nothing like {command!r} was recorded"
        return self._refusals[0]


class RecordedStream(MemoryStream):
    """A `Stream` to a recorded server. The stream ends when no answer is left."""

    def __init__(self, server: RecordedServer, cutter: Cutter) -> None:
        self._server = server
        self._cutter = cutter
        self._waiting: list[bytes] = list(cutter(server.answer(b"")))
        self.received = 0
        self.secured = False
        self.closed = False
        self.peer = "127.0.0.1"
        self.agreed = None

    async def send(self, *lines: Line) -> None:
        for line in lines:
            assert line.octets.endswith(b"\r\n")
            self._waiting += self._cutter(self._server.answer(line.octets[:-2]))

    async def receive(self) -> bytes:
        assert not self.closed
        octets = next((piece for piece in iter(self._next, None) if piece), b"")
        self.received += len(octets)
        return octets

    def _next(self) -> bytes | None:
        return self._waiting.pop(0) if self._waiting else None


class RecordedGate(MemoryGate):
    """A gate that connects to recorded servers, one for each connection."""

    def __init__(self, server: RecordedServer, cutter: Cutter = whole, *, options: Options) -> None:
        super().__init__((), cutter, limits=Limits(), options=options)
        self._server: RecordedServer | None = server

    @asynccontextmanager
    async def join(
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AsyncIterator[MemorySlot]:
        if self._server is None:
            raise Disconnected("the capture has no second connection")
        stream = RecordedStream(self._server, self._cutter)
        slot = MemorySlot(stream, state)
        try:
            yield slot
        finally:
            if slot.ended and state.idle:
                await stream.send(*state.farewell)
            await stream.aclose()

    def random(self, count: int) -> bytes:
        raise AssertionError("no test needs random bytes")

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        return None
