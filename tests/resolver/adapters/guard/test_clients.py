"""Each guarded client with its own library: reachable addresses, refusals, and DNS lookups.

One test shows that each client without the guard reaches the internal server. Without this test, the refusals
in the other tests could have another cause than the guard.
"""

from __future__ import annotations

import asyncio
import inspect
import pickle
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import requests
import trustme
from requests.adapters import HTTPAdapter
from urllib3.exceptions import MaxRetryError
from urllib3.poolmanager import PoolManager

import resolver
from resolver.adapters.guard import sockets, streams
from resolver.adapters.guard.aiohttp import GuardedConnector, GuardedResolver
from resolver.adapters.guard.requests import GuardedAdapter
from resolver.adapters.guard.urllib3 import GuardedPoolManager
from tests.hang import HANG
from tests.resolver.adapters.guard.network import INSIDE, POLICY, PUBLIC, REDIRECTS, Names, Server

Client = Callable[[str, int, str], bytes]
REFUSED = (resolver.Refused, resolver.InvalidUrl)


def _request(host: str, path: str) -> bytes:
    return f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode()


def by_socket(host: str, port: int, path: str) -> bytes:
    with sockets.create_connection((host, port), HANG, policy=POLICY) as connection:
        connection.sendall(_request(host, path))
        return connection.makefile("rb").read().rpartition(b"\r\n\r\n")[2]


def by_asyncio(host: str, port: int, path: str) -> bytes:
    async def ask() -> bytes:
        reader, writer = await streams.open_connection(host, port, policy=POLICY)
        writer.write(_request(host, path))
        octets = await reader.read()
        writer.close()
        await writer.wait_closed()
        return octets.rpartition(b"\r\n\r\n")[2]

    return asyncio.run(ask())


def by_requests(host: str, port: int, path: str) -> bytes:
    with requests.Session() as session:
        session.mount("http://", GuardedAdapter(POLICY))
        return bytes(session.get(f"http://{host}:{port}{path}", timeout=HANG).content)


def by_aiohttp(host: str, port: int, path: str) -> bytes:
    async def ask() -> bytes:
        async with (
            aiohttp.ClientSession(connector=GuardedConnector(POLICY)) as session,
            session.get(f"http://{host}:{port}{path}") as response,
        ):
            return await response.read()

    return asyncio.run(ask())


def by_urllib3(host: str, port: int, path: str) -> bytes:
    with GuardedPoolManager(POLICY, timeout=HANG) as manager:
        return bytes(manager.request("GET", f"http://{host}:{port}{path}").data)


CLIENTS: tuple[Client, ...] = (by_socket, by_asyncio, by_requests, by_urllib3, by_aiohttp)
#: Clients that follow redirects themselves.
FOLLOWING: tuple[Client, ...] = (by_requests, by_urllib3, by_aiohttp)


@pytest.mark.parametrize("client", CLIENTS)
def test_guarded_client_reaches_public_address_under_its_name(
    client: Client, server: Server, names: Names
) -> None:
    for host in ("outside.example", "both.example"):
        assert client(host, server.port, "/") == b"hello"
    assert {address for address, _ in server.visits} == {PUBLIC}
    assert {name.partition(":")[0] for _, name in server.visits} == {"outside.example", "both.example"}


@pytest.mark.parametrize("client", CLIENTS)
def test_guarded_client_does_not_reach_internal_addresses(
    client: Client, server: Server, names: Names
) -> None:
    for host in INSIDE:
        with pytest.raises(REFUSED):
            client(host, server.port, "/")
    assert server.visits == []


@pytest.mark.parametrize("client", CLIENTS)
def test_guarded_client_looks_up_name_once_per_connection(
    client: Client, server: Server, names: Names
) -> None:
    """The address cannot change between the check and the connection."""
    assert client("rebinding.example", server.port, "/") == b"hello"
    assert names.asked == ["rebinding.example"]
    with pytest.raises(resolver.Refused):
        client("rebinding.example", server.port, "/")
    assert [address for address, _ in server.visits] == [PUBLIC]


@pytest.mark.parametrize("client", FOLLOWING)
def test_guarded_client_checks_redirects(client: Client, server: Server, names: Names) -> None:
    assert client("outside.example", server.port, "/out") == b"hello"
    for path in REDIRECTS.keys() - {"/out"}:
        with pytest.raises(REFUSED):
            client("outside.example", server.port, path)
    assert {address for address, _ in server.visits} == {PUBLIC}


@pytest.mark.parametrize("client", FOLLOWING)
def test_guarded_client_refuses_ports_of_other_services(client: Client, names: Names) -> None:
    with pytest.raises(resolver.Refused) as caught:
        client("outside.example", 25, "/")
    assert caught.value.rule == "S04"
    assert names.asked == []


def test_unguarded_client_reaches_internal_server(server: Server, names: Names) -> None:
    assert requests.get(f"http://inside.example:{server.port}/", timeout=HANG).content == b"hello"

    async def ask() -> bytes:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://outside.example:{server.port}/in") as response,
        ):
            return await response.read()

    assert asyncio.run(ask()) == b"hello"
    assert [address for address, _ in server.visits] == ["127.0.0.1", PUBLIC, "127.0.0.1"]


def test_guarded_resolver_alone_does_not_check_literal_addresses(server: Server, names: Names) -> None:
    """A guarded connector is necessary, because aiohttp does not call its resolver for an IP address."""

    async def ask() -> bytes:
        connector = aiohttp.TCPConnector(resolver=GuardedResolver(POLICY))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"http://127.0.0.1:{server.port}/") as response,
        ):
            return await response.read()

    assert asyncio.run(ask()) == b"hello"


def test_guarded_adapter_still_guards_after_pickling(server: Server, names: Names) -> None:
    adapter = pickle.loads(pickle.dumps(GuardedAdapter(POLICY)))
    with requests.Session() as session:
        session.mount("http://", adapter)
        with pytest.raises(resolver.Refused):
            session.get(f"http://inside.example:{server.port}/")
        assert session.get(f"http://outside.example:{server.port}/").content == b"hello"


class WithContext(GuardedAdapter):
    """An adapter with a separate TLS context, as in the documentation of requests."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs, ssl_context=ssl.create_default_context())


class WithManager(GuardedAdapter):
    """An adapter with a pool manager that was created and used by other code."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        manager = PoolManager()
        manager.connection_from_url(f"http://inside.example:{self.inside}/")
        self.poolmanager = manager

    inside = 0


@pytest.mark.parametrize("kind", [GuardedAdapter, WithContext, WithManager])
def test_guarded_adapter_with_a_new_pool_manager_guards(
    kind: type[GuardedAdapter], server: Server, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WithManager, "inside", server.port)
    adapter = kind(POLICY)
    with requests.Session() as session:
        session.mount("http://", adapter)
        for _ in range(2):
            with pytest.raises(resolver.Refused):
                session.get(f"http://inside.example:{server.port}/")
            assert session.get(f"http://outside.example:{server.port}/").content == b"hello"
            adapter.init_poolmanager(1, 1, block=True)
    assert {address for address, _ in server.visits} == {PUBLIC}


class Unjudged(GuardedAdapter):
    """An adapter that builds the request URL itself, and has a TLS context for the proxy."""

    def request_url(self, request: requests.PreparedRequest, proxies: dict[str, str] | None) -> str:
        return HTTPAdapter.request_url(self, request, proxies)

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        return super().proxy_manager_for(proxy, **kwargs, proxy_ssl_context=ssl.create_default_context())


@pytest.mark.parametrize("kind", [GuardedAdapter, Unjudged])
def test_guarded_adapter_makes_managers_of_trusted_proxies_only(
    kind: type[GuardedAdapter], server: Server, names: Names
) -> None:
    proxy = f"http://outside.example:{server.port}"
    with requests.Session() as session:
        session.mount("http://", kind(POLICY))
        with pytest.raises(resolver.Refused) as caught:
            session.get("http://h.example/", proxies={"http": proxy})
        assert caught.value.rule == "S09"
        with pytest.raises(resolver.Refused):
            kind(POLICY).proxy_manager_for(proxy)
        assert server.visits == []
        session.mount("http://", kind(replace(POLICY, trusted_proxy=proxy)))
        assert session.get("http://h.example/", proxies={"http": proxy}).content == b"hello"
    assert server.visits == [(PUBLIC, "h.example")]


def test_guarded_client_refuses_untrusted_proxy(server: Server, names: Names) -> None:
    """A proxy makes its own DNS lookups, so it is refused (S09)."""
    proxy = f"http://outside.example:{server.port}"
    with requests.Session() as session:
        session.mount("http://", GuardedAdapter(POLICY))
        with pytest.raises(resolver.Refused) as caught:
            session.get("http://h.example/", proxies={"http": proxy})
    assert caught.value.rule == "S09"

    async def ask() -> None:
        async with (
            aiohttp.ClientSession(connector=GuardedConnector(POLICY)) as session,
            session.get("http://h.example/", proxy=proxy),
        ):
            pass

    with pytest.raises(resolver.Refused) as caught:
        asyncio.run(ask())
    assert caught.value.rule == "S09"
    assert server.visits == []


def test_guarded_client_verifies_certificate_for_the_name(tmp_path: Path, names: Names) -> None:
    """The certificate is verified for the host name, although the client connects to an IP address."""
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("outside.example").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    asked: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked.append(name)

    async def run() -> list[object]:
        async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello")
            writer.close()

        listening = await asyncio.start_server(say, PUBLIC, 0, ssl=context)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            by_threads = [await asyncio.to_thread(each, port) for each in (ask, ask_urllib3)]
            return [*by_threads, await ask_streams(port)]

    def ask(port: int) -> object:
        with requests.Session() as session:
            session.mount("https://", GuardedAdapter(POLICY))
            authorities = str(tmp_path / "ca.pem")
            return session.get(f"https://outside.example:{port}/", verify=authorities).content

    def ask_urllib3(port: int) -> object:
        with GuardedPoolManager(POLICY, ca_certs=str(tmp_path / "ca.pem")) as manager:
            return manager.request("GET", f"https://outside.example:{port}/").data

    async def ask_streams(port: int) -> object:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        reader, writer = await streams.open_connection("outside.example", port, tls=trusting, policy=POLICY)
        writer.write(_request("outside.example", "/"))
        octets = await reader.read()
        writer.close()
        return octets[-5:]

    assert asyncio.run(run()) == [b"hello"] * 3
    assert asked == ["outside.example"] * 3


def test_guarded_getaddrinfo_returns_addresses_of_the_family() -> None:
    policy = resolver.Policy(allow_address=frozenset({"127.0.0.1", "::1"}))

    async def find(host: str) -> list[object]:
        infos = await streams.getaddrinfo(host, 80, family=socket.AF_INET, policy=policy)
        return [info[4] for info in infos]

    assert asyncio.run(find("localhost")) == [("127.0.0.1", 80)]
    with pytest.raises(socket.gaierror):
        asyncio.run(find("::1"))


def test_guarded_getaddrinfo_returns_infos_like_the_loop(names: Names) -> None:
    infos = asyncio.run(streams.getaddrinfo("both.example", 80, policy=POLICY))
    assert [(info[1], info[4]) for info in infos] == [(socket.SOCK_STREAM, (PUBLIC, 80))]
    infos = asyncio.run(streams.getaddrinfo(PUBLIC, 80, policy=POLICY))
    assert [info[4] for info in infos] == [(PUBLIC, 80)]


@pytest.mark.parametrize("client", CLIENTS)
def test_guarded_client_raises_error_of_its_library_without_answer(client: Client, names: Names) -> None:
    with socket.socket() as bound:
        bound.bind((PUBLIC, 0))
        with pytest.raises(MaxRetryError if client is by_urllib3 else OSError, match=r"."):
            client("outside.example", bound.getsockname()[1], "/")


#: The source address of a client with the option `local_addr` or `source_address`.
SOURCE = "127.0.0.9"


def test_guarded_connector_passes_keywords_on(server: Server, names: Names) -> None:
    """Each keyword of aiohttp except `resolver` is accepted; the test checks the effect of one keyword."""
    made = []

    def make(info: Any) -> socket.socket:
        made.append(info[4][0])
        return socket.socket(*info[:3])

    async def ask() -> bytes:
        keywords = inspect.signature(aiohttp.TCPConnector).parameters.values()
        options = {each.name: each.default for each in keywords} | {"limit": 1, "local_addr": (SOURCE, 0)}
        del options["resolver"]
        connector = GuardedConnector(POLICY, **options | {"socket_factory": make})
        assert connector.limit == 1
        url = f"http://outside.example:{server.port}/"
        async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as response:
            return await response.read()

    assert asyncio.run(ask()) == b"hello"
    assert server.peers == [SOURCE]
    assert made == [PUBLIC]


def test_guarded_connector_checks_addresses_of_another_resolver(server: Server, names: Names) -> None:
    """The addresses are checked again immediately before the socket is created."""

    async def ask() -> None:
        connector = GuardedConnector(POLICY)
        connector._resolver = aiohttp.ThreadedResolver()
        async with aiohttp.ClientSession(connector=connector) as session:
            with pytest.raises(resolver.Refused):
                await session.get(f"http://inside.example:{server.port}/")

    asyncio.run(ask())
    assert server.visits == []


def test_guarded_connector_checks_websockets(server: Server, names: Names) -> None:
    async def ask(host: str) -> None:
        async with aiohttp.ClientSession(connector=GuardedConnector(POLICY)) as session:
            await session.ws_connect(f"ws://{host}:{server.port}/")

    with pytest.raises(resolver.Refused):
        asyncio.run(ask("inside.example"))
    assert server.visits == []
    with pytest.raises(aiohttp.WSServerHandshakeError, match="Invalid response status"):
        asyncio.run(ask("outside.example"))
    assert {address for address, _ in server.visits} == {PUBLIC}


def test_guarded_connector_with_resolver_raises() -> None:
    async def make() -> None:
        with pytest.raises(TypeError, match="lookups"):
            GuardedConnector(POLICY, resolver=aiohttp.ThreadedResolver())

    asyncio.run(make())


def test_guarded_socket_has_default_timeout(server: Server, names: Names) -> None:
    default = socket.getdefaulttimeout()
    socket.setdefaulttimeout(HANG)
    try:
        with sockets.create_connection(("outside.example", server.port), policy=POLICY) as connection:
            assert connection.gettimeout() == HANG
    finally:
        socket.setdefaulttimeout(default)


def test_guarded_adapter_passes_arguments_on(server: Server, names: Names) -> None:
    adapter = GuardedAdapter(POLICY, pool_connections=2, pool_maxsize=3, max_retries=4, pool_block=True)
    with requests.Session() as session:
        session.mount("http://", adapter)
        assert session.get(f"http://outside.example:{server.port}/").content == b"hello"
        pool = adapter.poolmanager.connection_from_url(f"http://outside.example:{server.port}/")
    assert (adapter.max_retries.total, adapter.poolmanager.pools._maxsize) == (4, 2)
    assert (pool.pool.maxsize, pool.block) == (3, True)


def test_guarded_pool_manager_passes_keywords_on(server: Server, names: Names) -> None:
    with GuardedPoolManager(POLICY, source_address=(SOURCE, 0), headers={"Host": "h.example"}) as manager:
        assert manager.request("GET", f"http://outside.example:{server.port}/").data == b"hello"
    assert (server.visits, server.peers) == ([(PUBLIC, "h.example")], [SOURCE])


@pytest.mark.parametrize("path", ["/a b", "/?q=a b", "/?q=%zz", "/?q=\u00e9", "/#a b"])
@pytest.mark.parametrize("client", [by_requests, by_aiohttp, by_urllib3])
def test_guarded_client_encodes_url_before_the_check(
    client: Client, path: str, server: Server, names: Names
) -> None:
    assert client("outside.example", server.port, path) == b"hello"


def test_pool_of_guarded_pool_manager_checks_addresses(server: Server, names: Names) -> None:
    """A connection pool that is used directly does not check URLs, but connects only to allowed addresses."""
    with GuardedPoolManager(POLICY) as manager:
        pool = manager.connection_from_host("inside.example", server.port)
        with pytest.raises(resolver.Refused):
            pool.request("GET", "/")
    assert server.visits == []


def test_guarded_streams_pass_keywords_on(server: Server, names: Names) -> None:
    async def ask() -> bytes:
        reader, writer = await streams.open_connection(
            "outside.example",
            server.port,
            policy=POLICY,
            local_addr=(SOURCE, 0),
            limit=4,
            family=socket.AF_INET,
        )
        writer.write(_request("outside.example", "/"))
        with pytest.raises(ValueError, match="longer than limit"):
            await reader.readline()
        writer.close()
        await writer.wait_closed()
        return b""

    asyncio.run(ask())
    assert server.peers == [SOURCE]


def test_guarded_streams_refuse_connected_socket(server: Server) -> None:
    async def ask(connected: socket.socket) -> None:
        with pytest.raises(ValueError, match="sock"):
            await streams.open_connection("outside.example", server.port, policy=POLICY, sock=connected)

    with socket.create_connection(("127.0.0.1", server.port)) as connected:
        asyncio.run(ask(connected))
    assert server.visits == []


def test_guarded_connections_raise_all_errors(names: Names) -> None:
    async def ask(port: int) -> None:
        await streams.open_connection("outside.example", port, policy=POLICY, all_errors=True)

    with socket.socket() as bound:
        bound.bind((PUBLIC, 0))
        port = bound.getsockname()[1]
        with pytest.raises(ExceptionGroup) as caught:
            sockets.create_connection(("outside.example", port), policy=POLICY, all_errors=True)
        assert [type(error) for error in caught.value.exceptions] == [ConnectionRefusedError]
        with pytest.raises(ExceptionGroup):
            asyncio.run(ask(port))


def test_guarded_socket_has_source_address(server: Server, names: Names) -> None:
    with sockets.create_connection(
        ("outside.example", server.port), HANG, (SOURCE, 0), policy=POLICY
    ) as connection:
        connection.sendall(_request("outside.example", "/"))
        connection.makefile("rb").read()
    assert server.peers == [SOURCE]
