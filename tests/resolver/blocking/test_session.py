"""Blocking sessions: results, errors, callbacks in the calling thread, files, batches and telnet."""

from __future__ import annotations

import collections.abc
import csv
import gc
import inspect
import io
import pickle
import random
import tarfile
import threading
import typing
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import pytest
import trio

import fixtures.ftp
import fixtures.http
import fixtures.telnet
import resolver
from fixtures.ftp import MockFtp
from fixtures.gopher import GopherServer
from fixtures.http import HttpServer, Page
from fixtures.http import serve as serve_http
from resolver import (
    Changed,
    Connected,
    Credentials,
    Event,
    Finished,
    Host,
    Limits,
    LocalError,
    NotFound,
    Policy,
    Refused,
    Resolver,
    RetryPolicy,
    Settings,
    Started,
    TimedOut,
    blocking,
)
from resolver.blocking.portal import BLOCK_SIZE, portal
from resolver.blocking.session import wrap_callbacks
from resolver.files.commit import Sync
from resolver.loops.calls import current_call
from resolver.network.admission import Family
from resolver.network.events import OnEvent
from resolver.network.mask import CredentialCache, Given
from resolver.transfer import functions as once
from resolver.transfer.archives import ArchiveSource, ArchiveTarget
from tests.elsewhere import served
from tests.hang import HANG, NEVER
from tests.resolver.blocking.conftest import allowing

#: Each function for one URL, and its blocking counterpart.
PAIRS = [(getattr(once, name), getattr(blocking, name)) for name in ("fetch", "info", "save")]


class Own(Exception):
    """An error of the caller's code."""


def url_of(server: GopherServer, path: str = "/00/about") -> str:
    return f"gopher://127.0.0.1:{server.port}{path}"


def test_blocking_results_equal_async_results(gopher: GopherServer, tmp_path: Path) -> None:
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


def test_blocking_errors_equal_async_errors(gopher: GopherServer) -> None:
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
def test_blocking_functions_have_same_parameters_and_summary(
    model: Callable[..., object], made: Callable[..., object]
) -> None:
    assert inspect.signature(made).parameters == inspect.signature(model).parameters
    assert not inspect.iscoroutinefunction(made)
    assert made.__doc__
    assert made.__module__.startswith("resolver.blocking")
    assert isinstance(made, type) or made.__doc__.partition("\n")[0] == str(model.__doc__).partition("\n")[0]


@pytest.mark.parametrize(("model", "made"), PAIRS)
def test_blocking_functions_are_picklable(model: object, made: object) -> None:
    assert pickle.loads(pickle.dumps(made)) is made


def is_callable_type(annotation: object) -> bool:
    """Return whether a value of this type may be a callable."""
    return typing.get_origin(annotation) is collections.abc.Callable or any(
        is_callable_type(each) for each in typing.get_args(annotation)
    )


def test_wrap_callbacks_wraps_every_callable_setting() -> None:
    """Callbacks that are added to the settings must be wrapped, too."""
    classes = (resolver.Policy, RetryPolicy, Host, ArchiveSource, ArchiveTarget)
    names = {each.__name__: each for each in classes}
    aliases = {"OnEvent": OnEvent, "Family": Family, "Given": Given, "Sync": Sync}
    hints = typing.get_type_hints(Settings, localns={**names, **aliases})
    given: dict[str, object] = {
        name: lambda *_: None for name, hint in hints.items() if is_callable_type(hint)
    }
    assert given.keys() >= {"on_event", "credentials"}
    before = dict(given)
    wrap_callbacks(given)
    assert all(given[name] is not before[name] for name in given)


def test_blocking_call_inside_loop_waits(gopher: GopherServer) -> None:
    async def main() -> bytes:
        return blocking.fetch(url_of(gopher), policy=allowing(gopher)).content

    assert trio.run(main).startswith(b"A text")


def test_blocking_session_keeps_connections_until_close(ftp: MockFtp) -> None:
    with blocking.Resolver(policy=allowing(ftp)) as session:
        url = f"ftp://127.0.0.1:{ftp.port}/pub/a.txt"
        assert session.fetch(url).content == session.fetch(url).content
        assert len(ftp.heard) == 1
    with pytest.raises(RuntimeError, match="closed"):
        session.fetch(url)
    session.close()


VARIABLE: ContextVar[str] = ContextVar("tests.variable")


def test_callbacks_run_in_calling_thread(gopher: GopherServer) -> None:
    """Threads that share a session get only the events of their own calls, in their own context."""
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


def test_callback_may_make_blocking_calls(gopher: GopherServer) -> None:
    inner: list[bytes] = []

    def listen(event: Event) -> None:
        if isinstance(event, Connected):
            inner.append(blocking.fetch(url_of(gopher), policy=allowing(gopher)).content)

    fetched = blocking.fetch(url_of(gopher), policy=allowing(gopher), on_event=listen)
    assert inner == [fetched.content]


def test_listener_error_ends_call_at_any_event(gopher: GopherServer) -> None:
    """The call ends with the exception at any event, and the session can still be used."""
    left = 0  # events until the listener raises

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
    """Return the number of tasks of all calls, and of open replies."""
    call = current_call()
    assert call is not None
    opened = [each for each in portal().opened if each.is_open]
    return sum(len(each.tasks) for each in call.home.calls) + len(opened)


@pytest.mark.parametrize("raised", [Own, KeyboardInterrupt, SystemExit])
def test_listener_error_cancels_request(gopher: GopherServer, raised: type[BaseException]) -> None:
    """The server is silent, and the connection is closed before the call returns."""

    def listen(event: Event) -> None:
        if isinstance(event, Connected):
            raise raised

    before = portal().run(tasks)
    session = blocking.Resolver(policy=allowing(gopher), limits=Limits(idle=NEVER), on_event=listen)
    with session, pytest.raises(raised):
        session.fetch(url_of(gopher, "/0/silent"))
    assert portal().run(tasks) == before


def test_credentials_callback_runs_in_calling_thread(http: HttpServer) -> None:
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


async def test_credential_cache_accepts_synchronous_callback(
    nursery: trio.Nursery,
) -> None:
    found = Credentials(b"user", b"xyzzy")
    assert await CredentialCache(lambda *_: found).request("http", "h.example", 80, None) is found


# A URL as a file object: read, seek, and use by libraries.

LARGE = random.Random(2).randbytes(4 * BLOCK_SIZE)


def archive() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as made:
        made.writestr("large", LARGE)
        made.writestr("small", b"in the end")
    return written.getvalue()


ZIP = archive()


def tagged(etag: str) -> Page:
    return Page(ZIP, headers=(("ETag", etag),), parts=True)


@pytest.fixture
def site() -> dict[str, Page]:
    return {"/a.zip": tagged('"1"'), "/a.csv": Page(b"a,b\r\n1,2\r\n"), "/empty": Page(b"")}


@pytest.fixture
def server(site: dict[str, Page]) -> Iterator[HttpServer]:
    with served(partial(serve_http, site=site)) as running:
        yield running


def url_at(server: HttpServer, path: str) -> str:
    return f"http://127.0.0.1:{server.port}{path}"


def test_open_reads_file_to_end(server: HttpServer) -> None:
    before = portal().run(tasks)
    policy = allowing(server)
    with blocking.open(url_at(server, "/a.zip"), policy=policy) as file:
        assert isinstance(file, io.BufferedReader)
        assert file.read() == ZIP
        assert (file.read(), file.read(1), file.tell()) == (b"", b"", len(ZIP))
        assert file.name == url_at(server, "/a.zip")
    assert portal().run(tasks) == before
    with pytest.raises(ValueError, match="closed"):
        file.read()
    with blocking.open(url_at(server, "/empty"), policy=policy) as file:
        assert file.read() == b""
    with blocking.open(url_at(server, "/a.csv"), policy=policy) as file:
        assert list(csv.reader(io.TextIOWrapper(file, "utf-8"))) == [["a", "b"], ["1", "2"]]


def test_open_seeks_like_local_file(server: HttpServer) -> None:
    """The results equal those of the bytes in memory for the same steps, with ranges instead of a restart."""
    chance = random.Random(3)
    beside = io.BytesIO(ZIP)
    session = blocking.Resolver(policy=allowing(server))
    with session, session.open(url_at(server, "/a.zip")) as file:
        assert file.seekable()
        for _ in range(60):
            match chance.randrange(4):
                case 0:
                    where = chance.randrange(len(ZIP) + 10)
                    assert file.seek(where) == beside.seek(where)
                case 1:
                    back = chance.randrange(len(ZIP))
                    assert file.seek(-back, io.SEEK_END) == beside.seek(-back, io.SEEK_END)
                case 2:
                    onwards = chance.randrange(10_000)
                    assert file.seek(onwards, io.SEEK_CUR) == beside.seek(onwards, io.SEEK_CUR)
                case 3:
                    count = chance.choice([0, 1, 100, BLOCK_SIZE + 5, 2 * BLOCK_SIZE])
                    assert file.read(count) == beside.read(count)
            assert file.tell() == beside.tell()
        for refused in (partial(file.seek, -1), partial(file.seek, -len(ZIP) - 1, io.SEEK_END)):
            with pytest.raises(ValueError, match="negative"):
                refused()


def test_open_reads_zip_by_ranges(server: HttpServer) -> None:
    with blocking.open(url_at(server, "/a.zip"), policy=allowing(server)) as file, zipfile.ZipFile(file) as a:
        assert a.read("small") == b"in the end"
    ranges = [value for request in server.requests for name, value in request.headers if name == "range"]
    assert ranges, "it was not sought in"
    with blocking.open(url_at(server, "/a.zip"), policy=allowing(server)) as file, zipfile.ZipFile(file) as a:
        assert a.testzip() is None


def test_open_seeks_in_ftp_file(ftp: fixtures.ftp.MockFtp) -> None:
    url = f"ftp://127.0.0.1:{ftp.port}/pub/large.bin"
    whole = blocking.fetch(url, policy=allowing(ftp)).content
    with blocking.open(url, policy=allowing(ftp)) as file:
        assert file.seekable()
        file.seek(-100, io.SEEK_END)
        assert file.read() == whole[-100:]
        file.seek(0)
        assert file.read(10) == whole[:10]


def test_open_without_seek_reads_tar(gopher: GopherServer, tmp_path: Path) -> None:
    """A file without seek can be read from its beginning."""
    with blocking.open(url_of(gopher), policy=allowing(gopher)) as file:
        assert not file.seekable()
        with pytest.raises(io.UnsupportedOperation):
            file.seek(0)
        assert file.readline() == b"A text of two lines.\r\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as made:
        made.addfile(tarfile.TarInfo("a"))
    (tmp_path / "a.tar").write_bytes(packed.getvalue())
    with blocking.open((tmp_path / "a.tar").as_uri()) as file, tarfile.open(fileobj=file) as opened:
        assert opened.getnames() == ["a"]


def test_open_changed_object_raises_changed(server: HttpServer, site: dict[str, Page]) -> None:
    with blocking.open(url_at(server, "/a.zip"), policy=allowing(server)) as file:
        file.read(10)
        site["/a.zip"] = tagged('"2"')
        file.seek(-10, io.SEEK_END)
        with pytest.raises(Changed):
            file.read()


def test_open_missing_object_raises(server: HttpServer) -> None:
    before = portal().run(tasks)
    with pytest.raises(NotFound):
        blocking.open(url_at(server, "/none"), policy=allowing(server))
    with pytest.raises(Refused):
        blocking.open("telnet://h.example/")
    assert portal().run(tasks) == before


def test_open_file_is_closed_by_garbage_collection(server: HttpServer) -> None:
    before = portal().run(tasks)
    file = blocking.open(url_at(server, "/a.zip"), policy=allowing(server))
    assert file.read(1) == b"P"
    del file
    gc.collect()
    while portal().run(tasks) > before:
        pass


# A batch in a blocking session.


def test_save_all_yields_outcomes_in_calling_thread(http: HttpServer, tmp_path: Path) -> None:
    """Events are reported in the waiting thread."""
    heard: set[int] = set()

    def hear(event: Event) -> None:
        heard.add(threading.get_ident())

    urls = [http.url("/about.txt"), http.url("/none"), http.url("/about.txt")]
    with blocking.Resolver(on_event=hear, patience=RetryPolicy()) as session:
        outcomes = list(session.save_all(urls, directory=tmp_path, concurrency=1))
    assert [outcome.status for outcome in outcomes] == ["done", "failed", "done"]
    assert [outcome.path for outcome in outcomes if outcome.path] == [
        str(tmp_path / "about.txt"),
        str(tmp_path / "about.2.txt"),
    ]
    assert heard == {threading.get_ident()}


def test_save_all_closed_early_raises_on_next(http: HttpServer, tmp_path: Path) -> None:
    with blocking.Resolver() as session:
        outcomes = session.save_all([http.url("/about.txt")] * 50, directory=tmp_path, concurrency=1)
        assert next(outcomes).status == "done"
        outcomes.close()
        with pytest.raises(RuntimeError):
            next(outcomes)


def test_save_all_ends_with_closed_session(http: HttpServer, tmp_path: Path) -> None:
    session = blocking.Resolver()
    outcomes = session.save_all([http.url("/about.txt")] * 50, directory=tmp_path, concurrency=1)
    next(outcomes)
    session.close()
    with pytest.raises(RuntimeError):
        list(outcomes)


def test_save_all_without_thread_raises_local_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    (tmp_path / "a").write_bytes(b"text")
    with blocking.Resolver() as session:
        outcomes = session.save_all([(tmp_path / "a").as_uri()], directory=tmp_path / "out")
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            with pytest.raises(LocalError):
                next(outcomes)


def test_save_all_left_early_is_closed_by_garbage_collection(http: HttpServer, tmp_path: Path) -> None:
    before = portal().run(tasks)
    with blocking.Resolver() as session:
        for _ in session.save_all([http.url("/about.txt")] * 50, directory=tmp_path, concurrency=1):
            break
        gc.collect()
        while portal().run(tasks) > before:
            pass


def test_run_cancels_batch_that_operation_left_open(http: HttpServer, tmp_path: Path) -> None:
    before = portal().run(tasks)

    async def save_first(session: resolver.Resolver) -> resolver.Outcome:
        return await anext(session.save_all([http.url("/about.txt")] * 50, directory=tmp_path))

    with blocking.Resolver() as session:
        assert session.run(save_first).status == "done"
        assert portal().run(tasks) == before
        assert session.fetch(http.url("/about.txt")).status == 200


# A telnet session in a blocking session.


def test_terminal_session_sends_and_expects() -> None:
    with (
        served(fixtures.telnet.serve) as server,
        blocking.Resolver(policy=Policy(allow_port={server.port})) as held,
    ):
        with held.open_terminal(server.url(), size=(100, 30)) as session:
            assert session.expect(b"login: ") == b"Welcome.\nlogin: "
            typing = threading.Thread(target=session.send_line, args=("guest",))
            typing.start()
            assert session.expect(b"$ ") == b"guest\nhello guest\n$ "
            typing.join(HANG)
            assert (session.echoing, session.secured, session.findings) == (True, False, ())
            session.resize(132, 40)
            session.send(b"size\r")
            assert session.decoded(session.expect(b"$ ")) == "size\n132 by 40\n$ "
            with pytest.raises(TimedOut):
                session.expect(b"never", timeout=0)
            session.send_line("bye")
            assert session.read() == b"bye\nbye\n"
        with pytest.raises(ValueError, match="closed"):
            session.read()
    assert server.violations == []


def test_terminal_session_of_derived_url_is_refused() -> None:
    with (
        blocking.Resolver() as held,
        pytest.raises(Refused),
        held.open_terminal("telnet://h.example/", origin="derived"),
    ):
        pass
