"""Connections after a response 101 under httpx and httpx2, and the WebSocket client of httpx2 on them."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpcore
import httpcore2
import httpx
import httpx2
import pytest
import trio
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Request, TextMessage

from fixtures.__main__ import server_tls
from resolver import HttpxTransport, Policy
from resolver.adapters.httpx_errors import RequestRefused
from tests.elsewhere import served
from tests.hang import HANG
from tests.resolver.adapters.conftest import SOON
from tests.resolver.network.peers import start

T = TypeVar("T")

FAMILIES = [(httpx, httpcore), (httpx2, httpcore2)]
UPGRADE = {"Connection": "Upgrade", "Upgrade": "echo"}
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"


class EchoServer:
    """A server that switches protocols, and then returns all received bytes in capitals."""

    def __init__(self, head: bytes = SWITCHED + b"HELLO", tls: ssl.SSLContext | None = None) -> None:
        self._head = head
        self._tls = tls
        self.heard = b""
        self.ended = trio.Event()

    async def start(self, nursery: trio.Nursery) -> EchoServer:
        self.port = await start(nursery, self._serve)
        return self

    async def _serve(self, plain: trio.SocketStream) -> None:
        stream: trio.abc.Stream = plain
        if self._tls is not None:
            stream = trio.SSLStream(plain, self._tls, server_side=True, https_compatible=True)
        while b"\r\n\r\n" not in self.heard:
            self.heard += await stream.receive_some(4096)
        await stream.send_all(self._head)
        while octets := await stream.receive_some(4096):
            if octets == b"bye":
                await stream.aclose()
                break
            await stream.send_all(octets.upper())
        self.ended.set()


def under_both(test: Callable[..., T]) -> Callable[..., T]:
    """Run a test with both families."""
    ids = ["httpx", "httpx2"]
    tests: Callable[..., T] = pytest.mark.parametrize(("family", "core"), FAMILIES, ids=ids)(test)
    return tests


@under_both
def test_sync_client_talks_after_upgrade(family: Any, core: Any) -> None:
    with served(EchoServer().start) as server, family.Client(transport=HttpxTransport()) as client:
        url = f"http://127.0.0.1:{server.port}/echo"
        with client.stream("GET", url, headers=UPGRADE, timeout=SOON) as response:
            assert (response.status_code, response.reason_phrase) == (101, "Switching Protocols")
            stream = response.extensions["network_stream"]
            assert (stream.read(4), stream.read(100)) == (b"HELL", b"O")  # sent together with the head
            stream.write(b"abc")
            assert stream.read(100, timeout=HANG) == b"ABC"
            assert stream.get_extra_info("server_addr") == ("127.0.0.1", server.port)
            assert stream.get_extra_info("ssl_object") is None
            with pytest.raises(core.ReadTimeout):
                stream.read(100, timeout=2 * SOON)  # twice the timeout of the client
            stream.write(b"bye")
            assert stream.read(100) == b""
            stream.close()
            with pytest.raises(core.WriteError):
                stream.write(b"x")
    assert b"upgrade: echo" in server.heard.lower()


@under_both
async def test_async_client_talks_after_upgrade(
    family: Any, core: Any, nursery: trio.Nursery, tmp_path: Path
) -> None:
    tls, cafile = server_tls(tmp_path)
    server = await EchoServer(tls=tls).start(nursery)
    async with family.AsyncClient(transport=HttpxTransport(cafile=str(cafile))) as client:
        url = f"wss://127.0.0.1:{server.port}/echo"
        async with client.stream("GET", url, headers=UPGRADE, timeout=SOON) as response:
            assert response.http_version == "HTTP/1.1"
            stream = response.extensions["network_stream"]
            assert await stream.read(100) == b"HELLO"
            await stream.write(b"abc", timeout=HANG)
            assert await stream.read(100, timeout=HANG) == b"ABC"
            assert isinstance(stream.get_extra_info("ssl_object"), ssl.SSLObject | ssl.SSLSocket)
            with pytest.raises(core.ReadTimeout):
                await stream.read(100, timeout=2 * SOON)
            assert [octets async for octets in response.aiter_raw()] == []  # closes the response
            with pytest.raises(core.WriteError):
                await stream.write(b"x")
    await server.ended.wait()


@under_both
def test_body_after_upgrade_is_empty_and_closes_connection(family: Any, core: Any) -> None:
    with served(EchoServer().start) as server, family.Client(transport=HttpxTransport()) as client:
        url = f"http://127.0.0.1:{server.port}/echo"
        assert client.get(url, headers=UPGRADE).content == b""


@under_both
def test_switch_without_upgrade_field_is_an_error(family: Any, core: Any) -> None:
    client = family.Client(transport=HttpxTransport())
    with served(EchoServer().start) as server, client, pytest.raises(family.RemoteProtocolError):
        client.get(f"http://127.0.0.1:{server.port}/echo")


@under_both
def test_policy_checks_websocket_url(family: Any, core: Any) -> None:
    transport = HttpxTransport(policy=Policy.untrusted())
    with family.Client(transport=transport) as client, pytest.raises(RequestRefused) as caught:
        client.get("ws://127.0.0.1/echo", headers=UPGRADE)
    assert caught.value.rule == "S08"


async def speak_websocket(stream: trio.SocketStream) -> None:
    """Accept a WebSocket, and answer each text in capitals."""
    machine = WSConnection(ConnectionType.SERVER)
    while octets := await stream.receive_some(4096):
        machine.receive_data(octets)
        for event in machine.events():
            match event:
                case Request():
                    await stream.send_all(machine.send(AcceptConnection()))
                case TextMessage(data=text):
                    await stream.send_all(machine.send(TextMessage(data=text.upper())))
                case CloseConnection():
                    await stream.send_all(machine.send(event.response()))
                    return


class WebSocketServer:
    async def start(self, nursery: trio.Nursery) -> str:
        return f"ws://127.0.0.1:{await start(nursery, speak_websocket)}/"


def test_websocket_of_sync_httpx2_client_exchanges_messages() -> None:
    client = httpx2.Client(transport=HttpxTransport())
    with served(WebSocketServer().start) as url, client, client.websocket(url) as socket:
        for text in ("one", "two"):
            socket.send_text(text)
            assert socket.receive_text() == text.upper()


async def test_websocket_of_async_httpx2_client_exchanges_messages(nursery: trio.Nursery) -> None:
    url = await WebSocketServer().start(nursery)
    async with httpx2.AsyncClient(transport=HttpxTransport()) as client, client.websocket(url) as socket:
        for text in ("one", "two"):
            await socket.send_text(text)
            assert await socket.receive_text() == text.upper()
