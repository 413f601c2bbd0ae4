"""A case of the contract: a server for a scheme, URLs with expected results, and the test's settings.

In a URL, `{at}` is the address and port of the case's server, and `{folder}` is the path of a local
directory.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import trio
import trio.testing

from protocols.contract import Kind, Limits, Options
from protocols.errors import Declined, NotFound
from resolver.loops import running
from resolver.network.events import OnEvent
from resolver.policy.settings import Policy
from resolver.transfer.session import Resolver
from resolver.transfer.settings import RetryPolicy

#: A password that no other text contains, so that a text search for the password finds leaks.
SECRET = "xyzzy"


class MockServer(Protocol):
    """A running mock server; `heard` contains the received bytes of each connection."""

    port: int

    @property
    def heard(self) -> Sequence[bytes | bytearray]: ...


Start: TypeAlias = Callable[[trio.Nursery, ssl.SSLContext], Awaitable[MockServer]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A server, the URLs that the checks request from the server, and the expected results.

    Attributes:
        document: a URL whose content is `content`.
        listing: a URL of a listing whose entries have the names in `names`.
        barred: the names of entries that cannot be fetched.
        asking: the names of entries for which a request needs user input.
        missing: the URL of a missing object; a request raises `error`.
        login: a URL with a password.
        secret: the password of `login`.
        spoken: the password in the form that is sent to the server.
        later: pairs of displayed bytes and sent bytes, for data that a plan cannot predict.
        farewell: the bytes that the client sends when the session is closed.
        otherwise: URLs for which the server's reply differs from the expected reply of the plan.
        furnish: a function that creates the files in `{folder}`.
        by_setting: whether the server comes from a setting and not from the URL.
        drawn: whether the client sends random numbers. If so, events differ from the bytes of the plan.
        any_port: whether the policy accepts other ports than the default port of the scheme.
        saved: the default file name of `document`, if the URL determines a file name.
    """

    name: str
    start: Start | None = None
    tls: bool = False
    document: str
    content: bytes
    kind: Kind = Kind.DOCUMENT
    listing: str | None = None
    listing_kind: Kind = Kind.DIRECTORY
    names: tuple[str, ...] = ()
    barred: frozenset[str] = frozenset()
    asking: frozenset[str] = frozenset()
    missing: str | None = None
    error: type[Declined] = NotFound
    login: str | None = None
    secret: str = SECRET
    spoken: bytes = SECRET.encode()
    later: tuple[tuple[bytes, bytes], ...] = ()
    farewell: bytes = b""
    otherwise: frozenset[str] = frozenset()
    options: Options = field(default_factory=Options)
    furnish: Callable[[Path], None] | None = None
    by_setting: bool = False
    drawn: bool = False
    any_port: bool = False
    saved: str | None = None

    def __str__(self) -> str:
        return self.name

    @property
    def scheme(self) -> str:
        return self.document.partition(":")[0]


#: The timeout of a test in seconds. Even on a busy machine, every test takes much less time.
PATIENT = 30.0

#: Whether each check runs in its long form, with cancellations at all checkpoints and with more seeds.
FULL = os.environ.get("RESOLVE_TESTS") == "full"


@dataclass
class IdleServer:
    """A server that expects no requests."""

    port: int
    heard: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class CaseSetting:
    """A case with its running server.

    Attributes:
        server: the mock server; None for a case that connects to no host.
        folder: the directory for `{folder}` in file URLs.
        tls: the TLS context of the server.
    """

    case: Case
    server: MockServer | None
    folder: Path
    tls: ssl.SSLContext | None = None

    @property
    def port(self) -> int:
        """Return the port of the server."""
        assert self.server is not None, f"{self.case} connects to no server"
        return self.server.port

    @property
    def at(self) -> str:
        return "" if self.server is None else f"127.0.0.1:{self.port}"

    @property
    def news_server(self) -> str | None:
        """Return the setting for the news server, or None if the URL contains the server."""
        return self.at if self.case.by_setting else None

    @property
    def policy(self) -> Policy:
        """Return a policy that allows the case's URLs, and the derived URLs in its listings."""
        ports = frozenset[int]() if self.server is None else frozenset({self.port})
        return Policy(allow_port=ports, allow_password=True)

    def url(self, template: str | None) -> str:
        assert template is not None, f"{self.case} has no such URL"
        return template.format(at=self.at, folder=self.folder.as_uri().partition("//")[2])

    @property
    def connections(self) -> int:
        """Return the number of connections that the server has accepted."""
        return 0 if self.server is None else len(self.server.heard)

    def heard(self, before: int = 0) -> bytes:
        """Return the bytes that the server received, except on the first `before` connections."""
        return b"" if self.server is None else b"".join(self.server.heard[before:])

    def resolver(
        self,
        *,
        options: Options | None = None,
        limits: Limits | None = None,
        policy: Policy | None = None,
        patience: RetryPolicy | None = None,
        on_event: OnEvent | None = None,
    ) -> Resolver:
        return Resolver(
            policy=self.policy if policy is None else policy,
            limits=Limits(idle=PATIENT) if limits is None else limits,
            options=options,
            news_server=self.news_server,
            patience=patience,
            on_event=on_event,
        )


async def start(case: Case, nursery: trio.Nursery, tls: ssl.SSLContext, folder: Path) -> CaseSetting:
    """Start the case's server, which runs until the nursery is cancelled."""
    server = None if case.start is None else await case.start(nursery, tls)
    return CaseSetting(case, server, folder, tls)


#: A function that performs an operation on a URL. Only operations that write a file use the path.
Way: TypeAlias = Callable[[Resolver, str, Path], Awaitable[object]]


async def fetch(session: Resolver, url: str, path: Path) -> object:
    return await session.fetch(url)


async def stream(session: Resolver, url: str, path: Path) -> object:
    async with session.stream(url) as reply:
        return [octets async for octets in reply.body]


async def save(session: Resolver, url: str, path: Path) -> object:
    return await session.save(url, path)


async def entries(session: Resolver, url: str, path: Path) -> object:
    async with session.entries(url) as found:
        return [entry async for entry in found]


WAYS: dict[str, Way] = {"fetch": fetch, "stream": stream, "save": save, "entries": entries}


class OpenConnections(NamedTuple):
    """The open resources of this process: the number of file descriptors, and the names of busy threads."""

    descriptors: int
    threads: frozenset[str]

    def exceeds(self, before: OpenConnections) -> bool:
        """Return whether more resources are open than in `before`."""
        return self.descriptors > before.descriptors or not self.threads <= before.threads


#: A function that waits until all tasks are blocked.
settle: ContextVar[Callable[[], Awaitable[object]]] = ContextVar(
    "settle", default=trio.testing.wait_all_tasks_blocked
)


async def wait_until_settled() -> OpenConnections:
    """Wait until all tasks are blocked, including the servers, and return the open resources."""
    await settle.get()()
    working = frozenset(thread.name for thread in threading.enumerate() if not _is_idle(thread))
    return OpenConnections(len(os.listdir("/proc/self/fd")), working)


async def check_no_leak(before: OpenConnections) -> None:
    """Check that no more descriptors and threads are in use than before (resource leak).

    Idle worker threads are not counted. The number of descriptors may be smaller than before, because a
    server may close an earlier connection late.
    """
    with running().move_on_after(PATIENT):
        while (now := await wait_until_settled()).exceeds(before):
            await running().sleep(0.005)
    assert not now.exceeds(before), (before, now)


def _is_idle(thread: threading.Thread) -> bool:
    """Return whether a thread is an idle worker thread.

    Trio keeps idle threads for some seconds. Only a busy thread has the name of its task.
    """
    return thread is threading.main_thread() or thread.name.startswith("Trio thread ")


class ListeningSockets(AbstractContextManager["ListeningSockets"]):
    """Listening sockets for TCP and UDP on the same port, to detect connections and datagrams."""

    heard: tuple[bytes, ...] = ()

    def __init__(self) -> None:
        while True:
            self._tcp = socket.create_server(("127.0.0.1", 0))
            self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.port: int = self._tcp.getsockname()[1]
            try:
                self._udp.bind(("127.0.0.1", self.port))
                break
            except OSError:  # another process uses the TCP port or the UDP port
                self._tcp.close()
                self._udp.close()

    def __exit__(self, *_: object) -> None:
        self._tcp.close()
        self._udp.close()

    def received_nothing(self) -> bool:
        """Return whether the sockets received no connection and no datagram."""
        return not _receives(self._tcp, self._tcp.accept) and not _receives(
            self._udp, partial(self._udp.recv, 1)
        )


def _receives(sock: socket.socket, operation: Callable[[], object]) -> bool:
    sock.setblocking(False)
    try:
        operation()
    except BlockingIOError:
        return False
    return True


#: The function of a check. The `Path` is an empty directory for saved files.
Function: TypeAlias = Callable[[CaseSetting, Path], Coroutine[Any, Any, None]]


class ContractCheck(NamedTuple):
    """A check of the contract; `cancels` marks a check that cancels trio tasks."""

    name: str
    function: Function
    is_for: Callable[[Case], bool]
    cancels: bool = False

    def __str__(self) -> str:
        return self.name


def accept_any(case: Case) -> bool:
    """Return True, because the check applies to every case."""
    return True


def has_listing(case: Case) -> bool:
    return case.listing is not None


def is_served(case: Case) -> bool:
    return case.start is not None


def has_content(case: Case) -> bool:
    """Return whether the case's document has bytes that can be saved."""
    return case.kind is not Kind.SERVICE
