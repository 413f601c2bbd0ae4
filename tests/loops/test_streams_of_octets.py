"""A native cancellation loses no byte of a body.

It passes through any shield, so no `await` is between taking a byte and returning it to the caller.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest

from fixtures.faulty import serve
from fixtures.faulty.server import HANDLERS
from resolver import Disconnected, Policy, Resolver
from tests.elsewhere import Elsewhere
from tests.faults.cell import lines_of
from tests.faults.rows import SECURED
from tests.loops.cancels import Arrival, cancel_at
from tests.loops.conftest import Run

LARGE = lines_of(2_000_000)

#: A WAIS body is requested range by range: if canceled during a request, it cannot continue, and says so.
ASKING = {"wais"}


async def read_all(body: AsyncIterator[bytes], arrival: Arrival) -> bytes:
    """Read the complete body, with two of three calls canceled."""
    pieces: list[bytes] = []

    async def take() -> None:
        pieces.append(await anext(body, b""))

    while not pieces or pieces[-1]:
        for at in (1, 2, None):
            await cancel_at(at, arrival, take)
    return b"".join(pieces)


@pytest.mark.parametrize("arrival", ["waiting", "ready"])
@pytest.mark.parametrize("scheme", HANDLERS)
def test_canceled_reads_lose_no_byte(
    scheme: str, arrival: Arrival, run: Run, elsewhere: Elsewhere, tls: ssl.SSLContext
) -> None:
    secured = tls if scheme in SECURED else None
    server = elsewhere.run(serve, elsewhere.nursery, scheme, LARGE, None, secured)

    async def main() -> bytes:
        policy = Policy(allow_port=frozenset({server.port}))
        async with Resolver(policy=policy) as session, session.stream(server.url()) as reply:
            return await read_all(reply.body, arrival)

    try:
        assert run(main()) == LARGE
    except Disconnected:
        assert scheme in ASKING


@pytest.mark.parametrize("scheme", ["gopher", "http", "ftp"])
def test_timed_out_reads_lose_no_byte(
    scheme: str, run: Run, elsewhere: Elsewhere, tls: ssl.SSLContext
) -> None:
    """`wait_for` in a loop, as in a caller with other work to do."""
    server = elsewhere.run(serve, elsewhere.nursery, scheme, LARGE)

    async def main() -> bytes:
        pieces: list[bytes] = []
        policy = Policy(allow_port=frozenset({server.port}))
        async with Resolver(policy=policy) as session, session.stream(server.url()) as reply:
            while True:
                try:
                    pieces.append(await asyncio.wait_for(anext(reply.body), 0.0005))
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    return b"".join(pieces)

    assert run(main()) == LARGE
