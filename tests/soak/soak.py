"""The soak: many fetches of one session from servers with faults, and cancellations of some fetches."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

import trio

from resolver import Event, Limits, Policy, ResolveError, Resolver, RetryPolicy, blocking
from resolver.blocking.portal import portal
from resolver.loops import running
from resolver.loops.calls import current_task
from resolver.testing.world.cancelling import SteppedCoroutine
from tests.hang import HANG
from tests.loops.cancels import ARRIVALS, cancel_at
from tests.soak.measure import Sample, asyncio_tasks, take, trio_tasks
from tests.soak.peers import SILENT, Target, content_of

Operation: TypeAlias = Literal["fetch", "stream", "save", "info", "entries"]

#: The number of concurrent fetches of an event loop, and the number of threads that block.
IN_FLIGHT, THREADS = 24, 8

#: The share of fetches that are cancelled, that use TLS, and that wait for a server that never answers.
_CANCELLED, _TLS, _SILENT = 0.4, 0.12, 0.003
#: The highest step at which a fetch is cancelled. A third of the cancellations arrive before the fetch ends.
_STEPS = {"http": 8, "https": 8, "gopher": 8, "gophers": 10, "ftp": 20, "ftps": 25}
#: The highest number of events after which a blocking fetch ends.
_EVENTS = 6


@dataclass(frozen=True)
class Errand:
    """The plan of a fetch in the soak.

    `at` is the step at which the fetch is cancelled, and `octets` the number of bytes that a stream reads.
    """

    number: int
    operation: Operation
    target: Target
    at: int | None
    octets: int


@dataclass
class Soak:
    """A number of fetches, and their outcomes.

    Args:
        targets: The URLs of the running servers.
        folder: The directory of saved files.
        fetches: The number of fetches.
        rounds: The number of samples, which are taken after equal numbers of fetches.
        silent: Whether some fetches wait for a server that never answers, until the idle timeout.
        memory: Whether the samples have the memory of the process.
    """

    targets: Sequence[Target]
    folder: str
    fetches: int
    rounds: int
    seed: int = 0
    silent: bool = True
    memory: bool = True
    samples: list[Sample] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._silent = [each for each in self.targets if SILENT in each.url]
        others = [each for each in self.targets if SILENT not in each.url]
        self._plain = [each for each in others if not each.is_secure]
        self._secure = [each for each in others if each.is_secure]
        self._lock = threading.Lock()

    @property
    def settings(self) -> dict[str, Any]:
        ports = frozenset(int(each.url.split(":")[2].partition("/")[0]) for each in self.targets)
        return {
            "policy": Policy(allow_port=ports, allow_password=True),
            "limits": Limits(connect=60, idle=1 if self.silent else 60),
            "patience": RetryPolicy(tries=2, delay=0.0, retry_all=True),
        }

    def errands(self, round_number: int) -> Iterator[Errand]:
        """Yield the fetches of a round. Concurrent callers share the iterator under the lock of `each_of`."""
        size = self.fetches // self.rounds
        for number in range(round_number * size, (round_number + 1) * size):
            yield self._draw(number)

    def _draw(self, number: int) -> Errand:
        source = random.Random(f"{self.seed} {number}")
        chance = source.random()
        targets = self._secure if chance < _TLS else self._plain
        target = source.choice(self._silent if self.silent and chance > 1 - _SILENT else targets)
        operation: Operation = source.choice(("fetch", "fetch", "stream", "save", "info"))
        if target.is_listing:
            operation = source.choice(("fetch", "entries"))
        most = _STEPS[target.url.partition(":")[0]]
        at = source.randint(1, most) if source.random() < _CANCELLED else None
        return Errand(number, operation, target, at, source.choice((0, 1, 5_000, 1_000_000)))

    def path(self, slot: int) -> str:
        return os.path.join(self.folder, f"saved{slot}")

    def read(self, slot: int) -> bytes:
        with open(self.path(slot), "rb") as file:
            return file.read()

    def each_of(self, errands: Iterator[Errand]) -> Iterator[Errand]:
        """Yield the fetches that no other worker has taken."""
        while True:
            with self._lock:
                errand = next(errands, None)
            if errand is None:
                return
            yield errand

    def count(self, outcome: str) -> None:
        with self._lock:
            self.outcomes[outcome] += 1

    def check(self, errand: Errand, content: bytes, *, whole: bool) -> None:
        """Compare the received bytes with the object; a stream may end early."""
        if errand.target.is_listing:
            return
        assert errand.target.name is not None, f"{errand} has a body"
        right = content_of(errand.target.name)
        assert right == content if whole else right.startswith(content), f"{errand} has other bytes"

    async def perform(self, session: Resolver, slot: int, errand: Errand) -> None:
        """Perform a fetch with an asynchronous session."""
        url = errand.target.url
        match errand.operation:
            case "fetch":
                self.check(errand, (await session.fetch(url)).content, whole=True)
            case "stream":
                async with session.stream(url) as reply:
                    received = b""
                    async for piece in reply.body:
                        received += piece
                        if len(received) >= errand.octets:
                            break
                self.check(errand, received, whole=False)
            case "save":
                await session.save(url, self.path(slot), exists="replace")
                self.check(errand, self.read(slot), whole=True)
            case "info":
                await session.info(url)
            case "entries":
                async with session.entries(url) as entries:
                    assert [entry async for entry in entries]

    async def attempt(self, session: Resolver, slot: int, errand: Errand) -> None:
        """Perform a fetch, and count its outcome."""
        try:
            await self.perform(session, slot, errand)
        except ResolveError as error:
            self.count(type(error).__name__)
        else:
            self.count("done")

    def sample(self, fetches: int, tasks: int) -> None:
        self.samples.append(take(fetches, tasks, memory=self.memory))

    def end_of(self, round_number: int) -> int:
        return (round_number + 1) * (self.fetches // self.rounds)


async def _attempt_in_scope(soak: Soak, session: Resolver, slot: int, errand: Errand) -> None:
    """Perform a fetch under trio or in a blocking call, and cancel the fetch at its step."""
    with running().move_on_after(HANG) as scope:

        def cancel(_: object) -> None:
            scope.cancel()

        await SteppedCoroutine(soak.attempt(session, slot, errand), errand.at, cancel)
    if scope.cancelled_caught:
        soak.count("cancelled")


async def soak_trio(soak: Soak) -> None:
    """Run all fetches under trio."""

    async def work(session: Resolver, slot: int, errands: Iterator[Errand]) -> None:
        for errand in soak.each_of(errands):
            await _attempt_in_scope(soak, session, slot, errand)

    async with Resolver(**soak.settings) as session:
        for number in range(soak.rounds):
            errands = soak.errands(number)
            async with trio.open_nursery() as nursery:
                for slot in range(IN_FLIGHT):
                    nursery.start_soon(work, session, slot, errands)
            soak.sample(soak.end_of(number), trio_tasks())


async def soak_asyncio(soak: Soak) -> None:
    """Run all fetches under asyncio, with native cancellations."""

    async def work(session: Resolver, slot: int, errands: Iterator[Errand]) -> None:
        for errand in soak.each_of(errands):
            arrival = ARRIVALS[errand.number % len(ARRIVALS)]
            _, error = await cancel_at(errand.at, arrival, partial(soak.attempt, session, slot, errand))
            if error is not None:
                soak.count("cancelled")

    async with Resolver(**soak.settings) as session:
        for number in range(soak.rounds):
            errands = soak.errands(number)
            async with asyncio.TaskGroup() as group:
                for slot in range(IN_FLIGHT):
                    group.create_task(work(session, slot, errands))
            soak.sample(soak.end_of(number), asyncio_tasks())


class Stopped(Exception):
    """An error of the caller's code, which ends a blocking call."""


class _Stops(threading.local):
    """The number of events after which the call of a thread ends."""

    left = 0

    def on_event(self, event: Event) -> None:
        self.left -= 1
        if self.left == 0:
            raise Stopped


def soak_blocking(soak: Soak) -> None:
    """Run all fetches in threads that block.

    Half of the cancelled fetches end by an exception of the callback `on_event`. The other half are cancelled
    at a step of the portal's event loop.
    """
    stops = _Stops()

    def perform(session: blocking.Resolver, slot: int, errand: Errand) -> None:
        url = errand.target.url
        match errand.operation:
            case "fetch":
                soak.check(errand, session.fetch(url).content, whole=True)
            case "stream":
                with session.stream(url) as reply:
                    soak.check(errand, reply.read(errand.octets), whole=False)
            case "save":
                session.save(url, soak.path(slot), exists="replace")
                soak.check(errand, soak.read(slot), whole=True)
            case "info":
                session.info(url)
            case "entries":
                with session.entries(url) as entries:
                    assert list(entries)

    begun = threading.Barrier(THREADS)  # the pool starts a thread only if no other thread is idle

    def work(session: blocking.Resolver, slot: int, errands: Iterator[Errand]) -> None:
        begun.wait(HANG)
        for errand in soak.each_of(errands):
            stops.left = 0
            if errand.at is not None and errand.number % 2:

                async def operate(inner: Resolver, errand: Errand = errand) -> None:
                    await _attempt_in_scope(soak, inner, slot, errand)

                session.run(operate)
                continue
            if errand.at is not None:
                stops.left = 1 + errand.at % _EVENTS
            try:
                perform(session, slot, errand)
            except Stopped:
                soak.count("cancelled")
            except ResolveError as error:
                soak.count(type(error).__name__)
            else:
                soak.count("done")

    async def calls() -> int:
        return len(current_task().call.home.calls)

    with (
        blocking.Resolver(**soak.settings, on_event=stops.on_event) as session,
        ThreadPoolExecutor(THREADS) as pool,
    ):
        for number in range(soak.rounds):
            errands = soak.errands(number)
            for done in [pool.submit(work, session, slot, errands) for slot in range(THREADS)]:
                done.result()
            soak.sample(soak.end_of(number), portal().run(calls))


RUNS: dict[str, Callable[[Soak], None]] = {
    "trio": lambda soak: trio.run(soak_trio, soak),
    "asyncio": lambda soak: asyncio.run(soak_asyncio(soak)),
    "blocking": soak_blocking,
}
