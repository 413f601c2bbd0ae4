"""Small servers that the web UI's server connects to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar

import trio

from fixtures.ports import serve_connections
from tests.hang import HANG


class Peer(Protocol):
    """A handler of connections; `serving` sets `port` once it listens."""

    port: int

    async def answer(self, stream: trio.SocketStream, /) -> None: ...


P = TypeVar("P", bound=Peer)


@asynccontextmanager
async def serving(peer: P) -> AsyncIterator[P]:
    """Run a server on a free port while the context is open."""
    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            peer.port = await serve_connections(nursery, peer.answer)
            yield peer
            nursery.cancel_scope.cancel()
