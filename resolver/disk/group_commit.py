"""When files get to the disk: those that end together are brought there together, before any of them gets its
name.

While one group is on its way, the next one gathers: nobody waits for company, and who is alone is a group of
one. A group takes one hop to a thread, however many it is. What may be said once a file has its name:

- `always`: its octets and its name are on the disk, before anybody hears that it is saved;
- `group`: its octets are on the disk; its name follows when the system writes it, and never without them;
- `never`: nothing: a loss of power may leave an empty file, or one that is cut, under its name. The end of
  the process cannot, whatever ends it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, NoReturn, TypeAlias, get_args

from protocols.errors import LocalError
from resolver.disk.durable import bring
from resolver.disk.landing import PendingFile
from resolver.loops import Background, Loop, running

Sync: TypeAlias = Literal["always", "group", "never"]

#: Is told the inode of a file that is on the disk, before it gets its name.
Ready: TypeAlias = Callable[[int], Awaitable[None]]


class GroupCommit:
    """Of one `Resolver`. To be used in one run of a loop at a time. Raises `ValueError` for another word."""

    def __init__(self, sync: Sync = "group") -> None:
        if sync not in get_args(Sync):
            raise ValueError(f"sync is {', '.join(get_args(Sync))}, not {sync!r}")
        self._sync: Sync = sync
        self._run: object = None
        self._gathering: _CommitGroup | None = None

    async def finish(self, landing: PendingFile, ready: Ready | None = None) -> None:
        """Complete the file, bring it to the disk, wait for `ready`, give it its name. Not to be cancelled
        half way: a cancel is heard of behind that, under trio where the caller waits next, so that it still
        learns that the file has its name. Raises what the landing raises, and `ready`."""
        try:
            if ready is None:
                await self._take(_CommitStep(landing, completes=True, settles=True))
            else:
                await self._take_twice(landing, ready)
        finally:
            landing.close()

    async def _take_twice(self, landing: PendingFile, ready: Ready) -> None:
        """In the background, where no cancel of the caller is heard between the steps."""
        ended: list[Exception | None] = []

        async def take() -> None:
            try:
                step = _CommitStep(landing, completes=True, settles=False)
                await self._take(step)
                await ready(step.inode)
                await self._take(_CommitStep(landing, completes=False, settles=True))
            except Exception as error:  # noqa: BLE001 - raised where the file is waited for
                ended.append(error)
            else:
                ended.append(None)

        loop = running()
        await loop.in_background(take).wait()
        if not ended:
            await _left(loop)
        for error in filter(None, ended):
            raise error

    async def _take(self, step: _CommitStep) -> None:
        loop = running()
        if self._sync == "always":
            await loop.in_thread(_perform, [step], "always")
        else:
            if self._run is not (run := loop.run()):
                self._run, self._turn, self._gathering = run, loop.lock(), None
            group = self._gathering
            if group is None:
                group = self._gathering = _CommitGroup()
                group.work = loop.in_background(partial(self._work, group))
            group.steps.append(step)
            await group.work.wait()
            if not group.is_over:
                await _left(loop)
        if step.error is not None:
            raise step.error

    async def _work(self, group: _CommitGroup) -> None:
        async with self._turn:
            self._gathering = None
            await running().in_thread(_perform, group.steps, self._sync)
            group.is_over = True


async def _left(loop: Loop) -> NoReturn:
    """What was begun in the background is over, and not done."""
    await loop.checkpoint_if_cancelled()
    raise LocalError("the loop has ended before the file was on the disk")


class _CommitGroup:
    """Steps that are done together."""

    work: Background

    def __init__(self) -> None:
        self.steps: list[_CommitStep] = []
        self.is_over = False


class _CommitStep:
    """Of one file. `error` is what went wrong."""

    __slots__ = ("_landing", "completes", "error", "fd", "inode", "settles")

    def __init__(self, landing: PendingFile, *, completes: bool, settles: bool) -> None:
        self._landing = landing
        self.completes = completes
        self.settles = settles
        self.error: BaseException | None = None
        self.fd = -1
        self.inode = 0

    def complete(self) -> None:
        try:
            self.fd = self._landing.complete()
            if not self.settles:
                self.inode = os.fstat(self.fd).st_ino
        except BaseException as error:  # noqa: BLE001 - raised where the file is waited for
            self.error = error

    def settle(self, *, durable: bool) -> None:
        try:
            self._landing.settle(durable=durable)
        except BaseException as error:  # noqa: BLE001 - raised where the file is waited for
            self.error = error


def _perform(steps: Sequence[_CommitStep], sync: Sync) -> None:
    """In a worker thread: a disk may take seconds."""
    completed = []
    for step in steps:
        if step.completes:
            step.complete()
            if step.error is None:
                completed.append(step)
    if completed and sync != "never":
        failed = bring([step.fd for step in completed])
        for step in completed:
            step.error = failed.get(step.fd)
    for step in steps:
        if step.settles and step.error is None:
            step.settle(durable=sync == "always")
