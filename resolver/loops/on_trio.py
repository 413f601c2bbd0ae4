"""trio: its own functions, with nothing in between."""

from __future__ import annotations

from typing import cast

import trio

from resolver.loops.loop import GetAddrInfo, InThread, Loop

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
    in_thread=cast(InThread, trio.to_thread.run_sync),
    getaddrinfo=cast(GetAddrInfo, trio.socket.getaddrinfo),
    cancelled=trio.Cancelled,
    closed=trio.ClosedResourceError,
)

is_running = trio.lowlevel.in_trio_task
