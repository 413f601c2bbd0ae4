"""A connection of which all that is said and comes is kept, for an archive: see `tap`.

Nothing goes past: octets are not moved in bulk, for those would be seen by nobody.
"""

from __future__ import annotations

import socket
import ssl

from protocols.contract import Line, Sink
from resolver.gate.inner_tls import SECURED
from resolver.gate.stream import SocketStream
from resolver.gate.stream_settings import StreamSettings
from resolver.gate.tap import TappedConnection, shown_of, tls_facts


class TappedStream(SocketStream):
    """See `SocketStream`. Whoever it serves has its own tap, or none."""

    def __init__(
        self, sock: socket.socket, peer: str, settings: StreamSettings, *, first: SocketStream | None = None
    ) -> None:
        super().__init__(sock, peer, settings, first=first)
        self._port: int = sock.getpeername()[1]
        self._connected(reused=False)

    def _connected(self, *, reused: bool) -> None:
        if self._settings.tap is not None:
            link = TappedConnection(self._settings.host, self.address, self._port, reused=reused)
            self._settings.tap.connected(self, link)

    def serve(self, settings: StreamSettings) -> None:
        changed = settings.tap is not self._settings.tap
        super().serve(settings)
        if changed:
            self._connected(reused=True)
            self._secured()

    def has_only_data(self) -> None:
        super().has_only_data()
        if self._settings.tap is not None:
            self._settings.tap.has_only_data(self)

    async def send(self, *lines: Line) -> None:
        await super().send(*lines)
        if self._settings.tap is not None:
            masked = any(line.octets != line.shown for line in lines)
            self._settings.tap.sent(self, self._settings.mask.hide(shown_of(lines)), masked=masked)

    async def receive(self) -> bytes:
        known = bool(self._ahead)  # it came, and was put back
        octets = await super().receive()
        if octets and not known and self._settings.tap is not None:
            self._settings.tap.received(self, octets)
        return octets

    async def move(self, sink: Sink, count: int | None) -> int:
        if self._settings.tap is None:
            return await super().move(sink, count)
        before = self.received
        while count is None or self.received - before < count:
            octets = await self.receive()
            if not octets:
                break
            over = 0 if count is None else max(0, self.received - before - count)
            sink.write(octets[: len(octets) - over])
            if over:
                self.put_back(octets[-over:])
        return self.received - before

    async def handshake(self) -> None:
        await super().handshake()
        self._secured()

    def _secured(self) -> None:
        sock = self._sock
        if self._settings.tap is None or not isinstance(sock, SECURED):
            return
        if isinstance(sock, ssl.SSLSocket):
            verified = self._settings.check_certificate is None
            self._settings.tap.secured(self, tls_facts(sock, self._settings.host, verified=verified))

    async def aclose(self) -> None:
        if self._sock.fileno() != -1 and self._settings.tap is not None:
            self._settings.tap.closed(self, by_peer=self._at_end)
        await super().aclose()
