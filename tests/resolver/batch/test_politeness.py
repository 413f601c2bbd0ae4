"""Hosts that have enough of us: what is asked again, when, and at whose expense."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from fixtures import ftp, http
from fixtures.ftp.server import MockFtp
from fixtures.http import Behaviour, Page
from resolver import Event, NotFound, Policy, Resolver, Retrying, RetryPolicy, Saved, TryLater
from resolver.network.task import Requeue, current
from resolver.transfer.batch import Batch, BatchTask, TaskResult
from resolver.transfer.queue import HostScheduler
from tests.hang import HANG

BUSY = b"HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"
LATER = BUSY.replace(b": 0\r\nC", b": 3600\r\nC")
LIMITED = BUSY.replace(b"503 Busy", b"429 Too Many Requests")
VAGUE = BUSY.replace(b"Retry-After: 0\r\n", b"")


@dataclass
class Saving:
    session: Resolver
    url: str
    path: Path
    host: str = "h"
    scheme: str = "s"

    async def run(self) -> Saved:
        return await self.session.save(self.url, self.path)


async def given(tasks: Iterable[BatchTask[Saved]]) -> AsyncIterator[BatchTask[Saved]]:
    for task in tasks:
        yield task


class Run:
    """All of these URLs, at most so many at once, in `folder`."""

    def __init__(self, folder: Path, cap: int) -> None:
        self.folder = folder
        self.cap = cap
        self.events: list[Event] = []
        self.results: list[TaskResult[Saved]] = []

    async def save(self, *urls: str, **ports: int) -> None:
        async def take(result: TaskResult[Saved]) -> None:
            self.results.append(result)

        hosts: HostScheduler[BatchTask[Saved]] = HostScheduler(lambda scheme, waiting: self.cap)
        batch: Batch[Saved] = Batch(hosts, concurrency=self.cap)
        patience = RetryPolicy(3, 0.0)
        policy = Policy(allow_port=frozenset(ports.values()))
        with trio.fail_after(HANG):
            async with Resolver(patience=patience, policy=policy, on_event=self.events.append) as session:
                tasks = [Saving(session, url, self.folder / str(n)) for n, url in enumerate(urls)]
                await batch.run(given(tasks), take)

    @property
    def errors(self) -> list[type[Exception]]:
        return [type(result.error) for result in self.results if result.error is not None]


@pytest.mark.parametrize(
    "full",
    [
        b"530 Sorry, the maximum number of allowed clients (4) are already connected.\r\n",
        b"421 There are too many connections from your internet address.\r\n",
        b"421 Too many connections (4) from this IP\r\n",
    ],
)
async def test_a_server_that_gives_four_logins_gives_all_files(
    full: bytes, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server: MockFtp = await ftp.serve(nursery)
    server.logins, server.full = 4, full
    run = Run(tmp_path, 8)
    await run.save(*[server.url("pub/a.txt")] * 24, port=server.port)
    assert run.errors == []
    assert len(run.results) == 24
    assert server.violations == []


async def test_logins_that_rest_make_room_for_others(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Two users at a server that gives one login at once."""
    server: MockFtp = await ftp.serve(nursery)
    server.logins = 1
    urls = [server.url("etc/motd"), server.url("etc/motd", "u:@")] * 3
    run = Run(tmp_path, 1)
    await run.save(*urls, port=server.port)
    assert run.errors == []


@pytest.mark.parametrize("answer", [BUSY, LIMITED, VAGUE])
async def test_what_is_pushed_back_comes_later_and_loses_no_try(
    answer: bytes, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Six at once, of which each is answered so twice: three tries in vain would have been too many."""
    paths = [f"/{number}" for number in range(6)]
    pages = {path: Page(path.encode()) for path in paths}
    server = await http.serve(nursery, pages, dict.fromkeys(paths, Behaviour(instead=answer, times=2)))
    run = Run(tmp_path, 6)
    await run.save(*map(server.url, paths))
    assert run.errors == []
    told = [event for event in run.events if isinstance(event, Retrying)]
    assert len(told) == 12
    assert {str(result.value.attempts) for result in run.results if result.value} == {"3"}


async def test_alone_with_its_host_it_is_its_own_doing(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await http.serve(nursery, {}, {"/a": Behaviour(instead=BUSY)})
    run = Run(tmp_path, 6)
    await run.save(server.url("/a"))
    (result,) = run.results
    assert isinstance(result.error, TryLater)
    assert result.error.attempts == len(server.requests) == 3


async def test_who_wants_to_be_left_alone_for_long_is_not_asked_for_the_rest(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await http.serve(nursery, {}, {"/a": Behaviour(instead=LATER)})
    run = Run(tmp_path, 1)
    await run.save(*map(server.url, ("/a", "/b", "/c")))
    assert run.errors == [TryLater] * 3
    assert [request.target for request in server.requests] == ["/a"]
    last = run.results[-1].error
    assert last is not None
    assert "left alone" in last.message
    assert str(last.url).endswith("/c")


async def test_a_refusal_of_one_object_teaches_nothing(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await http.serve(nursery, {"/b": Page(b"b")})
    run = Run(tmp_path, 2)
    await run.save(*map(server.url, ("/a", "/b")))
    assert run.errors == [NotFound]


def test_nothing_starts_until_the_host_wants_to_be_asked() -> None:
    """And meanwhile another one is; whoever waits holds no place."""
    begun: list[tuple[float, str]] = []

    class Work:
        scheme = "s"

        def __init__(self, host: str, name: str) -> None:
            self.host, self.name = host, name

        async def run(self) -> None:
            begun.append((trio.current_time(), self.name))
            turn = current()
            assert turn is not None
            if begun[-1][1] == "a1" and len(begun) == 1:
                turn.push_back(30.0)
                raise Requeue
            await trio.sleep(1)

    async def source() -> AsyncIterator[BatchTask[None]]:
        for host, name in (("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")):
            yield Work(host, name)

    async def take(result: TaskResult[None]) -> None:
        assert result.error is None

    async def main() -> None:
        hosts: HostScheduler[BatchTask[None]] = HostScheduler(lambda scheme, waiting: 1)
        await Batch(hosts, concurrency=1).run(source(), take)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert begun == [(0, "a1"), (0, "b1"), (1, "b2"), (30, "a1"), (31, "a2")]
