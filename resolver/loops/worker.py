"""The call of a function in a worker thread, for the event loops that have no worker threads of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

from resolver.loops.loop import raise_without_thread

T = TypeVar("T")

#: A function that receives the result of a call, or its exception.
Delivery: TypeAlias = Callable[[T | None, BaseException | None], None]


def call_and_deliver(function: Callable[[], T], deliver: Delivery[T]) -> None:
    """Call `function`, and pass its result or its exception to `deliver`."""
    value, problem = None, None
    try:
        value = function()
    except BaseException as error:  # noqa: BLE001 - raised in the task that waits for the thread
        problem = error
    deliver(value, problem)


def start_call(function: Callable[[], T], deliver: Delivery[T], *, daemon: bool) -> None:
    """Call `function` in a new thread; at exit, the process does not wait for a `daemon` thread.

    Raises:
        OSError: The thread cannot be started (EAGAIN).
    """
    work = partial(call_and_deliver, function, deliver)
    try:
        threading.Thread(target=work, name="url-resolver", daemon=daemon).start()
    except RuntimeError as error:
        raise_without_thread(error)
        raise
