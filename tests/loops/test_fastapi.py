"""A FastAPI service under uvicorn: many concurrent requests, and clients that disconnect."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

import fixtures.ftp
import fixtures.gopher
import fixtures.http
import resolver
from fixtures.gopher import Behavior, GopherServer
from resolver.testing.contract.case import check_no_leak, wait_until_settled
from tests.elsewhere import Elsewhere, settle_anywhere
from tests.hang import HANG
from tests.loops.conftest import Run

AT_ONCE = 100
SILENT = {b"silent": Behavior(silent=True, stays=True)}

Fetch: TypeAlias = Callable[[str], Awaitable[resolver.Response]]


class Service:
    """A service; `waiting` lists the URL of each request in progress."""

    def __init__(self, policy: resolver.Policy) -> None:
        self.waiting: list[str] = []
        self._session = resolver.Resolver(policy=policy)
        self.app = FastAPI(lifespan=self._live)
        self.app.get("/shared")(self.shared)
        self.app.get("/stream")(self.stream)
        self._alone = partial(resolver.fetch, policy=policy)
        self.app.get("/alone")(self.alone)

    @asynccontextmanager
    async def _live(self, _: FastAPI) -> AsyncIterator[None]:
        async with self._session:
            yield

    async def shared(self, url: str, request: Request) -> Response:
        return await self._fetch(self._session.fetch, url, request)

    async def alone(self, url: str, request: Request) -> Response:
        return await self._fetch(self._alone, url, request)

    async def stream(self, url: str) -> StreamingResponse:
        return StreamingResponse(self._pieces(url), media_type="application/octet-stream")

    async def _pieces(self, url: str) -> AsyncIterator[bytes]:
        """Yield the body; Starlette cancels the generator when the client disconnects."""
        self.waiting.append(url)
        try:
            async with self._session.stream(url) as reply:
                async for octets in reply.body:
                    yield octets
        finally:
            self.waiting.remove(url)

    async def _fetch(self, fetch: Fetch, url: str, request: Request) -> Response:
        """Fetch, and stop if the client disconnects: Starlette does not cancel a plain endpoint."""
        self.waiting.append(url)
        fetching, going = asyncio.ensure_future(fetch(url)), asyncio.ensure_future(disconnected(request))
        try:
            await asyncio.wait([fetching, going], return_when=asyncio.FIRST_COMPLETED)
            return Response(fetching.result().content if fetching.done() else b"")
        finally:
            fetching.cancel()
            going.cancel()
            await asyncio.wait([fetching, going])
            self.waiting.remove(url)


async def disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Serving(uvicorn.Server):
    """A server that reports whether it is idle."""

    def idle(self) -> bool:
        return not self.server_state.connections and not self.server_state.tasks


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[tuple[Serving, httpx.AsyncClient]]:
    """Run the service on a socket that listens from the start, so the client does not wait for it."""
    server = Serving(uvicorn.Config(app, log_config=None, loop="none"))
    with socket.create_server(("127.0.0.1", 0), backlog=AT_ONCE) as listener:
        running = asyncio.ensure_future(server.serve([listener]))
        try:
            address = f"http://127.0.0.1:{listener.getsockname()[1]}"
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
            async with httpx.AsyncClient(
                base_url=address, limits=limits, timeout=None, trust_env=False
            ) as one:
                yield server, one
        except BaseException:
            server.force_exit = True  # else the server waits for clients of a failed test
            raise
        finally:
            server.should_exit = True
            await running


async def listen_once() -> None:
    """Listen once: libuv then reserves a descriptor for its loop's lifetime."""
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0):
        pass


async def until(holds: Callable[[], bool]) -> None:
    """Wait until the condition holds, a turn of the loop at a time, at most HANG seconds."""
    async with asyncio.timeout(HANG):
        while not holds():
            await settle_anywhere()


@pytest.fixture
def gopher(elsewhere: Elsewhere) -> GopherServer:
    return elsewhere.run(partial(fixtures.gopher.serve, behaviors=SILENT), elsewhere.nursery)


@pytest.mark.parametrize("way", ["shared", "alone", "stream"])
def test_concurrent_requests_get_their_own_replies(
    way: str, either: Run, elsewhere: Elsewhere, gopher: GopherServer
) -> None:
    """Each of three schemes gets its own reply, and no descriptor stays open."""
    ftp = elsewhere.run(fixtures.ftp.serve, elsewhere.nursery)
    http = elsewhere.run(fixtures.http.serve, elsewhere.nursery)
    urls = [gopher.url("00/about"), ftp.url("pub/a.txt"), http.url("/about.txt")]
    policy = resolver.Policy(allow_port=frozenset({gopher.port, ftp.port, http.port}))
    expected = [resolver.blocking.fetch(url, policy=policy).content for url in urls]

    async def main() -> None:
        await listen_once()
        before = await wait_until_settled()
        async with serving(Service(policy).app) as (_, client):
            asked = [client.get(f"/{way}", params={"url": urls[i % len(urls)]}) for i in range(AT_ONCE)]
            answers = await asyncio.gather(*asked)
        assert {answer.status_code for answer in answers} == {200}
        for number, answer in enumerate(answers):
            assert answer.content == expected[number % len(urls)]
        await check_no_leak(before)

    either(main())


@pytest.mark.parametrize("way", ["shared", "alone", "stream"])
def test_disconnected_clients_leave_no_task(way: str, either: Run, gopher: GopherServer) -> None:
    """The service keeps running, and the server that it fetches from is silent."""
    service = Service(resolver.Policy(allow_port=frozenset({gopher.port})))

    async def main() -> None:
        async with serving(service.app) as (server, client):
            assert (await client.get("/shared", params={"url": gopher.url("00/about")})).is_success
            await until(server.idle)
            before, tasks = await wait_until_settled(), len(asyncio.all_tasks())
            heard = len(gopher.requests)
            asked = [
                asyncio.ensure_future(client.get(f"/{way}", params={"url": gopher.url("0silent")}))
                for _ in range(AT_ONCE)
            ]
            await until(lambda: len(gopher.requests) - heard == AT_ONCE)
            assert len(service.waiting) == AT_ONCE
            for each in asked:
                each.cancel()
            await asyncio.wait(asked)
            await until(lambda: server.idle() and not service.waiting)
            assert len(asyncio.all_tasks()) == tasks
            await check_no_leak(before)
            assert (await client.get("/shared", params={"url": gopher.url("00/about")})).is_success

    either(main())
