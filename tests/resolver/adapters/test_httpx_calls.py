"""Single requests with `HttpxTransport`: bodies, pooled connections, timeouts, and early disconnects.

A second part tests the blocking `httpx.Client` in threads.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from weakref import ref

import httpx
import pytest
import trio

import fixtures.http
from fixtures.http import ABOUT, DATA, Behavior, HttpServer, Page, moved, serve
from resolver import Closed, Event, HttpxTransport, Limits, Policy
from resolver.adapters.httpx_errors import RequestRefused
from resolver.blocking.portal import Portal, portal
from tests.elsewhere import served
from tests.fresh import run_alone
from tests.hang import HANG, NEVER
from tests.resolver.blocking.test_portal import Halting
from tests.resolver.blocking.test_session import Own, tasks
from tests.resolver.network.peers import start, stay_silent


def client(limits: Limits | None = None, timeout: httpx.Timeout | float | None = 5.0) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=HttpxTransport(limits=limits), timeout=timeout)


async def pieces() -> AsyncIterator[bytes]:
    for number in range(5):
        yield b"%d" % number * 1000
        yield b""


async def endless() -> AsyncGenerator[bytes, None]:
    while True:
        yield bytes(65_536)


@pytest.mark.parametrize(
    ("method", "content", "sent"),
    [
        ("POST", b"", b""),
        ("POST", b"hello", b"hello"),
        ("PUT", DATA * 10, DATA * 10),
        ("PATCH", pieces, b"".join(b"%d" % number * 1000 for number in range(5))),
        ("DELETE", None, b""),
    ],
)
async def test_transport_sends_body_of_any_method(
    method: str,
    content: bytes | Callable[[], AsyncIterator[bytes]] | None,
    sent: bytes,
    nursery: trio.Nursery,
) -> None:
    """POST is allowed, because rule S05 applies only to URLs and not to the method of a caller."""
    server = await serve(nursery)
    async with client() as plain:
        for _ in range(2):
            body = content() if callable(content) else content
            assert (await plain.request(method, server.url("/about.txt"), content=body)).content == ABOUT
    assert [(request.method, request.body) for request in server.requests] == [(method, sent)] * 2
    assert (server.connections, server.violations) == (1, [])


@pytest.mark.parametrize(
    ("path", "connections"),
    [
        ("/about.txt", 1),
        ("/data/chunked", 1),
        ("/nothing", 1),
        ("/gzip", 1),
        ("/empty", 1),
        ("/data/close", 3),
    ],
)
async def test_transport_reuses_connections(path: str, connections: int, nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        for _ in range(3):
            await plain.get(server.url(path))
    assert (len(server.requests), server.connections, server.violations) == (3, connections, [])


async def test_unread_body_closes_its_connection(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        for _ in range(2):
            async with plain.stream("GET", server.url("/models/model.safetensors")) as response:
                assert response.status_code == 200
    assert server.connections == 2


async def test_other_credentials_use_another_connection(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        for user in ("a", "b", "a", "b"):
            await plain.get(server.url("/about.txt"), auth=(user, "p"))
        await plain.get(server.url("/about.txt"))
    assert server.connections == 3


@pytest.mark.parametrize(
    ("method", "content", "error"),
    [
        ("GET", None, None),
        ("PUT", b"x", None),
        ("POST", b"x", httpx.RemoteProtocolError),
        ("PUT", pieces, httpx.ReadError),
    ],
)
async def test_pooled_connection_lost_is_retried_only_if_safe(
    method: str,
    content: bytes | Callable[[], AsyncIterator[bytes]] | None,
    error: type[httpx.TransportError] | None,
    nursery: trio.Nursery,
) -> None:
    """Only an idempotent request is retried. Another request fails, as the server may have processed it."""
    heads = 0

    async def once(stream: trio.SocketStream) -> None:
        """Respond to the first request of a connection, and close the connection at the second request."""
        nonlocal heads
        heads += 1
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        await stream.receive_some(1000)

    url = f"http://127.0.0.1:{await start(nursery, once)}/"
    async with client() as plain:
        await plain.get(url)
        body = content() if callable(content) else content
        if error is None:
            assert (await plain.request(method, url, content=body)).text == "hi"
        else:
            with pytest.raises(error):
                await plain.request(method, url, content=body)
    assert heads == (2 if error is None else 1)


async def test_response_before_end_of_request_is_returned(nursery: trio.Nursery) -> None:
    async def hasty(stream: trio.SocketStream) -> None:
        await stream.receive_some(100)
        await stream.send_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await stream.send_eof()
        async for _ in stream:
            pass

    port = await start(nursery, hasty)
    async with client() as plain:
        response = await plain.post(f"http://127.0.0.1:{port}/", content=DATA * 4)
    assert response.status_code == 413


@pytest.mark.parametrize(
    ("behavior", "path", "error"),
    [
        (Behavior(cut_at=0), "/about.txt", httpx.RemoteProtocolError),
        (Behavior(cut_at=20), "/about.txt", httpx.RemoteProtocolError),
        (Behavior(reset_at=20), "/about.txt", httpx.ReadError),
        (Behavior(length_off=5, unannounced=True), "/about.txt", httpx.RemoteProtocolError),
        (Behavior(cut_at=9000), "/data/chunked", httpx.RemoteProtocolError),
        (Behavior(reset_at=9000), "/data", httpx.ReadError),
        (Behavior(reset_at=9000), "/data/chunked", httpx.ReadError),
        (Behavior(instead=b"SSH-2.0-x\r\n\r\n"), "/about.txt", httpx.RemoteProtocolError),
        (Behavior(endless="line"), "/about.txt", httpx.RemoteProtocolError),
        (Behavior(endless="headers"), "/about.txt", httpx.RemoteProtocolError),
        (Behavior(endless="interim"), "/about.txt", httpx.RemoteProtocolError),
    ],
)
async def test_faulty_server_raises_httpx_error(
    behavior: Behavior, path: str, error: type[httpx.TransportError], nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behaviors={path: behavior})
    async with client() as plain:
        with pytest.raises(error) as caught:
            await plain.get(server.url(path))
    assert caught.value.request.url.path == path
    assert server.violations == []


@pytest.mark.parametrize(
    ("patience", "limits"),
    [(httpx.Timeout(5.0, read=0.2), Limits()), (None, Limits(idle=0.2))],
    ids=["the client's", "the limit's"],
)
@pytest.mark.parametrize(
    "behavior", [Behavior(silent=True), Behavior(instead=b"HTTP/1.1 200 OK\r\n\r\nhe", stays=True)]
)
async def test_idle_server_raises_read_timeout(
    behavior: Behavior, patience: httpx.Timeout | None, limits: Limits, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behaviors={"/": behavior})
    async with client(limits, patience) as plain:
        with pytest.raises(httpx.ReadTimeout):
            await plain.get(server.url())


@pytest.mark.parametrize(
    ("patience", "limits"),
    [(httpx.Timeout(5.0, write=0.2), Limits()), (None, Limits(idle=0.2))],
    ids=["the client's", "the limit's"],
)
@pytest.mark.parametrize("content", [bytes(24 * 1_048_576), endless])
async def test_peer_that_does_not_read_raises_write_timeout(
    content: bytes | Callable[[], AsyncGenerator[bytes, None]],
    patience: httpx.Timeout | None,
    limits: Limits,
    nursery: trio.Nursery,
) -> None:
    port = await start(nursery, stay_silent)
    given = content() if callable(content) else content
    async with client(limits, patience) as plain:
        with pytest.raises(httpx.WriteTimeout):
            await plain.post(f"http://127.0.0.1:{port}/", content=given)
    if not isinstance(given, bytes):
        await given.aclose()  # only its creator can close it


@pytest.mark.parametrize(
    ("patience", "limits"),
    [(httpx.Timeout(5.0, connect=0.2), Limits()), (None, Limits(connect=0.2))],
    ids=["the client's", "the limit's"],
)
async def test_missing_handshake_raises_connect_timeout(
    patience: httpx.Timeout | None, limits: Limits, nursery: trio.Nursery
) -> None:
    port = await start(nursery, stay_silent)
    async with client(limits, patience) as plain:
        with pytest.raises(httpx.ConnectTimeout):
            await plain.get(f"https://127.0.0.1:{port}/")


async def test_cancel_closes_the_connection(nursery: trio.Nursery) -> None:
    ended = trio.Event()

    async def wait_for_the_end(stream: trio.SocketStream) -> None:
        async for _ in stream:
            scope.cancel()
        ended.set()

    port = await start(nursery, wait_for_the_end)
    async with client() as plain:
        with trio.CancelScope() as scope:
            await plain.get(f"http://127.0.0.1:{port}/")
        assert scope.cancelled_caught
        with trio.fail_after(HANG):
            await ended.wait()


async def test_closing_client_closes_pooled_connections(nursery: trio.Nursery) -> None:
    ended = trio.Event()

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some(1000)
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        assert await stream.receive_some(1) == b""
        ended.set()

    port = await start(nursery, answer)
    plain = client()
    await plain.get(f"http://127.0.0.1:{port}/")
    assert not ended.is_set()
    await plain.aclose()
    with trio.fail_after(HANG):
        await ended.wait()


# A plain `httpx.Client` in any thread: the same responses, refusals and timeouts as with `AsyncClient`.

LARGE = bytes(range(256)) * 20_000


async def waiting_serve(nursery: trio.Nursery) -> HttpServer:
    site = {**fixtures.http.EXAMPLE, "/large": Page(LARGE), "/away": moved("http://127.0.0.2:1/")}
    return await fixtures.http.serve(nursery, site)


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with served(waiting_serve) as running:
        yield running


def waiting_client(transport: HttpxTransport | None = None, *, follow: bool = False) -> httpx.Client:
    return httpx.Client(transport=transport or HttpxTransport(), follow_redirects=follow)


def test_sync_client_gets_responses(server: HttpServer) -> None:
    before = server.connections
    with waiting_client() as plain:
        response = plain.get(server.url("/about.txt"))
        assert (response.status_code, response.http_version, response.content) == (200, "HTTP/1.1", ABOUT)
        assert response.extensions["verified"] == {"length"}
        assert plain.get(server.url("/missing")).status_code == 404
        assert plain.get(server.url("/large")).content == LARGE
        assert server.connections == before + 1
        assert plain.get(server.url("/private"), auth=("user", "password")).text == "A secret.\n"


def test_sync_transport_serves_several_threads(server: HttpServer) -> None:
    heard: list[tuple[int, Event]] = []
    transport = HttpxTransport(on_event=lambda event: heard.append((threading.get_ident(), event)))
    asking = threading.Barrier(4)

    def ask(number: int) -> int:
        asking.wait()
        assert plain.get(server.url("/large")).content == LARGE
        return threading.get_ident()

    with waiting_client(transport) as plain, ThreadPoolExecutor(4) as threads:
        asked = set(threads.map(ask, range(4)))
    notified = {ident for ident, event in heard if not isinstance(event, Closed)}
    assert notified == asked  # the thread that closes the transport closes its pooled connections
    assert len(asked) == 4


def test_sync_client_raises_refusals(server: HttpServer) -> None:
    with (
        waiting_client(HttpxTransport(policy=Policy.untrusted())) as plain,
        pytest.raises(RequestRefused) as caught,
    ):
        plain.get(server.url("/about.txt"))
    assert caught.value.rule == "S08"
    with waiting_client(follow=True) as plain, pytest.raises(RequestRefused):
        plain.get(server.url("/away"))


def test_sync_body_is_sent_in_segments_from_calling_thread(server: HttpServer) -> None:
    sending: set[int] = set()

    def pieces() -> Iterator[bytes]:
        for piece in (b"one ", b"", b"two"):
            sending.add(threading.get_ident())
            yield piece

    def failing() -> Iterator[bytes]:
        yield b"one"
        raise Own

    with waiting_client() as plain:
        before = len(server.heard)
        plain.post(server.url("/about.txt"), content=pieces())
        assert b"one " in server.heard[before]
        assert b"two" in server.heard[before]
        plain.post(server.url("/about.txt"), content=b"whole")
        with pytest.raises(Own):
            plain.post(server.url("/about.txt"), content=failing())
    assert sending == {threading.get_ident()}


@pytest.mark.parametrize("path", ["/about.txt", "/large"])
def test_sync_response_is_no_reference_cycle(server: HttpServer, path: str) -> None:
    """The connection of a response that the caller drops is closed without the garbage collector."""
    with HttpxTransport(policy=Policy(allow_port=frozenset({server.port}))) as transport:
        dropped = ref(transport.handle_request(httpx.Request("GET", server.url(path))))
        assert dropped() is None


def test_sync_body_left_unread_is_closed(server: HttpServer) -> None:
    before = portal().run(tasks)
    with waiting_client() as plain:
        with plain.stream("GET", server.url("/large")) as response:
            for octets in response.iter_raw():
                assert LARGE.startswith(octets)
                break
        assert portal().run(tasks) == before
        response = plain.send(plain.build_request("GET", server.url("/large")), stream=True)
        assert response.read() == LARGE
        assert portal().run(tasks) == before


def test_sync_client_timeout_applies() -> None:
    with served(Halting().start) as peer, waiting_client() as plain:
        timeout = httpx.Timeout(NEVER, read=0.01)
        with pytest.raises((httpx.ReadTimeout, httpx.RemoteProtocolError)):
            plain.get(f"http://127.0.0.1:{peer.port}/", timeout=timeout)


def test_transport_serves_only_one_kind_of_client(server: HttpServer) -> None:
    async def awaited(transport: HttpxTransport) -> None:
        async with httpx.AsyncClient(transport=transport) as plain:
            await plain.get(server.url("/about.txt"))

    by_threads, by_tasks = HttpxTransport(), HttpxTransport()
    with waiting_client(by_threads) as plain:
        plain.get(server.url("/about.txt"))
        with pytest.raises(RuntimeError, match=r"httpx\.Client .*httpx\.AsyncClient"):
            trio.run(awaited, by_threads)
    trio.run(awaited, by_tasks)
    with waiting_client(by_tasks) as plain, pytest.raises(RuntimeError, match=r"serves httpx\.AsyncClient"):
        plain.get(server.url("/about.txt"))


def test_sync_client_made_at_import_may_stay_open(server: HttpServer) -> None:
    program = """
import sys, threading, httpx
from resolver import HttpxTransport
client = httpx.Client(transport=HttpxTransport())
assert threading.active_count() == 1
print(client.get(sys.argv[1]).status_code)
"""
    assert run_alone(program, server.url("/about.txt")) == "200\n"


@pytest.mark.parametrize(("path", "calls"), [("/about.txt", 1), ("/nothing", 1), ("/gzip", 1), ("/empty", 1)])
def test_sync_client_gets_small_response_in_one_portal_call(
    path: str, calls: int, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few portal calls are important, because a portal call takes as long as a small response."""
    operations: list[object] = []
    run = Portal.run

    def count(portal: Portal, operation: Callable[[], Coroutine[object, object, object]]) -> object:
        operations.append(operation)
        return run(portal, operation)

    with waiting_client() as plain:
        monkeypatch.setattr(Portal, "run", count)
        assert plain.get(server.url(path)).is_success
        assert len(operations) == calls
        assert plain.get(server.url(path)).extensions["peer"] == "127.0.0.1"
        assert len(operations) == 2 * calls


@pytest.mark.parametrize("head", [b"Content-Length: 100\r\n\r\nhe", b"\r\nhe"])
def test_sync_client_reads_received_bytes_before_the_error(head: bytes) -> None:
    """The client receives the head and the first bytes of the body before the error of a truncated body."""
    behavior = Behavior(instead=b"HTTP/1.1 200 OK\r\n" + head, stays=True)
    with served(partial(fixtures.http.serve, behaviors={"/": behavior})) as peer, waiting_client() as plain:
        timeout = httpx.Timeout(NEVER, read=0.05)
        with plain.stream("GET", peer.url("/"), timeout=timeout) as response:
            pieces = response.iter_raw()
            assert next(pieces) == b"he"
            with pytest.raises(httpx.ReadTimeout):
                next(pieces)


def test_sync_client_raises_error_of_body_only_when_read() -> None:
    behavior = Behavior(instead=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\nx\r\n")
    with served(partial(fixtures.http.serve, behaviors={"/": behavior})) as peer, waiting_client() as plain:
        with plain.stream("GET", peer.url("/")) as response:
            assert response.status_code == 200
            with pytest.raises(httpx.RemoteProtocolError):
                response.read()
        with plain.stream("GET", peer.url("/")) as response:
            assert response.status_code == 200  # an unread body raises nothing


def test_response_has_addresses_of_its_connection(server: HttpServer) -> None:
    with waiting_client() as plain, plain.stream("GET", server.url("/about.txt")) as response:
        stream = response.extensions["network_stream"]
        assert stream.get_extra_info("server_addr") == ("127.0.0.1", server.port)
        assert stream.get_extra_info("client_addr")[0] == "127.0.0.1"
        assert stream.get_extra_info("ssl_object") is None
