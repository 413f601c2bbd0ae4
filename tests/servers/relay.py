"""A relay to a server without a log. The relay records the bytes from the client before it forwards them.

When a client has received its reply, the record therefore contains the request.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.servers.service import LOOPBACK


class Relay:
    """A running relay. Clients connect to `port` instead of the server's."""

    def __init__(self, listener: socket.socket, server: int) -> None:
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._server = server
        self._said: list[bytes] = []
        self._lock = threading.Lock()

    def said(self) -> bytes:
        """Return all recorded bytes of all clients."""
        with self._lock:
            return b"".join(self._said)

    def serve(self) -> None:
        """Accept connections until the listener is shut down."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._attend, args=[client], daemon=True).start()

    def _attend(self, client: socket.socket) -> None:
        with client, socket.create_connection((LOOPBACK, self._server)) as server:
            back = threading.Thread(target=_copy, args=[server, client], daemon=True)
            back.start()
            with suppress(OSError):
                while octets := client.recv(65_536):
                    with self._lock:
                        self._said.append(octets)
                    server.sendall(octets)
            with suppress(OSError):
                server.shutdown(socket.SHUT_WR)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while octets := source.recv(65_536):
            target.sendall(octets)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def relay(server: int) -> Iterator[Relay]:
    """Relay to the server at this port of this machine."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        found = Relay(listener, server)
        serving = threading.Thread(target=found.serve, daemon=True)
        serving.start()
        try:
            yield found
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            serving.join()
