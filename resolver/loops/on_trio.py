"""trio: its own functions, with little in between."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import cast

import trio

from resolver.loops.loop import GetAddrInfo, InThread, Loop


class InBackground:
    """See `Background`."""

    def __init__(self, function: Callable[[], Coroutine[object, object, None]]) -> None:
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        trio.lowlevel.spawn_system_task(self._work, function, context=copy_context())

    async def _work(self, function: Callable[[], Coroutine[object, object, None]]) -> None:
        try:
            with self._scope:
                await function()
        finally:
            self._ended.set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def wait(self) -> None:
        with trio.CancelScope(shield=True):
            await self._ended.wait()


LOOP = Loop(
    run=trio.lowlevel.current_trio_token,
    current_time=trio.current_time,
    move_on_at=trio.move_on_at,
    move_on_after=trio.move_on_after,
    event=trio.Event,
    lock=trio.Lock,
    open_nursery=trio.open_nursery,
    checkpoint=trio.lowlevel.checkpoint,
    checkpoint_if_cancelled=trio.lowlevel.checkpoint_if_cancelled,
    sleep=trio.sleep,
    sleep_forever=trio.sleep_forever,
    wait_readable=trio.lowlevel.wait_readable,
    wait_writable=trio.lowlevel.wait_writable,
    notify_closing=trio.lowlevel.notify_closing,
    in_background=InBackground,
    in_thread=cast(InThread, trio.to_thread.run_sync),
    getaddrinfo=cast(GetAddrInfo, trio.socket.getaddrinfo),
    cancelled=trio.Cancelled,
    closed=trio.ClosedResourceError,
)

is_running = trio.lowlevel.in_trio_task
