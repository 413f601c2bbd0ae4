"""The contract for `resolver.blocking`: checks of `resolver.testing`, fault matrix, Ctrl-C at every step.

By default a few cases of each test; all with `RESOLVE_TESTS=full`.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path

import pytest

from fixtures.faulty import serve
from resolver import Event, Kind, Policy, ResolveError, blocking
from resolver.blocking.portal import portal
from resolver.loops.calls import ThreadTask
from resolver.loops.on_thread import checkpoint
from resolver.testing.contract import Case, CaseSetting, ContractCheck
from resolver.testing.contract.endings import is_complete, spread
from tests.elsewhere import Elsewhere
from tests.faults.cell import CONTENT, NAME, Came, Result, came_of, limits_of, patience_for
from tests.faults.rows import ROWS, SECURED, Row, is_raced
from tests.faults.test_matrix import check
from tests.loops.test_contract import rows
from tests.loops.waited import BlockingSetting
from tests.resolver.blocking.test_session import tasks
from tests.sampled import FULL, sampled


def kind_of(row: tuple[Case, ContractCheck]) -> Hashable:
    return str(row[1])


def fault_of(row: Row) -> Hashable:
    return row.manner if row.manner.fault is None else row.manner.fault.kind


TESTS = sampled(rows(), kind_of, 3)
CELLS = sampled([row for row in ROWS if not is_raced(row)], fault_of, 2)


@pytest.mark.parametrize(("setting", "check"), TESTS, indirect=["setting"], ids=str)
def test_blocking_session_keeps_contract(setting: CaseSetting, check: ContractCheck, tmp_path: Path) -> None:
    portal().run(checkpoint)  # The first call of a thread opens a pipe, which later calls of the thread use.
    asyncio.run(check.function(BlockingSetting.of(setting), tmp_path))


def interrupt() -> None:
    raise KeyboardInterrupt


def interrupted(number: int, operation: Callable[[], object]) -> int:
    """Run the operation, interrupted at that step (0: never); return the number of steps."""
    count, step = 0, ThreadTask.step

    def count_step(task: ThreadTask) -> None:
        nonlocal count
        step(task)
        count += 1
        if count == number:
            task.call.call_soon(interrupt)

    with pytest.MonkeyPatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(ThreadTask, "step", count_step)
        operation()
    return count


def operations(session: blocking.Resolver, setting: CaseSetting) -> dict[str, Callable[[Path], object]]:
    document, listing = setting.url(setting.case.document), setting.case.listing

    def entries(path: Path) -> None:
        assert listing is not None
        with session.entries(setting.url(listing)) as found:
            list(found)

    def stream(path: Path) -> None:
        with session.stream(document) as reply:
            list(reply.body)

    offered: dict[str, Callable[[Path], object]] = {"stream": stream}
    if setting.case.kind is not Kind.SERVICE:
        offered["save"] = lambda path: session.save(document, path)
    return offered if listing is None else {**offered, "entries": entries}


def test_interrupt_at_every_step_keeps_session_usable(setting: CaseSetting, tmp_path: Path) -> None:
    """The session stays usable; a file is complete or absent, and no task is left."""
    before = portal().run(tasks)
    with BlockingSetting.of(setting).waiting() as session:
        for name, operation in operations(session, setting).items():
            steps = interrupted(0, lambda: operation(tmp_path / f"whole {name}"))  # noqa: B023
            for number in spread(steps, 1_000_000 if FULL else 4):
                path = tmp_path / f"{name} {number}"
                interrupted(number, lambda: operation(path))  # noqa: B023
                if name != "save" or not is_complete(path, setting.case.content):
                    operation(path)
                assert name != "save" or is_complete(path, setting.case.content)
                assert portal().run(tasks) == before
    assert [name for name in os.listdir(tmp_path) if ".part" in name] == []


def save(row: Row, url: str, folder: Path, port: int) -> Came:
    events: list[Event] = []
    saved, error = None, None
    with blocking.Resolver(
        policy=Policy(allow_port=frozenset({port}), allow_password=True),
        limits=limits_of(row.manner),
        patience=patience_for(row.manner),
        on_event=events.append,
    ) as session:
        try:
            saved = session.save(url, folder / NAME)
        except ResolveError as raised:
            error = raised
    return came_of(saved, error, events, folder)


@pytest.mark.parametrize("row", CELLS, ids=lambda row: row.name)
def test_cell(row: Row, elsewhere: Elsewhere, tls: ssl.SSLContext, tmp_path: Path) -> None:
    secured = tls if row.scheme in SECURED else None
    server = elsewhere.run(serve, elsewhere.nursery, row.scheme, CONTENT, row.manner, secured)
    url = server.url("user:word@" if row.manner.login else "")

    def once() -> Came:
        before = server.sent
        came = save(row, url, tmp_path, server.port)
        came.sent = server.sent - before
        return came

    first = once()
    if first.error is None:
        check(row, Result(first, None))
        return
    elsewhere.call(server.remove_faults)
    check(row, Result(first, once()))
