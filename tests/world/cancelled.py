"""Runs in which the caller cancels calls of a session: fetches, streams, saves and batches.

Each life performs the same operations concurrently, and the schedule cancels some of the calls. Then the same
session performs all operations again, without a cancellation.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Literal

from resolver import Limits, Policy, ResolveError, Resolver, RetryPolicy, SaveRequest
from resolver.loops import running
from resolver.testing.world import LoopName, Schedule, World
from resolver.testing.world.schedule import CANCELS
from tests.world.scenario import (
    LIMITED_PORTS,
    OWN,
    Broken,
    Servers,
    Transport,
    Wanted,
    check_content,
    options_of,
    plan_of,
    read,
    walk,
)

Verb = Literal["fetch", "stream", "save", "batch"]
_VERBS: tuple[Verb, ...] = ("fetch", "fetch", "stream", "save", "save", "batch")


@dataclass(frozen=True)
class Operation:
    """A call of the session; `path` is the file or the directory of the saved objects."""

    verb: Verb
    wanted: tuple[Wanted, ...]
    path: str
    takes: int  # The number of bytes after which the caller leaves a stream.

    @property
    def files(self) -> dict[str, bytes]:
        if self.verb == "save":
            return {self.path: self.wanted[0].content}
        if self.verb == "batch":
            return {os.path.join(self.path, each.name): each.content for each in self.wanted}
        return {}


class CancelRun:
    """A run of one session in each life, with cancelled calls."""

    def __init__(
        self, schedule: Schedule, directory: str, loop: LoopName = "trio", transport: Transport = "tcp"
    ) -> None:
        source = random.Random(f"cancel {schedule.seed}")
        self._plan = plan_of(schedule.seed, transport)
        self.world = World(directory, schedule, loop)
        self._servers = Servers()
        self._servers.serve(self.world.network, self._plan)
        self._operations = [self._draw(source, number) for number in range(source.randint(3, 9))]
        self._files = {path: content for each in self._operations for path, content in each.files.items()}
        self._workers = source.randint(1, 4)
        self._tries = source.choice((1, 1, 3))
        self._problems: list[str] = []
        self._errors: list[ResolveError] = []
        self._lives = 0
        self.transfers = 0

    def _draw(self, source: random.Random, number: int) -> Operation:
        verb, wanted = source.choice(_VERBS), self._plan.wanted
        several = source.sample(wanted, source.randint(1, len(wanted)))
        path = os.path.join(self.world.path, f"d{number}")
        return Operation(
            verb, tuple(several if verb == "batch" else several[:1]), path, source.randint(1, 70_000)
        )

    def live(self, *, calm: bool) -> None:
        world = self.world
        self._lives += 1
        faults = world.schedule.of(self._lives - 1).faults
        has_only_cancellations = all(fault.kind in CANCELS for fault in faults)
        self._errors.clear()
        try:
            world.live(self._main)
        except ResolveError as error:
            self._errors.append(error)
        problems = [
            *self._problems,
            *map(repr, world.network.problems),
            *self._servers.violations,
            *world.left,
        ]
        if problems:
            raise Broken("; ".join(problems))
        if has_only_cancellations and self._errors:
            raise Broken(f"a call failed without a fault: {self._errors!r}")
        self._check_files(calm=has_only_cancellations)
        self._check_limits()

    async def _main(self) -> None:
        async with Resolver(
            policy=Policy(allow_password=True),
            limits=Limits(connect=20, idle=20),
            patience=RetryPolicy(tries=self._tries, delay=1.0, retry_all=True),
            options=options_of(self._plan),
            sync=self._plan.sync,
            segments=self._plan.segments,
        ) as session:
            waiting = iter(self._operations)
            async with running().open_nursery() as nursery:
                for _ in range(self._workers):
                    nursery.start_soon(self._work, session, waiting)
            for operation in self._operations:
                await self._attempt(session, operation)

    async def _work(self, session: Resolver, waiting: Iterator[Operation]) -> None:
        for operation in waiting:
            await self.world.call(partial(self._attempt, session, operation))

    async def _attempt(self, session: Resolver, operation: Operation) -> None:
        try:
            await self._perform(session, operation)
        except ResolveError as error:
            self._errors.append(error)
        self.transfers += 1

    async def _perform(self, session: Resolver, operation: Operation) -> None:
        wanted = operation.wanted[0]
        match operation.verb:
            case "fetch":
                self._compare(wanted, (await session.fetch(wanted.url)).content, wanted.content)
            case "stream":
                received = b""
                async with session.stream(wanted.url) as reply:
                    async for piece in reply.body:
                        received += piece
                        if len(received) >= operation.takes:
                            break
                self._compare(wanted, received, wanted.content[: max(len(received), operation.takes)])
            case "save":
                await session.save(wanted.url, operation.path, exists="resume")
                self._compare(wanted, read(operation.path), wanted.content)
            case "batch":
                await self._save_all(session, operation)

    async def _save_all(self, session: Resolver, operation: Operation) -> None:
        batch = session.save_all(
            [SaveRequest(each.url, each.name) for each in operation.wanted],
            directory=operation.path,
            concurrency=self._plan.concurrency,
            per_host=self._plan.per_host,
            exists="resume",
        )
        async with aclosing(batch):
            outcomes = [outcome async for outcome in batch]
        self._errors += [outcome.error for outcome in outcomes if outcome.error is not None]
        if len(outcomes) != len(operation.wanted):
            self._problems.append(f"{len(outcomes)} outcomes of {operation}")

    def _compare(self, wanted: Wanted, found: bytes | None, right: bytes) -> None:
        try:
            check_content(wanted.name, found or b"", right)
        except Broken as problem:
            self._problems.append(str(problem))

    def _check_files(self, *, calm: bool) -> None:
        for path in walk(self.world.path):
            if path in self._files:
                check_content(path, read(path) or b"", self._files[path])
                continue
            name = next((path.removesuffix(suffix) for suffix in OWN if path.endswith(suffix)), "")
            if name not in self._files:
                raise Broken(f"unknown file {path}")
            if calm:
                raise Broken(f"{path} is left")
            if path.endswith(".part") and self._plan.segments == 1:
                octets = read(path) or b""
                check_content(path, octets, self._files[name][: len(octets)])
        missing = [path for path in self._files if not os.path.exists(path)]
        if calm and missing:
            raise Broken(f"missing without a fault: {missing}")

    def _check_limits(self) -> None:
        """Check the number of connections to each host: those in use, and one idle connection per login."""
        batches = [
            min(self._plan.per_host, self._plan.concurrency)
            for each in self._operations
            if each.verb == "batch"
        ]
        others = [1] * (len(self._operations) - len(batches))
        allowed = sum(sorted(batches + others)[-self._workers :])
        for (address, port), most in self.world.network.most.items():
            logins = 2 if port in (21, 990) else 1
            if port in LIMITED_PORTS and self._plan.segments == 1 and most > allowed * logins:
                raise Broken(f"{most} connections to {address}:{port}, not {allowed * logins}")
