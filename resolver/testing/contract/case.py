"""A case of the contract: a server of a scheme, URLs with expected results, and the setting that runs it.

`{at}` in a URL is the address and port of the case's server, `{folder}` the path of a folder here.
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
from types import TracebackType
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

#: A password that is in no sentence.
SECRET = "xyzzy"


class MockServer(Protocol):
    """A mock server that is running. `heard` are the octets of each connection."""

    port: int

    @property
    def heard(self) -> Sequence[bytes | bytearray]: ...


Start: TypeAlias = Callable[[trio.Nursery, ssl.SSLContext], Awaitable[MockServer]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row. `document` has `content`; `listing` has entries of these `names`, whose URLs can be fetched
    but for those in `barred`; those in `asking` have to be told something first. `missing` raises `error`.
    `login` is a URL with a password, which is `secret` and, as it goes over the wire, `spoken`.

    `later` are octets that a plan cannot know: as they are shown, and as they are sent. `farewell` is said
    when the session is closed. Where the server leads the dialogue another way than a willing one would, the
    URL is in `otherwise`. `furnish` puts the files there that are in `{folder}`.

    `by_setting`: a URL names no server, and a setting does. `drawn`: numbers of it are drawn at random, and
    no event has the octets of a plan. `any_port`: the policy has nothing against a port that is not the
    scheme's. `saved` is the name that `document` is saved under, where its URL gives one."""

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


#: Seconds after which a test gives up. Nothing here comes near it, however busy the machine.
PATIENT = 30.0

#: The long form of each check: all moments of a cancel, more seeds.
FULL = os.environ.get("RESOLVE_TESTS") == "full"


@dataclass
class IdleServer:
    """A server that is asked nothing afterwards."""

    port: int
    heard: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class CaseSetting:
    """`server` is None for what connects to nothing; `folder` is what file URLs name things in, `tls` what
    its server is given."""

    case: Case
    server: MockServer | None
    folder: Path
    tls: ssl.SSLContext | None = None

    @property
    def port(self) -> int:
        """Of the server."""
        assert self.server is not None, f"{self.case} connects to nothing"
        return self.server.port

    @property
    def at(self) -> str:
        return "" if self.server is None else f"127.0.0.1:{self.port}"

    @property
    def news_server(self) -> str | None:
        """For URLs that name none."""
        return self.at if self.case.by_setting else None

    @property
    def policy(self) -> Policy:
        """What lets the row's URLs pass, its entries too, which nobody chose."""
        ports = frozenset[int]() if self.server is None else frozenset({self.port})
        return Policy(allow_port=ports, allow_password=True)

    def url(self, template: str | None) -> str:
        assert template is not None, f"{self.case} has no such URL"
        return template.format(at=self.at, folder=self.folder.as_uri().partition("//")[2])

    @property
    def connections(self) -> int:
        """How many the server has had."""
        return 0 if self.server is None else len(self.server.heard)

    def heard(self, before: int = 0) -> bytes:
        """What the server was told on the connections behind the first `before`."""
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
    """The row with its server, which runs until the nursery is cancelled."""
    server = None if case.start is None else await case.start(nursery, tls)
    return CaseSetting(case, server, folder, tls)


#: One way of asking for a URL; the path is for those that write a file.
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
    """What this process holds: the number of its descriptors, and the names of threads that work."""

    descriptors: int
    threads: frozenset[str]

    def exceeds(self, before: OpenConnections) -> bool:
        """Is there anything that was not there before?"""
        return self.descriptors > before.descriptors or not self.threads <= before.threads


#: Waits until everybody waits for something to happen.
settle: ContextVar[Callable[[], Awaitable[object]]] = ContextVar(
    "settle", default=trio.testing.wait_all_tasks_blocked
)


async def wait_until_settled() -> OpenConnections:
    """What is open once everybody, servers included, waits for something to happen."""
    await settle.get()()
    working = frozenset(thread.name for thread in threading.enumerate() if not _waits(thread))
    return OpenConnections(len(os.listdir("/proc/self/fd")), working)


async def check_nothing_left(before: OpenConnections) -> None:
    """No more descriptors than before, and no other thread but those that wait for work. Fewer there may
    be: a server may have closed its end of something earlier only now."""
    with running().move_on_after(PATIENT):
        while (now := await wait_until_settled()).exceeds(before):
            await running().sleep(0.005)
    assert not now.exceeds(before), (before, now)


def _waits(thread: threading.Thread) -> bool:
    """trio keeps threads for some seconds, and names them for what they do meanwhile."""
    return thread is threading.main_thread() or thread.name.startswith("Trio thread ")


class ListeningSockets(AbstractContextManager["ListeningSockets"]):
    """Sockets of one port, for TCP and for UDP, with nobody behind them: nothing is ever heard."""

    heard: tuple[bytes, ...] = ()

    def __init__(self) -> None:
        while True:
            self._tcp = socket.create_server(("127.0.0.1", 0))
            self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.port: int = self._tcp.getsockname()[1]
            try:
                self._udp.bind(("127.0.0.1", self.port))
                break
            except OSError:  # somebody else's, of the one and not of the other
                self._tcp.close()
                self._udp.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tcp.close()
        self._udp.close()

    def saw_nothing(self) -> bool:
        """Did nobody connect, and no datagram come?"""
        return not _happens(self._tcp, self._tcp.accept) and not _happens(
            self._udp, partial(self._udp.recv, 1)
        )


def _happens(sock: socket.socket, look: Callable[[], object]) -> bool:
    sock.setblocking(False)
    try:
        look()
    except BlockingIOError:
        return False
    return True


#: What is done with a row; the folder is an empty one, for files.
Function: TypeAlias = Callable[[CaseSetting, Path], Coroutine[Any, Any, None]]


class ContractCheck(NamedTuple):
    """`cancels` says that it cancels tasks of trio's."""

    name: str
    function: Function
    is_for: Callable[[Case], bool]
    cancels: bool = False

    def __str__(self) -> str:
        return self.name


def accept_any(case: Case) -> bool:
    """Every row."""
    return True


def listing(case: Case) -> bool:
    """One that has a listing."""
    return case.listing is not None


def is_served(case: Case) -> bool:
    """One that connects to a server."""
    return case.start is not None


def is_kept(case: Case) -> bool:
    """One whose document is octets to be kept."""
    return case.kind is not Kind.SERVICE
