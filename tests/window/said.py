"""Servers with one fixed response, for tests that choose every byte of it."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class FixedServer:
    """A Gopher server that sends `words`; `heard` are the requests."""

    def __init__(self, words: bytes) -> None:
        self.heard: list[bytes] = []
        peer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                peer.heard.append(self.rfile.readline(65_536))
                self.wfile.write(words)

        class Server(socketserver.ThreadingTCPServer):
            def handle_error(self, *_: object) -> None:
                """Ignore a client that disconnects early."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"gopher://127.0.0.1:{self.server.server_address[1]}/1"


@contextmanager
def gopher(words: bytes) -> Iterator[FixedServer]:
    peer = FixedServer(words)
    thread = threading.Thread(target=peer.server.serve_forever)
    thread.start()
    try:
        yield peer
    finally:
        peer.server.shutdown()
        thread.join()
        peer.server.server_close()
