"""Exact limits: a body of the maximum size is accepted, a body with one byte more is refused (S16)."""

from __future__ import annotations

import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

import resolver
from fixtures import http
from fixtures.faulty import Profile, serve
from resolver import (
    Event,
    HttpxTransport,
    LimitExceeded,
    Limits,
    NotConfigured,
    Policy,
    Progress,
    Resolver,
)

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


@pytest.mark.parametrize("wrong", [{"body": math.nan}, {"total": math.nan}, {"quota": -1}, {"idle": 10**400}])
def test_limits_refuse_values_that_cannot_be_compared(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"the limit {min(wrong)} must be from 0 to 1e308 or infinity, got"):
        Limits(**wrong)


@pytest.mark.parametrize("seconds", [math.nan, -1, 10**400])
def test_resolver_refuses_timeout_that_cannot_be_compared(seconds: float) -> None:
    with pytest.raises(ValueError, match="the limit total must be from 0 to 1e308 or infinity, got"):
        Resolver(timeout=seconds)


@pytest.mark.parametrize("line", [None, math.inf, 1.5])
def test_limits_refuse_line_that_is_not_an_integer(line: Any) -> None:
    with pytest.raises(ValueError, match="the limit line must be an integer"):
        Limits(line=line)


@pytest.mark.parametrize("name", ["lines", "entries", "hops", "body", "ratio", "connect", "idle"])
@pytest.mark.parametrize("scheme", ["ftp", "http", "gopher", "file"])
async def test_limit_of_none_is_no_limit(scheme: str, name: str, tmp_path: Path) -> None:
    limits = Limits(**{name: None})  # type: ignore[arg-type]
    async with (
        served(scheme, "length", tmp_path) as (url, port),
        Resolver(policy=Policy(allow_port={port}), limits=limits) as session,
    ):
        assert await fetch(session, url, tmp_path) == CONTENT


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
            server = await serve(nursery, scheme, CONTENT, Profile(framing=framing))  # type: ignore[arg-type]
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


# The quota of a session: the bytes of all its bodies together.


@pytest.mark.parametrize("way", [fetch, save, stream], ids=lambda way: way.__name__)
@pytest.mark.parametrize(("scheme", "framing"), SERVED)
async def test_quota_is_exact_over_bodies(scheme: str, framing: str, way: Way, tmp_path: Path) -> None:
    async with served(scheme, framing, tmp_path) as (url, port):
        policy = Policy(allow_port=frozenset({port}))
        async with Resolver(policy=policy, limits=Limits(quota=2 * EXACT)) as session:
            for name in "ab":
                assert await way(session, url, tmp_path / name) == CONTENT
        async with Resolver(policy=policy, limits=Limits(quota=2 * EXACT - 1)) as session:
            assert await way(session, url, tmp_path / "c") == CONTENT
            with pytest.raises(LimitExceeded) as refused:
                await way(session, url, tmp_path / "d")
        error = refused.value
        assert (error.limit, error.exit_code, error.retryable) == ("quota", 14, False)
        assert error.url == url
        assert not (tmp_path / "d").exists()


async def test_quota_refuses_announced_body_and_permits_smaller_one(nursery: trio.Nursery) -> None:
    server = await http.serve(nursery)
    async with Resolver(limits=Limits(quota=len(http.ABOUT))) as session:
        with pytest.raises(LimitExceeded):
            await session.fetch(server.url("/data"))
        assert (await session.info(server.url("/data"))).size == len(http.DATA)
        assert (await session.fetch(server.url("/about.txt"))).content == http.ABOUT
        assert (await session.fetch(server.url("/empty"))).content == b""


async def test_quota_and_progress_count_body_that_arrives_with_head(nursery: trio.Nursery) -> None:
    server = await http.serve(nursery)
    events: list[Event] = []
    limits = Limits(quota=2 * len(http.ABOUT) - 1)
    async with Resolver(limits=limits, on_event=events.append) as session:
        await session.fetch(server.url("/about.txt"))
        with pytest.raises(LimitExceeded):
            await session.fetch(server.url("/about.txt"))
    assert [event.received for event in events if isinstance(event, Progress)] == [len(http.ABOUT)]


async def test_exceeded_quota_sends_nothing_more(nursery: trio.Nursery) -> None:
    server = await http.serve(nursery)
    async with Resolver(limits=Limits(quota=len(http.DATA) - 1)) as session:
        for path in ("/data/chunked", "/about.txt", "/empty"):
            with pytest.raises(LimitExceeded) as caught:
                await session.fetch(server.url(path))
            assert (caught.value.limit, caught.value.url) == ("quota", server.url(path))
    assert [request.target for request in server.requests] == ["/data/chunked"]


async def test_quota_counts_each_segment_once(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await http.serve(nursery)
    url = server.url("/models/model.safetensors")
    size = len(http.EXAMPLE["/models/model.safetensors"].content)
    async with Resolver(limits=Limits(quota=size), segments=4) as session:
        saved = await session.save(url, tmp_path / "whole")
    assert saved.bytes == size
    assert len(server.requests) > 1
    async with Resolver(limits=Limits(quota=size - 1), segments=4) as session:
        with pytest.raises(LimitExceeded) as caught:
            await session.save(url, tmp_path / "more")
    assert caught.value.limit == "quota"
    assert not (tmp_path / "more").exists()


async def test_save_all_over_quota_reports_remaining_urls(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await http.serve(nursery)
    urls = [server.url("/about.txt"), server.url("/data/chunked"), server.url("/pub/a")]
    async with Resolver(limits=Limits(quota=len(http.ABOUT) + 10)) as session:
        result = [item async for item in session.save_all(urls, directory=str(tmp_path), concurrency=1)]
    assert [(item.status, item.exit) for item in result] == [("done", 0), ("failed", 14), ("failed", 14)]
    assert [request.target for request in server.requests] == ["/about.txt", "/data/chunked"]


async def test_quota_of_one_call_and_of_httpx(nursery: trio.Nursery) -> None:
    server = await http.serve(nursery)
    url, limits = server.url("/about.txt"), Limits(quota=5)
    with pytest.raises(LimitExceeded) as caught:
        await resolver.fetch(url, limits=limits)
    assert caught.value.limit == "quota"
    with pytest.raises(LimitExceeded):
        await trio.to_thread.run_sync(partial(resolver.blocking.fetch, url, limits=limits))
    with pytest.raises(NotConfigured, match="quota"):
        HttpxTransport(limits=limits)
