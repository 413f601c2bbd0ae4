"""What an async iterator gives, for a thread that waits: the next value is asked for when the thread does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import trio

from resolver.portal.thread import Portal, PortalCall, ThreadLost

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ClosableIterator(Protocol[T_co]):
    """An async iterator that can be closed."""

    async def __anext__(self) -> T_co: ...

    async def aclose(self) -> None: ...


class PortalIterator(Generic[T]):
    """An iterator. `make` makes the other one, in trio's thread, with the first value that is asked for. What
    it has to tell meanwhile, the thread that waits is told."""

    def __init__(
        self,
        home: Callable[[], Portal],
        make: Callable[[], Awaitable[ClosableIterator[T]]],
    ) -> None:
        self._home = home
        self._make = make
        self._portal: Portal | None = None
        self._reader: PortalCall[None] | None = None
        self._given: ClosableIterator[T] | None = None
        self._values: list[T] = []
        self._error: BaseException | None = None

    def __iter__(self) -> PortalIterator[T]:
        return self

    def __next__(self) -> T:
        self._portal = self._portal or self._home()
        for value in self._portal.run(self._next):
            return value
        raise StopIteration

    def close(self) -> None:
        """Cancel what is under way, and wait until it has ended."""
        if self._portal is not None and self._portal.usable:
            with suppress(ThreadLost):
                self._portal.run(self._end)

    async def _next(self) -> list[T]:
        """One, or none at the end. It is kept where the thread does not wait for it any more."""
        if self._reader is None:
            assert self._portal is not None
            self._changed, self._wanted = trio.Event(), trio.Event()
            self._reader = self._portal.cast(self._read)
        self._wanted.set()
        with self._reader.attended():
            while not self._values:
                if isinstance(self._error, StopAsyncIteration):
                    return []
                if self._error is not None:
                    raise self._error
                self._changed = trio.Event()
                await self._changed.wait()
        return [self._values.pop()]

    async def _read(self) -> None:
        try:
            self._given = await self._make()
            while True:
                await self._wanted.wait()
                self._values.append(await self._given.__anext__())
                self._wanted = trio.Event()
                self._changed.set()
        except BaseException as error:
            self._error = ThreadLost() if isinstance(error, trio.Cancelled) else error
            raise
        finally:
            self._changed.set()

    async def _end(self) -> None:
        if self._given is not None:
            await self._given.aclose()
        if self._reader is not None:
            self._reader.cancel()
