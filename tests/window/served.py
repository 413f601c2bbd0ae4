"""What a browser is pointed at: our server, and a site of a stranger's on another port. Each runs in a thread
of its own, for playwright waits in ours."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trio

from resolver.settings import Settings
from resolver.window.serve import Server, Wishes, serving
from tests.hang import HANG


class Opened:
    """A server that runs; `told` are the lines of its log."""

    def __init__(self, server: Server, token: trio.lowlevel.TrioToken, told: list[str]) -> None:
        self._server = server
        self._token = token
        self.told = told
        self.origin = server.house.origin
        self.content = server.content

    def entry(self) -> str:
        """An address that lets a browser in, once."""
        entered: str = trio.from_thread.run_sync(self._server.entry, trio_token=self._token)
        return entered


@contextmanager
def served(**wishes: Any) -> Iterator[Opened]:
    """Our server, as long as the block runs."""
    begun: queue.Queue[Opened | BaseException] = queue.Queue()
    told: list[str] = []
    stop = trio.Event()

    async def main() -> None:
        given = {"settings": Settings(), "tell": told.append, **wishes}
        async with serving(Wishes(**given)) as server:
            begun.put(Opened(server, trio.lowlevel.current_trio_token(), told))
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


class Site:
    """A stranger's. `asked` are the requests that came: method and target."""

    def __init__(self, pages: Mapping[str, tuple[str, str]]) -> None:
        self.asked: list[str] = []
        self.pages = dict(pages)
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append(f"{self.command} {self.path}")
                media_type, text = site.pages.get(self.path, ("text/plain", ""))
                body = text.encode()
                self.send_response(200 if self.path in site.pages else 404)
                self.send_header("Content-Type", media_type)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"

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


Start = Callable[..., Opened]
