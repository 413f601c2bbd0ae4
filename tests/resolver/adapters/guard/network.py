"""Names whose addresses change, and servers that record their clients.

No test sends a DNS query: `Names` replaces `socket.getaddrinfo`, except for IP addresses.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import pytest

import resolver

#: A loopback address that represents a public address. The policy of these tests allows only this address.
PUBLIC = "127.0.0.2"
POLICY = resolver.Policy(name="untrusted", allow_address=frozenset({PUBLIC}))

_look_up = socket.getaddrinfo


class Names:
    """A table with the IP addresses of each name for successive DNS lookups.

    Further DNS lookups return the last addresses.
    """

    def __init__(self, meanings: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._meanings = {name: list(answers) for name, answers in meanings.items()}
        self.asked: list[str] = []

    def getaddrinfo(self, host: Any, port: Any, *more: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in self._meanings:
            return _look_up(host, port, 0, socket.SOCK_STREAM, 0, socket.AI_NUMERICHOST)
        self.asked.append(name)
        answers = self._meanings[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [info for address in addresses for info in _look_up(address, port, 0, socket.SOCK_STREAM)]


def install(monkeypatch: pytest.MonkeyPatch, meanings: Mapping[str, Sequence[Sequence[str]]]) -> Names:
    names = Names(meanings)
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    return names


class Listening(ThreadingHTTPServer):
    """A server that ignores connection errors, because the clients in these tests disconnect early."""

    accepted = 0

    def process_request(self, request: Any, client_address: Any) -> None:
        self.accepted += 1
        super().process_request(request, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class Body(NamedTuple):
    """The response body for a path, and the header fields of the response."""

    octets: bytes = b"hello"
    headers: Mapping[str, str] = {}


class Server:
    """Two servers with the same port, one at a public address and one at an internal address.

    `visits` records the server address and the `Host` field of each request. `peers` records the address of
    each client.
    """

    def __init__(self, locations: Mapping[str, str]) -> None:
        self.visits: list[tuple[str, str]] = []
        self.peers: list[str] = []
        self.locations = dict(locations)
        self.port = 0
        self.inside: Listening

    def count_inside(self) -> int:
        """Return the number of connections to the internal address, with and without a request.

        The function opens a last connection, and waits until the server has accepted this connection.
        """
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(b"GET /last HTTP/1.0\r\n\r\n")
            last.makefile("rb").read()
        self.visits.pop()
        self.inside.accepted -= 1
        return self.inside.accepted


@contextmanager
def servers(locations: Mapping[str, str], bodies: Mapping[str, Body] | None = None) -> Iterator[Server]:
    """Run both servers; `locations` maps paths to redirect URLs, and every other path has content.

    `/drop` closes the connection without a response.
    """
    shared = Server(locations)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            shared.visits.append((self.connection.getsockname()[0], self.headers["Host"]))
            shared.peers.append(self.connection.getpeername()[0])
            if self.path == "/drop":
                self.close_connection = True
                return
            location = shared.locations.get(self.path)
            self.send_response(200 if location is None else 302)
            if location is not None:
                self.send_header("Location", location.format(port=shared.port))
            body = (bodies or {}).get(self.path, Body())
            for name, value in {**body.headers, "Content-Length": str(len(body.octets))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.octets)

        def log_message(self, format: str, *args: object) -> None:
            pass

    outside, inside = _pair(Handler)
    shared.inside = inside
    shared.port = outside.server_address[1]
    running = [threading.Thread(target=each.serve_forever, args=(0.01,)) for each in (outside, inside)]
    for thread in running:
        thread.start()
    try:
        yield shared
    finally:
        for server, thread in zip((outside, inside), running, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


def _pair(handler: type[BaseHTTPRequestHandler]) -> tuple[Listening, Listening]:
    """Return two servers with the same port; if the port is used at the internal address, try another."""
    while True:
        outside = Listening((PUBLIC, 0), handler)
        try:
            return outside, Listening(("127.0.0.1", outside.server_address[1]), handler)
        except OSError:
            outside.server_close()


#: Internal hosts, in forms that at least one client accepts.
INSIDE = (
    *("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]"),
    *("2130706433", "0x7f000001", "0x7f.1", "017700000001", "127.1", "127.0.1", "0177.0.0.1"),
    *("169.254.169.254", "10.0.0.1", "192.168.0.1", "100.64.0.1", "[fe80::1]", "[fd00::1]"),
    *("inside.example", "mapped.example", "nowhere.example"),
)
MEANINGS: Mapping[str, Sequence[Sequence[str]]] = {
    "outside.example": [[PUBLIC]],
    "both.example": [["127.0.0.1", PUBLIC]],
    "inside.example": [["127.0.0.1"]],
    "mapped.example": [["::ffff:127.0.0.1"]],
    "nowhere.example": [["0.0.0.0"]],
    "rebinding.example": [[PUBLIC], ["127.0.0.1"]],
}
REDIRECTS = {
    "/in": "http://127.0.0.1:{port}/",
    "/name": "http://inside.example:{port}/",
    "/mapped": "http://[::ffff:127.0.0.1]:{port}/",
    "/decimal": "http://2130706433:{port}/",
    "/zero": "http://0.0.0.0:{port}/",
    "/out": "http://outside.example:{port}/",
}
