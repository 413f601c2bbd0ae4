"""Batches: concurrency, host queues, push-back of servers, the end, and iteration over the results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from fixtures import ftp, http
from fixtures.ftp.server import MockFtp
from fixtures.http import Behavior, Page
from resolver import (
    AccessDenied,
    Declined,
    Event,
    LocalError,
    LoginRequired,
    NotFound,
    Policy,
    Resolver,
    Retrying,
    RetryPolicy,
    Saved,
    TryLater,
)
from resolver.loops import running
from resolver.network.task import Requeue, current
from resolver.transfer.batch import Batch, BatchTask, RunningBatch, TaskResult
from resolver.transfer.queue import SILENCE, HostScheduler
from tests.hang import HANG
from tests.scheduled import run_scheduled

NAME: ContextVar[str] = ContextVar("name", default="")


@dataclass(eq=False)
class Work:
    """A task that ends when `go` is set, and appends its name to `begun` when it starts."""

    name: str
    begun: list[str]
    host: str = "h"
    scheme: str = "s"
    error: Exception | None = None
    go: trio.Event = field(default_factory=trio.Event)
    position: Callable[[], int] | None = None
    rests: bool = False

    async def run(self) -> str:
        self.begun.append(self.name)
        if self.position is not None:
            turn = current()
            assert turn is not None
            turn.follow(self.position)
        if self.rests:
            turn = current()
            assert turn is not None
            turn.release_host()
            turn.release_host()
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return self.name


async def given(tasks: Iterable[Work]) -> AsyncIterator[BatchTask[str]]:
    for task in tasks:
        yield task


def free(scheme: str, waiting: int) -> None:
    """Return None, which means that the scheme has no limit."""


def batch(
    cap: Callable[[str, int], int | None] = free, concurrency: int = 4, window: int = 100
) -> Batch[str]:
    return Batch(HostScheduler(cap), concurrency=concurrency, window=window)


class Taken(list[TaskResult[str]]):
    async def take(self, result: TaskResult[str]) -> None:
        self.append(result)


async def test_batch_runs_up_to_concurrency_and_all_tasks() -> None:
    begun: list[str] = []
    works = [Work(str(number), begun) for number in range(9)]
    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch().run, given(works), taken.take)
            for number, work in enumerate(works):
                await trio.testing.wait_all_tasks_blocked()
                assert len(begun) == min(9, number + 4)
                work.go.set()
    assert sorted(str(result.value) for result in taken) == [str(number) for number in range(9)]
    assert begun == [str(number) for number in range(9)]


@pytest.mark.parametrize("resting", [0, 5])
async def test_resting_tasks_release_their_slots(resting: int) -> None:
    """Resting tasks, up to `resting` of them, release their slots in the run and at the host."""
    begun: list[str] = []
    works = [Work(str(number), begun, rests=True) for number in range(9)]
    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            one: Batch[str] = Batch(
                HostScheduler(lambda scheme, waiting: 1), concurrency=2, max_flushing=resting
            )
            nursery.start_soon(one.run, given(works), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            assert len(begun) == 1 + resting
            for work in works:
                work.go.set()
    assert len(taken) == len(works)
    assert begun == [work.name for work in works]


@pytest.mark.parametrize("rests", [False, True])
async def test_tasks_have_separate_contexts(rests: bool) -> None:
    names: list[str] = []

    class Naming(Work):
        async def run(self) -> str:
            names.append(NAME.get())
            NAME.set(self.name)
            return await super().run()

    works = [Naming(str(number), [], rests=rests) for number in range(6)]
    for work in works:
        work.go.set()
    with trio.fail_after(HANG):
        one: Batch[str] = Batch(HostScheduler(free), concurrency=2, max_flushing=2)
        await one.run(given(works), Taken().take)
    assert names == [""] * 6


async def test_failed_task_does_not_stop_others() -> None:
    begun: list[str] = []
    works = [Work(name, begun) for name in "abc"]
    works[0].error = Declined("no")
    for work in works:
        work.go.set()
    taken = Taken()
    with trio.fail_after(HANG):
        await batch(concurrency=1).run(given(works), taken.take)
    assert [(result.value, result.error) for result in taken] == [
        (None, works[0].error),
        ("b", None),
        ("c", None),
    ]


async def test_unexpected_error_ends_batch_and_is_raised() -> None:
    begun: list[str] = []
    works = [Work("a", begun), Work("b", begun, error=ZeroDivisionError("so"))]
    works[1].go.set()
    with trio.fail_after(HANG), pytest.raises(ZeroDivisionError, match="so"):
        await batch().run(given(works), Taken().take)


async def test_error_of_source_ends_batch() -> None:
    async def source() -> AsyncIterator[BatchTask[str]]:
        yield Work("a", [])
        raise Declined("no list")

    with trio.fail_after(HANG), pytest.raises(Declined, match="no list"):
        await batch().run(source(), Taken().take)


def fifty(begun: list[str], read: list[Work]) -> Iterable[Work]:
    for number in range(50):
        read.append(Work(str(number), begun))
        yield read[-1]


async def test_source_is_read_up_to_window() -> None:
    begun: list[str] = []
    read: list[Work] = []

    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch(concurrency=3, window=5).run, given(fifty(begun, read)), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            assert len(begun) == 3
            assert len(read) == 8
            while len(taken) < 50:
                read[len(taken)].go.set()
                await trio.testing.wait_all_tasks_blocked()
    assert len(taken) == 50


async def test_source_is_read_in_blocks() -> None:
    """The source is read again when half of the window is free, not after each finished task."""
    begun: list[str] = []
    read: list[Work] = []

    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch(concurrency=1, window=8).run, given(fifty(begun, read)), Taken().take)
            for done, count in enumerate((8, 8, 8, 12, 12, 12, 12, 16, 16)):
                await trio.testing.wait_all_tasks_blocked()
                assert (len(begun), len(read)) == (done + 1, count)
                read[done].go.set()
            nursery.cancel_scope.cancel()


async def test_pending_result_holds_its_slot() -> None:
    begun: list[str] = []
    works = [Work(name, begun) for name in "abcd"]
    for work in works:
        work.go.set()
    more = trio.Event()

    async def take(result: TaskResult[str]) -> None:
        await more.wait()

    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch(concurrency=2).run, given(works), take)
            await trio.testing.wait_all_tasks_blocked()
            assert begun == ["a", "b"]
            more.set()
    assert begun == ["a", "b", "c", "d"]


async def test_slow_host_does_not_delay_others() -> None:
    begun: list[str] = []
    slow = [Work(f"slow{number}", begun, host="slow") for number in range(9)]
    quick = [Work(f"quick{number}", begun, host="quick") for number in range(3)]
    for work in quick:
        work.go.set()
    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(batch(lambda scheme, waiting: 2).run, given([*slow, *quick]), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            assert sorted(str(result.value) for result in taken) == ["quick0", "quick1", "quick2"]
            assert sorted(begun) == ["quick0", "quick1", "quick2", "slow0", "slow1"]
            nursery.cancel_scope.cancel()


async def test_source_is_read_while_one_host_fills_window() -> None:
    """The waiting tasks of one host fill more than half of the window."""
    begun: list[str] = []
    slow = [Work(f"slow{number}", begun, host="slow") for number in range(8)]
    quick = [Work(f"quick{number}", begun, host="quick") for number in range(9)]
    for work in quick:
        work.go.set()
    taken = Taken()
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            one = batch(lambda scheme, waiting: 1, window=8)
            nursery.start_soon(one.run, given([*slow, *quick]), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            assert [result.value for result in taken] == [work.name for work in quick]
            nursery.cancel_scope.cancel()


def at_hosts(begun: list[str], position: Callable[[], int]) -> list[Work]:
    """Return a task for each of four hosts, followed by five tasks of a fifth host, which end immediately."""
    works = [Work(str(number), begun, f"h{min(number, 4)}", position=position) for number in range(9)]
    for work in works[4:]:
        work.go.set()
    return works


async def test_silent_hosts_do_not_delay_others(autojump_clock: trio.testing.MockClock) -> None:
    """Silent hosts are checked for new data twice: since the task began, and since the previous check."""
    begun: list[str] = []
    taken = Taken()
    with trio.move_on_after(3 * SILENCE):
        await batch(lambda scheme, waiting: 2).run(given(at_hosts(begun, lambda: 0)), taken.take)
    assert begun == [str(number) for number in range(9)]
    assert sorted(str(result.value) for result in taken) == ["4", "5", "6", "7", "8"]


async def test_slow_hosts_with_data_keep_their_slots(autojump_clock: trio.testing.MockClock) -> None:
    """Each task receives data, so no other task starts."""
    begun: list[str] = []
    taken = Taken()
    works = at_hosts(begun, lambda: int(trio.current_time()))
    with trio.move_on_after(10 * SILENCE):
        await batch(lambda scheme, waiting: 2).run(given(works), taken.take)
    assert begun == ["0", "1", "2", "3"]
    assert taken == []


async def test_source_may_wait_for_result() -> None:
    begun: list[str] = []
    all_done = trio.Event()

    async def source() -> AsyncIterator[BatchTask[str]]:
        first = Work("directory", begun)
        first.go.set()
        yield first
        await all_done.wait()
        second = Work("file", begun)
        second.go.set()
        yield second

    taken = Taken()

    async def take(result: TaskResult[str]) -> None:
        await taken.take(result)
        all_done.set()

    with trio.fail_after(HANG):
        await batch().run(source(), take)
    assert [result.value for result in taken] == ["directory", "file"]


async def test_batch_after_deadline_finishes_running_tasks_only(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[str] = []
    works = [Work(str(number), begun) for number in range(9)]
    read: list[Work] = []

    async def source() -> AsyncIterator[BatchTask[str]]:
        for work in works:
            read.append(work)
            yield work

    taken = Taken()
    ends = trio.current_time() + 60
    one: Batch[str] = Batch(HostScheduler(free), concurrency=2, window=4, until=ends)
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run, source(), taken.take)
            await trio.testing.wait_all_tasks_blocked()
            works[0].go.set()
            await trio.sleep_until(ends)
            await trio.testing.wait_all_tasks_blocked()
            for work in works:
                work.go.set()
    assert begun == ["0", "1", "2"]
    assert {result.value for result in taken} == {"0", "1", "2"}  # tasks 1 and 2 end together
    assert len(taken) == 3
    assert len(read) < len(works)


async def test_batch_does_not_wait_for_pause_after_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    begun: list[str] = []
    hosts: HostScheduler[BatchTask[str]] = HostScheduler(free)
    start = trio.current_time()
    hosts.pause_until("h", start + 600)
    one: Batch[str] = Batch(hosts, concurrency=2, until=start + 60)
    await one.run(given([Work("late", begun)]), Taken().take)
    assert begun == []
    assert hosts.pauses(start + 60) == {"h": 540.0}


@dataclass(eq=False)
class Crowded:
    """A task that fails while more than `room` tasks run, as when disk space or file descriptors run out."""

    under_way: list[int]
    room: int
    host: str = "h"
    scheme: str = "s"

    async def run(self) -> str:
        self.under_way[0] += 1
        try:
            await trio.lowlevel.checkpoint()
            turn = current()
            assert turn is not None
            if self.under_way[0] > self.room:
                if turn.reduce_concurrency():
                    raise Requeue
                raise LocalError("alone")
            self.under_way.append(self.under_way[0])
            return "done"
        finally:
            self.under_way[0] -= 1


async def test_batch_without_resources_lowers_concurrency() -> None:
    taken, under_way = Taken(), [0]

    async def tasks() -> AsyncIterator[BatchTask[str]]:
        for _ in range(50):
            yield Crowded(under_way, 3)

    with trio.fail_after(HANG):
        await batch(concurrency=16).run(tasks(), taken.take)
    assert [result.value for result in taken] == ["done"] * 50
    assert max(under_way) <= 3


async def test_batch_with_resources_again_raises_concurrency() -> None:
    taken, under_way = Taken(), [0]

    async def tasks() -> AsyncIterator[BatchTask[str]]:
        for number in range(800):
            yield Crowded(under_way, 1 if number < 16 else 16)

    with trio.fail_after(HANG):
        await batch(concurrency=16).run(tasks(), taken.take)
    assert [result.value for result in taken] == ["done"] * 800
    assert under_way[1:16] == [1] * 15
    assert max(under_way) == 16


@pytest.mark.parametrize("concurrency", [1, 2, 16])
async def test_batch_with_one_task_reports_lack_of_resources(concurrency: int) -> None:
    taken, under_way = Taken(), [0]

    async def tasks() -> AsyncIterator[BatchTask[str]]:
        yield Crowded(under_way, 0)

    with trio.fail_after(HANG):
        await batch(concurrency=concurrency).run(tasks(), taken.take)
    assert [type(result.error) for result in taken] == [LocalError]


@dataclass(eq=False)
class Together:
    """A task that first fails together with all other tasks, and then succeeds if no other task runs."""

    under_way: list[int]
    count: int
    has_failed: trio.Event
    attempts: int = 0
    host: str = "h"
    scheme: str = "s"

    async def run(self) -> str:
        turn = current()
        assert turn is not None
        self.under_way[0] += 1
        self.attempts += 1
        try:
            if self.under_way[0] == self.count:
                self.has_failed.set()
            await self.has_failed.wait()
            if self.attempts > 1 and self.under_way[0] == 1:
                return "done"
        finally:
            self.under_way[0] -= 1
        if turn.reduce_concurrency():
            raise Requeue
        raise LocalError("alone")


@pytest.mark.parametrize("count", [2, 10])
async def test_batch_of_tasks_that_fail_together_runs_all_again(count: int) -> None:
    taken, under_way, has_failed = Taken(), [0], trio.Event()
    together = [Together(under_way, count, has_failed) for _ in range(count)]

    async def tasks() -> AsyncIterator[BatchTask[str]]:
        for task in together:
            yield task

    with trio.fail_after(HANG):
        await batch(concurrency=count).run(tasks(), taken.take)
    assert [result.value for result in taken] == ["done"] * count
    assert [task.attempts for task in together] == [2] * count


# Overloaded hosts: which tasks are repeated, when, and which attempts count.

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


async def saving_source(tasks: Iterable[BatchTask[Saved]]) -> AsyncIterator[BatchTask[Saved]]:
    for task in tasks:
        yield task


class Run:
    """Save URLs into `folder`, with at most `cap` concurrent tasks."""

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
                await batch.run(saving_source(tasks), take)

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
async def test_ftp_login_limit_allows_all_files(full: bytes, nursery: trio.Nursery, tmp_path: Path) -> None:
    server: MockFtp = await ftp.serve(nursery)
    server.logins, server.full = 4, full
    run = Run(tmp_path, 8)
    await run.save(*[server.url("pub/a.txt")] * 24, port=server.port)
    assert run.errors == []
    assert len(run.results) == 24
    assert server.violations == []


async def test_ftp_port_limit_allows_all_files(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The server has one port for data connections, which the running transfer uses."""
    server: MockFtp = await ftp.serve(nursery, ftp.Behavior(greeting=b"220 ProFTPD\r\n"))
    server.data_ports = 1
    run = Run(tmp_path, 6)
    await run.save(*[server.url("pub/a.txt")] * 24, port=server.port)
    assert run.errors == []
    assert len(run.results) == 24
    assert server.violations == []


async def test_ftp_idle_login_is_closed_for_another_user(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Two users share a server that allows one login at a time."""
    server: MockFtp = await ftp.serve(nursery)
    server.logins = 1
    urls = [server.url("etc/motd"), server.url("etc/motd", "u:@")] * 3
    run = Run(tmp_path, 1)
    await run.save(*urls, port=server.port)
    assert run.errors == []


@pytest.mark.parametrize(
    ("login", "kind", "sent"),
    [("u:wrong@", AccessDenied, b"PASS wrong"), ("", LoginRequired, b"PASS anonymous@")],
)
async def test_ftp_refused_login_is_sent_once(
    login: str, kind: type[Exception], sent: bytes, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Servers ban a client after several refused logins. Another login at the same host is tried."""
    server: MockFtp = await ftp.serve(nursery, ftp.Behavior(replies={sent: b"530 Login incorrect\r\n"}))
    refused = [server.url(path, login) for path in ("etc/motd", "pub/a.txt", "none")]
    run = Run(tmp_path, 1)
    await run.save(*refused, server.url("etc/motd", "u:@"), port=server.port)
    assert run.errors == [kind] * 3
    assert [str(result.error.url) for result in run.results if result.error] == [
        url.replace("wrong", "****") for url in refused
    ]
    assert [line for line in server.commands if line.startswith(b"PASS")] == [sent, b"PASS "]


async def test_ftp_refused_login_is_repeated_if_the_host_answered(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Then the server may have reached its limit of logins, although its text does not mention the limit."""
    server: MockFtp = await ftp.serve(nursery)
    run = Run(tmp_path, 1)
    await run.save(*[server.url("etc/motd", login) for login in ("u:@", "u:x@", "u:x@")], port=server.port)
    assert run.errors == [AccessDenied] * 2
    assert [line for line in server.commands if line.startswith(b"PASS")] == [b"PASS ", *[b"PASS x"] * 2]


@pytest.mark.parametrize("answer", [BUSY, LIMITED, VAGUE])
async def test_pushed_back_tasks_are_repeated_without_counting(
    answer: bytes, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Each of six concurrent requests is pushed back twice.

    If push-backs counted, three attempts would not suffice.
    """
    paths = [f"/{number}" for number in range(6)]
    pages = {path: Page(path.encode()) for path in paths}
    server = await http.serve(nursery, pages, dict.fromkeys(paths, Behavior(instead=answer, times=2)))
    run = Run(tmp_path, 6)
    await run.save(*map(server.url, paths))
    assert run.errors == []
    reports = [event for event in run.events if isinstance(event, Retrying)]
    assert len(reports) == 12
    assert {str(result.value.attempts) for result in run.results if result.value} == {"3"}


async def test_push_back_of_single_task_counts_as_attempt(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await http.serve(nursery, {}, {"/a": Behavior(instead=BUSY)})
    run = Run(tmp_path, 6)
    await run.save(server.url("/a"))
    (result,) = run.results
    assert isinstance(result.error, TryLater)
    assert result.error.attempts == len(server.requests) == 3


async def test_long_retry_after_fails_other_tasks_of_host(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await http.serve(nursery, {}, {"/a": Behavior(instead=LATER)})
    run = Run(tmp_path, 1)
    await run.save(*map(server.url, ("/a", "/b", "/c")))
    assert run.errors == [TryLater] * 3
    assert [request.target for request in server.requests] == ["/a"]
    last = run.results[-1].error
    assert last is not None
    assert "asked for a pause" in last.message
    assert str(last.url).endswith("/c")


async def test_not_found_does_not_affect_other_tasks(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await http.serve(nursery, {"/b": Page(b"b")})
    run = Run(tmp_path, 2)
    await run.save(*map(server.url, ("/a", "/b")))
    assert run.errors == [NotFound]


def test_paused_host_starts_nothing_and_others_run() -> None:
    """While a host is paused, a task of another host starts: tasks of the paused host hold no slot."""
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


# `RunningBatch` under trio and asyncio: a batch whose results are iterated over.

RunningRun = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]


@pytest.fixture(params=["trio", "asyncio"])
def run(request: pytest.FixtureRequest) -> RunningRun:
    """Return a function that runs a coroutine function under trio or asyncio."""
    if request.param == "trio":
        return run_scheduled
    return lambda main: asyncio.run(main())


class Count:
    """A source of the numbers 0, 1, 2, … that records its progress."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.count = count
        self.error = error
        self.begun: list[int] = []
        self.cancelled = self.ended = False

    async def work(self, give: Callable[[int], Awaitable[None]]) -> None:
        try:
            for number in range(self.count):
                self.begun.append(number)
                await give(number)
            if self.error is not None:
                raise self.error
        except running().cancelled:
            self.cancelled = True
            raise
        finally:
            self.ended = True


async def settle() -> None:
    """Let all tasks run until they are blocked."""
    for _ in range(20):
        await running().checkpoint()


def test_running_batch_yields_all_values_and_ends(run: RunningRun) -> None:
    async def main() -> None:
        count, reports = Count(5), []
        values = RunningBatch(count.work)
        values.when_ended = lambda: reports.append("ended")
        assert [value async for value in values] == [0, 1, 2, 3, 4]
        with pytest.raises(StopAsyncIteration):
            await anext(values)
        await values.aclose()
        assert (count.ended, count.cancelled, reports) == (True, False, ["ended"])

    run(main)


def test_running_batch_starts_lazily(run: RunningRun) -> None:
    async def main() -> None:
        count = Count(100)
        values = RunningBatch(count.work)
        await settle()
        assert count.begun == []
        assert await anext(values) == 0
        await settle()
        assert count.begun == [0, 1]
        await values.aclose()
        assert (count.begun, count.cancelled) == ([0, 1], True)
        with pytest.raises(RuntimeError, match="closed"):
            await anext(values)

    run(main)


def test_running_batch_raises_error_after_values(run: RunningRun) -> None:
    async def main() -> None:
        values = RunningBatch(Count(1, Declined("no")).work)
        assert await anext(values) == 0
        for _ in range(2):
            with pytest.raises(Declined, match="no"):
                await anext(values)

    run(main)


def test_running_batch_cancelled_anext_loses_no_value(run: RunningRun) -> None:
    async def main() -> None:
        go = running().event()

        async def work(give: Callable[[int], Awaitable[None]]) -> None:
            await go.wait()
            await give(7)

        values = RunningBatch(work)
        with running().move_on_after(0) as scope:
            await anext(values)
        assert scope.cancelled_caught
        go.set()
        assert [value async for value in values] == [7]

    run(main)


def test_running_batch_closed_before_start_runs_nothing(run: RunningRun) -> None:
    async def main() -> None:
        count = Count(3)
        values = RunningBatch(count.work)
        await values.aclose()
        with pytest.raises(RuntimeError, match="closed"):
            await anext(values)
        assert count.begun == []

    run(main)


def test_running_batch_aclose_cancelled_waits_for_work() -> None:
    """`Task.cancel` ignores trio's shields, but the batch's tasks have ended when it raises."""

    async def main() -> None:
        cleaned = asyncio.Event()
        entered = asyncio.Event()

        async def work(give: Callable[[int], Awaitable[None]]) -> None:
            await give(1)
            try:
                entered.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                cleaned.set()

        values = RunningBatch(work)
        await anext(values)
        await entered.wait()
        closing = asyncio.create_task(values.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert cleaned.is_set()

    asyncio.run(main())


async def test_running_batch_ends_with_event_loop() -> None:
    """The caller does not close the batch; the end of the event loop ends its tasks."""
    count = Count(100)

    async def main() -> None:
        assert await anext(RunningBatch(count.work)) == 0

    await trio.to_thread.run_sync(run_scheduled, main)
    assert count.ended
