"""The simulated world of a test, which replaces the clock, the network and the disk of the program."""

from __future__ import annotations

import importlib
import math
import os
import pkgutil
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar
from unittest import mock

import trio
import trio.testing
from trio._core import _run as trio_run

import resolver.files
import resolver.loops
from resolver.files import directory
from resolver.ledger import book
from resolver.loops import CancelScope, on_asyncio, on_trio, running
from resolver.loops.loop import InThread
from resolver.network import connecting, datagrams, stream, tls
from resolver.testing.world import virtual_loop
from resolver.testing.world.cancelling import call_with_cancellation
from resolver.testing.world.disk import Disk, Sqlite
from resolver.testing.world.network import ClientTlsSocket, WorldNetwork
from resolver.testing.world.schedule import CANCELS, KILLS, THREAD_DELAYS, Hung, Killed, Schedule

T = TypeVar("T")

#: The maximum duration of a process life in virtual seconds, and its maximum number of steps. Above these
#: limits, the run fails with `Hung`.
_MAX_SECONDS = 1_000_000.0
_MAX_STEPS = 200_000

#: The event loop of the client.
LoopName: TypeAlias = Literal["trio", "asyncio"]


class World:
    """A simulated network and disk for one run, which consists of one or more process lives.

    A life simulates one process. It begins with the start of an event loop, and ends when the loop ends or
    when the schedule kills the process. All lives of a run have the same disk and the same servers.

    Args:
        place: An empty directory. The world creates the subdirectory `disk` for the files of the program.
        schedule: The injected faults of the run.
        loop: The event loop of the client in `live`. The simulated servers always run under trio, and so does
            `command`.

    Attributes:
        network: The simulated network.
        disk: The simulated disk.
        path: The path of the directory for the files of the program.
        was_killed: Whether the schedule killed the last life.
        steps: The number of steps of the last life: changes of the disk, and network packets.
        lost_power: Whether the last life ended with a power loss.
        most_calls: The maximum number of concurrent calls in worker threads of the last life, by function.
    """

    def __init__(self, place: str, schedule: Schedule, loop: LoopName = "trio") -> None:
        self.path = os.path.join(os.path.realpath(place), "disk")
        grave = os.path.join(os.path.realpath(place), "removed")
        os.mkdir(self.path)
        os.mkdir(grave)
        self.schedule = schedule
        self.loop = loop
        self.network = WorldNetwork(schedule.seed)
        self.disk = Disk(self.path, grave)
        self._life = -1
        self.steps = self._calls = 0
        self._scope: CancelScope | None = None
        self.was_killed = self.lost_power = False
        self.left: list[str] = []
        self.most_calls: dict[Callable[..., Any], int] = {}

    def live(self, main: Callable[[], Awaitable[T]]) -> T | None:
        """Run `main` as one process life, and return its result, or None if the schedule killed the life.

        Afterwards, the attribute `left` lists the leaks: open sockets, open file descriptors, and background
        tasks that still run.

        Raises:
            Hung: The process life exceeded its maximum duration or number of steps.
        """
        with self.begun():
            if self.loop == "asyncio":
                return virtual_loop.run(partial(self._run, main), self._seed, self.left)
            return trio.run(self._run, main, clock=trio.testing.MockClock(autojump_threshold=0))
        return None

    def command(self, call: Callable[[], int]) -> int | None:
        """Run a command as one process life; the command starts its own event loops.

        Args:
            call: A function that runs the command and returns its exit status.

        Returns:
            The exit status, or None if the schedule killed the process.
        """
        start = trio.run

        def run(work: Callable[..., Awaitable[Any]], *arguments: Any, **_: object) -> Any:
            clock = trio.testing.MockClock(autojump_threshold=0)
            return start(self._run, partial(work, *arguments), clock=clock)

        with self.begun(), mock.patch.object(trio, "run", run):
            return call()
        return None

    async def call(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        """Call an async function for a caller who may cancel the call, as the schedule determines.

        Returns:
            The result of the function, or None if the call was cancelled.
        """
        self._calls += 1
        fault = self._schedule.find(CANCELS, self._calls)
        return await function() if fault is None else await call_with_cancellation(function(), fault)

    async def _run(self, main: Callable[[], Awaitable[T]]) -> T:
        loop = running()
        with loop.move_on_after(_MAX_SECONDS) as scope, loop.move_on_at(math.inf) as self._scope:
            result = await main()
            self.left += _find_background_tasks()
            return result
        if scope.cancelled_caught:
            raise Hung(f"the life did not end within {_MAX_SECONDS:g} virtual seconds")
        raise Killed

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Run the `with` block as one process life, and end the block if the schedule kills the process."""
        self._life += 1
        self.steps = self._calls = 0
        self.was_killed = self.lost_power = False
        self.left = []
        self.most_calls = {}
        self._scope = None
        schedule = self.schedule.of(self._life)
        self._schedule = schedule
        self._seed = seed = f"{schedule.seed} {self._life}"
        self.network.begin(schedule, self._life, self._step)
        self.disk.begin(schedule, self._step)
        in_thread = _InlineThreads(self.most_calls).run
        with _replaced(self.network, self.disk, in_thread, seed):
            try:
                yield
            except BaseException:
                if not self.was_killed:
                    raise
            finally:
                sockets, descriptors = self.network.end(), self.disk.end()
                directory._directory_by_path.clear()  # a new process has no pending directories
                if self.was_killed and self.lost_power:
                    self.disk.lose_power(random.Random(f"power {seed}"))
                if not self.was_killed:
                    self.left += [f"{sockets} sockets"] * bool(sockets)
                    self.left += [f"{descriptors} descriptors"] * bool(descriptors)

    def _step(self) -> None:
        """Count a step, and raise `Killed` if the schedule kills the process at this step."""
        if not self.was_killed:
            self.steps += 1
            if self.steps > _MAX_STEPS:
                raise Hung(f"the life took more than {_MAX_STEPS} steps")
            fault = self._schedule.find(KILLS, self.steps)
            if fault is None:
                return
            self.was_killed, self.lost_power = True, fault.kind == "power"
            if self._scope is not None:
                self._scope.cancel()
        raise Killed

    def calm(self) -> None:
        """Remove all faults from the schedule, so that further process lives have no faults."""
        self.schedule = replace(self.schedule, faults=())


def _find_background_tasks() -> list[str]:
    if not on_trio.is_running():
        return virtual_loop.find_other_tasks()
    root = trio.lowlevel.current_root_task()
    assert root is not None
    tasks = [task for nursery in root.child_nurseries for task in nursery.child_tasks]
    return [task.name for task in tasks if "TrioBackground" in task.name]


@contextmanager
def _replaced(network: WorldNetwork, disk: Disk, in_thread: InThread, seed: str) -> Iterator[None]:
    under_trio = on_trio.LOOP._replace(in_thread=in_thread, getaddrinfo=network.getaddrinfo)
    under_asyncio = on_asyncio.LOOP._replace(getaddrinfo=network.getaddrinfo)
    loops = [(on_trio.is_running, under_trio), (on_asyncio.is_running, under_asyncio)]
    state = random.getstate()
    with ExitStack() as stack:
        for owner, name, value in (
            (resolver.loops, "_loops", loops),
            (connecting, "connect_to", network.connect_to),
            (stream, "can_splice", lambda fd: False),
            (tls, "WrappedSocket", ClientTlsSocket),
            (datagrams, "_open_socket", network.datagrams.open),
            (datagrams, "secrets", network.datagrams),
            (book, "sqlite3", Sqlite(disk)),
            *_files(disk),
            (trio.to_thread, "run_sync", in_thread),
            (on_asyncio, "_begin", virtual_loop.begin),
            (trio_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True),
        ):
            stack.enter_context(mock.patch.object(owner, name, value, create=True))
        trio_run._r.seed(seed)
        random.seed(seed)
        stack.callback(random.setstate, state)
        yield


def _files(disk: Disk) -> Iterator[tuple[Any, str, object]]:
    for info in pkgutil.iter_modules(resolver.files.__path__):
        module = importlib.import_module(f"resolver.files.{info.name}")
        if hasattr(module, "os"):
            yield module, "os", disk
            yield module, "open", disk.open_file
    commit = importlib.import_module("resolver.files.commit")
    yield commit, "_sync_file_system", lambda: disk.syncfs
    yield commit, "_fallocate", lambda: None


class _InlineThreads:
    """Simulated worker threads: each function runs in the thread of the event loop instead.

    The reason is the virtual clock, which does not wait for threads. As with a worker thread, other tasks run
    before and after the function, and a cancellation waits until the function has returned.
    """

    def __init__(self, max_calls: dict[Callable[..., Any], int]) -> None:
        self._max_calls = max_calls
        self._running: Counter[Callable[..., Any]] = Counter()

    async def run(self, function: Callable[..., T], *args: object, **_: object) -> T:
        called = function.func if isinstance(function, partial) else function
        self._running[called] += 1
        self._max_calls[called] = max(self._max_calls.get(called, 0), self._running[called])
        try:
            with trio.CancelScope(shield=True):
                await trio.sleep(random.choice(THREAD_DELAYS))
                result = function(*args)
                await trio.sleep(random.choice(THREAD_DELAYS))
        finally:
            self._running[called] -= 1
        await trio.lowlevel.checkpoint_if_cancelled()
        return result
