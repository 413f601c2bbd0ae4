"""Native cancellation at every step, in every scheme.

No other exception leaves the operation, the session stays usable, and no descriptor stays open.
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path

import pytest

from resolver import Kind
from resolver.testing.contract import CaseSetting
from resolver.testing.contract.case import check_no_leak, wait_until_settled
from resolver.testing.contract.endings import MAX_POINTS, OPERATIONS, URL_FIELDS, is_complete, spread
from tests.loops.cancels import ARRIVALS, Arrival, cancel_at, ended_by
from tests.loops.conftest import Run


@pytest.mark.parametrize("arrival", ARRIVALS)
@pytest.mark.parametrize("name", URL_FIELDS)
def test_cancel_at_every_step_keeps_session_usable(
    setting: CaseSetting, name: str, arrival: Arrival, either: Run, tmp_path: Path
) -> None:
    template = getattr(setting.case, URL_FIELDS[name])
    if template is None or (name == "save" and setting.case.kind is Kind.SERVICE):
        return
    either(_cancel(setting, setting.url(template), name, arrival, tmp_path))
    assert [name for name in os.listdir(tmp_path) if ".part" in name] == []


async def _cancel(setting: CaseSetting, url: str, name: str, arrival: Arrival, folder: Path) -> None:
    before = await wait_until_settled()
    async with setting.resolver() as session:
        whole = partial(OPERATIONS[name], session, url, folder / "whole")
        count, _ = await cancel_at(None, arrival, whole)
        for number in spread(count, MAX_POINTS):
            path = folder / f"{number}"
            operation = partial(OPERATIONS[name], session, url, path)
            _, left = await cancel_at(number, arrival, operation)
            assert left is None or type(left) is ended_by(arrival)
            if name != "save" or not is_complete(path, setting.case.content):
                await operation()
            assert name != "save" or is_complete(path, setting.case.content)
    await check_no_leak(before)


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_cancel_at_every_step_of_session_closes_connections(
    setting: CaseSetting, arrival: Arrival, either: Run
) -> None:
    """Also during the exit of the session; all pooled connections are closed."""

    async def whole() -> None:
        async with setting.resolver() as session:
            for _ in range(2):
                await session.fetch(setting.url(setting.case.document))

    async def main() -> None:
        before = await wait_until_settled()
        count, _ = await cancel_at(None, arrival, whole)
        for number in spread(count, MAX_POINTS):
            await cancel_at(number, arrival, whole)
        await check_no_leak(before)

    either(main())


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_loop_is_idle_after_cancel(setting: CaseSetting, arrival: Arrival) -> None:
    """No code repeats the cancellation of an ended task, turn after turn."""

    class Counting(asyncio.SelectorEventLoop):
        turns = 0

        def _run_once(self) -> None:
            Counting.turns += 1
            super()._run_once()  # type: ignore[misc]

    async def main() -> int:
        async with setting.resolver() as session:
            fetch = partial(session.fetch, setting.url(setting.case.document))
            count, _ = await cancel_at(None, arrival, fetch)
            for number in spread(count, MAX_POINTS):
                await cancel_at(number, arrival, fetch)
            await wait_until_settled()
            before = Counting.turns
            await asyncio.sleep(0.01)
            return Counting.turns - before

    with asyncio.Runner(loop_factory=Counting) as runner:
        assert runner.run(main()) < 10
