"""Who is let in to the pages: each rule of the gate, attacked by octets, and what is missed without it."""

from __future__ import annotations

import os
import socket
from shutil import which

import pytest
import trio
from h2.connection import H2Connection
from h2.events import ResponseReceived

from resolver.window import listening, serve
from resolver.window.entrance import CHECKS, MOST_FORM, cookie, host, method, origin, peer, site, version
from resolver.window.listening import LOOPBACK, is_of_this_user
from tests.hang import HANG
from tests.resolver.window.client import Browser, exchange, running
from tests.resolver.window.test_recorded import but

STRANGE_HOSTS = (
    "localhost:{port}",
    "localhost.:{port}",
    "0.0.0.0:{port}",
    "[::ffff:7f00:1]:{port}",
    "[::1]:{port}",
    "x.localhost:{port}",
    "127.0.0.1",
    "127.1:{port}",
    "127.0.0.1:{port}.evil.example",
    "evil.example:{port}",
    "127.0.0.1:1",
    "127.0.0.1:0{port}",
)


async def head(browser: Browser, *lines: str, method: str = "GET") -> int:
    """The status of a request of exactly these lines."""
    port = browser.server.house.port
    said = "".join(f"{line}\r\n" for line in lines).replace("{port}", str(port))
    return (await exchange(port, f"{said}\r\n".encode(), method)).status


async def test_only_the_numeric_place_is_a_host() -> None:
    async with running() as (browser, told):
        for name in STRANGE_HOSTS:
            del told[:]
            status = await head(browser, "GET / HTTP/1.1", f"Host: {name}", f"Cookie: {browser.cookie}")
            assert (name, status) == (name, 421)
            assert len(told) == 1
        assert await head(browser, "GET / HTTP/1.0", f"Cookie: {browser.cookie}") == 421
        assert await head(browser, "GET / HTTP/1.1", f"Cookie: {browser.cookie}") == 400
        twice = "Host: 127.0.0.1:{port}"
        assert await head(browser, "GET / HTTP/1.1", twice, twice, f"Cookie: {browser.cookie}") == 400
        assert await head(browser, "GET / HTTP/1.0", twice, f"Cookie: {browser.cookie}") == 200


async def test_without_that_rule_every_name_is_one() -> None:
    async with running(checks=but(host)) as (browser, _):
        assert await head(browser, "GET / HTTP/1.1", "Host: evil.example", f"Cookie: {browser.cookie}") == 200


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("CONNECT 127.0.0.1:{port} HTTP/1.1", 405),
        ("OPTIONS * HTTP/1.1", 405),
        ("PUT / HTTP/1.1", 405),
        ("DELETE /bookmarks HTTP/1.1", 405),
        ("TRACE / HTTP/1.1", 405),
        ("GET http://h.example/ HTTP/1.1", 421),
        ("GET http://127.0.0.1:{port}/ HTTP/1.1", 421),
        ("GET * HTTP/1.1", 421),
    ],
)
async def test_it_is_no_proxy_and_has_few_methods(line: str, status: int) -> None:
    async with running() as (browser, told):
        asked = (line, "Host: 127.0.0.1:{port}", f"Cookie: {browser.cookie}")
        assert await head(browser, *asked) == status
        assert len(told) == 1


async def test_without_that_rule_it_would_be_asked_as_a_proxy() -> None:
    async with running(checks=but(method)) as (browser, _):
        whole = "GET http://127.0.0.1:{port}/ HTTP/1.1"
        assert await head(browser, whole, "Host: 127.0.0.1:{port}", f"Cookie: {browser.cookie}") == 404


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends gives what still runs no long time."""
    monkeypatch.setattr(serve, "_GRACE", 0.2)


HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UPGRADE = (
    "GET / HTTP/1.1",
    "Host: 127.0.0.1:{port}",
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAMAAABkAAQAAP__",
)


@pytest.mark.usefixtures("short")
async def test_nothing_is_answered_in_http2() -> None:
    """After an upgrade, which the server itself agrees to."""
    for checks, is_told in ((CHECKS, True), (but(version), False)):
        async with running(checks=checks) as (browser, told):
            port = browser.server.house.port
            lines = "".join(f"{line}\r\n" for line in (*UPGRADE, f"Cookie: {browser.cookie}"))
            with trio.fail_after(HANG):
                async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
                    await stream.send_all(f"{lines}\r\n".replace("{port}", str(port)).encode() + HTTP2)
                    heard = b""
                    while len(heard.partition(b"\r\n\r\n")[2]) < 200:
                        heard += await stream.receive_some()
            assert ("refused GET /: HTTP/2" in told) is is_told


@pytest.mark.usefixtures("short")
async def test_who_begins_with_http2_gets_a_refusal() -> None:
    """Prior knowledge (RFC 9113 3.3), which the server takes as well; its headers are compressed, so what
    comes is the server's settings, an answer, and the end."""
    path, place = b"/", b"127.0.0.1:%d"
    async with running() as (browser, told):
        port = browser.server.house.port
        assert browser.cookie is not None
        with trio.fail_after(HANG):
            async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
                peer = H2Connection()
                peer.initiate_connection()
                headers = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", path)]
                own = [(b":authority", place % port), (b"cookie", browser.cookie.encode())]
                peer.send_headers(1, [*headers, *own], end_stream=True)
                await stream.send_all(peer.data_to_send())
                statuses: list[bytes] = []
                while not statuses:
                    for event in peer.receive_data(await stream.receive_some()):
                        if isinstance(event, ResponseReceived):
                            statuses += [bytes(value) for name, value in event.headers if name == b":status"]
        assert (statuses, told) == ([b"403"], ["refused GET /: HTTP/2"])


async def test_what_a_proxy_would_say_is_never_read() -> None:
    """Neither who the browser is nor what we are called."""
    said = {
        "X-Forwarded-For": "203.0.113.7",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Prefix": "/evil",
        "X-Real-IP": "203.0.113.7",
        "X-Original-URL": "/evil",
        "X-HTTP-Method-Override": "POST",
        "Forwarded": "for=203.0.113.7;host=evil.example;proto=https",
    }
    async with running() as (browser, told):
        for target in ("/settings", "/look", "/help"):
            plain, forwarded = await browser.ask(target), await browser.ask(target, said)
            assert (forwarded.status, forwarded.header("location")) == (
                plain.status,
                plain.header("location"),
            )
            assert "evil" not in forwarded.text
        assert (
            await browser.ask("/", {"Host": "evil.example", "X-Forwarded-Host": "127.0.0.1"})
        ).status == 421
        assert len(told) == 1


async def test_a_websocket_is_closed_whoever_asks() -> None:
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", key)
    async with running() as (browser, told):
        asked = ("GET / HTTP/1.1", "Host: 127.0.0.1:{port}", f"Cookie: {browser.cookie}", *upgrade)
        assert await head(browser, *asked) == 403
        assert told == ["refused a websocket"]


@pytest.mark.parametrize("said", ["cross-site", "same-site", "Same-Origin", "none, cross-site", "null"])
async def test_what_comes_from_elsewhere_is_refused(said: str) -> None:
    async with running() as (browser, told):
        for mode, destination in (("cors", "empty"), ("navigate", "iframe"), ("no-cors", "document")):
            where = {"Sec-Fetch-Site": said, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": destination}
            assert (await browser.ask("/", where)).status == 403
        where = {"Sec-Fetch-Site": said, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert (await browser.ask("/open", where, method="POST", body=b"csrf=x")).status == 403
        assert len(told) == 4


async def test_who_is_led_here_is_asked_and_nothing_else_happens() -> None:
    async with running() as (browser, _):
        where = {"Sec-Fetch-Site": "cross-site", "Cookie": ""}
        asked = await browser.ask("/u/gopher%3A%2F%2F127.0.0.1%2F1", where)
        assert "gopher://127.0.0.1/1" in asked.text
        assert 'href="/look?url=gopher%3A%2F%2F127.0.0.1%2F1&amp;from=asked"' in asked.text
        again = await browser.ask("/look?url=gopher%3A%2F%2F127.0.0.1%2F1", where)
        assert 'href="/look?url=gopher%3A%2F%2F127.0.0.1%2F1&amp;from=asked"' in again.text


async def test_only_the_cookie_of_this_run_counts() -> None:
    async with running() as (browser, told):
        assert browser.cookie is not None
        name = browser.cookie.partition("=")[0]
        for given in ("", f"{name}=", f"{name}=x", "session=1", browser.cookie[:-1], f"X{browser.cookie}"):
            answer = await browser.ask("/", {"Cookie": given})
            assert (given, answer.status, answer.header("set-cookie")) == (given, 403, None)
            assert answer.header("www-authenticate") is None
        assert len(told) == 6
        assert (await browser.ask("/", {"Cookie": f"lax=1; {browser.cookie}"})).status == 200
        await browser.enter()
        assert (await browser.ask("/")).status == 200
    async with running(checks=but(cookie)) as (browser, _):
        assert (await browser.ask("/", {"Cookie": ""})).status == 200


async def test_a_token_lets_in_once() -> None:
    async with running() as (browser, told):
        entry = browser.server.entry().partition(f":{browser.server.house.port}")[2]
        for elsewhere in ("cross-site", "same-site", "none"):
            assert (await browser.ask("/enter?t=guessed", {"Sec-Fetch-Site": elsewhere})).status == 403
        first = await browser.ask(entry, {"Sec-Fetch-Site": "cross-site", "Cookie": ""})
        assert (first.status, first.header("referrer-policy")) == (200, "no-referrer")
        assert first.header("location") is None
        assert 'content="0;url=/"' in first.text
        given = first.header("set-cookie") or ""
        assert given.startswith(f"__Host-resolve-{browser.server.house.port}=")
        assert {"Path=/", "Secure", "HttpOnly", "SameSite=Strict"} == set(given.split("; ")[1:])
        token = entry.partition("t=")[2]
        second = await browser.ask(entry, {"Cookie": ""})
        assert (second.status, second.header("set-cookie")) == (403, None)
        assert token not in first.text + second.text + "".join(told)


async def test_a_look_ahead_uses_no_token_up() -> None:
    async with running() as (browser, _):
        entry = browser.server.entry().partition(f":{browser.server.house.port}")[2]
        assert (await browser.ask(entry, method="HEAD")).header("set-cookie") is None
        assert (await browser.ask(entry)).status == 200


async def test_what_acts_proves_that_a_form_of_ours_sent_it() -> None:
    async with running() as (browser, told):
        looked = await browser.look("gopher://127.0.0.1/1")
        form = {name: looked.field(name) for name in ("csrf", "from", "url")}
        right = form["csrf"]
        wrong = ("", "x", right[:-1], browser.server.house.keys.csrf("/login"))
        del told[:]
        for given in wrong:
            assert (await browser.post("/open", {**form, "csrf": given})).status == 403
        for kind in ("text/plain", "multipart/form-data; boundary=x", ""):
            assert (await browser.post("/open", form, {"Content-Type": kind})).status == 403
        unsaid = {"Sec-Fetch-Site": ""}
        for where in ("", "null", "http://evil.example", "http://127.0.0.1:1"):
            assert (await browser.post("/open", form, {**unsaid, "Origin": where})).status == 403
        assert len(told) == 11
        ours = {**unsaid, "Origin": browser.server.house.origin}
        assert (await browser.post("/open", form, ours)).status == 303
    async with running(csrf=False, checks=but(origin)) as (browser, _):
        assert (await browser.post("/open", {"url": "x"}, {"Sec-Fetch-Site": ""})).status == 400


async def test_a_form_is_short_and_comes_soon() -> None:
    async with running(form_lasts=0.2) as (browser, told):
        port = browser.server.house.port
        assert (await browser.post("/open", {"url": "x" * MOST_FORM})).status == 413
        many = {f"x{number}": "" for number in range(300)}
        assert (await browser.post("/open", many)).status == 413
        lines = (
            "POST /open HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            f"Cookie: {browser.cookie}",
            "Sec-Fetch-Site: same-origin",
            "Content-Type: application/x-www-form-urlencoded",
            "Content-Length: 10",
        )
        dripped = "".join(f"{line}\r\n" for line in lines) + "\r\ncsrf"
        assert (await exchange(port, dripped.encode(), "POST")).status == 408
        assert len(told) == 3, told


async def test_a_service_worker_of_another_program_is_taken_out() -> None:
    async with running() as (browser, _):
        answer = await browser.ask("/sw.js", {"Service-Worker": "script"})
        assert (answer.status, answer.header("content-type")) == (200, "text/javascript; charset=utf-8")
        assert "unregister()" in answer.text


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="the system has no table of connections")
@pytest.mark.parametrize("table", [False, True])
def test_a_connection_is_known_by_the_user_at_its_other_end(
    table: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the table of all where the system cannot be asked for the one."""
    if table:
        monkeypatch.setattr(listening, "_SOCK_DIAG", 31)  # nothing that there is
    with socket.create_server((LOOPBACK, 0)) as server, socket.create_connection(server.getsockname()) as own:
        accepted, place = server.accept()
        with accepted:
            assert is_of_this_user(place[1], server.getsockname()[1])
            assert (listening._user_of(place[1], server.getsockname()[1]) is None) == table
            assert not is_of_this_user(place[1], own.getsockname()[1])  # there is none such


#: By a shell: our Python may be where only root can reach it.
_AS_ANOTHER = 'exec 3<>"/dev/tcp/127.0.0.1/$1"; printf %s "$2" >&3; head -c 12 <&3'


@pytest.mark.skipif(
    os.geteuid() != 0 or not (which("setpriv") and which("bash")), reason="nobody can become another user"
)
async def test_another_user_of_the_machine_is_not_let_in() -> None:
    """Who knows the cookie, as from a list of processes, is still not ours."""
    for checks, said in ((CHECKS, "HTTP/1.1 403"), (but(peer), "HTTP/1.1 200")):
        async with running(checks=checks) as (browser, _):
            port = browser.server.house.port
            asked = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {browser.cookie}\r\n\r\n"
            other = ("setpriv", "--reuid=65534", "--clear-groups", "bash", "-c", _AS_ANOTHER, "bash")
            with trio.fail_after(HANG):
                done = await trio.run_process(
                    [*other, str(port), asked], capture_stdout=True, capture_stderr=True
                )
            assert done.stdout.decode() == said


async def test_without_the_rule_of_places_a_page_elsewhere_is_ours() -> None:
    async with running(checks=but(site)) as (browser, _):
        assert (await browser.ask("/", {"Sec-Fetch-Site": "same-site"})).status == 200
