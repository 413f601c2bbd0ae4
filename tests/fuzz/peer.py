"""A simulated server that sends the bytes of a fuzz input, and the outcome of an exchange with the server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from protocols.contract import Credentials, Limits, Options, Reply, Url
from protocols.errors import Disconnected, InvalidUrl, ResolveError
from protocols.step import JoinedPipeline, JoinPipeline, OpenData, RequestAgreed, Step
from resolver.testing import UNSCRIPTED, PeerOutput, Player, ScriptedPeer
from resolver.testing.player import Opening
from resolver.url import registry

#: The maximum numbers of connections and of requests: more than the retrieval of any URL needs.
MAX_CONNECTIONS = 8
MAX_REQUESTS = 2_000
#: The separator in an input between bytes of the control connection and bytes of the data connection.
SWITCH = b"\0~"
#: The separator in an input between the bytes of one connection and the bytes of the next connection.
NEXT = b"\0|"
LIMITS = Limits(line=2_000, lines=200)


class Outcome(NamedTuple):
    """The result of a protocol exchange: the class name of the error, or the body and its listing entries."""

    error: str | None = None
    body: bytes = b""
    entries: Sequence[tuple[str, str | None, str]] = ()


class FuzzPeer(ScriptedPeer):
    """A server that accepts any request, sends the bytes of an input, and then closes the connection.

    Args:
        octets: The bytes that the server sends, with the separators `NEXT` and `SWITCH`.
        size: The chunk size in bytes; 0 for a single chunk.
        agreed: The application protocol of the TLS handshake (ALPN), or None.
    """

    def __init__(self, octets: bytes, size: int, agreed: str | None = None) -> None:
        self._coming = [list(chunks_of(script, size)) for script in octets.split(NEXT)]
        self._chunks: list[PeerOutput] = []
        self._agreed = agreed
        self._data_open = False
        self._closed = False
        self._connections = self._requests = 0

    def answer(self, step: Step) -> object:
        return self._agreed if isinstance(step, RequestAgreed) else UNSCRIPTED

    def connect(self, step: Opening) -> object:
        self._connections += 1
        self._closed = self._data_open = False
        self._chunks = self._coming.pop(0) if self._coming else []
        if self._connections > MAX_CONNECTIONS:
            raise Disconnected("the server accepts no more connections")
        return JoinedPipeline(step.state, self.address) if isinstance(step, JoinPipeline) else None

    def hear(self, octets: bytes) -> None:
        self._requests += 1
        assert self._requests < MAX_REQUESTS, "the exchange does not end"

    def credentials(self, user: bytes | None) -> Credentials | None:
        return Credentials(user or b"me", b"password")

    def open_data(self, step: OpenData) -> None:
        self._data_open = True

    def speak(self) -> PeerOutput:
        if self._chunks:
            chunk = self._chunks.pop(0)
            if chunk.on == "data" and not chunk.octets:
                self._data_open = False
            return chunk
        if self._data_open:
            self._data_open = False
            return PeerOutput(on="data", close_notify=True)
        if self._closed:
            raise Disconnected("the server closed the connection")
        self._closed = True
        return PeerOutput(close_notify=True)


def cut(octets: bytes, size: int) -> Iterator[bytes]:
    """Split bytes into chunks of `size` bytes; size 0 means a single chunk."""
    step = size or max(1, len(octets))
    return (octets[at : at + step] for at in range(0, len(octets), step))


def chunks_of(octets: bytes, size: int) -> Iterator[PeerOutput]:
    """Yield the bytes of the control connection and of the data connection in chunks.

    The bytes before the first separator `SWITCH` are from the control connection.
    """
    for number, stretch in enumerate(octets.split(SWITCH)):
        if number % 2:
            yield from (PeerOutput(chunk, "data") for chunk in cut(stretch, size))
            yield PeerOutput(on="data", close_notify=True)
        else:
            yield from (PeerOutput(chunk) for chunk in cut(stretch, size))


def run(url: Url, options: Options, octets: bytes, size: int, agreed: str | None = None) -> Outcome:
    """Run the protocol exchange for a URL with a `FuzzPeer`, and return the outcome."""
    scheme = registry.find(url.scheme)
    assert scheme is not None
    dialogue = registry.converse(scheme, url, options, LIMITS)
    player: Player[object] = Player(dialogue, FuzzPeer(octets, size, agreed))
    try:
        player.play(surplus=None)
        return Outcome(None, player.body, entries_of(player.reply, player.body))
    except InvalidUrl:
        raise AssertionError("bytes of the server were used as a URL") from None
    except ResolveError as error:
        return Outcome(type(error).__name__)


def entries_of(reply: Reply, body: bytes) -> list[tuple[str, str | None, str]]:
    """Return the listing entries of a reply as (kind, URL, name).

    Raises:
        ResolveError: The listing is not valid.
    """
    if reply.listing is None:
        return []
    octets = body if reply.records is None else reply.records
    return [
        (entry.kind.value, entry.url, entry.name)
        for entry in [*reply.listing.feed(octets), *reply.listing.finish()]
    ]
