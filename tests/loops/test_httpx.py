"""httpx with `HttpxTransport` under asyncio and uvloop.

HTTP/2 and HTTP/1.1 over TLS, bodies in both directions, timeouts, and canceled clients.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from functools import partial
from itertools import product
from pathlib import Path

import httpx
import pytest

from fixtures.__main__ import server_tls
from fixtures.http import serve as serve_http1
from fixtures.http.framed_server import FramedServer, serve
from resolver import HttpxTransport, Policy
from resolver.testing.contract.case import ListeningSockets, check_no_leak, wait_until_settled
from resolver.testing.contract.endings import MAX_POINTS, spread
from tests.elsewhere import Elsewhere
from tests.loops.cancels import ARRIVALS, Arrival, cancel_at
from tests.loops.conftest import Run
from tests.resolver.transfer.test_http2 import SITE
from tests.sampled import sampled

#: Number of requests, and the number of them for five megabytes.
AT_ONCE, LARGE = 30, 4
IMPATIENT = httpx.Timeout(None, read=0.05)


@pytest.fixture
def secured(tmp_path: Path) -> tuple[ssl.SSLContext, str]:
    context, cafile = server_tls(tmp_path)
    return context, str(cafile)


@pytest.fixture
def framed(elsewhere: Elsewhere, secured: tuple[ssl.SSLContext, str]) -> FramedServer:
    return elsewhere.run(serve, elsewhere.nursery, secured[0], SITE)


def client(cafile: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=HttpxTransport(cafile=cafile), timeout=None)


def test_concurrent_http2_requests_close_connections(
    run: Run, framed: FramedServer, secured: tuple[ssl.SSLContext, str]
) -> None:
    """All connections are closed in the end."""

    async def main() -> None:
        before = await wait_until_settled()
        async with client(secured[1]) as plain:
            paths = [*["/about.txt", "/big"] * LARGE, *["/about.txt"] * (AT_ONCE - 2 * LARGE)]
            answers = await asyncio.gather(*(plain.get(framed.url(path)) for path in paths))
            assert [answer.content for answer in answers] == [SITE[path].content for path in paths]
            assert {answer.http_version for answer in answers} == {"HTTP/2"}
        await check_no_leak(before)

    run(main())
    assert framed.violations == []


async def pieces() -> AsyncIterator[bytes]:
    for octets in (b"one", b"two"):
        await asyncio.sleep(0)
        yield octets


def test_streamed_request_body_is_sent_over_http1(
    run: Run, elsewhere: Elsewhere, secured: tuple[ssl.SSLContext, str]
) -> None:
    server = elsewhere.run(partial(serve_http1, ssl_context=secured[0]), elsewhere.nursery)

    async def main() -> None:
        async with client(secured[1]) as plain:
            answer = await plain.put(server.url("/about.txt"), content=pieces())
            assert (answer.status_code, answer.http_version) == (200, "HTTP/1.1")

    run(main())
    assert [request.body for request in server.requests] == [b"onetwo"]


def test_read_timeout_of_client_is_kept(run: Run) -> None:
    async def main(port: int) -> None:
        transport = HttpxTransport(policy=Policy(allow_port=frozenset({port})))
        async with httpx.AsyncClient(transport=transport, timeout=IMPATIENT) as plain:
            with pytest.raises(httpx.ReadTimeout):
                await plain.get(f"http://127.0.0.1:{port}/")

    with ListeningSockets() as nobody:
        run(main(nobody.port))


CANCELLED = sampled(product(["/about.txt", "/big"], ARRIVALS), lambda row: row[0])


@pytest.mark.parametrize(("path", "arrival"), CANCELLED)
def test_cancel_at_every_step_keeps_client_usable(
    path: str, arrival: Arrival, either: Run, framed: FramedServer, secured: tuple[ssl.SSLContext, str]
) -> None:
    """The client stays usable, and no descriptor stays open."""

    async def main() -> None:
        before = await wait_until_settled()
        async with client(secured[1]) as plain:
            get = partial(plain.get, framed.url(path))
            count, _ = await cancel_at(None, arrival, get)
            for number in spread(count, MAX_POINTS):
                await cancel_at(number, arrival, get)
                assert (await get()).content == SITE[path].content
        await check_no_leak(before)

    either(main())
