"""A server that cuts at random octets of one file: it comes whole, and hardly more than once.

`RESOLVE_TESTS=full` cuts a file of 64 MiB 200 times; else it is a smaller one, so often that the overlaps
weigh the same.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import trio

from fixtures.faulty import Manner, serve
from resolver import Policy, Resolver, RetryPolicy
from tests.sampled import FULL

SIZE, CUTS = (67_108_864, 200) if FULL else (4_194_304, 40)
MOST = 1.05


@pytest.mark.parametrize("scheme", ["ftp", "http"])
async def test_random_cuts(scheme: str, nursery: trio.Nursery, tmp_path: Path) -> None:
    source = random.Random(scheme)
    content = source.randbytes(SIZE)
    manner = Manner(cuts=tuple(sorted(source.sample(range(1, SIZE), CUTS))))
    server = await serve(nursery, scheme, content, manner)
    async with Resolver(
        policy=Policy(allow_port=frozenset({server.port})), patience=RetryPolicy(tries=3, delay=0.001)
    ) as session:
        saved = await session.save(server.url(), str(tmp_path / "object"))
    assert (tmp_path / "object").read_bytes() == content
    assert os.listdir(tmp_path) == ["object"]
    assert saved.attempts == CUTS + 1
    assert saved.resumed_from > 0
    assert server.connections == CUTS + 1
    print(f"{scheme}: {server.sent} octets for {SIZE} in {saved.elapsed:.2f} s")
    assert server.sent <= MOST * SIZE
