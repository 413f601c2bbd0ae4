"""Blocking streams (pieces, entries, early exits), Ctrl-C, forks, and the end of thread and process."""

from __future__ import annotations

import gc
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, suppress
from itertools import islice
from pathlib import Path

import pytest
import trio

import resolver.blocking.portal
from fixtures.gopher import Behavior, GopherServer, Item, serve
from fixtures.http import HttpServer
from fixtures.ports import serve_connections
from resolver import Declined, Event, Kind, Limits, LocalError, Policy, Progress, Truncated, blocking
from resolver.blocking.portal import BLOCK_SIZE, Portal, portal
from tests.elsewhere import served
from tests.fresh import run_alone
from tests.hang import NEVER
from tests.resolver.blocking.conftest import allowing
from tests.resolver.blocking.test_session import Own, tasks, url_of
from tests.sampled import sampled

LARGE = random.Random(1).randbytes(3 * BLOCK_SIZE + 12_345)


async def serve_large(nursery: trio.Nursery) -> GopherServer:
    tree = {b"/large": Item("9", b"Large", LARGE), b"/cut": Item("9", b"Cut", LARGE)}
    return await serve(nursery, tree, behaviors={b"/cut": Behavior(reset_at=2 * BLOCK_SIZE)})


def open_large(server: GopherServer, path: str = "/9/large") -> AbstractContextManager[blocking.LiveReply]:
    return blocking.stream(url_of(server, path), policy=allowing(server))


def take_all(reply: blocking.LiveReply, received: bytearray) -> None:
    for octets in reply.body:
        received += octets


def by_pieces(reply: blocking.LiveReply) -> bytes:
    pieces = list(reply.body)
    assert all(len(piece) >= 1 for piece in pieces)
    return b"".join(pieces)


def by_size(reply: blocking.LiveReply) -> bytes:
    *pieces, last = reply.iter_bytes(100_000)
    assert {len(piece) for piece in pieces} == {100_000}
    assert 1 <= len(last) <= 100_000
    return b"".join([*pieces, last])


def by_all(reply: blocking.LiveReply) -> bytes:
    whole = reply.read()
    assert (reply.read(), reply.read(1), list(reply.body)) == (b"", b"", [])
    return whole


def by_turns(reply: blocking.LiveReply) -> bytes:
    """Read with each method in turn."""
    parts = [reply.read(0), reply.read(1), reply.read(BLOCK_SIZE + 1), next(reply.body), reply.read(10)]
    assert [len(part) for part in parts if part is not parts[3]] == [0, 1, BLOCK_SIZE + 1, 10]
    parts += islice(reply.iter_bytes(7), 5)
    return b"".join([*parts, *reply.body])


@pytest.mark.parametrize("take", [by_pieces, by_size, by_all, by_turns])
def test_stream_read_methods_return_all_bytes(take: Callable[[blocking.LiveReply], bytes]) -> None:
    with served(serve_large) as server, open_large(server) as reply:
        assert reply.url == url_of(server, "/9/large")
        assert take(reply) == LARGE
        assert reply.elapsed > 0


def test_stream_after_exit_is_closed(gopher: GopherServer) -> None:
    with blocking.stream(url_of(gopher), policy=allowing(gopher)) as reply:
        assert reply.read(1) == b"A"
    with blocking.entries(url_of(gopher, "/"), policy=allowing(gopher)) as entries:
        pass
    assert reply.body.read_some(1) == b" "  # bytes that were already read ahead
    for read in (reply.read, lambda: next(entries)):
        with pytest.raises(ValueError, match="reply"):
            read()


def test_stream_error_is_raised_after_data() -> None:
    received = bytearray()
    with served(serve_large) as server, open_large(server, "/9/cut") as reply:
        with pytest.raises(Truncated) as caught:
            take_all(reply, received)
        assert len(received) == caught.value.received > 0
        assert LARGE.startswith(received)
        with pytest.raises(Truncated):
            next(reply.body)


class Halting:
    """A server that sends a few bytes, and the others after `go_on`."""

    def __init__(self) -> None:
        self.port = 0
        self._token: trio.lowlevel.TrioToken | None = None
        self._go_on = trio.Event()

    async def start(self, nursery: trio.Nursery) -> Halting:
        self.port = await serve_connections(nursery, self.attend)
        self._token = trio.lowlevel.current_trio_token()
        return self

    async def attend(self, stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"here")
        await self._go_on.wait()
        await stream.send_all(b" and there")
        await stream.aclose()

    def go_on(self) -> None:
        assert self._token is not None
        self._token.run_sync_soon(self._go_on.set)


def test_stream_returns_first_bytes_immediately() -> None:
    """A transfer in progress is not lost if a callback raises, or on Ctrl-C."""
    told: list[tuple[int, int]] = []
    failing = False

    def listen(event: Event) -> None:
        if isinstance(event, Progress):
            told.append((threading.get_ident(), event.received))
            if failing:
                raise Own

    with served(Halting().start) as peer:
        policy, url = Policy(allow_port=frozenset({peer.port})), f"gopher://127.0.0.1:{peer.port}/9a"
        with blocking.stream(url, policy=policy, on_event=listen, limits=Limits(idle=NEVER)) as reply:
            assert next(reply.body) == b"here"
            assert told == [(threading.get_ident(), 4)]
            failing = True
            peer.go_on()
            with pytest.raises(Own):
                next(reply.body)
            failing = False
            assert b"".join(reply.body) == b" and there"
    assert {ident for ident, _ in told} == {threading.get_ident()}


@pytest.mark.parametrize("read", [0, 1, 10, 2 * BLOCK_SIZE])
def test_stream_left_early_ends_its_tasks(read: int) -> None:
    before = portal().run(tasks)
    with served(serve_large) as server:
        with suppress(Own), open_large(server) as reply:
            assert reply.read(read) == LARGE[:read]
            raise Own
        assert portal().run(tasks) == before


def test_stream_is_closed_by_garbage_collection() -> None:
    before = portal().run(tasks)
    with served(serve_large) as server:
        reply = open_large(server).__enter__()
        assert reply.read(10) == LARGE[:10]
        gc.collect()
        assert reply.read(10) == LARGE[10:20]
        assert portal().run(tasks) > before
        del reply
        gc.collect()
        while portal().run(tasks) > before:
            pass


def test_stream_entries_and_lines(gopher: GopherServer) -> None:
    url, policy = url_of(gopher, "/"), allowing(gopher)
    listed = blocking.fetch(url, policy=policy).entries
    assert listed is not None
    with blocking.entries(url, policy=policy) as entries:
        assert tuple(entries) == listed
    with blocking.stream(url, policy=policy) as reply:
        assert tuple(reply.entries()) == listed
    with blocking.Resolver(policy=policy) as session:
        with session.stream(url) as reply:
            assert len(b"".join(reply.lines()).splitlines()) == len(listed)
        with session.entries(url) as entries:
            assert next(entries) == listed[0]
    with blocking.stream(url_of(gopher), policy=policy) as reply, pytest.raises(Declined):
        reply.entries()


def test_stream_outlives_closed_session(gopher: GopherServer) -> None:
    session = blocking.Resolver(policy=allowing(gopher))
    with session.stream(url_of(gopher)) as reply:
        session.close()
        assert reply.read().startswith(b"A text")
    with pytest.raises(RuntimeError, match="closed"), session.stream(url_of(gopher)):
        raise AssertionError("entered")


# Calls end if their thread is gone: Ctrl-C, forks, the end of the thread, and that of the process.


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Enable SIGINT, which is ignored if the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Peer:
    """A server that calls `act` after the first data, and then waits until the client closes."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.left = trio.Event()
        self.port = 0

    async def start(self, nursery: trio.Nursery) -> Peer:
        self.port = await serve_connections(nursery, self.attend)
        return self

    async def attend(self, stream: trio.SocketStream) -> None:
        await stream.receive_some()
        self._act()
        while await stream.receive_some():
            pass
        self.left.set()


def interrupt() -> None:
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGINT)


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_cancels_call() -> None:
    before = portal().run(tasks)
    with served(Peer(interrupt).start) as peer:
        session = blocking.Resolver(
            policy=resolver.Policy(allow_port=frozenset({peer.port})), limits=Limits(idle=NEVER)
        )
        with session, pytest.raises(KeyboardInterrupt):
            session.fetch(f"gopher://127.0.0.1:{peer.port}/0a")
        assert portal().run(tasks) == before


def test_portal_end_ends_its_calls(gopher: GopherServer) -> None:
    """Sessions of the ended thread raise an error; other calls start a new thread."""
    first = portal()
    with served(Peer(first.end).start) as peer:
        policy = resolver.Policy(allow_port=frozenset({peer.port, gopher.port}))
        session = blocking.Resolver(policy=policy, limits=Limits(idle=NEVER))
        for _ in range(2):
            with pytest.raises(RuntimeError, match="has ended"):
                session.fetch(f"gopher://127.0.0.1:{peer.port}/0a")
        session.close()
    assert not first.is_usable
    first.try_start(tasks)
    assert blocking.fetch(url_of(gopher), policy=policy).content
    assert portal() is not first


def test_portal_run_after_close_raises() -> None:
    own = Portal()
    own.close()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="has ended"):
            own.run(tasks)
        own.close()


class FullKeeper(AbstractAsyncContextManager[None]):
    """A keeper that cannot save its data at its exit."""

    def __init__(self) -> None:
        self.exits = 0

    async def __aexit__(self, *_: object) -> None:
        self.exits += 1
        raise LocalError("disk full")


def test_portal_close_exits_every_keeper_after_errors() -> None:
    own, keepers = Portal(), [FullKeeper() for _ in range(4)]
    for keeper in keepers:
        own.close_at_end(keeper)
    with pytest.raises(LocalError):
        own.close()
    assert [keeper.exits for keeper in keepers] == [1] * 4


def test_closed_session_is_not_exited_by_portal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own, exits = Portal(), []
    monkeypatch.setattr(resolver.blocking.portal, "_portal", own)

    async def leave(session: resolver.Resolver, *_: object) -> None:
        exits.append(session)
        raise LocalError("disk full")

    monkeypatch.setattr(resolver.Resolver, "__aexit__", leave)
    session = blocking.Resolver()
    assert session.fetch(tmp_path).kind is Kind.DIRECTORY
    with pytest.raises(LocalError):
        session.close()
    own.close()
    assert len(exits) == 1


def test_blocking_call_in_portal_thread_raises() -> None:
    async def nested() -> None:
        blocking.fetch("file:///")

    with pytest.raises(RuntimeError, match="blocking call"):
        portal().run(nested)


PRELUDE = """
import os, sys, resolver
from resolver import blocking, Policy

port = int(sys.argv[1])
url = f"gopher://127.0.0.1:{port}/00/about"
policy = Policy(allow_port=frozenset({port}))

def forked(work):
    sys.stdout.flush()
    if (pid := os.fork()) == 0:
        work()
        sys.exit(0)  # through atexit
    assert os.waitpid(pid, 0)[1] == 0
"""

#: Programs and their output: each ends on its own, without an error.
PROGRAMS = {
    "a fork has a thread of its own": (
        """
assert blocking.fetch(url, policy=policy).content
forked(lambda: print(len(blocking.fetch(url, policy=policy).content)))
print(len(blocking.fetch(url, policy=policy).content))
""",
        "39\n39\n",
    ),
    "what the parent opened": (
        """
used = blocking.Resolver(policy=policy)
unused = blocking.Resolver(policy=policy)
used.fetch(url)

def child():
    print(len(unused.fetch(url).content))
    try:
        used.fetch(url)
    except RuntimeError as error:
        print(error)
    used.close()

forked(child)
print(len(used.fetch(url).content))
used.close()
""",
        "39\n"
        "this was opened before the process forked, and its connections are those of the parent: make a new "
        "one in the child\n"
        "39\n",
    ),
    "a fork in a callback": (
        """
def listen(event):
    if isinstance(event, resolver.Connected):
        pid = os.fork()
        if pid:
            assert os.waitpid(pid, 0)[1] == 0

try:
    with blocking.Resolver(policy=policy, on_event=listen) as session:
        print(len(session.fetch(url).content), flush=True)
except RuntimeError as error:
    print(str(error).partition(":")[0])
""",
        "this was opened before the process forked, and its connections are those of the parent\n39\n",
    ),
    "made when it is imported": (
        """
session = blocking.Resolver(policy=policy)
import threading
assert threading.active_count() == 1
forked(lambda: print(len(session.fetch(url).content)))
assert threading.active_count() == 1
print(len(session.fetch(url).content))
""",
        "39\n39\n",
    ),
    "left open at the end": (
        """
session = blocking.Resolver(policy=policy)
print(len(session.fetch(url).content))
page = sys.argv[2]
session.fetch(page)
opened = session.stream(page)
reply = opened.__enter__()
print(len(reply.read(1)))
file = blocking.open(page)
print(len(file.read(1)))
""",
        "39\n1\n1\n",
    ),
    "left open in a circle": (
        """
session = blocking.Resolver(policy=policy)
session.itself = session
print(len(session.fetch(url).content))
del session
import gc; gc.collect()
print(len(blocking.fetch(url, policy=policy).content))
""",
        "39\n39\n",
    ),
    "a batch in the middle": (
        """
import atexit, shutil, tempfile
folder = tempfile.mkdtemp()
atexit.register(shutil.rmtree, folder)
session = blocking.Resolver(policy=policy)
outcomes = session.save_all([sys.argv[2]] * 9, directory=folder, concurrency=1)
print(next(outcomes).status)
""",
        "done\n",
    ),
    "another thread in the middle of a call": (
        """
import contextlib, threading
silent = f"gopher://127.0.0.1:{port}/0/silent"
connected = threading.Event()

def listen(event):
    if isinstance(event, resolver.Connected):
        connected.set()

@contextlib.contextmanager
def told():
    try:
        yield
    except RuntimeError as error:
        assert "has ended" in str(error)

session = blocking.Resolver(policy=policy, on_event=listen)
threading.Thread(target=told()(session.fetch), args=(silent,), daemon=True).start()
connected.wait()
print("over")
""",
        "over\n",
    ),
    "an atexit that came before ours": (
        """
import atexit

def late():
    try:
        print(len(blocking.fetch(url, policy=policy).content))
    except RuntimeError as error:
        print(39 if "shutdown" in str(error) else error)

atexit.register(late)
print(len(blocking.fetch(url, policy=policy).content))
""",
        "39\n39\n",
    ),
    "a finalizer at the end of all": (
        """
session = blocking.Resolver(policy=policy)
session.fetch(url)

class Late:
    def __del__(self, calls=(blocking.fetch, session.fetch), url=url, write=os.write):
        for call in calls:
            try:
                call(url)
            except RuntimeError as error:
                write(1, f"{error}\\n".encode())

late = Late()
""",
        "the interpreter is shutting down: nothing can be fetched any more\n" * 2,
    ),
}


@pytest.mark.parametrize("name", sampled(PROGRAMS, lambda name: None, 4))
def test_programs_end_without_error(name: str, gopher: GopherServer, http: HttpServer) -> None:
    program, says = PROGRAMS[name]
    assert run_alone(PRELUDE + program, gopher.port, http.url("/about.txt")) == says


def test_importing_starts_no_thread() -> None:
    program = "import threading, resolver.blocking as b; b.Resolver(); print(threading.active_count())"
    assert run_alone(program) == "1\n"
