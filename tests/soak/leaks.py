"""Defects that are planted in the client, to show that the soak finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest import mock

from resolver.network.pool import ConnectionPool, ReusableConnection
from resolver.network.stream import SocketStream
from resolver.transfer.retrieval import Retrieval

#: The objects that the defects keep.
_held: list[object] = []


@contextmanager
def _forget_to_close() -> Iterator[None]:
    """Leave every 50th connection open that should be closed, until the end of the block."""
    close, left, count = SocketStream.aclose, list[SocketStream](), 0

    async def aclose(self: SocketStream) -> None:
        nonlocal count
        count += 1
        if count % 50 == 0:
            left.append(self)
        else:
            await close(self)

    with mock.patch.object(SocketStream, "aclose", aclose):
        yield
    for stream in left:
        stream._sock.close()


def _grow_dict() -> AbstractContextManager[object]:
    """Keep the URL of each retrieval in a dictionary."""
    begin, seen = Retrieval.__init__, dict[str, int]()

    def init(self: Retrieval, network: Any, request: Any, *more: Any, **settings: Any) -> None:
        seen[f"{request.url.shown} {len(seen)}"] = len(seen)
        begin(self, network, request, *more, **settings)

    return mock.patch.object(Retrieval, "__init__", init)


def _keep_pooled() -> AbstractContextManager[object]:
    """Keep the state of each connection that the pool stores."""
    store = ConnectionPool.store

    async def keep(self: ConnectionPool, kept: ReusableConnection) -> None:
        _held.append(kept.state)
        await store(self, kept)

    return mock.patch.object(ConnectionPool, "store", keep)


#: The planted defects, and `none`.
LEAKS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "none": nullcontext,
    "connection": _forget_to_close,
    "dictionary": _grow_dict,
    "state": _keep_pooled,
}
