"""Web UI servers: access from other machines, TLS, the gateway, and limits of requests, time and memory."""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from http.client import HTTPSConnection
from pathlib import Path
from urllib.parse import quote

import pytest
import trio
import trustme

from fixtures.http.server import serve as http_server
from fixtures.http.site import Page as HttpPage
from fixtures.ports import serve_connections
from resolver import LocalError, NotConfigured, Policy, Settings
from resolver.web import access as entrance
from resolver.web import server as serve
from resolver.web.access import (
    LOOPBACK,
    MAX_REQUESTS,
    Certificate,
    bind_socket,
    check_certificate,
    check_site,
    make_authority,
)
from resolver.web.headers import OCTETS
from resolver.web.server import ServeOptions, run_server
from resolver.web.session import ContentDocument
from tests.hang import HANG
from tests.resolver.web.client import Answer, running
from tests.resolver.web.peers import serving as gateway_serving
from tests.resolver.web.test_access import checks_without
from tests.resolver.web.test_addresses import gopher, local_settings, path_of
from tests.sampled import FULL, sampled

NO_FETCH_METADATA = {"Sec-Fetch-Site": "", "Sec-Fetch-Mode": "", "Sec-Fetch-Dest": ""}


@pytest.mark.parametrize(
    ("scheme", "address", "port", "place"),
    [
        ("http", "192.0.2.1", 8_000, "192.0.2.1:8000"),
        ("http", "192.0.2.1", 80, "192.0.2.1"),
        ("https", "192.0.2.1", 80, "192.0.2.1:80"),
        ("https", "2001:db8::1", 443, "[2001:db8::1]"),
        ("http", "::1", 1, "[::1]:1"),
    ],
)
def test_make_authority_omits_default_port(scheme: str, address: str, port: int, place: str) -> None:
    assert make_authority(scheme, address, port) == place


async def test_public_http_cookie_has_no_secure_attribute() -> None:
    """Browsers drop a cookie with `Secure` and its name prefix over HTTP. All other attributes stay."""
    async with running(is_public=True) as (browser, log):
        port = browser.server.site.port
        assert browser.cookie is not None
        assert browser.cookie.startswith(f"resolve-{port}=")
        entered = await browser.enter()
        attributes = set((entered.header("set-cookie") or "").split("; ")[1:])
        assert attributes == {"Path=/", "HttpOnly", "SameSite=Strict"}
        assert (await browser.ask("/", NO_FETCH_METADATA)).status == 200
        assert log == []
        for host in ("evil.example", f"localhost:{port}", f"0.0.0.0:{port}"):
            assert (await browser.ask("/", {**NO_FETCH_METADATA, "Host": host})).status == 421
        assert (await browser.ask("/", {**NO_FETCH_METADATA, "Cookie": ""})).status == 403
        assert (
            await browser.ask("/", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"})
        ).status == 403


async def test_public_http_form_requires_origin_and_token() -> None:
    """Over HTTP browsers send no `Sec-Fetch-Site`."""
    async with running(is_public=True) as (browser, _):
        looked = await browser.look("gopher://192.0.2.1/1")
        form = {name: looked.field(name) for name in ("csrf", "from", "url")}
        for where in ("", "null", "http://evil.example", f"http://127.0.0.1:{browser.server.site.port + 1}"):
            assert (await browser.post("/open", form, {**NO_FETCH_METADATA, "Origin": where})).status == 403
        fields = {**NO_FETCH_METADATA, "Origin": browser.server.site.origin}
        assert (await browser.post("/open", {**form, "csrf": "guessed"}, fields)).status == 403
        assert (await browser.post("/open", form, fields)).status == 303
    async with running(
        is_public=True, checks=checks_without(check_site, entrance.check_origin), csrf=False
    ) as (
        browser,
        _,
    ):
        elsewhere = {**NO_FETCH_METADATA, "Origin": "http://evil.example"}
        assert (await browser.post("/history", {}, elsewhere)).status == 303, (
            "the form is accepted without these rules"
        )


async def test_public_server_does_not_check_peer_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entrance, "is_of_this_user", lambda ends: False)
    async with running(is_public=True) as (browser, _):
        assert (await browser.ask("/")).status == 200
    async with running() as (browser, log):
        assert (await browser.ask("/")).status == 403
        assert "another user" in log[-1]


@pytest.fixture(name="files")
def _files(tmp_path: Path) -> tuple[trustme.CA, Certificate]:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "both.pem")
    return authority, Certificate(str(tmp_path / "both.pem"), str(tmp_path / "both.pem"))


async def test_public_tls_has_secure_cookie_and_policy(files: tuple[trustme.CA, Certificate]) -> None:
    authority, certificate = files
    context = ssl.create_default_context()
    authority.configure_trust(context)
    context.set_alpn_protocols(["h2", "http/1.1"])

    async with run_server(ServeOptions(Settings(), is_public=True, certificate=certificate)) as server:
        assert server.site.origin == f"https://127.0.0.1:{server.site.port}"
        path = server.entry().partition(server.site.authority)[2]

        def ask() -> tuple[int, str, str, str | None]:
            port = server.site.port
            connection = HTTPSConnection("127.0.0.1", port, context=context, timeout=HANG)
            connection.request("GET", path)
            reply = connection.getresponse()
            reply.read()
            protocol = connection.sock.selected_alpn_protocol() if connection.sock else "http/1.1"
            values = reply.headers["content-security-policy"], reply.headers["set-cookie"]
            connection.close()
            return reply.status, *values, protocol

        status, policy, cookie, protocol = await trio.to_thread.run_sync(ask)
    assert (status, protocol) == (200, "http/1.1")
    assert cookie.startswith("__Host-resolve-")
    assert "Secure" in cookie.split("; ")
    assert f"frame-src {server.content}" in policy
    assert server.content.startswith("https://127.0.0.1:")


def test_check_certificate_with_invalid_file_fails(
    files: tuple[trustme.CA, Certificate], tmp_path: Path
) -> None:
    check_certificate(files[1])
    (tmp_path / "odd").write_text("odd")
    for path in ("odd", "none", "."):
        with pytest.raises(NotConfigured, match=re.escape(str(tmp_path / path))):
            check_certificate(Certificate(str(tmp_path / path), files[1].key))


async def test_server_at_foreign_address_names_it() -> None:
    with pytest.raises(LocalError, match=r"192\.0\.2\.1"):
        async with running(address="192.0.2.1", is_public=True):
            raise AssertionError("listens")


# Untrusted bytes at the origin of our pages: a browser neither runs nor shows them.

HOSTILE = b"<script>alert(document.cookie)</script>"
INSIDE = Settings(policy=Policy(allow_address=frozenset({"127.0.0.0/8"})))


class TypedPage:
    """An HTTP server that serves one page with the media type the path names; `heard` are the requests."""

    def __init__(self) -> None:
        self.port = 0
        self.heard: list[bytes] = []

    def address(self, secret: str, media_type: str = "") -> str:
        """Return the path of this page at the gateway."""
        return f"/g/{secret}/{quote(f'http://{LOOPBACK}:{self.port}/{media_type}', safe='')}"

    async def answer(self, stream: trio.SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some()
        self.heard.append(head)
        named = head.split(b" ")[1].removeprefix(b"/")
        field = b"Content-Type: %b\r\n" % named if named else b""
        lines = b"HTTP/1.1 200 OK\r\n%bConnection: close\r\nContent-Length: %d\r\n\r\n" % (
            field,
            len(HOSTILE),
        )
        await stream.send_all(lines + HOSTILE)
        await stream.aclose()


def page_server() -> AbstractAsyncContextManager[TypedPage]:
    return gateway_serving(TypedPage())


def assert_neither_run_nor_shown(answer: Answer) -> None:
    fields = [(name, value) for name, value in answer.headers if name != "content-security-policy"]
    policies = [value.split("; ") for name, value in answer.headers if name == "content-security-policy"]
    assert any({"sandbox", "default-src 'none'", "frame-ancestors 'none'"} < {*policy} for policy in policies)
    assert ("content-disposition", "attachment") in fields
    assert ("x-content-type-options", "nosniff") in fields
    assert ("referrer-policy", "no-referrer") in fields, "the address has the secret"


@pytest.mark.parametrize(
    "media_type",
    ["text/html", "text/javascript", "image/svg+xml", "application/xhtml+xml", "application/pdf", ""],
)
async def test_gateway_without_sec_fetch_answers_in_a_sandbox(media_type: str) -> None:
    """Over HTTP, no browser sends these headers to an address of the network."""
    async with page_server() as peer, running(is_public=True, settings=INSIDE) as (browser, _):
        target = peer.address(browser.server.site.keys.gateway, media_type)
        answer = await browser.ask(target, {**NO_FETCH_METADATA, "Cookie": ""})
        assert (answer.status, answer.body) == (200, HOSTILE)
        assert answer.header("content-type") == (media_type or "application/octet-stream")
        assert_neither_run_nor_shown(answer)


async def test_gateway_that_refuses_or_fails_answers_in_a_sandbox() -> None:
    async with running(is_public=True) as (browser, _):
        secret = browser.server.site.keys.gateway
        for target in ("/g/x/http%3A%2F%2Fh%2F", f"/g/{secret}/gopher%3A%2F%2Fh%3A25%2F", f"/g/{secret}/x"):
            answer = await browser.ask(target, {**NO_FETCH_METADATA, "Cookie": ""})
            assert answer.status != 200
            assert_neither_run_nor_shown(answer)


async def test_gateway_with_session_cookie_sends_nothing() -> None:
    async with page_server() as peer, running(is_public=True, settings=INSIDE) as (browser, log):
        target = peer.address(browser.server.site.keys.gateway)
        for cookie in (f"{browser.cookie}", f"a=b; {browser.cookie}"):
            answer = await browser.ask(target, {**NO_FETCH_METADATA, "Cookie": cookie})
            assert (answer.status, answer.body, peer.heard) == (403, b"", [])
            assert_neither_run_nor_shown(answer)
        assert log == ["refused GET /g/...: session cookie of the web UI"] * 2
        assert (await browser.ask(target, {**NO_FETCH_METADATA, "Cookie": "a=b"})).status == 200


# Slow clients, many clients, and clients that send too much: other clients still get their pages.

MANY = 200


@pytest.mark.slow
@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: 127"])
async def test_server_closes_idle_connections(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_IDLE_TIMEOUT", 1.0)
    async with running() as (browser, _), AsyncExitStack() as stack:
        port = browser.server.site.port
        streams = []
        for _ in range(MANY):
            stream = await stack.enter_async_context(await trio.open_tcp_stream(LOOPBACK, port))
            await stream.send_all(begun)
            streams.append(stream)
        assert (await browser.ask("/")).status == 200
        with trio.fail_after(HANG):
            for stream in streams:
                try:
                    while await stream.receive_some():
                        pass
                except trio.BrokenResourceError:
                    pass


async def test_server_closes_connection_with_slow_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head that arrives byte by byte is not a request."""
    monkeypatch.setattr(serve, "_IDLE_TIMEOUT", 1.0)
    async with running() as (browser, _):
        with trio.fail_after(HANG):
            async with await trio.open_tcp_stream(LOOPBACK, browser.server.site.port) as stream:
                await stream.send_all(b"GET / HTTP/1.1\r\nX: ")
                with suppress(trio.BrokenResourceError):
                    silent = True
                    while silent:
                        await stream.send_all(b"x")
                        with trio.move_on_after(0.2) as waited:
                            await stream.receive_some()
                        silent = waited.cancelled_caught
        assert (await browser.ask("/")).status == 200


UPGRADE = b"GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: "
#: Requests that cause an error in Hypercorn 0.18, before the access checks.
FATAL = {
    "h2c, not base64": UPGRADE + b"h2c\r\nHTTP2-Settings: A\r\n\r\n",
    "h2c, incomplete setting": UPGRADE + b"h2c\r\nHTTP2-Settings: AAAA\r\n\r\n",
    "WebSocket, subprotocol": UPGRADE + b"websocket\r\nSec-WebSocket-Protocol: \xff\r\n\r\n",
    "HTTP/2, streams": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    + b"".join(b"\0\0\5\2\0" + (2 * n + 1).to_bytes(4) + b"\0\0\0\0\1" for n in range(1_001)),
}  # fmt: skip


@pytest.mark.parametrize("octets", FATAL.values(), ids=FATAL)
async def test_server_survives_errors_of_hypercorn(octets: bytes) -> None:
    async with running() as (browser, log):
        with trio.fail_after(HANG), suppress(trio.BrokenResourceError):
            async with await trio.open_tcp_stream(LOOPBACK, browser.server.site.port) as stream:
                await stream.send_all(octets)
                async for _ in stream:
                    pass
        assert (await browser.ask("/")).status == 200
    assert [line for line in log if line.startswith("internal error")]


async def open_stalled_reader(port: int, head: str) -> trio.SocketStream:
    """Return a connection that read the beginning of a response and reads no more."""
    peer = trio.socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await peer.connect((LOOPBACK, port))
    stream = trio.SocketStream(peer)
    await stream.send_all(head.encode())
    assert (await stream.receive_some(12)).startswith(b"HTTP/1.1 200")
    return stream


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux resets paused clients with it")
def test_listener_does_not_reset_paused_clients() -> None:
    with bind_socket(LOOPBACK, 0) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0


async def test_server_stops_despite_stalled_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server stops although a client read only half of a page or of a document."""
    monkeypatch.setattr(serve, "_GRACE_PERIOD", 0.2)
    lines = "".join(f"0Item {number} {'x' * 600}\titem{number}\t127.0.0.1\tPORT\n" for number in range(9_000))
    with trio.fail_after(HANG):
        async with (
            gopher(lines) as peer,
            AsyncExitStack() as stack,
            running(settings=local_settings(peer), size=9_000) as (browser, _),
        ):
            fields = f"Cookie: {browser.cookie}\r\nSec-Fetch-Site: same-origin"
            stored = ContentDocument(bytes(16_777_216), OCTETS, "x", inline=False)
            document = f"/d/{browser.server.session.store_document(stored)}/x"
            place = int(browser.server.content.rpartition(":")[2])
            for port, target in ((browser.server.site.port, path_of(peer.url)), (place, document)):
                head = f"GET {target} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\n{fields}\r\n\r\n"
                stream = await open_stalled_reader(port, head)
                stack.push_async_callback(stream.aclose)
            assert (await browser.ask("/")).status == 200


async def test_server_limits_concurrent_requests() -> None:
    """The requests wait for a server that never answers; a closed connection frees its slot."""
    async with gopher() as peer, running(settings=local_settings(peer)) as (browser, log):
        peer.silent = True
        lines = (f"GET {path_of(peer.url)} HTTP/1.1", f"Host: {browser.server.site.authority}")
        fields = (f"Cookie: {browser.cookie}", "Sec-Fetch-Site: same-origin")
        head = "".join(f"{line}\r\n" for line in (*lines, *fields)) + "\r\n"
        port = browser.server.site.port
        async with AsyncExitStack() as stack:
            for _ in range(MAX_REQUESTS):
                stream = await stack.enter_async_context(await trio.open_tcp_stream(LOOPBACK, port))
                await stream.send_all(head.encode())
            with trio.fail_after(HANG):
                while (await browser.ask("/")).status != 503:  # All requests have arrived.
                    pass
            assert "too many concurrent requests" in log[-1]
            assert len(peer.heard) <= 6
        with trio.fail_after(HANG):
            while (await browser.ask("/")).status != 200:
                pass


#: Lines of a menu. A page shows fewer than 1 % of them.
MANY_LINES = 1_000_000 if FULL else 200_000


ENDLESS = {"items": b"0x\tx\tx\t70\r\n", "words": b"ix\t\t\t\r\n", "nothing": b"\r\n", "one line": b"x"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(ENDLESS, lambda name: None))
async def test_page_of_endless_menu_is_bounded(name: str) -> None:
    """The menu has this many lines, or one line of this length."""
    async with serving_octets(ENDLESS[name] * MANY_LINES + b"\r\n.\r\n") as url, running() as (browser, log):
        page = await browser.typed(url)
        assert len(page.body) <= 300_000
        assert page.status in (200, 413, 502)
        assert log == []
        assert (await browser.ask("/")).status == 200


async def test_page_of_decompression_bomb_is_refused(nursery: trio.Nursery) -> None:
    server = await http_server(nursery)
    async with running() as (browser, _):
        page = await browser.typed(f"http://127.0.0.1:{server.port}/bomb")
        assert (page.status, len(page.body) < 100_000) == (413, True)


@pytest.mark.parametrize("media_type", ["text/plain", "text/html", "message/rfc822"])
async def test_page_of_long_text_shows_a_part(nursery: trio.Nursery, media_type: str) -> None:
    """The limit is the size that a browser lays out without a pause; a long line does not raise it."""
    text = b"Subject: x\r\n\r\n" + b"words of nobody " * 250_000
    server = await http_server(nursery, {"/": HttpPage(text, media_type)})
    async with running() as (browser, _):
        page = await browser.typed(f"http://127.0.0.1:{server.port}/")
        assert (page.status, len(page.body) < 1_200_000) == (200, True)


@asynccontextmanager
async def serving_octets(octets: bytes) -> AsyncIterator[str]:
    """Run a Gopher server that sends these bytes, until the client disconnects; yield its URL."""

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        with suppress(trio.BrokenResourceError):
            await stream.send_all(octets)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        yield f"gopher://{LOOPBACK}:{await serve_connections(nursery, answer)}/1"
        nursery.cancel_scope.cancel()


async def test_page_of_long_listing_is_paged_from_cache() -> None:
    lines = "".join(f"0Item {number}\titem{number}\t127.0.0.1\tPORT\n" for number in range(20_000))
    async with gopher(lines) as peer, running(settings=local_settings(peer)) as (browser, _):
        first = await browser.ask(path_of(peer.url))
        assert (first.status, len(first.body) < 400_000) == (200, True)
        last = await browser.ask(f"{path_of(peer.url)}?page=40")
        assert "Item 19999" in last.text
        filtered = await browser.ask(f"{path_of(peer.url)}?q=item%201999")
        assert ("Item 19991" in filtered.text, "Item 500" in filtered.text) == (True, False)
        assert len(peer.heard) == 1
        assert (await browser.ask(path_of(peer.url))).status == 200
        assert len(peer.heard) == 2
