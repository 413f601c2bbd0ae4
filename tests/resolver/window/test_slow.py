"""Who is slow, comes in numbers, or is sent too much: others still have their pages."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import trio

from fixtures.http.server import serve as http_server
from fixtures.http.site import Page as HttpPage
from resolver.web import access as listening
from resolver.web import server as serve
from resolver.web.access import LOOPBACK, MOST_REQUESTS
from resolver.web.headers import OCTETS
from resolver.web.session import ContentDocument
from tests.hang import HANG
from tests.resolver.window.client import running
from tests.resolver.window.test_origins import at, gopher, inside
from tests.sampled import FULL, sampled

MANY = 200


@pytest.mark.slow
@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: 127"])
async def test_who_says_nothing_is_let_go(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "_IDLE", 1.0)
    async with running() as (browser, _), AsyncExitStack() as stack:
        port = browser.server.house.port
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


async def test_who_drips_a_head_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said a little at a time is still no request."""
    monkeypatch.setattr(serve, "_IDLE", 1.0)
    async with running() as (browser, _):
        with trio.fail_after(HANG):
            async with await trio.open_tcp_stream(LOOPBACK, browser.server.house.port) as stream:
                await stream.send_all(b"GET / HTTP/1.1\r\nX: ")
                with suppress(trio.BrokenResourceError):
                    silent = True
                    while silent:
                        await stream.send_all(b"x")
                        with trio.move_on_after(0.2) as waited:
                            await stream.receive_some()
                        silent = waited.cancelled_caught
        assert (await browser.ask("/")).status == 200


async def stalled(port: int, head: str) -> trio.SocketStream:
    """A reader who has the beginning of an answer, and takes no more."""
    peer = trio.socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await peer.connect((LOOPBACK, port))
    stream = trio.SocketStream(peer)
    await stream.send_all(head.encode())
    assert (await stream.receive_some(12)).startswith(b"HTTP/1.1 200")
    return stream


async def test_who_stops_reading_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends though somebody has half a page, or half a document."""
    monkeypatch.setattr(listening, "_UNREAD", 200)
    monkeypatch.setattr(serve, "_GRACE", 0.2)
    lines = "".join(f"0Item {number} {'x' * 600}\titem{number}\t127.0.0.1\tPORT\n" for number in range(9_000))
    with trio.fail_after(HANG):
        async with (
            gopher(lines) as peer,
            AsyncExitStack() as stack,
            running(settings=inside(peer), size=9_000) as (browser, _),
        ):
            own = f"Cookie: {browser.cookie}\r\nSec-Fetch-Site: same-origin"
            kept = ContentDocument(bytes(16_777_216), OCTETS, "x", inline=False)
            document = f"/d/{browser.server.session.keep(kept)}/x"
            place = int(browser.server.content.rpartition(":")[2])
            for port, target in ((browser.server.house.port, at(peer.url)), (place, document)):
                head = f"GET {target} HTTP/1.1\r\nHost: {LOOPBACK}:{port}\r\n{own}\r\n\r\n"
                stream = await stalled(port, head)
                stack.push_async_callback(stream.aclose)
            assert (await browser.ask("/")).status == 200


async def test_no_more_than_so_many_requests_are_answered_at_a_time() -> None:
    """Those of a server that never answers; one that is let go makes room."""
    async with gopher() as peer, running(settings=inside(peer)) as (browser, told):
        peer.silent = True
        lines = (f"GET {at(peer.url)} HTTP/1.1", f"Host: {browser.server.house.place}")
        own = (f"Cookie: {browser.cookie}", "Sec-Fetch-Site: same-origin")
        head = "".join(f"{line}\r\n" for line in (*lines, *own)) + "\r\n"
        port = browser.server.house.port
        async with AsyncExitStack() as stack:
            for _ in range(MOST_REQUESTS):
                stream = await stack.enter_async_context(await trio.open_tcp_stream(LOOPBACK, port))
                await stream.send_all(head.encode())
            with trio.fail_after(HANG):
                while (await browser.ask("/")).status != 503:  # until the last of them has arrived
                    pass
            assert "too many requests" in told[-1]
            assert len(peer.heard) <= 6
        with trio.fail_after(HANG):
            while (await browser.ask("/")).status != 200:
                pass


#: No page has room for one in a hundred of them.
MANY_LINES = 1_000_000 if FULL else 200_000


ENDLESS = {"items": b"0x\tx\tx\t70\r\n", "words": b"ix\t\t\t\r\n", "nothing": b"\r\n", "one line": b"x"}


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(ENDLESS, lambda name: None))
async def test_what_has_no_end_is_a_page_like_others(name: str) -> None:
    """Of a menu of so many lines, as of a line that long."""
    async with serving_octets(ENDLESS[name] * MANY_LINES + b"\r\n.\r\n") as url, running() as (browser, told):
        page = await browser.typed(url)
        assert len(page.body) <= 300_000
        assert page.status in (200, 413, 502)
        assert told == []
        assert (await browser.ask("/")).status == 200


async def test_what_grows_when_it_is_unpacked_is_not() -> None:
    async with trio.open_nursery() as nursery:
        server = await http_server(nursery)
        async with running() as (browser, _):
            page = await browser.typed(f"http://127.0.0.1:{server.port}/bomb")
            assert (page.status, len(page.body) < 100_000) == (413, True)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("media_type", ["text/plain", "text/html", "message/rfc822"])
async def test_of_a_long_text_a_part_is_shown(media_type: str) -> None:
    """A part is what a browser lays out without a pause; nothing of a line's length makes it longer."""
    text = b"Subject: x\r\n\r\n" + b"words of nobody " * 250_000
    async with trio.open_nursery() as nursery:
        server = await http_server(nursery, {"/": HttpPage(text, media_type)})
        async with running() as (browser, _):
            page = await browser.typed(f"http://127.0.0.1:{server.port}/")
            assert (page.status, len(page.body) < 1_200_000) == (200, True)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def serving_octets(octets: bytes) -> AsyncIterator[str]:
    """The URL of a gopher server that says that, and leaves when nobody listens."""

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        with suppress(trio.BrokenResourceError):
            await stream.send_all(octets)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host=LOOPBACK)
        nursery.start_soon(trio.serve_listeners, answer, [listener])
        yield f"gopher://{LOOPBACK}:{listener.socket.getsockname()[1]}/1"
        nursery.cancel_scope.cancel()


async def test_of_a_long_listing_a_page_is_shown_and_the_rest_is_kept_here() -> None:
    lines = "".join(f"0Item {number}\titem{number}\t127.0.0.1\tPORT\n" for number in range(20_000))
    async with gopher(lines) as peer, running(settings=inside(peer)) as (browser, _):
        first = await browser.ask(at(peer.url))
        assert (first.status, len(first.body) < 400_000) == (200, True)
        last = await browser.ask(f"{at(peer.url)}?page=40")
        assert "Item 19999" in last.text
        filtered = await browser.ask(f"{at(peer.url)}?q=item%201999")
        assert ("Item 19991" in filtered.text, "Item 500" in filtered.text) == (True, False)
        assert len(peer.heard) == 1
        assert (await browser.ask(at(peer.url))).status == 200
        assert len(peer.heard) == 2
