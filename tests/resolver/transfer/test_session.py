"""Async functions without an event loop, and sessions that are created before a loop runs."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest
import trio

import resolver
from fixtures.http import Page, serve
from resolver import HttpxTransport, Resolver

URL = "http://127.0.0.1:1/"
Entry: TypeAlias = Callable[[], Awaitable[object]]


async def enter(opened: AbstractAsyncContextManager[object]) -> None:
    async with opened:
        raise AssertionError("entered")


async def by_client() -> None:
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        await client.get(URL)


#: Every public async function and async context manager.
ENTRIES: dict[str, Entry] = {
    "fetch": lambda: resolver.fetch(URL),
    "info": lambda: resolver.info(URL),
    "save": lambda: resolver.save(URL, "/no/such/folder/file"),
    "stream": lambda: enter(resolver.stream(URL)),
    "entries": lambda: enter(resolver.entries(URL)),
    "Resolver.__aenter__": lambda: enter(Resolver()),
    "Resolver.fetch": lambda: Resolver().fetch(URL),
    "Resolver.facts": lambda: enter(Resolver().facts(URL)),
    "Resolver.info": lambda: Resolver().info(URL),
    "Resolver.save": lambda: Resolver().save(URL, "/no/such/folder/file"),
    "Resolver.save_attachments": lambda: Resolver().save_attachments("news://127.0.0.1/1@h", "folder"),
    "Resolver.stream": lambda: enter(Resolver().stream(URL)),
    "Resolver.resume": lambda: enter(Resolver().resume(URL)),
    "Resolver.listing": lambda: enter(Resolver().listing(URL)),
    "Resolver.entries": lambda: enter(Resolver().entries(URL)),
    "Resolver.server_name": lambda: Resolver(policy=resolver.Policy(allow_server_name=True)).server_name(URL),
    "Resolver.index_suffix": lambda: Resolver().index_suffix("http://127.0.0.1/"),
    "Resolver.open_terminal": lambda: enter(Resolver().open_terminal("telnet://127.0.0.1/")),
    "HttpxTransport.handle_async_request": lambda: by_client(),
}


def waits(function: object) -> bool:
    """Return whether the function must be awaited or entered with `async with`."""
    inner = inspect.unwrap(function) if callable(function) else None
    if not inspect.isfunction(inner):
        return False
    given = str(inspect.signature(function).return_annotation) if callable(function) else ""
    return inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner) or "AsyncContext" in given


def test_entries_list_every_public_async_function() -> None:
    functions = {name for name in resolver.__all__ if waits(getattr(resolver, name))}
    methods = {
        f"{kind.__name__}.{name}"
        for kind in (Resolver, HttpxTransport)
        for name, method in vars(kind).items()
        if waits(method) and (name == "__aenter__" or not name.startswith("_")) and name != "aclose"
    }
    assert functions | methods == ENTRIES.keys()


async def run(entry: Entry) -> None:
    await entry()


def by_hand(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run the first step of a coroutine without an event loop."""
    coroutine.send(None)


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES.keys())
def test_async_functions_without_loop_raise_with_remedy(entry: Entry) -> None:
    with pytest.raises(RuntimeError) as caught:
        by_hand(run(entry))
    for remedy in ("asyncio.run(main())", "trio.run(main)", "resolver.blocking"):
        assert remedy in str(caught.value)


def test_session_created_without_loop_serves_both_loops(tmp_path: Path) -> None:
    """A session can serve runs under trio and asyncio, unless it keeps connections for the next run."""
    (tmp_path / "a").write_bytes(b"here")
    url, session = (tmp_path / "a").as_uri(), Resolver()
    for _ in range(2):
        assert trio.run(session.fetch, url).content == b"here"
        assert asyncio.run(session.fetch(url)).content == b"here"


def test_fetch_in_thread_of_asyncio(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"here")

    async def main() -> bytes:
        fetch = partial(resolver.fetch, (tmp_path / "a").as_uri())
        result: resolver.Response = await asyncio.to_thread(trio.run, fetch)
        return result.content

    assert asyncio.run(main()) == b"here"


def test_fetch_as_guest_of_asyncio(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"here")

    async def main() -> bytes:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Any] = loop.create_future()
        trio.lowlevel.start_guest_run(
            resolver.fetch,
            (tmp_path / "a").as_uri(),
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            done_callback=done.set_result,
            host_uses_signal_set_wakeup_fd=True,
        )
        result: resolver.Response = (await done).unwrap()
        return result.content

    assert asyncio.run(main()) == b"here"


@pytest.mark.parametrize("is_after", [False, True])
async def test_fetch_outside_context_keeps_no_connection(is_after: bool, nursery: trio.Nursery) -> None:
    server = await serve(nursery, {"/": Page(b"x")})
    session = Resolver()
    if is_after:
        async with session:
            for _ in range(2):
                await session.fetch(server.url("/"))
        assert server.connections == 1
    before = server.connections
    for _ in range(2):
        assert (await session.fetch(server.url("/"))).content == b"x"
    assert server.connections == before + 2
