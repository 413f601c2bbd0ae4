"""Servers for the browser: the web UI, and untrusted sites on other ports.

Each runs in a separate thread, because Playwright blocks the thread of the test.
"""

from __future__ import annotations

import queue
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import trio

from resolver import Settings
from resolver.web import headers
from resolver.web.server import ServeOptions, WebServer, run_server
from resolver.web.session import ContentDocument
from tests.hang import HANG


class Opened:
    """A running server of the web UI; `log` holds the lines of its log."""

    def __init__(self, server: WebServer, token: trio.lowlevel.TrioToken, log: list[str]) -> None:
        self._server = server
        self._token = token
        self.log = log
        self.origin = server.site.origin
        self.content = server.content
        #: The session cookies; empty until the first browser has entered.
        self.cookies: Sequence[Any] = ()

    def entry(self) -> str:
        """Return an entry link, which authenticates a browser once."""
        entered: str = trio.from_thread.run_sync(self._server.entry, trio_token=self._token)
        return entered

    def keep(self, octets: bytes, media_type: str = headers.TEXT, *, inline: bool = True) -> str:
        """Store a document in the session, as pages do, and return its URL on the content port."""
        document = ContentDocument(octets, media_type, "kept", inline)
        kept: str = trio.from_thread.run_sync(
            self._server.session.store_document, document, trio_token=self._token
        )
        return f"{self.content}/d/{kept}/kept"


@contextmanager
def served(**wishes: Any) -> Iterator[Opened]:
    """Run a server of the web UI while the block runs."""
    begun: queue.Queue[Opened | BaseException] = queue.Queue()
    log: list[str] = []
    stop = trio.Event()

    async def main() -> None:
        given = {"settings": Settings(), "log": log.append, **wishes}
        async with run_server(ServeOptions(**given)) as server:
            begun.put(Opened(server, trio.lowlevel.current_trio_token(), log))
            await stop.wait()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            begun.put(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    opened = begun.get(timeout=HANG)
    if isinstance(opened, BaseException):
        thread.join()
        raise opened
    try:
        yield opened
    finally:
        trio.from_thread.run_sync(stop.set, trio_token=opened._token)
        thread.join()


class Sent(NamedTuple):
    """A response of a site."""

    media_type: str = "text/plain"
    body: str | bytes = ""
    status: int = 200
    headers: Mapping[str, str] = {}


class Site:
    """An untrusted site.

    `asked` are the received requests, method and target. `said` are their headers. `connections` counts all
    connections, also those without a request.
    """

    def __init__(
        self, pages: Mapping[str, tuple[str, str] | Sent], secured: ssl.SSLContext | None = None
    ) -> None:
        self.asked: list[str] = []
        self.said: list[Message] = []
        self.connections = 0
        self.pages = dict(pages)
        self._server = _listening(self)
        self.port = self._server.server_port
        if secured is not None:
            self._server.socket = secured.wrap_socket(self._server.socket, server_side=True)
        self._scheme = "http" if secured is None else "https"
        self.origin = f"{self._scheme}://127.0.0.1:{self.port}"
        #: The same server under a host name, so that it is another site for the browser, not only another
        #: port.
        self.elsewhere = f"{self._scheme}://evil.example:{self.port}"

    def answer(self, target: str) -> Sent:
        found = self.pages.get(target)
        return Sent(status=404) if found is None else Sent(*found)

    @contextmanager
    def running(self) -> Iterator[Site]:
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


def _listening(site: Site) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.asked.append(f"{self.command} {self.path}")
            site.said.append(self.headers)
            sent = site.answer(self.path)
            body = sent.body.encode() if isinstance(sent.body, str) else sent.body
            self.send_response(sent.status)
            said = {"Content-Type": sent.media_type, **sent.headers}
            for name, value in said.items():
                if value:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        def verify_request(self, *_: object) -> bool:
            site.connections += 1
            return True

        def handle_error(self, *_: object) -> None:
            """Ignore a browser that disconnects early."""

    return Server(("127.0.0.1", 0), Handler)
