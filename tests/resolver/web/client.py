"""A minimal browser: send raw bytes to a port and parse the answer; and a web UI server to test."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import h11
import trio

from resolver import Settings
from resolver.web.access import LOOPBACK
from resolver.web.server import ServeOptions, WebServer, run_server
from tests.hang import HANG

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


class Answer(NamedTuple):
    """An HTTP response; `status` is 0 if the server closed the connection without a response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        values = [value for key, value in self.headers if key == name]
        assert len(values) < 2, f"{name} twice"
        return values[0] if values else None

    @property
    def text(self) -> str:
        return self.body.decode()

    def field(self, name: str) -> str:
        """Return the value of the first hidden field with this name in the content of the page."""
        match = re.search(f'name="{name}" value="([^"]*)"', self.text[max(0, self.text.find("<main")) :])
        assert match is not None, f"no field {name} in {self.text}"
        return unescape(match[1])


async def exchange(port: int, octets: bytes, method: str = "GET") -> Answer:
    """Send a request and return the response to it."""
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=1_048_576)
    reader.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
    reader.send(h11.EndOfMessage())
    status, body = 0, b""
    fields: tuple[tuple[str, str], ...] = ()
    with trio.fail_after(HANG):
        async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
            await stream.send_all(octets)
            while True:
                event = reader.next_event()
                if isinstance(event, h11.Response):
                    status = event.status_code
                    fields = tuple((name.decode(), value.decode()) for name, value in event.headers)
                elif isinstance(event, h11.Data):
                    body += event.data
                elif event is h11.NEED_DATA:
                    try:
                        data = await stream.receive_some()
                    except trio.BrokenResourceError:
                        data = b""
                    if not data and not status:
                        return Answer(0, (), b"")
                    reader.receive_data(data)
                elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                    return Answer(status, fields, body)


class Browser:
    """A browser with or without the session cookie."""

    def __init__(self, server: WebServer) -> None:
        self.server = server
        self.cookie: str | None = None

    async def enter(self) -> Answer:
        parts = urlsplit(self.server.entry())
        answer = await self.ask(f"{parts.path}?{parts.query}")
        self.cookie = (answer.header("set-cookie") or "").partition(";")[0]
        return answer

    async def ask(
        self,
        target: str,
        headers: dict[str, str] | None = None,
        *,
        method: str = "GET",
        body: bytes = b"",
        port: int | None = None,
    ) -> Answer:
        """Send a request as a page of the web UI does, without headers that are empty."""
        at = self.server.site.port if port is None else port
        fields = {
            "Host": f"{LOOPBACK}:{at}",
            **SAME_ORIGIN,
            **({"Cookie": self.cookie} if self.cookie else {}),
        }
        fields |= {} if method != "POST" else {"Content-Type": "application/x-www-form-urlencoded"}
        fields |= {"Content-Length": str(len(body))} if body else {}
        fields |= headers or {}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
        head = f"{method} {target} HTTP/1.1\r\n{lines}\r\n"
        return await exchange(at, head.encode() + body, method)

    async def post(self, action: str, form: dict[str, str], headers: dict[str, str] | None = None) -> Answer:
        return await self.ask(action, headers, method="POST", body=urlencode(form).encode())

    async def look(self, url: str) -> Answer:
        """Request the preview of a URL, as typed into the address bar."""
        return await self.ask(f"/look?{urlencode({'url': url})}")

    async def go(self, url: str, shown: str = "", **more: str) -> Answer:
        """Submit the address bar of a page that shows `shown`; the redirect is not followed."""
        match = re.search(
            r'action="/go".*?name="csrf" value="([^"]*)"', (await self.ask("/")).text, re.DOTALL
        )
        assert match is not None
        return await self.post("/go", {"csrf": match[1], "shown": shown, "url": url, **more})

    async def open(self, looked: Answer) -> Answer:
        """Submit the form of a preview and follow its redirect."""
        form = {name: looked.field(name) for name in ("csrf", "from", "url")}
        answer = await self.post("/open", form)
        where = answer.header("location")
        return answer if where is None else await self.ask(where)

    async def typed(self, url: str) -> Answer:
        return await self.open(await self.look(url))


class LogLines(list[str]):
    """The log lines of a server."""


@asynccontextmanager
async def running(**changes: Any) -> AsyncIterator[tuple[Browser, LogLines]]:
    """Run a server; yield a browser that has its session cookie, and the server's log."""
    log = LogLines()
    options = {"settings": Settings(), "log": log.append, **changes}
    async with run_server(ServeOptions(**options)) as server:
        browser = Browser(server)
        await browser.enter()
        yield browser, log
