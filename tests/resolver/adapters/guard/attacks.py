"""SSRF attacks on HTTP clients, each with the guard and without the guard (bare).

127.0.0.1 is the internal server, which the policy refuses. `PUBLIC` is the server that the policy allows. The
policy also allows the address `SILENT`, at which no server listens.
"""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock
from urllib.parse import quote, urlsplit

import aiohttp
import httpx
import httpx2
import requests
import urllib3
from requests.adapters import HTTPAdapter

import resolver
from resolver.adapters.guard import sockets, streams
from resolver.adapters.guard.aiohttp import GuardedConnector
from resolver.adapters.guard.requests import GuardedAdapter
from resolver.adapters.guard.urllib3 import GuardedPoolManager
from tests.hang import HANG
from tests.resolver.adapters.guard import network
from tests.resolver.adapters.guard.network import MEANINGS, PUBLIC, REDIRECTS, Body, Names, Server

SILENT = "127.0.0.3"
POLICY = replace(network.POLICY, allow_address=frozenset({PUBLIC, SILENT}))


class Client:
    """An HTTP client under attack; `close` closes all its sessions at the end of the attack."""

    def __init__(self, guarded: bool) -> None:
        self.guarded = guarded

    def get(self, url: str) -> None:
        """Request a URL as the library does by default, including redirects."""
        raise NotImplementedError

    def get_redirected(self, url: str) -> None:
        """Request a URL that redirects."""
        self.get(url)

    def get_by_environment(self, url: str) -> None:
        """Request a URL through the proxy in the environment variable `http_proxy`."""
        raise NotImplementedError

    def get_by_proxy(self, url: str, proxy: str) -> None:
        """Request a URL through a proxy that is an argument of this request."""
        raise NotImplementedError

    def get_with_retries(self, url: str) -> None:
        """Request a URL with the client library's own retries."""
        raise NotImplementedError

    def copies(self) -> list[Client]:
        """Return clients with copies of the session: pickled, shallow and deep."""
        raise NotImplementedError

    def renew_pools(self, url: str) -> None:
        """Replace the pool manager by a pool manager that already has a connection pool for the URL."""
        raise NotImplementedError

    def get_by_unix_socket(self, path: str, url: str) -> None:
        """Request a URL that redirects to a Unix socket."""
        self.get_redirected(url)

    def close(self) -> None:
        pass


class SessionClient(Client):
    """A client with sessions of requests or niquests."""

    def __init__(self, guarded: bool) -> None:
        super().__init__(guarded)
        self.session = self.open()

    def open(self, retries: int = 0) -> Any:
        raise NotImplementedError

    def get(self, url: str) -> None:
        self.session.get(url, timeout=HANG)

    def get_by_environment(self, url: str) -> None:
        self.close()
        self.session = self.open()
        self.get(url)

    def get_by_proxy(self, url: str, proxy: str) -> None:
        self.session.get(url, proxies={"http": proxy}, timeout=HANG)

    def get_with_retries(self, url: str) -> None:
        self.close()
        self.session = self.open(retries=2)
        self.get(url)

    def copies(self) -> list[Client]:
        return _copies_of(self, "session")

    def renew_pools(self, url: str) -> None:
        adapter = self.session.get_adapter("http://")
        manager = type(adapter.poolmanager)()
        manager.connection_from_url(url)
        adapter.init_poolmanager(1, 1, block=True)
        adapter.poolmanager = manager

    def close(self) -> None:
        self.session.close()


class Requests(SessionClient):
    def open(self, retries: int = 0) -> requests.Session:
        session = requests.Session()
        adapter = (
            GuardedAdapter(POLICY, max_retries=retries) if self.guarded else HTTPAdapter(max_retries=retries)
        )
        session.mount("http://", adapter)
        return session


class Niquests(SessionClient):
    """A session of niquests, which only the dependency group `full` installs."""

    def open(self, retries: int = 0) -> Any:
        import niquests

        from resolver.adapters.guard.niquests import GuardedSession

        return GuardedSession(POLICY, retries=retries) if self.guarded else niquests.Session(retries=retries)

    def get_by_environment(self, url: str) -> None:
        from niquests.utils import getproxies

        getproxies.cache_clear()  # niquests reads the environment once per process
        try:
            super().get_by_environment(url)
        finally:
            getproxies.cache_clear()


class Urllib3(Client):
    def __init__(self, guarded: bool) -> None:
        super().__init__(guarded)
        self.manager = GuardedPoolManager(POLICY) if guarded else urllib3.PoolManager()

    def get(self, url: str) -> None:
        self.manager.request("GET", url, timeout=HANG)

    def get_with_retries(self, url: str) -> None:
        self.manager.request("GET", url, timeout=HANG, retries=2)

    def copies(self) -> list[Client]:
        return _copies_of(self, "manager")

    def close(self) -> None:
        self.manager.clear()


class Httpx(Client):
    library: Any = httpx

    def __init__(self, guarded: bool) -> None:
        super().__init__(guarded)
        self.client = self._client()

    def _client(self, **options: Any) -> Any:
        transport: Any = None
        if self.guarded:
            transport = resolver.HttpxTransport(policy=POLICY)
        elif options:
            transport = self.library.HTTPTransport(**options)
        return self.library.Client(transport=transport, follow_redirects=True, timeout=HANG)

    def get(self, url: str) -> None:
        self.client.get(url)

    def get_by_environment(self, url: str) -> None:
        self.close()
        self.client = self._client()  # httpx reads the environment when a client is made
        self.get(url)

    def get_with_retries(self, url: str) -> None:
        self.close()
        self.client = self._client(retries=2)
        self.get(url)

    def copies(self) -> list[Client]:
        return _copies_of(self, "client")

    def close(self) -> None:
        self.client.close()


class Httpx2(Httpx):
    library = httpx2


class Aiohttp(Client):
    """An aiohttp client with its event loop; without a DNS cache, each connection has a DNS lookup."""

    def __init__(self, guarded: bool) -> None:
        super().__init__(guarded)
        self.runner = asyncio.Runner()
        self.session = self.runner.run(self._open())

    async def _open(self) -> aiohttp.ClientSession:
        if self.guarded:
            connector: aiohttp.TCPConnector = GuardedConnector(POLICY, use_dns_cache=False)
        else:
            connector = aiohttp.TCPConnector(use_dns_cache=False, resolver=aiohttp.ThreadedResolver())
        return aiohttp.ClientSession(connector=connector, trust_env=True)

    def get(self, url: str) -> None:
        self.runner.run(self._get(url))

    def get_by_environment(self, url: str) -> None:
        self.get(url)

    def get_by_proxy(self, url: str, proxy: str) -> None:
        self.runner.run(self._get(url, proxy=proxy))

    async def _get(self, url: str, **options: Any) -> None:
        async with self.session.get(url, **options) as response:
            await response.read()

    def get_with_retries(self, url: str) -> None:
        """Send two requests, because aiohttp retries only if the server closed a pooled connection."""
        dropped = f"http://dropped.example:{urlsplit(url).port}/"
        self.get(dropped)
        self.get(f"{dropped}drop")

    def close(self) -> None:
        self.runner.run(self.session.close())
        self.runner.close()


class Streams(Client):
    """A client that opens connections with the streams of asyncio."""

    def get(self, url: str) -> None:
        asyncio.run(self._ask(url))

    def get_redirected(self, url: str) -> None:
        raise NotImplementedError

    def get_by_unix_socket(self, path: str, url: str) -> None:
        with socket.socket(socket.AF_UNIX) as connected:
            connected.connect(path)
            asyncio.run(self._ask(url, sock=connected))

    async def _ask(self, url: str, **options: Any) -> None:
        host, port = _place_of(url)
        if self.guarded:
            reader, writer = await streams.open_connection(host, port, policy=POLICY, **options)
        elif options:
            reader, writer = await asyncio.open_connection(**options)
        else:
            reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.0\r\n\r\n")
        await reader.read()
        writer.close()
        await writer.wait_closed()


class Sockets(Client):
    def get_redirected(self, url: str) -> None:
        raise NotImplementedError

    def get(self, url: str) -> None:
        connect: Any = sockets.create_connection if self.guarded else socket.create_connection
        with connect(_place_of(url), HANG, **({"policy": POLICY} if self.guarded else {})) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            connection.makefile("rb").read()


def _copies_of(client: Any, attribute: str) -> list[Client]:
    """Return the client with each copy of its session that the library supports."""
    copies: list[Client] = []
    ways: list[Callable[[Any], Any]] = [lambda it: pickle.loads(pickle.dumps(it)), copy.copy, copy.deepcopy]
    for duplicate in ways:
        with suppress(TypeError):
            session = duplicate(getattr(client, attribute))
            copies.append(copy.copy(client))
            setattr(copies[-1], attribute, session)
    return copies


def _place_of(url: str) -> tuple[str, int]:
    place = urlsplit(url.replace("%25", "%"))
    return place.hostname or "", place.port or 0


CLIENTS: dict[str, Callable[[bool], Client]] = {
    "httpx": Httpx,
    "httpx2": Httpx2,
    "requests": Requests,
    "niquests": Niquests,
    "aiohttp": Aiohttp,
    "urllib3": Urllib3,
    "asyncio": Streams,
    "sockets": Sockets,
}


class Scene(NamedTuple):
    """The servers of an attack; `unix` is the path of an internal server's Unix socket."""

    server: Server
    unix: str

    def url(self, host: str, path: str = "/") -> str:
        return f"http://{host}:{self.server.port}{path}"


class Attack(NamedTuple):
    """An attack, and its description for a row of the table."""

    words: str
    run: Callable[[Client, Scene], None]


def _get(host: str) -> Callable[[Client, Scene], None]:
    return lambda client, scene: client.get(scene.url(host))


def _redirect(path: str) -> Callable[[Client, Scene], None]:
    return lambda client, scene: client.get_redirected(scene.url("outside.example", path))


def _rebind(client: Client, scene: Scene) -> None:
    """Look the name up first, as a filter does, and then send the request (DNS rebinding).

    The DNS lookup of the client is the second lookup of the name, with another result.
    """
    assert socket.getaddrinfo("rebinding.example", 80)[0][4][0] == PUBLIC
    client.get(scene.url("rebinding.example"))


def _rebind_kept(client: Client, scene: Scene) -> None:
    for _ in range(2):
        client.get(scene.url("rebinding.example", "/close"))


def _use_other_host(client: Client, scene: Scene) -> None:
    client.get(scene.url("outside.example"))
    client.get(scene.url("inside.example"))


def _use_environment(client: Client, scene: Scene) -> None:
    with mock.patch.dict(os.environ, http_proxy=scene.url("127.0.0.1")):
        client.get_by_environment(scene.url("outside.example"))


def _use_proxy(client: Client, scene: Scene) -> None:
    client.get_by_proxy(scene.url("outside.example"), scene.url("127.0.0.1"))


def _use_retries(client: Client, scene: Scene) -> None:
    client.get_with_retries(scene.url("retried.example"))


def _use_copies(client: Client, scene: Scene) -> None:
    failures = []
    for duplicate in client.copies():
        try:
            duplicate.get(scene.url("inside.example"))
        except resolver.Refused as error:
            failures.append(error)
        finally:
            duplicate.close()
    if failures:
        raise failures[0]


def _renew_pools(client: Client, scene: Scene) -> None:
    client.renew_pools(scene.url("inside.example"))
    client.get(scene.url("inside.example"))


def _use_unix_socket(client: Client, scene: Scene) -> None:
    scene.server.locations["/unix"] = f"http+unix://{quote(scene.unix, safe='')}/"
    client.get_by_unix_socket(scene.unix, scene.url("outside.example", "/unix"))


ATTACKS = {
    "literal": Attack("an internal address", _get("127.0.0.1")),
    "name": Attack("a name with an internal address", _get("inside.example")),
    "mapped": Attack("an IPv4-mapped address", _get("[::ffff:127.0.0.1]")),
    "mapped-name": Attack("a name with an IPv4-mapped address", _get("mapped.example")),
    "scoped": Attack("an IPv4-mapped address with a zone", _get("[::ffff:127.0.0.1%251]")),
    "rebinding": Attack("DNS rebinding between check and connection", _rebind),
    "rebinding-kept": Attack("DNS rebinding between two requests", _rebind_kept),
    "second-address": Attack("an internal address after a silent address", _get("second.example")),
    "redirect": Attack("a redirect to an internal address", _redirect("/in")),
    "redirect-name": Attack("a redirect to a name", _redirect("/name")),
    "redirect-mapped": Attack("a redirect to an IPv4-mapped address", _redirect("/mapped")),
    "environment": Attack("an internal proxy in the environment", _use_environment),
    "proxy": Attack("an internal proxy for one request", _use_proxy),
    "pooled": Attack("another host after a pooled connection", _use_other_host),
    "retried": Attack("a retry, with a lookup that changed", _use_retries),
    "copied": Attack("a pickled or copied session", _use_copies),
    "renewed": Attack("`init_poolmanager`, and a used pool manager", _renew_pools),
    "unix": Attack("a Unix socket", _use_unix_socket),
}

_MEANINGS = {
    **MEANINGS,
    "second.example": [[SILENT, "127.0.0.1"]],
    "retried.example": [[SILENT], ["127.0.0.1"]],
    "dropped.example": [[PUBLIC], ["127.0.0.1"]],
}


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    """Run the servers of an attack, and replace DNS lookups by a table of names."""
    directory = os.open(folder, os.O_RDONLY)
    path = f"/proc/self/fd/{directory}/internal"  # the path of a Unix socket has at most 107 bytes
    try:
        with (
            network.servers(REDIRECTS, {"/close": Body(headers={"Connection": "close"})}) as server,
            _listen_at(path, server) as unix,
            mock.patch.object(socket, "getaddrinfo", Names(_MEANINGS).getaddrinfo),
        ):
            yield Scene(server, unix)
    finally:
        os.close(directory)


@contextmanager
def _listen_at(path: str, server: Server) -> Iterator[str]:
    """Accept connections on a Unix socket. They count as connections to the internal server."""

    def serve() -> None:
        while True:
            connection, _ = listener.accept()
            with connection:
                if not connection.recv(4096):
                    return
                server.inside.accepted += 1
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield path
        finally:
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(path)
            thread.join()


def measure(name: str, attack: str, guarded: bool, folder: Path) -> str:
    """Return the outcome of an attack: `through`, the rule of the refusal, `error`, `pinned` or `n/a`."""
    with scene(folder) as here:
        client = CLIENTS[name](guarded)
        try:
            ATTACKS[attack].run(client, here)
        except NotImplementedError:
            outcome = "n/a"
        except Exception as error:  # noqa: BLE001 - clients raise all kinds of errors
            outcome = _rule(error)
        else:
            outcome = "pinned"
        finally:
            client.close()
        reached = here.server.count_inside()
    return "through" if reached else outcome


def _rule(error: BaseException | None) -> str:
    """Return the policy rule of a refusal. With httpx, the refusal is the cause of the error."""
    while error is not None:
        if isinstance(error, resolver.InvalidUrl):
            return "S01"
        if isinstance(error, resolver.UnsupportedScheme):
            return "S19"
        if isinstance(error, resolver.Refused):
            return error.rule
        error = error.__cause__
    return "error"
