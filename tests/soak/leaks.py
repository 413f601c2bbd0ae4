"""Defects that are planted in the client, to show that the soak finds them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest import mock

from resolver.network.pool import ConnectionPool
from resolver.network.stream import SocketStream
from resolver.transfer.retrieval import Retrieval

#: The objects that the defects keep.
_held: list[object] = []


def _forget_to_close() -> AbstractContextManager[object]:
    """Leave every 50th connection open that should be closed."""
    close, count = SocketStream.aclose, 0

    async def aclose(self: SocketStream) -> None:
        nonlocal count
        count += 1
        if count % 50 == 0:
            _held.append(self)
        else:
            await close(self)

    return mock.patch.object(SocketStream, "aclose", aclose)


def _grow_dict() -> AbstractContextManager[object]:
    """Keep the URL of each retrieval in a dictionary."""
    begin, seen = Retrieval.__init__, dict[str, int]()

    def init(self: Retrieval, network: Any, request: Any, *more: Any, **settings: Any) -> None:
        seen[f"{request.url.shown} {len(seen)}"] = len(seen)
        begin(self, network, request, *more, **settings)

    return mock.patch.object(Retrieval, "__init__", init)


def _keep_pooled() -> AbstractContextManager[object]:
    """Keep the state of each connection that the pool stores."""
    put = ConnectionPool.put

    async def keep(self: ConnectionPool, key: Any, stream: Any, state: Any, *more: Any) -> None:
        _held.append(state)
        await put(self, key, stream, state, *more)

    return mock.patch.object(ConnectionPool, "put", keep)


#: The planted defects, and `none`.
LEAKS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "none": nullcontext,
    "connection": _forget_to_close,
    "dictionary": _grow_dict,
    "state": _keep_pooled,
}
