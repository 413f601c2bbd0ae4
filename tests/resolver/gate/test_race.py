"""Two things at once: what was heard is never lost, and errors come bare."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from protocols.contract import FirstResult
from resolver import Disconnected, NotFound
from resolver.network.connecting import bare, first_of


async def soon() -> str:
    await trio.lowlevel.checkpoint()
    return "soon"


async def at_once() -> int:
    return 7


async def fail() -> str:
    raise Disconnected("gone")


async def test_the_first_result_wins_and_the_other_is_cancelled() -> None:
    cancelled = False

    async def never() -> None:
        nonlocal cancelled
        try:
            await trio.sleep_forever()
        finally:
            cancelled = True

    assert await first_of(soon, never) == (FirstResult("soon"), None)
    assert cancelled
    assert await first_of(never, soon) == (None, FirstResult("soon"))


async def test_both_are_given_when_both_came_in_the_same_turn(nursery: trio.Nursery) -> None:
    event = trio.Event()

    async def heard() -> str:
        await event.wait()
        return "heard"

    async def ring() -> None:
        await trio.testing.wait_all_tasks_blocked()
        event.set()

    nursery.start_soon(ring)
    assert await first_of(heard, heard) == (FirstResult("heard"), FirstResult("heard"))


async def test_none_is_a_value_too() -> None:
    async def nothing() -> None:
        await trio.lowlevel.checkpoint()

    assert await first_of(nothing, trio.sleep_forever) == (FirstResult(None), None)


async def test_an_error_is_raised_bare_and_keeps_its_cause() -> None:
    cause = OSError("reset")

    async def caused() -> None:
        raise Disconnected("gone") from cause

    for calls in ((caused, trio.sleep_forever), (trio.sleep_forever, caused), (caused, caused)):
        with pytest.raises(Disconnected) as raised:
            await first_of(*calls)
        assert raised.value.__cause__ is cause
        assert not isinstance(raised.value.__context__, BaseExceptionGroup)


async def test_a_value_beside_an_error_is_kept() -> None:
    assert await first_of(fail, at_once) == (None, FirstResult(7))


async def test_a_cancel_from_outside_cancels_both_and_stays_a_cancel() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await first_of(trio.sleep_forever, trio.sleep_forever)
    assert scope.cancelled_caught


async def test_an_interrupt_comes_bare_even_beside_a_value() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await first_of(interrupted, at_once)


async def test_what_a_listener_raises_comes_bare_even_beside_a_value() -> None:
    async def mistaken() -> None:
        raise LookupError("of the listener")

    for calls in ((mistaken, at_once), (at_once, mistaken)):
        with pytest.raises(LookupError):
            await first_of(*calls)


def test_of_a_group_the_exception_that_tells_most_is_taken() -> None:
    gone, missing, interrupt = Disconnected("gone"), NotFound("missing"), KeyboardInterrupt()
    assert bare(BaseExceptionGroup("", [gone, missing])) is gone
    assert bare(BaseExceptionGroup("", [BaseExceptionGroup("", [missing, interrupt]), gone])) is interrupt
