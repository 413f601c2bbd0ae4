"""Access rules of the web UI: raw requests against each rule, and their effect when the rule is missing."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import which
from urllib.parse import urlsplit

import pytest
import trio
from h2.connection import H2Connection
from h2.events import ResponseReceived

from fixtures.recordings import FOLDER
from resolver.web import access as listening
from resolver.web import server as serve
from resolver.web.access import (
    CHECKS,
    LOOPBACK,
    MAX_FORM,
    Check,
    Endpoints,
    check_cookie,
    check_host,
    check_method,
    check_origin,
    check_peer,
    check_site,
    check_version,
    is_of_this_user,
    make_request,
)
from tests.hang import HANG
from tests.ipv6 import needs_ipv6
from tests.resolver.web.client import Answer, Browser, exchange, running

# Recorded requests that browsers sent to the port of the web UI, from its own and from untrusted pages.

RECORDINGS = sorted((FOLDER / "gateway").glob("*.json"))


def defense(recording: Path) -> str:
    name: str = json.loads(recording.read_text())["defense"]
    return name


def recorded_request(recording: Path, browser: Browser, proof: str | None = None) -> bytes:
    """Return a recording with this server's port, cookie and form token, or with `proof` as token."""
    (exchanged,) = json.loads(recording.read_text())["exchanges"]
    head, _, body = bytes.fromhex(exchanged["hex"]).partition(b"\r\n\r\n")
    port = b"%d" % browser.server.site.port
    assert browser.cookie is not None
    head = head.replace(b"__Host-resolve-9401=SESSION", browser.cookie.encode()).replace(b"9401", port)
    action = urlsplit(head.split()[1]).path.decode()
    token = browser.server.site.keys.make_csrf(action) if proof is None else proof
    whole = body.replace(b"TOKEN", token.encode())
    head = head.replace(b"Content-Length: %d\r" % len(body), b"Content-Length: %d\r" % len(whole))
    return head + b"\r\n\r\n" + whole


def classify(answer: Answer) -> str:
    """Classify the response; no route has a recorded path, so an allowed request gets status 404."""
    if b"asked to open this" in answer.body:
        return "ask"
    return "allow" if (answer.status, answer.body) == (404, b"Not Found") else "refuse"


async def replay(recording: Path, browser: Browser, proof: str | None = None) -> Answer:
    octets = recorded_request(recording, browser, proof)
    return await exchange(browser.server.site.port, octets, octets.split()[0].decode())


def test_recordings_cover_every_defense() -> None:
    defenses = [defense(recording) for recording in RECORDINGS]
    assert {name: defenses.count(name) for name in defenses} == {"refuse": 42, "ask": 3, "allow": 4}


async def test_recorded_request_gets_expected_response() -> None:
    async with running() as (browser, log):
        for recording in RECORDINGS:
            del log[:]
            answer = await replay(recording, browser)
            assert (recording.stem, classify(answer)) == (recording.stem, defense(recording))
            assert bool(log) == (defense(recording) != "allow")


async def list_allowed(checks: tuple[Check, ...], *, csrf: bool = True, proof: str | None = None) -> set[str]:
    """Return the recordings of untrusted requests that a server with only these rules allows."""
    async with running(checks=checks, csrf=csrf) as (browser, _):
        outcomes = [
            (recording, classify(await replay(recording, browser, proof))) for recording in RECORDINGS
        ]
    return {
        recording.stem
        for recording, became in outcomes
        if became == "allow" and defense(recording) != "allow"
    }


def checks_without(*rules: Check) -> tuple[Check, ...]:
    return tuple(check for check in CHECKS if check not in rules)


async def test_access_without_site_rule_allows_another_port() -> None:
    """The browser sends the cookie to every port; of the forms, only the token is missing."""
    assert {"other-port-img", "other-port-es", "other-port-topget"} <= await list_allowed(
        checks_without(check_site)
    )


async def test_access_without_host_rule_allows_rebound_name() -> None:
    assert "rebound" in await list_allowed(checks_without(check_host, check_cookie))
    assert "rebound" not in await list_allowed(checks_without(check_cookie))


async def test_access_without_cookie_rule_allows_another_name() -> None:
    assert "other-name-img" in await list_allowed(checks_without(check_site, check_cookie))
    assert "other-name-img" not in await list_allowed(checks_without(check_site))


async def test_access_without_csrf_allows_form_of_another_port() -> None:
    assert "other-port-formpost" in await list_allowed(
        checks_without(check_site, check_origin), csrf=False, proof="guessed"
    )
    assert "other-port-formpost" not in await list_allowed(
        checks_without(check_site, check_origin), proof="guessed"
    )


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
    """Return the status of a request with exactly these lines."""
    port = browser.server.site.port
    lines_sent = "".join(f"{line}\r\n" for line in lines).replace("{port}", str(port))
    return (await exchange(port, f"{lines_sent}\r\n".encode(), method)).status


async def test_host_other_than_numeric_address_is_refused() -> None:
    async with running() as (browser, log):
        for name in STRANGE_HOSTS:
            del log[:]
            status = await head(browser, "GET / HTTP/1.1", f"Host: {name}", f"Cookie: {browser.cookie}")
            assert (name, status) == (name, 421)
            assert len(log) == 1
        assert await head(browser, "GET / HTTP/1.0", f"Cookie: {browser.cookie}") == 421
        assert await head(browser, "GET / HTTP/1.1", f"Cookie: {browser.cookie}") == 400
        twice = "Host: 127.0.0.1:{port}"
        assert await head(browser, "GET / HTTP/1.1", twice, twice, f"Cookie: {browser.cookie}") == 400
        assert await head(browser, "GET / HTTP/1.0", twice, f"Cookie: {browser.cookie}") == 200


async def test_access_without_host_rule_allows_any_host() -> None:
    async with running(checks=checks_without(check_host)) as (browser, _):
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
async def test_request_with_proxy_target_or_other_method_is_refused(line: str, status: int) -> None:
    async with running() as (browser, log):
        request = (line, "Host: 127.0.0.1:{port}", f"Cookie: {browser.cookie}")
        assert await head(browser, *request) == status
        assert len(log) == 1


async def test_access_without_method_rule_allows_proxy_target() -> None:
    async with running(checks=checks_without(check_method)) as (browser, _):
        whole = "GET http://127.0.0.1:{port}/ HTTP/1.1"
        assert await head(browser, whole, "Host: 127.0.0.1:{port}", f"Cookie: {browser.cookie}") == 404


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time a stopping server allows running requests to 0.2 s."""
    monkeypatch.setattr(serve, "_GRACE_PERIOD", 0.2)


HTTP2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UPGRADE = (
    "GET / HTTP/1.1",
    "Host: 127.0.0.1:{port}",
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAMAAABkAAQAAP__",
)


@pytest.mark.usefixtures("short")
async def test_http2_upgrade_is_refused() -> None:
    for checks, is_told in ((CHECKS, True), (checks_without(check_version), False)):
        async with running(checks=checks) as (browser, log):
            port = browser.server.site.port
            lines = "".join(f"{line}\r\n" for line in (*UPGRADE, f"Cookie: {browser.cookie}"))
            with trio.fail_after(HANG):
                async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
                    await stream.send_all(f"{lines}\r\n".replace("{port}", str(port)).encode() + HTTP2)
                    received = b""
                    while len(received.partition(b"\r\n\r\n")[2]) < 200:
                        received += await stream.receive_some()
            assert ("refused GET /: HTTP/2" in log) is is_told


@pytest.mark.usefixtures("short")
async def test_http2_with_prior_knowledge_is_refused() -> None:
    """RFC 9113 section 3.3: the server also accepts HTTP/2 with prior knowledge.

    The headers are compressed, so the client gets the server's settings, one response and the end.
    """
    path, place = b"/", b"127.0.0.1:%d"
    async with running() as (browser, log):
        port = browser.server.site.port
        assert browser.cookie is not None
        with trio.fail_after(HANG):
            async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
                peer = H2Connection()
                peer.initiate_connection()
                headers = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", path)]
                fields = [(b":authority", place % port), (b"cookie", browser.cookie.encode())]
                peer.send_headers(1, [*headers, *fields], end_stream=True)
                await stream.send_all(peer.data_to_send())
                statuses: list[bytes] = []
                while not statuses:
                    for event in peer.receive_data(await stream.receive_some()):
                        if isinstance(event, ResponseReceived):
                            statuses += [bytes(value) for name, value in event.headers if name == b":status"]
        assert (statuses, log) == ([b"403"], ["refused GET /: HTTP/2"])


async def test_forwarding_headers_are_ignored() -> None:
    """The forwarding headers change neither the client's address nor the server's name."""
    fields = {
        "X-Forwarded-For": "203.0.113.7",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Prefix": "/evil",
        "X-Real-IP": "203.0.113.7",
        "X-Original-URL": "/evil",
        "X-HTTP-Method-Override": "POST",
        "Forwarded": "for=203.0.113.7;host=evil.example;proto=https",
    }
    async with running() as (browser, log):
        for target in ("/settings", "/look", "/help"):
            plain, forwarded = await browser.ask(target), await browser.ask(target, fields)
            assert (forwarded.status, forwarded.header("location")) == (
                plain.status,
                plain.header("location"),
            )
            assert "evil" not in forwarded.text
        assert (
            await browser.ask("/", {"Host": "evil.example", "X-Forwarded-Host": "127.0.0.1"})
        ).status == 421
        assert len(log) == 1


async def test_websocket_is_refused() -> None:
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", key)
    async with running() as (browser, log):
        request = ("GET / HTTP/1.1", "Host: 127.0.0.1:{port}", f"Cookie: {browser.cookie}", *upgrade)
        assert await head(browser, *request) == 403
        assert log == ["refused a websocket connection"]


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Same-Origin", "none, cross-site", "null"])
async def test_request_with_other_sec_fetch_site_is_refused(site: str) -> None:
    async with running() as (browser, log):
        for mode, destination in (("cors", "empty"), ("navigate", "iframe"), ("no-cors", "document")):
            where = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": destination}
            assert (await browser.ask("/", where)).status == 403
        where = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert (await browser.ask("/open", where, method="POST", body=b"csrf=x")).status == 403
        assert len(log) == 4


async def test_cross_site_navigation_shows_question() -> None:
    async with running() as (browser, _):
        where = {"Sec-Fetch-Site": "cross-site", "Cookie": ""}
        answer = await browser.ask("/u/gopher%3A%2F%2F127.0.0.1%2F1", where)
        assert "gopher://127.0.0.1/1" in answer.text
        assert 'href="/look?url=gopher%3A%2F%2F127.0.0.1%2F1&amp;from=asked"' in answer.text
        again = await browser.ask("/look?url=gopher%3A%2F%2F127.0.0.1%2F1", where)
        assert 'href="/look?url=gopher%3A%2F%2F127.0.0.1%2F1&amp;from=asked"' in again.text


async def test_cookie_other_than_of_this_run_is_refused() -> None:
    async with running() as (browser, log):
        assert browser.cookie is not None
        name = browser.cookie.partition("=")[0]
        for cookie in ("", f"{name}=", f"{name}=x", "session=1", browser.cookie[:-1], f"X{browser.cookie}"):
            answer = await browser.ask("/", {"Cookie": cookie})
            assert (cookie, answer.status, answer.header("set-cookie")) == (cookie, 403, None)
            assert answer.header("www-authenticate") is None
        assert len(log) == 6
        assert (await browser.ask("/", {"Cookie": f"lax=1; {browser.cookie}"})).status == 200
        await browser.enter()
        assert (await browser.ask("/")).status == 200
    async with running(checks=checks_without(check_cookie)) as (browser, _):
        assert (await browser.ask("/", {"Cookie": ""})).status == 200


async def test_entry_token_is_accepted_once() -> None:
    async with running() as (browser, log):
        entry = browser.server.entry().partition(f":{browser.server.site.port}")[2]
        for elsewhere in ("cross-site", "same-site", "none"):
            assert (await browser.ask("/enter?t=guessed", {"Sec-Fetch-Site": elsewhere})).status == 403
        first = await browser.ask(entry, {"Sec-Fetch-Site": "cross-site", "Cookie": ""})
        assert (first.status, first.header("referrer-policy")) == (200, "no-referrer")
        assert first.header("location") is None
        assert 'content="0;url=/"' in first.text
        cookie = first.header("set-cookie") or ""
        assert cookie.startswith(f"__Host-resolve-{browser.server.site.port}=")
        assert {"Path=/", "Secure", "HttpOnly", "SameSite=Strict"} == set(cookie.split("; ")[1:])
        token = entry.partition("t=")[2]
        second = await browser.ask(entry, {"Cookie": ""})
        assert (second.status, second.header("set-cookie")) == (403, None)
        assert token not in first.text + second.text + "".join(log)


async def test_entry_token_is_not_used_up_by_head() -> None:
    async with running() as (browser, _):
        entry = browser.server.entry().partition(f":{browser.server.site.port}")[2]
        assert (await browser.ask(entry, method="HEAD")).header("set-cookie") is None
        assert (await browser.ask(entry)).status == 200


async def test_post_requires_csrf_token_media_type_and_origin() -> None:
    async with running() as (browser, log):
        looked = await browser.look("gopher://127.0.0.1/1")
        form = {name: looked.field(name) for name in ("csrf", "from", "url")}
        right = form["csrf"]
        wrong = ("", "x", right[:-1], browser.server.site.keys.make_csrf("/login"))
        del log[:]
        for token in wrong:
            assert (await browser.post("/open", {**form, "csrf": token})).status == 403
        for kind in ("text/plain", "multipart/form-data; boundary=x", ""):
            assert (await browser.post("/open", form, {"Content-Type": kind})).status == 403
        unsaid = {"Sec-Fetch-Site": ""}
        for where in ("", "null", "http://evil.example", "http://127.0.0.1:1"):
            assert (await browser.post("/open", form, {**unsaid, "Origin": where})).status == 403
        assert len(log) == 11
        fields = {**unsaid, "Origin": browser.server.site.origin}
        assert (await browser.post("/open", form, fields)).status == 303
    async with running(csrf=False, checks=checks_without(check_origin)) as (browser, _):
        assert (await browser.post("/open", {"url": "x"}, {"Sec-Fetch-Site": ""})).status == 400


async def test_form_too_long_or_slow_is_refused() -> None:
    async with running(form_timeout=0.2) as (browser, log):
        port = browser.server.site.port
        assert (await browser.post("/open", {"url": "x" * MAX_FORM})).status == 413
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
        assert len(log) == 3, log


async def test_service_worker_of_another_program_is_unregistered() -> None:
    async with running() as (browser, _):
        answer = await browser.ask("/sw.js", {"Service-Worker": "script"})
        assert (answer.status, answer.header("content-type")) == (200, "text/javascript; charset=utf-8")
        assert "unregister()" in answer.text


ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="reads users of connections, which only Linux shows"
)
BARE = {"method": "GET", "raw_path": b"/", "query_string": b"", "http_version": "1.1", "headers": []}
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="requires root, to become another user")


@contextmanager
def connected(
    family: socket.AddressFamily = socket.AF_INET, listens_at: str = LOOPBACK, connects_to: str = LOOPBACK
) -> Iterator[tuple[socket.socket, Endpoints]]:
    """Yield a client socket, and the two endpoints as the accepting socket reports them."""
    listening_family = socket.AF_INET6 if ":" in listens_at else socket.AF_INET
    with (
        socket.create_server((listens_at, 0), family=listening_family) as server,
        socket.socket(family) as client,
    ):
        client.connect((connects_to, server.getsockname()[1]))
        accepted, _ = server.accept()
        with accepted:
            yield client, Endpoints(accepted.getpeername()[:2], accepted.getsockname()[:2])


@pytest.fixture
def by_table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Make the query for one connection fail on Linux, so that the table of all connections is read."""
    if request.param:
        monkeypatch.setattr(listening, "_SOCK_DIAG", 31)  # No netlink protocol has this number.
    return bool(request.param)


@ON_LINUX
@pytest.mark.parametrize("by_table", [False, True], indirect=True)
def test_is_of_this_user_for_own_connection_returns_true(by_table: bool) -> None:
    with connected() as (_, ends):
        assert is_of_this_user(ends)
        assert (listening._find_user(ends) is None) == by_table
    with connected(socket.AF_INET6, LOOPBACK, f"::ffff:{LOOPBACK}") as (_, ends):
        assert is_of_this_user(ends), "a browser whose socket is of IPv6"


@ON_LINUX
@needs_ipv6
@pytest.mark.parametrize("by_table", [False, True], indirect=True)
def test_is_of_this_user_over_ipv6_returns_true(by_table: bool) -> None:
    with connected(socket.AF_INET6, "::1", "::1") as (_, ends):
        assert is_of_this_user(ends)
        assert (listening._find_user(ends) is None) == by_table
        assert not is_of_this_user(ends._replace(local=("::2", ends.local[1])))


@ON_LINUX
@pytest.mark.parametrize("by_table", [False, True], indirect=True)
@pytest.mark.usefixtures("by_table")
def test_is_of_this_user_with_different_endpoint_returns_false() -> None:
    with connected() as (client, ends), connected() as (_, others):
        for strange in (
            ends._replace(peer=("127.0.0.2", ends.peer[1])),
            ends._replace(local=("127.0.0.2", ends.local[1])),
            ends._replace(peer=others.peer),
            ends._replace(local=others.local),
            Endpoints(ends.local, others.local),
            ends._replace(peer=("192.0.2.1", ends.peer[1])),
        ):
            assert not is_of_this_user(strange), strange
        assert client.getsockname() == ends.peer


@ON_LINUX
@AS_ROOT
@pytest.mark.parametrize("by_table", [False, True], indirect=True)
@pytest.mark.usefixtures("by_table")
def test_is_of_this_user_for_a_closed_peer_returns_false() -> None:
    """Linux reports a closed socket as one of user 0, which is the user of this test."""
    with connected() as (client, ends):
        client.close()
        assert not is_of_this_user(ends)


def test_is_of_this_user_without_table_trusts_only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_KNOWS_USERS", False)
    for address, is_believed in ((LOOPBACK, True), ("::1", True), ("192.0.2.1", False)):
        assert is_of_this_user(Endpoints((address, 1), (LOOPBACK, 2))) is is_believed


#: A shell is used: the test's Python may be in a directory that only root can read.
_AS_ANOTHER = 'exec 3<>"/dev/tcp/127.0.0.1/$1"; printf %s "$2" >&3; head -c 12 <&3'


@pytest.mark.skipif(
    os.geteuid() != 0 or not (which("setpriv") and which("bash")),
    reason="requires root, to become another user",
)
async def test_request_of_another_user_is_refused() -> None:
    """The other user may know the cookie, as from a list of processes."""
    for checks, status_line in ((CHECKS, "HTTP/1.1 403"), (checks_without(check_peer), "HTTP/1.1 200")):
        async with running(checks=checks) as (browser, _):
            port = browser.server.site.port
            request = f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {browser.cookie}\r\n\r\n"
            other = ("setpriv", "--reuid=65534", "--clear-groups", "bash", "-c", _AS_ANOTHER, "bash")
            with trio.fail_after(HANG):
                completed = await trio.run_process(
                    [*other, str(port), request], capture_stdout=True, capture_stderr=True
                )
            assert completed.stdout.decode() == status_line


@ON_LINUX
@AS_ROOT
async def test_peer_with_own_port_at_another_address_is_refused() -> None:
    """Every port is free at 127.0.0.2, also a port that the user's browser holds at 127.0.0.1."""
    async with running() as (browser, log):
        place = LOOPBACK, browser.server.site.port
        with socket.create_connection(place) as connection, socket_of_another_user() as other:
            other.bind(("127.0.0.2", connection.getsockname()[1]))
            other.settimeout(HANG)
            other.connect(place)
            head = f"GET / HTTP/1.1\r\nHost: {LOOPBACK}:{place[1]}\r\nCookie: {browser.cookie}\r\n\r\n"
            other.sendall(head.encode())
            answer = await trio.to_thread.run_sync(other.recv, 12)
        assert answer == b"HTTP/1.1 403"
        assert log == ["refused GET /: peer is another user of this machine, or has disconnected"]


def socket_of_another_user() -> socket.socket:
    os.seteuid(65_534)
    try:
        return socket.socket()
    finally:
        os.seteuid(0)


@ON_LINUX
async def test_peer_without_known_ends_is_refused() -> None:
    """A socket of another family has no such endpoints."""
    async with running() as (browser, _):
        assert (
            check_peer(make_request({**BARE, "client": None, "server": None}), browser.server.site)
            is not None
        )


async def test_access_without_site_rule_allows_same_site() -> None:
    async with running(checks=checks_without(check_site)) as (browser, _):
        assert (await browser.ask("/", {"Sec-Fetch-Site": "same-site"})).status == 200
