"""Calls of threads that wait: the same values and errors, and callbacks in the thread that called."""

from __future__ import annotations

import collections.abc
import inspect
import math
import pickle
import socket
import threading
import typing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import pytest
import trio

import resolver
from fixtures.ftp import MockFtp
from fixtures.gopher import GopherServer
from fixtures.http import HttpServer
from resolver import (
    Connected,
    Credentials,
    Event,
    Finished,
    Host,
    Limits,
    NotFound,
    Resolver,
    RetryPolicy,
    Settings,
    Started,
    blocking,
)
from resolver.blocking.portal import portal
from resolver.blocking.session import crossing
from resolver.files.commit import Sync
from resolver.loops import running
from resolver.network.admission import Family
from resolver.network.events import OnEvent
from resolver.network.mask import CredentialCache, Given
from resolver.transfer import functions as once
from resolver.transfer.archives import ArchiveSource, ArchiveTarget
from tests.hang import NEVER
from tests.resolver.blocking.conftest import allowing

#: Each one-shot function, and that which waits.
PAIRS = [(getattr(once, name), getattr(blocking, name)) for name in ("fetch", "info", "save")]


class Own(Exception):
    """A mistake of the caller's."""


def url_of(server: GopherServer, path: str = "/00/about") -> str:
    return f"gopher://127.0.0.1:{server.port}{path}"


def test_the_same_values_as_those_that_are_awaited(gopher: GopherServer, tmp_path: Path) -> None:
    policy = allowing(gopher)
    for url in (url_of(gopher), url_of(gopher, "/")):
        response = blocking.fetch(url, policy=policy)
        awaited = trio.run(partial(resolver.fetch, url, policy=policy))
        assert (response.content, response.entries) == (awaited.content, awaited.entries)
        assert type(response) is resolver.Response
        assert blocking.info(url, policy=policy) == trio.run(partial(resolver.info, url, policy=policy))
    saved = blocking.save(url_of(gopher), tmp_path / "about", policy=policy)
    assert (tmp_path / "about").read_bytes() == b"A text of two lines.\r\nThe second one.\r\n"
    assert type(saved) is resolver.Saved


def test_an_error_is_the_one_that_is_raised_there(gopher: GopherServer) -> None:
    with pytest.raises(NotFound) as caught:
        blocking.fetch(url_of(gopher, "/0nix"), policy=allowing(gopher))
    assert caught.value.url == url_of(gopher, "/0nix")
    with pytest.raises(resolver.Refused):
        blocking.fetch("gopher://127.0.0.1:25/")
    with pytest.raises(resolver.InvalidUrl):
        blocking.Resolver().fetch("no url")


@pytest.mark.parametrize(
    ("model", "made"),
    [
        *PAIRS,
        *((getattr(Resolver, n), getattr(blocking.Resolver, n)) for n in ("fetch", "info", "save")),
        (Resolver, blocking.Resolver),
    ],
)
def test_the_parameters_and_the_text_of_the_model(
    model: Callable[..., object], made: Callable[..., object]
) -> None:
    assert inspect.signature(made).parameters == inspect.signature(model).parameters
    assert not inspect.iscoroutinefunction(made)
    assert made.__doc__
    assert made.__module__.startswith("resolver.blocking")
    assert isinstance(made, type) or made.__doc__.partition("\n")[0] == str(model.__doc__).partition("\n")[0]


@pytest.mark.parametrize(("model", "made"), PAIRS)
def test_a_function_can_be_sent_to_another_process(model: object, made: object) -> None:
    assert pickle.loads(pickle.dumps(made)) is made


def called(annotation: object) -> bool:
    """May what has this annotation be something to call?"""
    return typing.get_origin(annotation) is collections.abc.Callable or any(
        called(each) for each in typing.get_args(annotation)
    )


def test_no_callback_is_called_elsewhere() -> None:
    """A callback that comes to be among the settings has to cross, too."""
    classes = (resolver.Policy, RetryPolicy, Host, ArchiveSource, ArchiveTarget)
    names = {each.__name__: each for each in classes}
    aliases = {"OnEvent": OnEvent, "Family": Family, "Given": Given, "Sync": Sync}
    hints = typing.get_type_hints(Settings, localns={**names, **aliases})
    given: dict[str, object] = {name: lambda *_: None for name, hint in hints.items() if called(hint)}
    assert given.keys() >= {"on_event", "credentials"}
    before = dict(given)
    crossing(given)
    assert all(given[name] is not before[name] for name in given)


def test_a_call_from_a_loop_waits_as_any_other(gopher: GopherServer) -> None:
    async def main() -> bytes:
        return blocking.fetch(url_of(gopher), policy=allowing(gopher)).content

    assert trio.run(main).startswith(b"A text")


def test_connections_are_kept_until_it_is_closed(ftp: MockFtp) -> None:
    with blocking.Resolver(policy=allowing(ftp)) as session:
        url = f"ftp://127.0.0.1:{ftp.port}/pub/a.txt"
        assert session.fetch(url).content == session.fetch(url).content
        assert len(ftp.heard) == 1
    with pytest.raises(RuntimeError, match="closed"):
        session.fetch(url)
    session.close()


VARIABLE: ContextVar[str] = ContextVar("tests.variable")


def test_callbacks_run_in_the_thread_that_called(gopher: GopherServer) -> None:
    """Also where one session serves many: each thread is told of what it asked for, in its own context."""
    heard: list[tuple[str, int, Event]] = []

    def listen(event: Event) -> None:
        heard.append((VARIABLE.get(), threading.get_ident(), event))

    together = threading.Barrier(8)

    def ask(number: int) -> tuple[str, int]:
        VARIABLE.set(name := f"the {number}th")
        together.wait()
        for _ in range(5):
            assert session.fetch(url_of(gopher)).content
        return name, threading.get_ident()

    policy = allowing(gopher)
    with blocking.Resolver(policy=policy, on_event=listen) as session, ThreadPoolExecutor(8) as threads:
        asked = list(threads.map(ask, range(8)))
    assert len(set(asked)) == 8
    for name, ident in asked:
        own = [event for heard_in, thread, event in heard if (heard_in, thread) == (name, ident)]
        for kind in (Started, Connected, Finished):
            assert sum(isinstance(event, kind) for event in own) == 5
    assert {(heard_in, thread) for heard_in, thread, _ in heard} == set(asked)


def test_a_callback_may_make_calls_itself(gopher: GopherServer) -> None:
    inner: list[bytes] = []

    def listen(event: Event) -> None:
        if isinstance(event, Connected):
            inner.append(blocking.fetch(url_of(gopher), policy=allowing(gopher)).content)

    fetched = blocking.fetch(url_of(gopher), policy=allowing(gopher), on_event=listen)
    assert inner == [fetched.content]


def test_what_a_listener_raises_passes_at_each_event(gopher: GopherServer) -> None:
    """The call ends with it, whatever was under way; and the session goes on."""
    left = 0  # events until the one that is fatal

    def listen(event: Event) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Own

    with blocking.Resolver(policy=allowing(gopher), on_event=listen) as session:
        number, ended = 0, False
        while not ended:
            left = number = number + 1
            with suppress(Own):
                ended = bool(session.fetch(url_of(gopher)).content)
        assert number > 4
        left = 0
        assert session.fetch(url_of(gopher)).content


async def tasks() -> int:
    """With the one that wakes who waits too long, which begins with the first who waits until a time."""
    left, right = socket.socketpair()
    with left, right:
        await running().writable_by(left, math.inf)
    return trio.lowlevel.current_statistics().tasks_living


@pytest.mark.parametrize("raised", [Own, KeyboardInterrupt, SystemExit])
def test_what_ends_a_call_cancels_it(gopher: GopherServer, raised: type[BaseException]) -> None:
    """The peer says nothing, and the connection is closed before the call is left."""

    def listen(event: Event) -> None:
        if isinstance(event, Connected):
            raise raised

    before = portal().run(tasks)
    session = blocking.Resolver(policy=allowing(gopher), limits=Limits(idle=NEVER), on_event=listen)
    with session, pytest.raises(raised):
        session.fetch(url_of(gopher, "/0/silent"))
    assert portal().run(tasks) == before


def test_credentials_are_asked_for_in_the_thread_that_called(http: HttpServer) -> None:
    asked: list[tuple[str, str, int, bytes | None, int]] = []

    def find(scheme: str, host: str, port: int, user: bytes | None) -> Credentials:
        asked.append((scheme, host, port, user, threading.get_ident()))
        return Credentials(b"user", b"xyzzy")

    async def find_later(scheme: str, host: str, port: int, user: bytes | None) -> Credentials:
        found = find(scheme, host, port, user)
        await trio.lowlevel.checkpoint()
        return found

    url = f"http://127.0.0.1:{http.port}/private"
    for source in (find, find_later):
        with blocking.Resolver(policy=allowing(http), credentials=source) as session:
            assert session.fetch(url).content == b"For you.\n"
    here = threading.get_ident()
    assert asked[0] == ("http", "127.0.0.1", http.port, None, here)
    assert len(asked) == 2

    def fail(scheme: str, host: str, port: int, user: bytes | None) -> Credentials:
        raise Own

    with blocking.Resolver(policy=allowing(http), credentials=fail) as session, pytest.raises(Own):
        session.fetch(url)


async def test_credentials_that_need_no_waiting_are_taken_where_they_are_awaited_too(
    nursery: trio.Nursery,
) -> None:
    found = Credentials(b"user", b"xyzzy")
    assert await CredentialCache(lambda *_: found).request("http", "h.example", 80, None) is found
