"""The clients of OpenAI, Anthropic and MCP, and httpx-ws, with `HttpxTransport` and local servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import anthropic
import httpx
import httpx2
import httpx_ws
import openai
import pytest
import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

import fixtures.http
from fixtures.http import Behavior, HttpServer, Page
from fixtures.http.request import Request
from resolver import HttpxTransport, Policy
from resolver.adapters.httpx_errors import RequestRefused
from tests.elsewhere import served
from tests.resolver.adapters.conftest import SOON
from tests.resolver.adapters.test_httpx_upgrade import WebSocketServer

T = TypeVar("T")

WORDS = ["Hello", " there"]


def encode_events(*events: dict[str, Any]) -> bytes:
    """Return server-sent events with these JSON values; the type of a value is the name of its event."""
    names = [f"event: {event['type']}\n" if "type" in event else "" for event in events]
    lines = [f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(names, events, strict=True)]
    return "".join(lines).encode()


COMPLETION: dict[str, Any] = {"id": "c1", "created": 1, "model": "m", "object": "chat.completion"}
CHUNK = {**COMPLETION, "object": "chat.completion.chunk"}
ANSWER = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello there"}}
CHUNKS = [{**CHUNK, "choices": [{"index": 0, "delta": {"content": word}}]} for word in WORDS]
OPENAI = json.dumps({**COMPLETION, "choices": [ANSWER]}).encode()
OPENAI_STREAM = encode_events(*CHUNKS) + b"data: [DONE]\n\n"

MESSAGE: dict[str, Any] = {
    **{"id": "m1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None},
    **{"content": [], "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}},
}
TEXT = {"type": "text", "text": ""}
DELTAS = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
    for word in WORDS
]
ANTHROPIC = json.dumps({**MESSAGE, "content": [{**TEXT, "text": "Hello there"}]}).encode()
ANTHROPIC_STREAM = encode_events(
    {"type": "message_start", "message": MESSAGE},
    {"type": "content_block_start", "index": 0, "content_block": TEXT},
    *DELTAS,
    {"type": "content_block_stop", "index": 0},
    {"type": "message_stop"},
)


class StreamIfAsked:
    """A request handler that responds with server-sent events if the request has `"stream": true`."""

    def __init__(self, events: bytes) -> None:
        self._events = events

    def answer(self, request: Request, page: Page) -> Page:
        if not json.loads(request.body).get("stream"):
            return page
        return replace(page, content=self._events, media_type="text/event-stream", framing="chunked")


JSON = partial(Page, media_type="application/json")
SITE = {
    "/v1/chat/completions": JSON(OPENAI, guard=StreamIfAsked(OPENAI_STREAM)),
    "/v1/messages": JSON(ANTHROPIC, guard=StreamIfAsked(ANTHROPIC_STREAM)),
    "/v1/files": JSON(b'{"id": "f1", "object": "file", "filename": "a.txt"}'),
}


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with served(partial(fixtures.http.serve, site=SITE)) as running:
        yield running


ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def ask_openai(client: Any, **given: Any) -> Any:
    return client.chat.completions.create(**ASKED, **given)


def ask_anthropic(client: Any, **given: Any) -> Any:
    return client.messages.create(**ASKED, max_tokens=9, **given)


def read_openai(answer: Any) -> str:
    return str(answer.choices[0].message.content)


def read_anthropic(answer: Any) -> str:
    return str(answer.content[0].text)


def chunk_of_openai(event: Any) -> str:
    return str(event.choices[0].delta.content)


def chunk_of_anthropic(event: Any) -> str:
    return str(event.delta.text) if event.type == "content_block_delta" else ""


class Official:
    """The official client of a service, synchronous and asynchronous."""

    def __init__(
        self,
        module: Any,
        name: str,
        path: str,
        ask: Callable[..., Any],
        read: Callable[[Any], str],
        chunk: Callable[[Any], str],
    ) -> None:
        self.module, self.name, self.path = module, name, path
        self.ask, self.read, self.chunk = ask, read, chunk

    def open(self, url: str, transport: HttpxTransport, *, sync: bool = True) -> Any:
        kind = getattr(self.module, self.name if sync else f"Async{self.name}")
        client = httpx2.Client(transport=transport) if sync else httpx2.AsyncClient(transport=transport)
        return kind(api_key="k", base_url=url, http_client=client, max_retries=0)


OFFICIAL = [
    Official(openai, "OpenAI", "/v1", ask_openai, read_openai, chunk_of_openai),
    Official(anthropic, "Anthropic", "", ask_anthropic, read_anthropic, chunk_of_anthropic),
]
OF_EACH = pytest.mark.parametrize("official", OFFICIAL, ids=["openai", "anthropic"])
#: Runs an asynchronous function in a loop.
Run = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


def under_trio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    trio.run(main)


def under_asyncio(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(main())


LOOPS = pytest.mark.parametrize("run", [under_trio, under_asyncio])


@OF_EACH
def test_official_client_gets_answer_and_stream(official: Official, server: HttpServer) -> None:
    before = len(server.requests)
    with official.open(server.url(official.path), HttpxTransport()) as client:
        assert official.read(official.ask(client)) == "Hello there"
        words = [official.chunk(event) for event in official.ask(client, stream=True)]
    assert [word for word in words if word] == WORDS
    bodies = [json.loads(request.body) for request in server.requests[before:]]
    assert [body.get("stream") for body in bodies] == [None, True]
    assert all(body["messages"] == ASKED["messages"] for body in bodies)


# openai 3.57 does not close its generators after the last event; trio reports them with any transport.
@pytest.mark.filterwarnings(
    "ignore:Exception ignored in.*(AsyncStream|SSEDecoder):pytest.PytestUnraisableExceptionWarning"
)
@LOOPS
@OF_EACH
def test_official_async_client_gets_answer_and_stream(
    official: Official, run: Run, server: HttpServer
) -> None:
    async def main() -> None:
        async with official.open(server.url(official.path), HttpxTransport(), sync=False) as client:
            assert official.read(await official.ask(client)) == "Hello there"
            words = [official.chunk(event) async for event in await official.ask(client, stream=True)]
        assert [word for word in words if word] == WORDS

    run(main)


@OF_EACH
def test_official_client_raises_own_errors(official: Official, server: HttpServer) -> None:
    module = official.module
    with official.open(server.url("/none"), HttpxTransport()) as client, pytest.raises(module.NotFoundError):
        official.ask(client)
    wary = official.open(server.url(official.path), HttpxTransport(policy=Policy.untrusted()))
    with wary, pytest.raises(module.APIConnectionError) as caught:
        official.ask(wary)
    assert isinstance(caught.value.__cause__, RequestRefused)
    silent = {path: Behavior(silent=True, stays=True) for path in SITE}
    with served(partial(fixtures.http.serve, behaviors=silent)) as peer:
        url = peer.url(official.path)
        with official.open(url, HttpxTransport()) as client, pytest.raises(module.APITimeoutError):
            official.ask(client, timeout=2 * SOON)


def test_openai_client_uploads_file(server: HttpServer) -> None:
    before = len(server.requests)
    with OFFICIAL[0].open(server.url("/v1"), HttpxTransport()) as client:
        client.files.create(file=("a.txt", b"content"), purpose="batch")
    (request,) = server.requests[before:]
    assert b'filename="a.txt"' in request.body
    assert b"content" in request.body


async def serve_mcp(nursery: trio.Nursery) -> str:
    """Run an MCP server with one tool; return its URL."""
    tools = MCPServer("test")

    @tools.tool()
    def capitals(text: str) -> str:
        """Return the text in capitals."""
        return text.upper()

    config = Config()
    config.bind = ["127.0.0.1:0"]
    checks = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app: Any = tools.streamable_http_app(transport_security=checks)
    urls: list[str] = await nursery.start(partial(serve, app, config))
    return f"{urls[0]}/mcp"


@LOOPS
def test_mcp_client_calls_tool(run: Run) -> None:
    with served(serve_mcp) as url:

        async def main() -> None:
            async with (
                httpx2.AsyncClient(transport=HttpxTransport()) as plain,
                Client(streamable_http_client(url, http_client=plain)) as client,
            ):
                assert [tool.name for tool in (await client.list_tools()).tools] == ["capitals"]
                answer = await client.call_tool("capitals", {"text": "abc"})
                assert [getattr(part, "text", None) for part in answer.content] == ["ABC"]

        run(main)


def test_httpx_ws_exchanges_messages() -> None:
    with served(WebSocketServer().start) as url, httpx.Client(transport=HttpxTransport()) as client:
        with httpx_ws.connect_ws(url, client) as socket:
            socket.send_text("one")
            assert socket.receive_text() == "ONE"
        wary = httpx.Client(transport=HttpxTransport(policy=Policy.untrusted()))
        with wary, pytest.raises(RequestRefused), httpx_ws.connect_ws(url, wary):
            pass


@LOOPS
def test_async_httpx_ws_exchanges_messages(run: Run) -> None:
    with served(WebSocketServer().start) as url:

        async def main() -> None:
            async with (
                httpx.AsyncClient(transport=HttpxTransport()) as client,
                httpx_ws.aconnect_ws(url, client) as socket,
            ):
                await socket.send_text("one")
                assert await socket.receive_text() == "ONE"

        run(main)
