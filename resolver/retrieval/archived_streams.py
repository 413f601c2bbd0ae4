"""Connections that nobody is at the other end of: what comes on them an archive says."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from protocols.connection import Datagram, Line, Sink
from protocols.contract import PipelineState
from protocols.errors import Disconnected
from protocols.replay import ReplayPeer
from protocols.values import dataclass
from resolver.loops import running
from resolver.warc.told import ReplayedConnection

_CUT = "the archive has no more of it: what was kept is not whole"
#: Octets that a connection gives at once (`protocols.connection.Stream`).
_AT_ONCE = 65_536


class ArchivedStream:
    """See `protocols.connection.Stream`. What comes is `coming`, and what `peer` answers, if there is one.
    With `is_cut` it breaks where an orderly end would be."""

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
        """It is asked, where there is somebody to answer."""
        if self._peer is not None:
            for line in b"".join(each.octets for each in lines).splitlines():
                self._answers.append(self._peer.answer(line))

    async def receive(self) -> bytes:
        await running().checkpoint()
        octets = self._held or self._next()
        while octets is None:  # data come first, and whoever waits for both gets those
            await running().sleep_forever()
        self._held = octets[_AT_ONCE:]
        octets = octets[:_AT_ONCE]
        self.received += len(octets)
        if not octets:
            self._end()
        return octets

    def _next(self) -> bytes | None:
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
    """A `PooledConnection` that serves once."""

    stream: ArchivedStream
    state: object | None = None

    def keep(self, state: object) -> None:
        """Nothing: there is another one whenever it is wanted."""


@dataclass(slots=True)
class ArchivedSlot:
    """A `Slot` on a connection of its own."""

    stream: ArchivedStream
    state: PipelineState

    async def start_request(self) -> None:
        """At once."""

    async def start_response(self) -> None:
        """At once."""

    def end_response(self) -> None:
        """Nobody waits."""

    def start_packing(self, machine: object) -> None:
        raise Disconnected("an archive packs nothing that is said")


class ArchivedDatagrams:
    """See `protocols.connection.Datagrams`: what came then comes again, in answer to whatever is sent."""

    port = 0

    def __init__(self, way: ReplayedConnection) -> None:
        self.peer = way.address or ""
        self.addresses = (self.peer,)
        self._coming = iter(way.heard)
        self._number = int.from_bytes(way.sent[0][1:3], "big") if way.sent else 0

    def now(self) -> float:
        return running().current_time()

    def draw_number(self) -> int:
        """The one that the server saw then, for it is in what it said."""
        return self._number

    async def send(self, packet: Line) -> None:
        """It stays here."""

    def send_at_once(self, packet: Line) -> None:
        """It stays here."""

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
        """Nothing was opened."""
