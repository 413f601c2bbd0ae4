"""Who is slow, comes in numbers, or is sent too much: others still have their pages."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio

from resolver.window.entrance import MOST_REQUESTS
from resolver.window.listening import LOOPBACK
from tests.hang import HANG
from tests.resolver.window.client import running
from tests.resolver.window.test_origins import at, gopher, inside

MANY = 200


@pytest.mark.slow
@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: 127"])
async def test_who_says_nothing_is_let_go(begun: bytes) -> None:
    async with running() as (browser, _), AsyncExitStack() as stack:
        port = browser.server.house.port
        streams = [
            await stack.enter_async_context(await trio.open_tcp_stream(LOOPBACK, port)) for _ in range(MANY)
        ]
        for stream in streams:
            await stream.send_all(begun)
        assert (await browser.ask("/")).status == 200
        with trio.fail_after(HANG):
            for stream in streams:
                try:
                    while await stream.receive_some():
                        pass
                except trio.BrokenResourceError:
                    pass


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
            assert "too many requests at a time" in told[-1]
            assert len(peer.heard) <= 6
        with trio.fail_after(HANG):
            while (await browser.ask("/")).status != 200:
                pass


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
