"""What is entered and left: a context manager for threads that wait, made of one that is awaited.

Nothing is open across the two but what it opened: entering, each use and leaving are calls of their own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from resolver.portal.thread import Portal, ThreadLost

S = TypeVar("S")
T = TypeVar("T")
Trace = TracebackType | None


class OpenResource(Protocol):
    """What is open as long as it is used."""

    @property
    def portal(self) -> Portal: ...

    def before_leaving(self, close: Callable[[], Awaitable[None]]) -> None:
        """What is to be closed first."""

    def check_open(self) -> None:
        """Raises `ValueError`, as a file does that is closed."""

    def leave(self) -> None:
        """Close it, as the end of a `with` does; once."""


class PortalContext(Generic[S, T]):
    """`make` makes what is entered, in the thread of the portal; `dress` makes of what it gives, and of this,
    what the caller gets."""

    def __init__(
        self,
        home: Callable[[], Portal],
        make: Callable[[], Awaitable[AbstractAsyncContextManager[S]]],
        dress: Callable[[S, OpenResource], T],
    ) -> None:
        self._home = home
        self._make = make
        self._dress = dress
        self._portal: Portal | None = None
        self._opened: AbstractAsyncContextManager[S] | None = None
        self._closers: list[Callable[[], Awaitable[None]]] = []

    @property
    def portal(self) -> Portal:
        assert self._portal is not None, "it was entered"
        return self._portal

    def check_open(self) -> None:
        if self._opened is None:
            raise ValueError("the body of a reply is read before the reply is left")

    def before_leaving(self, close: Callable[[], Awaitable[None]]) -> None:
        self._closers.append(close)

    def __enter__(self) -> T:
        self._portal = self._home()
        try:
            return self._dress(self._portal.run(self._enter), self)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise

    async def _enter(self) -> S:
        opened = await self._make()
        entered = await opened.__aenter__()
        self._opened = opened
        self.portal.opened.add(self)
        return entered

    async def leave_at_end(self) -> None:
        await self._leave(None, None, None)

    def leave(self) -> None:
        self.__exit__(None, None, None)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace) -> None:
        if self._opened is None or not self.portal.usable:
            return
        leave = partial(self._leave, kind, error, trace)
        if self.portal.is_here:  # where what nobody holds any more happened to be found
            self.portal.cast(leave)
            return
        with suppress(ThreadLost):
            self.portal.run(leave)

    async def _leave(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Trace
    ) -> None:
        opened, self._opened = self._opened, None
        try:
            while self._closers:
                await self._closers.pop()()
        finally:
            if opened is not None:
                await opened.__aexit__(kind, error, trace)

    def __del__(self) -> None:
        if self._opened is not None:
            self.portal.cast(partial(self._leave, None, None, None))
