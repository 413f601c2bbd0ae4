"""The bytes of a stranger at the origin of our pages: a browser neither runs nor shows them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from urllib.parse import quote

import pytest
import trio

from resolver import Policy, Settings
from resolver.web.access import LOOPBACK
from tests.resolver.window.client import Answer, running
from tests.resolver.window.peers import serving
from tests.resolver.window.test_listening import UNSAID

HOSTILE = b"<script>alert(document.cookie)</script>"
INSIDE = Settings(policy=Policy(allow_address=frozenset({"127.0.0.0/8"})))


class TypedPage:
    """A server that calls one page whatever the request names; `heard` are the requests."""

    def __init__(self) -> None:
        self.port = 0
        self.heard: list[bytes] = []

    def address(self, secret: str, media_type: str = "") -> str:
        """Of the gateway."""
        return f"/g/{secret}/{quote(f'http://{LOOPBACK}:{self.port}/{media_type}', safe='')}"

    async def answer(self, stream: trio.SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await stream.receive_some()
        self.heard.append(head)
        named = head.split(b" ")[1].removeprefix(b"/")
        said = b"Content-Type: %b\r\n" % named if named else b""
        lines = b"HTTP/1.1 200 OK\r\n%bConnection: close\r\nContent-Length: %d\r\n\r\n" % (said, len(HOSTILE))
        await stream.send_all(lines + HOSTILE)
        await stream.aclose()


def page_server() -> AbstractAsyncContextManager[TypedPage]:
    return serving(TypedPage())


def assert_neither_run_nor_shown(answer: Answer) -> None:
    said = [(name, value) for name, value in answer.headers if name != "content-security-policy"]
    policies = [value.split("; ") for name, value in answer.headers if name == "content-security-policy"]
    assert any({"sandbox", "default-src 'none'", "frame-ancestors 'none'"} < {*each} for each in policies)
    assert ("content-disposition", "attachment") in said
    assert ("x-content-type-options", "nosniff") in said
    assert ("referrer-policy", "no-referrer") in said, "the address has the secret"


@pytest.mark.parametrize(
    "media_type",
    ["text/html", "text/javascript", "image/svg+xml", "application/xhtml+xml", "application/pdf", ""],
)
async def test_gateway_for_a_browser_without_sec_fetch_answers_in_a_sandbox(media_type: str) -> None:
    """Such is every browser over http at an address of the network."""
    async with page_server() as peer, running(public=True, settings=INSIDE) as (browser, _):
        target = peer.address(browser.server.house.keys.gateway, media_type)
        answer = await browser.ask(target, {**UNSAID, "Cookie": ""})
        assert (answer.status, answer.body) == (200, HOSTILE)
        assert answer.header("content-type") == (media_type or "application/octet-stream")
        assert_neither_run_nor_shown(answer)


async def test_gateway_that_refuses_or_fails_answers_in_a_sandbox() -> None:
    async with running(public=True) as (browser, _):
        secret = browser.server.house.keys.gateway
        for target in ("/g/x/http%3A%2F%2Fh%2F", f"/g/{secret}/gopher%3A%2F%2Fh%3A25%2F", f"/g/{secret}/x"):
            answer = await browser.ask(target, {**UNSAID, "Cookie": ""})
            assert answer.status != 200
            assert_neither_run_nor_shown(answer)


async def test_gateway_asked_with_the_cookie_of_the_window_sends_nothing() -> None:
    async with page_server() as peer, running(public=True, settings=INSIDE) as (browser, told):
        target = peer.address(browser.server.house.keys.gateway)
        for cookie in (f"{browser.cookie}", f"a=b; {browser.cookie}"):
            answer = await browser.ask(target, {**UNSAID, "Cookie": cookie})
            assert (answer.status, answer.body, peer.heard) == (403, b"", [])
            assert_neither_run_nor_shown(answer)
        assert told == ["refused GET /g/...: the cookie of the window"] * 2
        assert (await browser.ask(target, {**UNSAID, "Cookie": "a=b"})).status == 200
