"""Exact limits: a body of the maximum size is accepted, a body with one byte more is refused (S16)."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from fixtures import http
from fixtures.faulty import Manner, serve
from resolver import HttpxTransport, LimitExceeded, Limits, Policy, Resolver

#: Larger than a read, and a valid news article.
CONTENT = b"Subject: a test\r\n\r\n" + b"".join(b"%078d\r\n" % number for number in range(2_000))
EXACT = len(CONTENT)

#: How each scheme marks the end; if the size is announced, it is checked before the body is read.
SERVED = [
    *(("http", framing) for framing in ("length", "chunked", "close")),
    *(("gopher", framing) for framing in ("length", "close")),
    *((scheme, "length") for scheme in ("ftp", "nntp", "wais", "file")),
]

#: The library that compresses, by coding.
CODERS = {"gzip": "gzip", "deflate": "zlib", "br": "brotli", "zstd": "zstandard"}

Way = Callable[[Resolver, str, Path], Awaitable[bytes]]


async def fetch(session: Resolver, url: str, path: Path) -> bytes:
    return (await session.fetch(url)).content


async def save(session: Resolver, url: str, path: Path) -> bytes:
    await session.save(url, path)
    return await trio.Path(path).read_bytes()


async def stream(session: Resolver, url: str, path: Path) -> bytes:
    async with session.stream(url) as reply:
        return b"".join([octets async for octets in reply.body])


@asynccontextmanager
async def served(scheme: str, framing: str, folder: Path) -> AsyncIterator[tuple[str, int]]:
    """Serve the content; yield its URL and the port that the policy must allow."""
    async with trio.open_nursery() as nursery:
        if scheme == "file":
            (folder / "served").write_bytes(CONTENT)
            yield (folder / "served").as_uri(), 70
        else:
            server = await serve(nursery, scheme, CONTENT, Manner(framing=framing))  # type: ignore[arg-type]
            yield server.url(), server.port
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("way", [fetch, save, stream], ids=lambda way: way.__name__)
@pytest.mark.parametrize(("scheme", "framing"), SERVED)
async def test_body_limit_is_exact(scheme: str, framing: str, way: Way, tmp_path: Path) -> None:
    async with served(scheme, framing, tmp_path) as (url, port):
        policy = Policy(allow_port=frozenset({port}))
        limits = Limits(body=EXACT, body_everywhere=True)
        async with Resolver(policy=policy, limits=limits) as session:
            assert await way(session, url, tmp_path / "a") == CONTENT
        limits = Limits(body=EXACT - 1, body_everywhere=True)
        async with Resolver(policy=policy, limits=limits) as session:
            with pytest.raises(LimitExceeded) as refused:
                await way(session, url, tmp_path / "b")
        assert (refused.value.limit, refused.value.exit_code) == ("body", 14)
        assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("coding", sorted(CODERS))
@pytest.mark.parametrize("size", [1, 1_000, 200_000])
async def test_body_limit_is_exact_for_longer_coding(coding: str, size: int, nursery: trio.Nursery) -> None:
    """Incompressible content is longer after encoding; the limit holds for this case too."""
    library = pytest.importorskip(CODERS[coding])
    content = random.Random(size).randbytes(size)
    packed = library.compress(content)
    assert len(packed) > size
    server = await http.serve(nursery, site={"/": http.coded(packed, coding)})
    limits = Limits(body=size, body_everywhere=True)
    async with Resolver(policy=Policy(allow_port=frozenset({server.port})), limits=limits) as session:
        assert (await session.fetch(server.url("/"))).content == content
    limits = Limits(body=size - 1, body_everywhere=True)
    async with Resolver(policy=Policy(allow_port=frozenset({server.port})), limits=limits) as session:
        with pytest.raises(LimitExceeded) as refused:
            await session.fetch(server.url("/"))
    assert refused.value.limit == "body"


async def test_body_limit_is_exact_under_httpx(nursery: trio.Nursery) -> None:
    server = await http.serve(nursery, site={"/": http.Page(content=CONTENT)})
    policy = Policy(allow_port=frozenset({server.port}))
    for most, fits in ((EXACT, True), (EXACT - 1, False)):
        transport = HttpxTransport(policy=policy, limits=Limits(body=most, body_everywhere=True))
        async with httpx.AsyncClient(transport=transport) as client:
            if fits:
                assert (await client.get(server.url("/"))).content == CONTENT
            else:
                with pytest.raises(httpx.RemoteProtocolError) as refused:
                    await client.get(server.url("/"))
                assert isinstance(refused.value.__cause__, LimitExceeded)


async def test_entries_limit_is_exact(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).touch()
    url = f"{tmp_path.as_uri()}/"
    async with Resolver(limits=Limits(entries=5)) as session:
        assert len((await session.fetch(url)).entries or ()) == 5
    async with Resolver(limits=Limits(entries=4)) as session:
        with pytest.raises(LimitExceeded, match="4 entries") as refused:
            await session.fetch(url)
    assert (refused.value.limit, refused.value.url) == ("entries", url)
