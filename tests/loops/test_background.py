"""What goes on by itself, and who waits for it, under each loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from resolver.loops import running
from tests.loops.test_waits import OVER, RUNS

#: Turns of a loop in which whoever hears of a cancel has gone on.
_TURNS = 10


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_whoever_is_cancelled_waits_to_the_end_all_the_same(run: Callable[..., Any]) -> None:
    ended: list[str] = []

    async def main() -> None:
        loop = running()
        go = loop.event()

        async def work() -> None:
            await go.wait()
            ended.append("work")

        async def wait(name: str) -> None:
            with loop.move_on_at(OVER):
                await background.wait()
            ended.append(name)

        background = loop.in_background(work)
        async with loop.open_nursery() as nursery:
            for name in ("one", "two"):
                nursery.start_soon(wait, name)
            for _ in range(_TURNS):
                await loop.checkpoint()
            go.set()
        await background.wait()  # which is over

    run(main)
    assert ended[0] == "work"
    assert sorted(ended[1:]) == ["one", "two"]
