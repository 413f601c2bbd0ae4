"""The contract for errors and cancellations: no resource stays open after an operation ends."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio

from protocols.errors import Declined, Refused
from resolver.network.events import Event
from resolver.policy.settings import Policy
from resolver.testing.contract.case import (
    FULL,
    WAYS,
    CaseSetting,
    ContractCheck,
    accept_any,
    check_no_leak,
    has_content,
    has_listing,
    wait_until_settled,
)
from resolver.transfer.session import Resolver

# Cancellation of an operation at its n-th checkpoint. A checkpoint is a point at which trio can cancel the
# operation.


class Canceller(trio.abc.Instrument):
    """A counter of the checkpoints of a task and its child tasks, which cancels the task at `limit`.

    Each step of a task ends at a checkpoint. If the checkpoint is shielded, the cancellation takes effect at
    the next checkpoint.
    """

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, limit: int | None) -> None:
        self._task = task
        self._scope = scope
        self._limit = limit
        self.count = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self._is_descendant(task):
            return
        self.count += 1
        if self.count == self._limit:
            self._scope.cancel()

    def _is_descendant(self, task: trio.lowlevel.Task | None) -> bool:
        while task is not None and task is not self._task:
            task = None if task.parent_nursery is None else task.parent_nursery.parent_task
        return task is not None


async def cancelled_at(
    limit: int | None, operation: Callable[[], Awaitable[object]]
) -> tuple[int, BaseException | None]:
    """Run an operation, and cancel it at checkpoint number `limit`.

    Without `limit`, the operation runs to its end. Call this function in a separate task, because it counts
    all checkpoints of the current task and its child tasks.

    Returns:
        The number of checkpoints, and the exception of the operation or None.
    """
    failure: BaseException | None = None
    with trio.CancelScope() as scope:
        canceller = Canceller(trio.lowlevel.current_task(), scope, limit)
        trio.lowlevel.add_instrument(canceller)
        try:
            await operation()
        except BaseException as error:
            failure = error
            raise
        finally:
            trio.lowlevel.remove_instrument(canceller)
    return canceller.count, failure


def spread(count: int, limit: int) -> Iterator[int]:
    """Yield at most `limit` numbers from 1 to `count`, including the first and the last number."""
    if count <= limit:
        yield from range(1, count + 1)
        return
    for index in range(limit):
        yield 1 + index * (count - 1) // (limit - 1)


async def stream_unread(session: Resolver, url: str, path: Path) -> None:
    async with session.stream(url):
        pass


async def stream_aborted(session: Resolver, url: str, path: Path) -> None:
    async with session.stream(url) as reply:
        async for _ in reply.body:
            break


class ListenerError(Exception):
    """An exception that a listener or another part of the calling program raises."""


async def stream_failed(session: Resolver, url: str, path: Path) -> None:
    with suppress(ListenerError):
        async with session.stream(url) as reply:
            await anext(reply.body, b"")
            raise ListenerError


async def entries_aborted(session: Resolver, url: str, path: Path) -> None:
    async with session.entries(url) as entries:
        async for _ in entries:
            break


async def info(session: Resolver, url: str, path: Path) -> None:
    await session.info(url)


OPERATIONS = {
    **WAYS,
    "info": info,
    "stream unread": stream_unread,
    "stream left": stream_aborted,
    "stream failed": stream_failed,
    "entries left": entries_aborted,
}


async def check_resources_are_closed(setting: CaseSetting, folder: Path) -> None:
    """Check that the operations on a document, a listing and a missing object leave no resource open."""
    case = setting.case
    for number, template in enumerate((case.document, case.listing, case.missing)):
        if template is not None:
            before = await wait_until_settled()
            async with setting.resolver() as session:
                for name, way in OPERATIONS.items():
                    with suppress(Declined, Refused):
                        await way(session, setting.url(template), folder / f"{name} of {number}")
            await check_no_leak(before)


#: Maximum number of checkpoints and events that are tested for each operation. With `RESOLVE_TESTS=full`, all
#: checkpoints and events are tested.
MAX_POINTS = 1_000_000 if FULL else 6

#: For each operation, the attribute of the case with the URL that the operation requests.
URL_FIELDS = {"fetch": "document", "save": "document", "entries": "listing"}


class FailingListener:
    """A listener that raises an exception at the event with the given number, counted from 1."""

    def __init__(self, number: int = 0) -> None:
        self._number = number
        self.events = 0

    def __call__(self, event: Event) -> None:
        self.events += 1
        if self.events == self._number:
            raise ListenerError


async def check_failing_listener(name: str, setting: CaseSetting, folder: Path) -> None:
    """Check that an exception of `on_event` propagates unchanged and all resources are closed.

    The exception may also be raised while a warning is reported.
    """
    url, policy = setting.url(getattr(setting.case, URL_FIELDS[name])), Policy(allow_password=True)
    listener = FailingListener()
    async with setting.resolver(policy=policy, on_event=listener) as session:
        await OPERATIONS[name](session, url, folder / "whole")
    before = await wait_until_settled()
    for number in spread(listener.events, MAX_POINTS):
        listener = FailingListener(number)
        begin = partial(setting.resolver, policy=policy, on_event=listener)
        path = folder / f"{number}"  # a new path, because a late thread may still write to the old path
        raised = await raises_error(begin, lambda session: OPERATIONS[name](session, url, path))  # noqa: B023
        assert raised or listener.events < number  # if two responses arrive together, fewer events occur
        await check_no_leak(before)


async def raises_error(
    begin: Callable[[], Resolver], operation: Callable[[Resolver], Awaitable[object]]
) -> bool:
    """Return whether the operation, or the end of its session, raises `ListenerError`."""
    try:
        async with begin() as session:
            await operation(session)
    except ListenerError:
        return True
    return False


async def check_cancellations(name: str, setting: CaseSetting, folder: Path) -> None:
    """Check an operation that is cancelled at each of its checkpoints.

    No exception other than the cancellation propagates, the session stays usable, and no resource stays open.
    """
    url = setting.url(getattr(setting.case, URL_FIELDS[name]))
    before = await wait_until_settled()
    async with setting.resolver() as session:
        count, _ = await cancelled_at(None, partial(OPERATIONS[name], session, url, folder / "whole"))
        for number in spread(count, MAX_POINTS):
            path = folder / f"{number}"
            operation = partial(OPERATIONS[name], session, url, path)
            _, failure = await cancelled_at(number, operation)
            assert failure is None or type(failure) is trio.Cancelled
            if name != "save" or not is_complete(path, setting.case.content):
                await operation()
            assert name != "save" or is_complete(path, setting.case.content)
    await check_no_leak(before)
    assert [name for name in os.listdir(folder) if ".part" in name] == []


def is_complete(path: Path, content: bytes) -> bool:
    """Return whether the file exists; if it exists with other content, fail the test."""
    if not path.exists():
        return False
    assert path.read_bytes() == content
    return True


#: For each operation, the function that selects its cases.
_FOR = {"fetch": accept_any, "save": has_content, "entries": has_listing}

CHECKS: tuple[ContractCheck, ...] = (
    ContractCheck("opened resources are closed", check_resources_are_closed, accept_any),
    *(
        ContractCheck(f"a failing listener, {name}", partial(check_failing_listener, name), is_for)
        for name, is_for in _FOR.items()
    ),
    *(
        ContractCheck(
            f"a cancellation at every checkpoint, {name}",
            partial(check_cancellations, name),
            is_for,
            cancels=True,
        )
        for name, is_for in _FOR.items()
    ),
)
