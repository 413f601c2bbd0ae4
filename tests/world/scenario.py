"""Runs of the session in a simulated world: the servers, the fetched objects, and the invariants.

A run is a sequence of process lives. Each life fetches the same objects to the same directory. A fault may
kill the process. The last life has no faults, and must fetch all objects completely.
"""

from __future__ import annotations

import os
import random
import sqlite3
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, Literal
from unittest import mock

import trio

from fixtures.faulty import FaultyServer, Profile
from fixtures.ftp.behavior import Behavior
from fixtures.ftp.server import MockFtp
from fixtures.ftp.tree import File, Folder
from fixtures.http.server import HttpServer
from fixtures.http.site import Page
from fixtures.prospero.behavior import Behavior as ProsperoBehavior
from fixtures.prospero.service import Service
from fixtures.prospero.tree import CONTENTS, Moved, Node
from fixtures.prospero.tree import file as prospero_file
from resolver import (
    Event,
    Limits,
    Options,
    Outcome,
    Policy,
    ResolveError,
    Resolver,
    RetryPolicy,
    SaveRequest,
)
from resolver.files import commit
from resolver.ledger.book import decode_string
from resolver.loops import running
from resolver.testing.world import LoopName, Schedule, World, WorldNetwork
from resolver.warc.recorder import Recorder
from tests.world.secured import server_tls

HOSTS = {"one.example": ("93.184.216.1", "93.184.216.11"), "two.example": ("93.184.216.2",)}
SECRETS = (b"secret pw", b"secret%20pw", b"secret+pw")
_SIZES = (0, 1, 700, 5_000, 40_000, 66_000, 130_000)
_ROWS = "SELECT url, status FROM object"
OWN = (".part", ".part-state", ".part-state.new")

#: The network protocol of the objects: TCP without or with TLS, or UDP for most objects.
Transport = Literal["tcp", "tls", "udp"]
#: The behaviors of an FTP server with TLS. The last server does not know the sizes of files. Without TLS, a
#: client could not detect that a firewall had ended the data connection of such a server.
_TLS_FTP = (
    Behavior(),
    Behavior(resumes_sessions=True),
    Behavior(replies={b"SIZE": b"502 Not implemented\r\n"}, has_features=False),
)
#: The last part of the name of an object of prospero, with the behavior of its server.
_PATHS = {
    "sized": ProsperoBehavior(),
    "unsized": ProsperoBehavior(),
    "moved": ProsperoBehavior(),
    "waiting": ProsperoBehavior(wait=30, queue=(2, 60)),
    "swapped": ProsperoBehavior(swaps=True),
}
#: The ports whose number of connections the session limits.
LIMITED_PORTS = frozenset({21, 80, 443, 990, 1525})
_PORTS = {"gopher": 70, "gophers": 70, "nntp": 119, "nntps": 563}


@dataclass(frozen=True)
class Wanted:
    """An object that a run fetches: its URL, its file name and its content."""

    url: str
    name: str
    content: bytes
    host: str
    scheme: str
    page: Page | None = None


@dataclass
class Plan:
    """The objects that a run fetches, and the settings of the session."""

    wanted: list[Wanted]
    ledger: bool
    concurrency: int
    per_host: int
    sync: Any
    segments: int
    digest: bool
    twice: bool
    greeting: bytes
    tls: ssl.TLSVersion | None = None
    together: bool = False
    ftp: Behavior = field(default_factory=Behavior)


#: The greetings of an unknown FTP server, and of two servers to which the client sends commands ahead.
GREETINGS = (b"220 Mock FTP server\r\n", b"220 ProFTPD Server\r\n", b"220 (vsFTPd 3.0.3)\r\n")


def plan_of(seed: int, transport: Transport = "tcp") -> Plan:
    """Return the random plan for a seed."""
    plan, source = _plan(seed), random.Random(f"{transport} {seed}")
    if transport == "tcp":
        return plan
    tls = source.choice((ssl.TLSVersion.TLSv1_2, *3 * (ssl.TLSVersion.TLSv1_3,)))
    change = _over_tls if transport == "tls" else _over_udp
    return replace(
        plan,
        wanted=[change(source, each) for each in plan.wanted],
        tls=tls if transport == "tls" else None,
        together=source.random() < 0.5,
        ftp=source.choice(_TLS_FTP) if transport == "tls" else Behavior(),
    )


def _plan(seed: int) -> Plan:
    source = random.Random(f"plan {seed}")
    wanted = [_wanted(source, number) for number in range(source.randint(1, 6))]
    others = random.Random(f"others {seed}")
    wanted += [_other(others, len(wanted)) for _ in range(others.choice((0, 0, 1)))]
    twice = random.Random(f"twice {seed}").random() < 0.15
    return Plan(
        wanted,
        source.random() < 0.6 and not twice,
        source.randint(1, 4),
        source.randint(1, 3),
        source.choice(("group", "group", "always")),
        source.choice((1, 1, 1, 3)),
        source.random() < 0.2,
        twice,
        random.Random(f"greeting {seed}").choice(GREETINGS),
    )


def _wanted(source: random.Random, number: int) -> Wanted:
    name, size, host = f"o{number}.bin", source.choice(_SIZES), source.choice(tuple(HOSTS))
    content = content_of(name, size)
    if source.random() < 0.5:
        login = "bob:secret%20pw@" if source.random() < 0.5 else ""
        return Wanted(f"ftp://{login}{host}/{name}", name, content, host, "ftp")
    framing: Literal["length", "chunked"] = source.choice(("length", "length", "chunked"))
    headers = (("ETag", f'"{number}"'),) if source.random() < 0.7 else ()
    parts = framing == "length" and source.random() < 0.7
    page = Page(content, "application/octet-stream", headers=headers, framing=framing, parts=parts)
    return Wanted(f"http://{host}/{name}", name, content, host, "http", page)


def _other(source: random.Random, number: int) -> Wanted:
    """Return an object of a scheme whose mock server has only one object."""
    name, size, host = f"o{number}.bin", source.choice(_SIZES[2:]), f"other{number}.example"
    scheme, path = source.choice((("gopher", "9object.bin%09%09+"), ("nntp", "group/1")))
    content = b"Subject: a test\r\n\r\n" + content_of(name, size).replace(b"\n", b"\r\n") + b"\r\n"
    return Wanted(f"{scheme}://{host}/{path}", name, content, host, scheme)


def _over_tls(source: random.Random, each: Wanted) -> Wanted:
    """Return the object with TLS from the first byte, or with AUTH TLS for half of the objects of ftp.

    Some objects of https have no length, so only the close_notify of the server shows that they are complete.
    All objects of gophers have an end mark, because a missing close_notify is only a warning for gophers.
    """
    if each.scheme == "ftp" and source.random() < 0.5:
        return each
    url, page = each.url.replace(":", "s:", 1), each.page
    if source.random() < 0.4:
        page = page and replace(page, framing="close", parts=False)
    return replace(each, url=url, scheme=f"{each.scheme}s", page=page)


def _over_udp(source: random.Random, each: Wanted) -> Wanted:
    if each.page is None and source.random() < 0.3:
        return each
    name = f"{each.name}/{source.choice(tuple(_PATHS))}"
    host = source.choice(tuple(HOSTS))
    return Wanted(f"prospero://{host}/{name}", each.name, each.content, host, "prospero")


@cache
def content_of(name: str, size: int) -> bytes:
    """Return content that is different for each name."""
    return b"".join(b"%s %07d\n" % (name.encode(), line) for line in range(size // 8 + 1))[:size]


class WorldPort:
    """A port for data connections of the mock FTP server, in the simulated network."""

    network: WorldNetwork

    def __init__(self) -> None:
        self._give, self._take = trio.open_memory_channel[Any](1)
        self.number = self.network.listen_anywhere(self._attend)

    @classmethod
    async def open(cls, host: str, *, reachable: bool) -> WorldPort:
        return cls()

    async def _attend(self, stream: Any) -> None:
        await self._give.send(stream)
        await trio.sleep_forever()

    async def accept(self) -> Any:
        stream = await self._take.receive()
        self.network.unlisten(self.number)
        return stream

    async def aclose(self) -> None:
        self.network.unlisten(self.number)


def run_lives(world: World, live: Callable[..., None]) -> None:
    """Call `live` for each process life with faults, and then once with `calm=True`, for a life without.

    Raises:
        Broken: The run violated an invariant.
    """
    WorldPort.network = world.network
    cafile = os.path.join(os.path.dirname(world.path), "ca.pem")
    with open(cafile, "wb") as file:
        file.write(server_tls()[1])
    # With the certificate as the only authority of the system, a session starts faster.
    with (
        mock.patch("fixtures.ftp.session.DataPort", WorldPort),
        mock.patch.dict(os.environ, SSL_CERT_FILE=cafile, SSL_CERT_DIR=world.path),
    ):
        for _ in range(1 + max((fault.life for fault in world.schedule.faults), default=-1)):
            live(calm=False)
        world.calm()
        live(calm=True)


@dataclass
class Servers:
    """The mock servers of a run, which record the requested objects."""

    http: dict[str, HttpServer] = field(default_factory=dict)
    ftp: dict[str, MockFtp] = field(default_factory=dict)
    prospero: dict[str, Service] = field(default_factory=dict)
    others: dict[str, FaultyServer] = field(default_factory=dict)

    def serve(self, network: WorldNetwork, plan: Plan) -> None:
        tls = None if plan.tls is None else server_tls()[0][plan.tls]
        for host, addresses in HOSTS.items():
            network.name(host, *addresses, together=plan.together)
            here = [each for each in plan.wanted if each.host == host]
            site = {f"/{each.name}": each.page for each in here if each.page is not None}
            files: dict[bytes, Any] = {
                each.name.encode(): File(each.content) for each in here if each.scheme in ("ftp", "ftps")
            }
            root = Folder({**files, b"home": Folder({b"bob": Folder(files)})})
            self.http[host] = HttpServer(site, {}, tls, 80)
            behavior = replace(plan.ftp, greeting=plan.greeting)
            self.ftp[host] = MockFtp(behavior, root=root, tls=tls, needs_tls=tls is not None)
            network.listen(host, 80 if tls is None else 443, self.http[host].handle)
            network.listen(host, 21, self.ftp[host].handle)
            if tls is not None:
                inside = self.ftp[f"{host} inside TLS"] = MockFtp(plan.ftp, root=root, tls=tls, implicit=True)
                network.listen(host, 990, inside.handle)
            tree = {name: thing for each in here for name, thing in _things(each)}
            behaviors: dict[bytes | None, ProsperoBehavior] = {
                name: _PATHS[name.partition(b"/")[2].decode()] for name in tree
            }
            self.prospero[host] = Service(tree, host.encode(), behaviors)
            network.listen_udp(host, 1525, partial(_answer, self.prospero[host]))

        for number, each in enumerate(plan.wanted):
            if each.host not in HOSTS:
                network.name(each.host, f"93.184.217.{number}")
                # The simulated network accepts the connections, so the mock server has no listener (None).
                server = FaultyServer(each.scheme, each.content, Profile(), None, tls)  # type: ignore[arg-type]
                self.others[each.name] = server
                network.listen(each.host, _PORTS[each.scheme], server.handle)

    def requested(self) -> list[str]:
        """Return the names of the objects requested since the previous call, and clear the record."""
        names = []
        for http in self.http.values():
            names += [request.path[1:] for request in http.requests if request.method == "GET"]
            http.requests.clear()
        for ftp in self.ftp.values():
            names += [line[5:].decode() for line in ftp.commands if line.startswith(b"RETR ")]
            ftp.sessions.clear()
        for service in self.prospero.values():
            names += [
                token.partition(b"/")[0].decode()
                for request in service.requests
                for command in request.commands
                for token in command
                if token.partition(b"/")[2].decode() in _PATHS
            ]
            service.requests.clear()
        for name, other in self.others.items():
            names += [name for line in other.heard if line.startswith((b"ARTICLE", b"object.bin"))]
            other.heard.clear()
        return names

    @property
    def violations(self) -> list[str]:
        found = [each for server in self.ftp.values() for each in server.violations]
        found += [each for service in self.prospero.values() for each in service.violations]
        return found + [
            each
            for server in self.http.values()
            for each in server.violations
            if "left in the middle" not in each
        ]


def _things(each: Wanted) -> Iterator[tuple[bytes, Node]]:
    """Yield the objects of a Prospero server with the content of an object, by name."""
    name, unsized = each.name.encode(), Node(attributes=(CONTENTS,), contents=each.content)
    yield name + b"/sized", prospero_file(each.content)
    for path in ("unsized", "waiting", "swapped"):
        yield name + b"/" + path.encode(), unsized
    yield name + b"/moved", Node(moved=Moved(name + b"/unsized"))


def _answer(service: Service, datagram: bytes, source: object) -> list[bytes]:
    return service.receive(datagram, source)[0]


@dataclass
class Life:
    """The outcomes and events of one life of the simulated process."""

    outcomes: list[Outcome] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


def options_of(plan: Plan) -> Options:
    return Options(keep=True, tls="never" if plan.tls is None else "require")


async def fetch_all(plan: Plan, folder: str, life: Life, recorder: Recorder | None = None) -> None:
    """Fetch all objects of a plan to a folder, and record the outcomes in `life`."""
    async with Resolver(
        policy=Policy(allow_password=True),
        limits=Limits(connect=20, idle=20),
        patience=RetryPolicy(tries=3, delay=1.0, retry_all=True),
        options=options_of(plan),
        sync=plan.sync,
        segments=plan.segments,
        on_event=life.events.append,
        recorder=recorder,
    ) as session:
        batch = session.save_all(
            [SaveRequest(each.url, each.name) for each in plan.wanted],
            directory=os.path.join(folder, "files"),
            ledger=os.path.join(folder, "ledger") if plan.ledger else None,
            concurrency=plan.concurrency,
            per_host=plan.per_host,
            digest=plan.digest,
            exists="fail" if plan.ledger else "replace" if plan.twice else "resume",
        )
        async for outcome in batch:
            life.outcomes.append(outcome)


class Broken(AssertionError):
    """The run violated an invariant."""


class Run:
    """A run of the session in a new directory, with the faults of a schedule."""

    def __init__(
        self, schedule: Schedule, directory: str, loop: LoopName = "trio", transport: Transport = "tcp"
    ) -> None:
        self.plan = plan_of(schedule.seed, transport)
        self.world = World(directory, schedule, loop)
        self.servers = Servers()
        self.servers.serve(self.world.network, self.plan)
        self.transfers = 0
        self._has_disk_errors = any(fault.kind in ("EIO", "EMFILE") for fault in schedule.faults)

    def live(self, *, calm: bool) -> None:
        plan, world, life, other = self.plan, self.world, Life(), Life()
        before, there = self._complete(), set(walk(world.path))
        error: BaseException | None = None
        try:
            world.live(lambda: self.fetch(life, other))
        except ResolveError as raised:
            error = raised
        self.transfers += len(life.outcomes)
        asked = self.servers.requested()
        self._check_files(there, killed=world.was_killed, calm=calm)
        self._check_secrets(life, error)
        self._check(not world.network.problems, f"peers failed: {world.network.problems}")
        self._check(not self.servers.violations, f"protocol violations: {self.servers.violations}")
        self._check(not world.left, f"left behind: {world.left}")
        self._check_limits()
        if plan.ledger:
            again = sorted(before.intersection(asked))
            self._check(not again, f"complete objects were requested again: {again}")
        if not world.was_killed:
            self._check_outcomes(life, error, calm=calm and not plan.twice)
            self._check_ledger(life)
        if calm:
            self._check(len(self._complete()) == len(plan.wanted), "incomplete without a fault")
        self.check_life(life, calm=calm)

    def check_life(self, life: Life, *, calm: bool) -> None:
        """Check further invariants after a life. Raises `Broken`."""

    def is_known(self, short: str) -> bool:
        """Return whether a file belongs to the run, although it is not an object or a partial file."""
        return short in ("ledger", "ledger-wal", "ledger-shm")

    async def fetch(self, life: Life, other: Life) -> None:
        """Fetch all objects with one session, or twice with two concurrent sessions."""
        if not self.plan.twice:
            return await fetch_all(self.plan, self.world.path, life)
        async with running().open_nursery() as nursery:
            nursery.start_soon(fetch_all, self.plan, self.world.path, life)
            nursery.start_soon(fetch_all, self.plan, self.world.path, other)
        return None

    def _check(self, holds: bool, words: str) -> None:
        if not holds:
            raise Broken(words)

    def _path(self, name: str) -> str:
        return os.path.join(self.world.path, "files", name)

    def _complete(self) -> set[str]:
        return {each.name for each in self.plan.wanted if read(self._path(each.name)) == each.content}

    def _check_files(self, before: set[str], *, killed: bool, calm: bool) -> None:
        """Check all files; `before` are the paths that existed when the life began."""
        contents = {each.name: each.content for each in self.plan.wanted}
        for path in walk(self.world.path):
            short = os.path.relpath(path, self.world.path)
            name = os.path.basename(path)
            if name in contents:
                found = read(path) or b""
                check_content(short, found, contents[name])
            elif not self.is_known(short):
                base, _, suffix = name.partition(".bin")
                own = suffix in OWN and base + ".bin" in contents
                # A life that fails early does not open the files of a killed life.
                allowed = killed or self._has_disk_errors or path in before
                temporary = suffix == ".part-state.new" and not allowed
                self._check(own and not temporary, f"unknown file {short}")
                # The removal of a state file may fail if no file descriptor is free, or after a disk error.
                # The next run removes the state file, but with a ledger it does not open a complete file.
                self._check(not calm or (self._has_disk_errors and self.plan.ledger), f"{short} is left")
                if suffix == ".part" and self.plan.segments == 1:
                    octets = read(path) or b""
                    self._check(contents[base + ".bin"].startswith(octets), f"{short} has other bytes")

    def _check_secrets(self, life: Life, error: BaseException | None) -> None:
        said = repr((life.outcomes, life.events, error, [each.as_json() for each in life.outcomes])).encode()
        said += repr([(each.error, each.error and each.error.message) for each in life.outcomes]).encode()
        held = [(read(path) or b"") + path.encode() for path in walk(self.world.path)]
        for secret in SECRETS:
            self._check(not any(secret in each for each in (said, *held)), f"the secret {secret!r} is shown")

    def _check_limits(self) -> None:
        for (address, port), most in self.world.network.most.items():
            allowed = self.plan.per_host * (1 + self.plan.twice)
            if port in LIMITED_PORTS and self.plan.segments == 1:
                self._check(most <= allowed, f"{most} connections to {address}:{port}, not {allowed}")
        if self.plan.sync == "group":
            most = self.world.most_calls.get(commit._perform, 0)
            self._check(most <= 1 + self.plan.twice, f"{most} group commits at the same time")

    def _check_outcomes(self, life: Life, error: BaseException | None, *, calm: bool) -> None:
        if error is not None:
            self._check(not calm, f"the run failed without a fault: {error!r}")
            return
        self._check(len(life.outcomes) == len(self.plan.wanted), f"{len(life.outcomes)} outcomes")
        for each in life.outcomes:
            words = f"{each!r} {each.exit} {each.error!r}"
            self._check((each.error is None) == (each.exit == 0), words)
            self._check((each.error is None) == (each.status in ("done", "skipped")), words)
            self._check(each.error is None or isinstance(each.error, ResolveError), words)
            self._check(not calm or each.error is None, f"failed without a fault: {words}")
            if each.status == "done":
                self._check(each.path is not None and os.path.basename(each.path) in self._complete(), words)

    def _check_ledger(self, life: Life) -> None:
        """Check that the ledger has all outcomes, except after a fault of its last transaction."""
        path = os.path.join(self.world.path, "ledger")
        if not life.outcomes or not self.plan.ledger or self.world.disk.has_ledger_fault:
            return
        with closing(sqlite3.connect(path)) as connection:
            rows = {decode_string(url): status for url, status in connection.execute(_ROWS)}
        for each in life.outcomes:
            found = rows.get(each.url)
            fits = found == each.status or (found, each.status) == ("done", "skipped")
            self._check(fits, f"the ledger has {found} for {each!r}")


def check_content(name: str, found: bytes, right: bytes) -> None:
    """Compare the content of a file with the expected content.

    Raises:
        Broken: The contents differ. The message has the offset of the first difference.
    """
    if found != right:
        pairs = enumerate(zip(found, right, strict=False))
        first = next((at for at, (a, b) in pairs if a != b), min(len(found), len(right)))
        raise Broken(f"{name} has {len(found)} of {len(right)} bytes, first difference at {first}")


def read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def walk(top: str) -> Iterator[str]:
    for above, _, names in os.walk(top):
        for name in names:
            yield os.path.join(above, name)
