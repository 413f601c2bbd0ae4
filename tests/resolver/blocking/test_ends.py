"""Nobody waits for a thread that is gone: Ctrl-C, forks, the end of the thread, and that of the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator

import pytest
import trio

import resolver.blocking.portal
from fixtures.gopher import GopherServer
from fixtures.http import HttpServer
from fixtures.ports import listen
from resolver import Limits, blocking
from resolver.blocking.portal import Portal, portal
from tests.elsewhere import served
from tests.fresh import run_alone
from tests.hang import NEVER
from tests.resolver.blocking.test_calls import tasks, url_of
from tests.sampled import sampled


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Whoever runs the tests in the background has SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Peer:
    """Takes connections, and does what it is told once it has heard something; then it waits for the end."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.left = trio.Event()
        self.port = 0

    async def start(self, nursery: trio.Nursery) -> Peer:
        listeners = await listen(0)
        self.port = listeners[0].socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, self.attend, listeners)
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
def test_ctrl_c_cancels_waits_and_leaves() -> None:
    before = portal().run(tasks)
    with served(Peer(interrupt).start) as peer:
        session = blocking.Resolver(
            policy=resolver.Policy(allow_port=frozenset({peer.port})), limits=Limits(idle=NEVER)
        )
        with session, pytest.raises(KeyboardInterrupt):
            session.fetch(f"gopher://127.0.0.1:{peer.port}/0a")
        assert portal().run(tasks) == before


def test_the_end_of_the_thread_ends_its_calls(gopher: GopherServer) -> None:
    """What was opened in it says so; all else begins a new one."""
    first = portal()
    with served(Peer(first.end).start) as peer:
        policy = resolver.Policy(allow_port=frozenset({peer.port, gopher.port}))
        session = blocking.Resolver(policy=policy, limits=Limits(idle=NEVER))
        for _ in range(2):
            with pytest.raises(RuntimeError, match="has ended"):
                session.fetch(f"gopher://127.0.0.1:{peer.port}/0a")
        session.close()
    assert not first.usable
    first.cast(tasks)
    assert blocking.fetch(url_of(gopher), policy=policy).content
    assert portal() is not first


def test_a_call_that_the_thread_did_not_begin_ends_too() -> None:
    own = Portal()
    own.close()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="has ended"):
            own.run(tasks)
        own.close()


def test_a_call_in_the_thread_itself_says_so() -> None:
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

#: Programs and what they print: each ends by itself, without an error.
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
def test_no_program_waits_for_ever(name: str, gopher: GopherServer, http: HttpServer) -> None:
    program, says = PROGRAMS[name]
    assert run_alone(PRELUDE + program, gopher.port, http.url("/about.txt")) == says


def test_importing_starts_no_thread() -> None:
    program = "import threading, resolver.blocking as b; b.Resolver(); print(threading.active_count())"
    assert run_alone(program) == "1\n"
