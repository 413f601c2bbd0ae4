"""A plain `httpx.Client`, in any thread: the same answers, refusals and timeouts as where it is awaited."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import trio

import fixtures.http
from fixtures.http import ABOUT, HttpServer, Page, moved
from resolver import Closed, Event, HttpxTransport, Policy
from resolver.adapters.httpx_transport import RequestRefused
from resolver.blocking.portal import portal
from tests.elsewhere import served
from tests.fresh import run_alone
from tests.hang import NEVER
from tests.resolver.blocking.test_calls import Own, tasks
from tests.resolver.blocking.test_stream import Halting

LARGE = bytes(range(256)) * 20_000


async def serve(nursery: trio.Nursery) -> HttpServer:
    site = {**fixtures.http.EXAMPLE, "/large": Page(LARGE), "/away": moved("http://127.0.0.2:1/")}
    return await fixtures.http.serve(nursery, site)


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    with served(serve) as running:
        yield running


def client(transport: HttpxTransport | None = None, *, follow: bool = False) -> httpx.Client:
    return httpx.Client(transport=transport or HttpxTransport(), follow_redirects=follow)


def test_what_a_client_gets(server: HttpServer) -> None:
    before = server.connections
    with client() as plain:
        response = plain.get(server.url("/about.txt"))
        assert (response.status_code, response.http_version, response.content) == (200, "HTTP/1.1", ABOUT)
        assert response.extensions["verified"] == {"length"}
        assert plain.get(server.url("/missing")).status_code == 404
        assert plain.get(server.url("/large")).content == LARGE
        assert server.connections == before + 1
        assert plain.get(server.url("/private"), auth=("user", "password")).text == "A secret.\n"


def test_one_transport_serves_many_threads(server: HttpServer) -> None:
    heard: list[tuple[int, Event]] = []
    transport = HttpxTransport(on_event=lambda event: heard.append((threading.get_ident(), event)))
    asking = threading.Barrier(4)

    def ask(number: int) -> int:
        asking.wait()
        assert plain.get(server.url("/large")).content == LARGE
        return threading.get_ident()

    with client(transport) as plain, ThreadPoolExecutor(4) as threads:
        asked = set(threads.map(ask, range(4)))
    told = {ident for ident, event in heard if not isinstance(event, Closed)}
    assert told == asked  # who closes the transport closes what it kept
    assert len(asked) == 4


def test_what_is_refused_is_refused(server: HttpServer) -> None:
    with client(HttpxTransport(policy=Policy.untrusted())) as plain, pytest.raises(RequestRefused) as caught:
        plain.get(server.url("/about.txt"))
    assert caught.value.rule == "S08"
    with client(follow=True) as plain, pytest.raises(RequestRefused):
        plain.get(server.url("/away"))


def test_a_body_is_sent_piece_by_piece_from_the_thread_that_asks(server: HttpServer) -> None:
    sending: set[int] = set()

    def pieces() -> Iterator[bytes]:
        for piece in (b"one ", b"", b"two"):
            sending.add(threading.get_ident())
            yield piece

    def failing() -> Iterator[bytes]:
        yield b"one"
        raise Own

    with client() as plain:
        before = len(server.heard)
        plain.post(server.url("/about.txt"), content=pieces())
        assert b"one " in server.heard[before]
        assert b"two" in server.heard[before]
        plain.post(server.url("/about.txt"), content=b"whole")
        with pytest.raises(Own):
            plain.post(server.url("/about.txt"), content=failing())
    assert sending == {threading.get_ident()}


def test_a_body_that_is_left_is_closed(server: HttpServer) -> None:
    before = portal().run(tasks)
    with client() as plain:
        with plain.stream("GET", server.url("/large")) as response:
            for octets in response.iter_raw():
                assert LARGE.startswith(octets)
                break
        assert portal().run(tasks) == before
        response = plain.send(plain.build_request("GET", server.url("/large")), stream=True)
        assert response.read() == LARGE
        assert portal().run(tasks) == before


def test_the_clients_timeout_ends_it() -> None:
    with served(Halting().start) as peer, client() as plain:
        timeout = httpx.Timeout(NEVER, read=0.01)
        with pytest.raises((httpx.ReadTimeout, httpx.RemoteProtocolError)):
            plain.get(f"http://127.0.0.1:{peer.port}/", timeout=timeout)


def test_one_object_is_used_one_way(server: HttpServer) -> None:
    async def awaited(transport: HttpxTransport) -> None:
        async with httpx.AsyncClient(transport=transport) as plain:
            await plain.get(server.url("/about.txt"))

    by_threads, by_tasks = HttpxTransport(), HttpxTransport()
    with client(by_threads) as plain:
        plain.get(server.url("/about.txt"))
        with pytest.raises(RuntimeError, match=r"httpx\.Client: .*httpx\.AsyncClient"):
            trio.run(awaited, by_threads)
    trio.run(awaited, by_tasks)
    with client(by_tasks) as plain, pytest.raises(RuntimeError, match=r"serves httpx\.AsyncClient"):
        plain.get(server.url("/about.txt"))


def test_made_when_it_is_imported_and_left_open_at_the_end(server: HttpServer) -> None:
    program = """
import sys, threading, httpx
from resolver import HttpxTransport
client = httpx.Client(transport=HttpxTransport())
assert threading.active_count() == 1
print(client.get(sys.argv[1]).status_code)
"""
    assert run_alone(program, server.url("/about.txt")) == "200\n"
