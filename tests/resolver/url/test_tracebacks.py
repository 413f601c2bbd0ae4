"""Tracebacks of our errors contain few frames of the packages, for every kind of failure."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest
import trio

import resolver
from fixtures.http import EXAMPLE, Behavior, HttpServer, moved, serve
from resolver import HttpxTransport, ResolveError, Resolver
from resolver.url.tracebacks import trim_traceback
from tests.resolver.network.peers import closed_port

MOST = 4
OURS = tuple(f"{Path(resolver.__file__).parents[1] / package}/" for package in ("protocols", "resolver"))

Way: TypeAlias = Callable[[str, Path], Awaitable[object]]


def shown(error: BaseException) -> Iterator[traceback.TracebackException]:
    """Yield the error and its causes or contexts, as Python prints them."""
    current: traceback.TracebackException | None = traceback.TracebackException.from_exception(error)
    while current is not None:
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def frames(error: BaseException) -> list[str]:
    """Return the printed frames that belong to our packages."""
    return [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for printed in shown(error)
        for frame in printed.stack
        if frame.filename.startswith(OURS)
    ]


async def stream(url: str, path: Path) -> None:
    async with resolver.stream(url) as reply:
        async for _ in reply.body:
            pass


async def drain(url: str, path: Path) -> None:
    async with Resolver() as session, session.stream(url) as reply:
        await reply.body.take(1 << 20)


async def entries(url: str, path: Path) -> None:
    async with resolver.entries(url) as found:
        async for _ in found:
            pass


async def within(method: str, url: str, *more: object) -> None:
    async with Resolver() as session:
        await getattr(session, method)(url, *more)


async def by_httpx(url: str, path: Path) -> None:
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        (await client.get(url)).raise_for_status()


async def blocking(name: str, url: str, *more: object, **settings: object) -> object:
    return await trio.to_thread.run_sync(partial(getattr(resolver.blocking, name), url, *more, **settings))


#: A second attempt would have the same traceback.
ONCE = resolver.RetryPolicy(tries=1)


WAYS: dict[str, Way] = {
    "fetch": lambda url, path: resolver.fetch(url),
    "info": lambda url, path: resolver.info(url),
    "save": lambda url, path: resolver.save(url, path, patience=ONCE),
    "stream": stream,
    "drain": drain,
    "entries": entries,
    "Resolver.fetch": lambda url, path: within("fetch", url),
    "Resolver.info": lambda url, path: within("info", url),
    "Resolver.index_suffix": lambda url, path: within("index_suffix", url),
    "HttpxTransport": by_httpx,
    "blocking.fetch": lambda url, path: blocking("fetch", url),
    "blocking.info": lambda url, path: blocking("info", url),
    "blocking.save": lambda url, path: blocking("save", url, path, patience=ONCE),
}

#: Paths on the server, and other URLs.
FAILURES = (
    *("/missing", "/cut", "/circle", "/nonsense", "/inside"),
    *("http://127.0.0.1:25/", "gopher://h", "no URL", "x-none:y", "http://h.example:1/%00"),
)


async def failure_of(asked: Awaitable[object]) -> Exception | None:
    try:
        await asked
    except (ResolveError, httpx.HTTPError) as error:
        return error
    return None


async def serve_failures(nursery: trio.Nursery) -> HttpServer:
    site = {**EXAMPLE, "/circle": moved("/circle"), "/inside": moved("http://10.0.0.1/")}
    behaviors = {
        "/cut": Behavior(cut_at=150),
        "/nonsense": Behavior(instead=b"no http\r\n\r\n"),
    }
    return await serve(nursery, {**site, "/cut": EXAMPLE["/data"], "/nonsense": EXAMPLE["/data"]}, behaviors)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("failure", FAILURES)
async def test_traceback_has_few_package_frames(
    way: str, failure: str, nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RESOLVE_TRACEBACK")
    server = await serve_failures(nursery)
    url = server.url(failure) if failure.startswith("/") else failure
    error = await failure_of(WAYS[way](url, tmp_path / "file"))
    assert error is None or len(frames(error)) <= MOST, "\n".join(frames(error))


async def test_traceback_of_refused_connection_keeps_reason_and_caller(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's reason and the frames of the caller remain."""
    monkeypatch.delenv("RESOLVE_TRACEBACK")
    with closed_port() as port, pytest.raises(resolver.Unreachable) as caught:
        await resolver.fetch(f"http://127.0.0.1:{port}/")
    text = "".join(traceback.format_exception(caught.value))
    assert "in test_traceback_of_refused_connection_keeps_reason_and_caller" in text
    assert "resolver/transfer/functions.py" in text
    assert len(frames(caught.value)) <= MOST


async def test_traceback_is_complete_when_requested(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = await serve_failures(nursery)
    monkeypatch.setenv("RESOLVE_TRACEBACK", "full")
    with pytest.raises(resolver.NotFound) as caught:
        await resolver.fetch(server.url("/missing"))
    files = {frame.rpartition("/")[2].partition(":")[0] for frame in frames(caught.value)}
    assert {"functions.py", "session.py", "retrieval.py", "dialogue.py"} <= files
    assert len(frames(caught.value)) > MOST


@pytest.mark.parametrize("text", ["no URL", "gopher://h/%zz", "wais://h/d/t", "x://h/\n", "ftp://h:x/"])
@pytest.mark.parametrize("ask", [resolver.parse, resolver.stream])
def test_traceback_of_invalid_url_has_few_package_frames(
    text: str, ask: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RESOLVE_TRACEBACK")
    with pytest.raises(resolver.InvalidUrl) as caught:
        ask(text)
    assert len(frames(caught.value)) <= MOST


def fail_while(own: ValueError) -> None:
    try:
        raise own
    except ValueError:
        resolver.parse("no URL")


def test_trim_traceback_keeps_frames_of_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of another package that did not pass through our code is not changed."""
    monkeypatch.delenv("RESOLVE_TRACEBACK")
    own = ValueError("of the caller's")
    with pytest.raises(resolver.InvalidUrl):
        fail_while(own)
    assert own.__traceback__ is not None
    circle = ResolveError("a circle")
    circle.__cause__ = circle
    assert trim_traceback(circle) is circle
