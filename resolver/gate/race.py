"""Two things at once, in one call: the nursery is opened and closed inside it.

What leaves a nursery is wrapped in an ExceptionGroup; nobody above the gate ever sees one. `bare`
takes the one error out that tells what happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from protocols.contract import FirstResult
from protocols.errors import ResolveError
from resolver.loops import CancelScope, is_cancel, running

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


def bare(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception of a group that tells most: an interrupt, then an error, then a cancellation."""
    leaves = list(_leaves(group))
    cancelled = [leaf for leaf in leaves if is_cancel(type(leaf))]
    errors = [leaf for leaf in leaves if isinstance(leaf, Exception)]
    interrupts = [leaf for leaf in leaves if leaf not in errors and leaf not in cancelled]
    return (interrupts + errors + cancelled)[0]


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def first_of(
    first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
    """Await both; as soon as one is done, cancel the other. See `Gate.first_of`. The first is awaited by
    this task itself: one task less to start and to wait for, which a small transfer notices.
    What the peer did wrong shows again with the next read; what a listener raised does not, so it passes."""
    left: list[FirstResult[A]] = []
    right: list[FirstResult[B]] = []
    problem: BaseException | None = None
    try:
        async with running().open_nursery() as nursery:
            nursery.start_soon(_run, second, right, nursery.cancel_scope)
            await _run(first, left, nursery.cancel_scope)
    except BaseExceptionGroup as group:
        problem = bare(group)
    if problem is not None and not (isinstance(problem, ResolveError) and (left or right)):
        raise problem  # outside the except block: the group is no part of its story
    return (left[0] if left else None, right[0] if right else None)


async def _run(call: Callable[[], Awaitable[T]], came: list[FirstResult[T]], scope: CancelScope) -> None:
    came.append(FirstResult(await call()))
    scope.cancel()
