"""The tools over Streamable HTTP: the client of the SDK, and the access checks of the server."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple, TypeVar

import anyio
import httpx2
import pytest
import trio
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

import fixtures.http
import resolver
from fixtures.http import Page
from resolver.adapters.mcp import ToolGrant, http_application
from resolver.web.access import BearerMiddleware, SiteSettings
from resolver.web.headers import SessionKeys
from resolver.web.server import run_program_server
from tests.hang import HANG
from tests.resolver.adapters.mcp.half import serve_half

T = TypeVar("T")
HERE = resolver.Policy(name="untrusted", allow_address=frozenset({"127.0.0.1"}))
LONG = 300_000


class Running(NamedTuple):
    url: str
    token: str
    log: list[str]

    def connect(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers={"Authorization": f"Bearer {self.token}"}, trust_env=False)


async def on_asyncio(function: Callable[..., Awaitable[T]], *arguments: object) -> T:
    """Run an MCP client on asyncio in another thread, because under trio the SDK leaves generators open."""
    return await trio.to_thread.run_sync(partial(anyio.run, function, *arguments, backend="asyncio"))


@asynccontextmanager
async def running() -> AsyncIterator[Running]:
    log: list[str] = []
    application = http_application(ToolGrant(policy=HERE, environment={}))
    with trio.fail_after(HANG):
        async with run_program_server(application, "127.0.0.1", 0, log.append) as server:
            yield Running(f"{server.origin}/mcp", server.token, log)


async def fetch_twice(mode: str, server: Running, url: str) -> tuple[list[int], list[float]]:
    """Return the position and total of two pages, and the reported progress."""
    reports: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    async with (
        server.connect() as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
    ):
        assert len((await client.list_tools()).tools) == 5
        page = await client.call_tool("fetch", {"url": url}, progress_callback=note)
        cursor = page.structured_content["next_cursor"]
        more = await client.call_tool("fetch", {"cursor": cursor})
    return [page.structured_content["total"], more.structured_content["position"]], reports


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_official_client_calls_tools_over_http(mode: str, nursery: trio.Nursery) -> None:
    """Both MCP protocols are tested: with an `initialize` handshake and a session, and without these."""
    site = await fixtures.http.serve(nursery, site={"/": Page(b"x" * LONG)})
    async with running() as server:
        found, reports = await on_asyncio(fetch_twice, mode, server, site.url("/"))
        assert server.log == []
    assert found == [LONG, 20_000]
    assert reports == sorted(set(reports)) != []
    nursery.cancel_scope.cancel()


async def cancel_fetch(mode: str, server: Running, url: str, sent: threading.Event) -> None:
    """Cancel a tool call after the event `sent`."""
    async with (
        server.connect() as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
        anyio.create_task_group() as calls,
    ):
        calls.start_soon(client.call_tool, "fetch", {"url": url})
        await anyio.to_thread.run_sync(sent.wait, HANG)
        calls.cancel_scope.cancel()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_cancelled_http_call_closes_connection(mode: str, nursery: trio.Nursery) -> None:
    sent = threading.Event()
    url, closed = await serve_half(nursery, sent)
    async with running() as server:
        await on_asyncio(cancel_fetch, mode, server, url, sent)
        await closed.wait()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("first", [b"POST /mcp HTTP/1.0", b"POST /mcp HTTP/1.1\r\nConnection: close"])
async def test_connection_ends_with_event_stream(first: bytes) -> None:
    # In HTTP/1.0, the end of the connection is the end of the body.
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": ""}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}).encode()
    async with running() as server:
        place = server.url.removeprefix("http://").removesuffix("/mcp")
        fields = (
            f"Host: {place}\r\nAuthorization: Bearer {server.token}\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\r\n"
        )
        async with await trio.open_tcp_stream("127.0.0.1", int(place.rpartition(":")[2])) as stream:
            await stream.send_all(first + b"\r\n" + fields.encode() + body)
            answer = b"".join([part async for part in stream])
    assert b"content-type: text/event-stream" in answer
    assert b'"serverInfo"' in answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer TOKENx"}, 401),
        ({"Authorization": "Basic TOKEN"}, 401),
        ({"Authorization": "Bearer TOKEN", "Host": "evil.example"}, 421),
        ({"Authorization": "Bearer TOKEN", "Host": "localhost"}, 421),
        ({"Authorization": "Bearer TOKEN", "Origin": "http://evil.example"}, 403),
        ({"Authorization": "Bearer TOKEN", "Origin": "null"}, 403),
        ({"Authorization": "Bearer TOKEN", "Origin": "ORIGIN"}, 400),  # admitted; the body is not a message
        ({"Authorization": "bearer TOKEN"}, 400),
    ],
)
async def test_http_requests_without_permission_are_refused(headers: dict[str, str], status: int) -> None:
    async with running() as server, httpx2.AsyncClient(trust_env=False) as http:
        origin = server.url.removesuffix("/mcp")
        sent = {
            name: value.replace("TOKEN", server.token).replace("ORIGIN", origin)
            for name, value in headers.items()
        }
        answer = await http.post(
            server.url, headers={**sent, "Accept": "application/json, text/event-stream"}, json={}
        )
    assert (answer.status_code, answer.headers.get("www-authenticate")) == (
        status,
        "Bearer" if status == 401 else None,
    )
    assert len(server.log) == (0 if status == 400 else 1)
    assert not any(server.token in line for line in server.log)


async def test_entrance_refuses_websocket_and_too_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolver.web.access.MAX_REQUESTS", 0)
    log: list[str] = []
    keys = SessionKeys(80, lambda: 0.0)
    site = SiteSettings("127.0.0.1", 80, keys, log.append, is_public=True)
    sent: list[dict[str, object]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def unused(*arguments: object) -> None:
        raise AssertionError("the request must be refused")

    entrance = BearerMiddleware(unused, site)
    await entrance({"type": "websocket"}, unused, send)
    assert sent.pop() == {"type": "websocket.close", "code": 1008}
    scope = {
        **{"type": "http", "method": "POST", "raw_path": b"/mcp", "query_string": b"", "http_version": "1.1"},
        **{"client": None, "server": None},
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {keys.start}".encode())],
    }
    await entrance(scope, unused, send)
    assert sent[0]["status"] == 503
    with pytest.raises(AssertionError, match="must be refused"):  # event streams do not count
        await entrance({**scope, "method": "GET"}, unused, send)
    assert log == ["refused a websocket connection", "refused POST /mcp: too many concurrent requests"]


async def test_program_server_with_used_port_raises() -> None:
    async with running() as server:
        port = int(server.url.removesuffix("/mcp").rpartition(":")[2])
        application = http_application(ToolGrant(policy=HERE, environment={}))
        with pytest.raises(resolver.LocalError, match=f"cannot listen at 127.0.0.1 port {port}"):
            async with run_program_server(application, "127.0.0.1", port, server.log.append):
                raise AssertionError("the port is in use")
