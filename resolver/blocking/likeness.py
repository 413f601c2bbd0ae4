"""A function that waits made of one that is awaited: its parameters, its result, its text.

So nothing is said twice: a parameter that the one gets, the other has.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import partial, update_wrapper
from typing import Concatenate, ParamSpec, TypeVar

from resolver.blocking.callbacks import crossing
from resolver.portal import portal
from resolver.portal.opened import OpenResource, PortalContext

#: What examples have that await, and what they name that waits here.
_AWAITING = re.compile(r"\b(?:await|async) ")
_OURS = re.compile(r"\bresolver\.(?=(?:Resolver|entries|fetch|info|save|stream)\()")

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


def like(made: Callable[P, T], model: Callable[..., object]) -> Callable[P, T]:
    """What was made has the name, text and signature of the model; it is found, and pickled, as ours."""
    update_wrapper(made, model)
    made.__doc__ = _OURS.sub("resolver.blocking.", _AWAITING.sub("", model.__doc__ or ""))
    made.__module__ = "resolver.blocking"
    return made


def waiting(function: Callable[P, Awaitable[T]]) -> Callable[P, T]:
    """The function, for a thread that waits."""

    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        crossing(kwargs)
        return portal().run(partial(function, *args, **kwargs))

    return like(call, function)


def opening(
    function: Callable[P, AbstractAsyncContextManager[S]], dress: Callable[[S, OpenResource], T]
) -> Callable[P, AbstractContextManager[T]]:
    """The same for what is entered; `dress` makes what a thread gets to hold."""

    def call(*args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        crossing(kwargs)

        async def make() -> AbstractAsyncContextManager[S]:
            return function(*args, **kwargs)

        return PortalContext(portal, make, dress)

    return like(call, function)


def made_of(model: Callable[P, T]) -> Callable[[Callable[[S, T], None]], Callable[Concatenate[S, P], None]]:
    """An `__init__` with the parameters of the model; it gets what the model makes of them."""

    def decorate(initialize: Callable[[S, T], None]) -> Callable[Concatenate[S, P], None]:
        def __init__(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
            crossing(kwargs)
            initialize(self, model(*args, **kwargs))

        return like(__init__, model.__init__)

    return decorate
