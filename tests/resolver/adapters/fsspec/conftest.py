"""Mock servers in a separate thread, and file systems that fsspec does not cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import trio

import resolver
from fixtures.faulty import FaultyServer, Profile
from fixtures.faulty import serve as serve_faulty
from resolver.adapters.fsspec import UrlFileSystem
from tests.elsewhere import served

CSV = "".join(f"{number},{number * number}\n" for number in range(1_000))
TABLE = f"n,square\n{CSV}".encode()

Make = Callable[..., UrlFileSystem]


@pytest.fixture
def make() -> Iterator[Make]:
    """Yield a factory of file systems for servers at given ports, and close the file systems at the end."""
    with ExitStack() as stack:

        def made(kind: type[UrlFileSystem], *ports: int, **options: Any) -> UrlFileSystem:
            policy = resolver.Policy(allow_port=frozenset(ports), allow_special=True)
            chosen: dict[str, Any] = {"policy": policy, "skip_instance_cache": True, **options}
            fs = kind(**chosen)
            stack.callback(fs.close)
            return fs

        yield made


@contextmanager
def faulty(scheme: str, content: bytes, manner: Profile) -> Iterator[FaultyServer]:
    async def start(nursery: trio.Nursery) -> FaultyServer:
        return await serve_faulty(nursery, scheme, content, manner)

    with served(start) as server:
        yield server


def name_at(server: FaultyServer) -> str:
    return server.url().partition("://")[2]
