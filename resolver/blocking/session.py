"""A `Resolver` for threads that wait. It may serve all of them at once."""

from __future__ import annotations

import io
import weakref
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from protocols.contract import Entry, Origin
from resolver.batch.running import RunningBatch
from resolver.blocking.file import opened
from resolver.blocking.likeness import like, made_of
from resolver.blocking.reply import BlockingIterator, LiveReply
from resolver.portal import Portal, PortalIterator, ThreadLost, portal
from resolver.portal.opened import OpenResource, PortalContext
from resolver.retrieval import session
from resolver.url import UrlLike

if TYPE_CHECKING:
    from resolver.blocking.terminal import TerminalSession
    from resolver.retrieval import terminal_session

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def _method(
    method: Callable[Concatenate[session.Resolver, P], Awaitable[T]],
) -> Callable[Concatenate[Resolver, P], T]:
    """The method, for a thread that waits."""

    def call(self: Resolver, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(lambda resolver: method(resolver, *args, **kwargs))

    return like(call, method)


def _opening(
    method: Callable[Concatenate[session.Resolver, P], AbstractAsyncContextManager[S]],
    dress: Callable[[S, OpenResource], T],
) -> Callable[Concatenate[Resolver, P], AbstractContextManager[T]]:
    """The same for what is entered."""

    def call(self: Resolver, /, *args: P.args, **kwargs: P.kwargs) -> AbstractContextManager[T]:
        async def make(resolver: session.Resolver) -> AbstractAsyncContextManager[S]:
            return method(resolver, *args, **kwargs)

        return PortalContext(self._home, partial(self._awaited, make), dress)

    return like(call, method)


def _iterating(
    method: Callable[Concatenate[session.Resolver, P], RunningBatch[T]],
) -> Callable[Concatenate[Resolver, P], PortalIterator[T]]:
    """The same for what is iterated over."""

    def call(self: Resolver, /, *args: P.args, **kwargs: P.kwargs) -> PortalIterator[T]:
        async def make(resolver: session.Resolver) -> RunningBatch[T]:
            return method(resolver, *args, **kwargs)

        return PortalIterator(self._home, partial(self._awaited, make))

    return like(call, method)


def _terminal(opened: terminal_session.TerminalSession, held: OpenResource) -> TerminalSession:
    from resolver.blocking.terminal import TerminalSession  # few programs hold one

    return TerminalSession(opened, held)


class Resolver:
    """Retrievals that share a policy, limits and what was learnt about hosts, for threads that wait.

    Made as the package's `Resolver` is, also before there is any thread. Connections are kept from its first
    use on, until `close`, which leaving `with` does: after that it cannot be used. What a process used cannot
    be used in its forks.
    """

    _portal: Portal | None = None  # also where it could not be made
    _closed = False

    @made_of(session.Resolver)
    def __init__(self, resolver: session.Resolver) -> None:
        self._resolver = resolver
        self.policy = resolver.policy
        self.limits = resolver.limits

    fetch = _method(session.Resolver.fetch)
    info = _method(session.Resolver.info)
    save = _method(session.Resolver.save)
    save_all = _iterating(session.Resolver.save_all)
    save_tree = _iterating(session.Resolver.save_tree)
    stream = _opening(session.Resolver.stream, LiveReply.of)
    listing = _opening(session.Resolver.listing, LiveReply.of)
    resume = _opening(session.Resolver.resume, LiveReply.of)
    entries = _opening(session.Resolver.entries, BlockingIterator[Entry])
    open_terminal = _opening(session.Resolver.open_terminal, _terminal)

    def open(
        self, url: UrlLike, *, origin: Origin = "user", referrer: tuple[str, str | None] | None = None
    ) -> io.BufferedReader:
        """What the URL names as a file to read: for `pandas`, `tarfile`, `zipfile`. It can be sought in where
        the scheme can begin in the middle, and the size is known. Reading raises `ResolveError` where what
        came is not whole."""
        return opened(partial(self.resume, url, origin=origin, referrer=referrer), lambda: None)

    def run(self, operation: Callable[[session.Resolver], Awaitable[T]]) -> T:
        """What an operation of one's own gives. It is done under trio, with the `Resolver` to await."""
        return self._home().run(partial(self._awaited, operation))

    async def _awaited(self, operation: Callable[[session.Resolver], Awaitable[T]]) -> T:
        if self._closed:
            raise RuntimeError(_CLOSED)
        return await operation(await self._resolver.__aenter__())

    def _home(self) -> Portal:
        """Where the connections are that it keeps."""
        if self._closed:
            raise RuntimeError(_CLOSED)
        if self._portal is None:
            self._portal = portal()
            self._portal.close_at_end(self._resolver)
            # It holds on to the connections, which are not garbage together with this in a circle.
            self._forgotten = weakref.finalize(self, _abandon, self._portal, self._resolver)
            self._forgotten.atexit = False
        return self._portal

    def close(self) -> None:
        """Close what is kept. What is under way in other threads goes on."""
        closed, self._closed = self._closed, True
        if closed or self._portal is None or not self._portal.usable:
            return
        self._forgotten.detach()
        if self._portal.is_here:  # as in `PortalContext`
            self._portal.cast(self._close)
            return
        with suppress(ThreadLost):  # and with it what was kept
            self._portal.run(self._close)

    async def _close(self) -> None:
        await self._resolver.__aexit__(None, None, None)

    def __enter__(self) -> Resolver:
        self._home()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _abandon(portal: Portal, resolver: session.Resolver) -> None:
    """Close what nobody will."""
    portal.cast(partial(resolver.__aexit__, None, None, None))


_CLOSED = "this Resolver is closed: make a new one"
