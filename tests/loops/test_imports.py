"""A program under one loop imports no other loop. Each program is a separate Python process."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

import fixtures.ftp
import fixtures.gopher
import fixtures.http
from tests.elsewhere import Elsewhere
from tests.fresh import environment
from tests.sampled import sampled

CHECKOUT = Path(__file__).parents[2]

_PROGRAM = """
import {loop}, sys
import resolver

async def main():
    url, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    policy = resolver.Policy(allow_port=frozenset({{port}}))
    response = await resolver.fetch(url, policy=policy)
    async with resolver.stream(url, policy=policy) as reply:
        assert b"".join([octets async for octets in reply.body]) == response.content
    saved = await resolver.save(url, path, policy=policy)
    assert saved.bytes == len(response.content) > 0

{start}
print(*sys.modules)
"""
PROGRAMS = {
    "trio": _PROGRAM.format(loop="trio", start="trio.run(main)"),
    "asyncio": _PROGRAM.format(loop="asyncio", start="asyncio.run(main())"),
    "uvloop": _PROGRAM.format(loop="uvloop", start="uvloop.run(main())"),
}

#: Modules that a program under a loop must not import.
ABSENT = {"trio": {"asyncio", "anyio"}, "asyncio": {"trio"}, "uvloop": {"trio"}}


@pytest.fixture(scope="module")
def urls(elsewhere: Elsewhere) -> dict[str, tuple[str, int]]:
    """Return a small URL of each scheme, and the port of its server."""
    ftp = elsewhere.run(fixtures.ftp.serve, elsewhere.nursery)
    gopher = elsewhere.run(fixtures.gopher.serve, elsewhere.nursery)
    http = elsewhere.run(fixtures.http.serve, elsewhere.nursery)
    return {
        "ftp": (f"ftp://127.0.0.1:{ftp.port}/pub/a.txt", ftp.port),
        "gopher": (f"gopher://127.0.0.1:{gopher.port}/00/about", gopher.port),
        "http": (f"http://127.0.0.1:{http.port}/about.txt", http.port),
    }


#: Each loop with one scheme.
TRIED = sampled(product(PROGRAMS, ["ftp", "gopher", "http"]), lambda row: row[0])


@pytest.mark.parametrize(("loop", "scheme"), TRIED)
def test_program_imports_only_its_own_loop(
    loop: str, scheme: str, urls: dict[str, tuple[str, int]], tmp_path: Path
) -> None:
    url, port = urls[scheme]
    command = [sys.executable, "-W", "error", "-c", PROGRAMS[loop], url, str(port), str(tmp_path / "saved")]
    done = subprocess.run(command, cwd=CHECKOUT, env=environment(), capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    assert loop in imported
    assert imported & {*ABSENT[loop], "httpx", "httpcore"} == set()
