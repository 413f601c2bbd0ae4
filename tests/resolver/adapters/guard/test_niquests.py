"""The guard for niquests, which uses the connections of urllib3.future."""

from __future__ import annotations

import pickle
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import niquests
import pytest
import trustme
from niquests.packages.urllib3.contrib.resolver.system import SystemResolver

import resolver
from resolver.adapters.guard.niquests import GuardedSession
from tests.hang import HANG
from tests.resolver.adapters.guard.network import INSIDE, POLICY, PUBLIC, Names, Server


@pytest.mark.parametrize("options", [{}, {"happy_eyeballs": True}], ids=["", "happy-eyeballs"])
def test_guarded_niquests_reaches_public_addresses_only(
    options: dict[str, Any], server: Server, names: Names
) -> None:
    with GuardedSession(POLICY, timeout=HANG, **options) as session:
        for host in ("outside.example", "both.example"):
            assert session.get(f"http://{host}:{server.port}/").content == b"hello"
        for host in INSIDE:
            with pytest.raises((resolver.Refused, resolver.InvalidUrl, niquests.exceptions.InvalidURL)):
                session.get(f"http://{host}:{server.port}/")
    assert {address for address, _ in server.visits} == {PUBLIC}


def test_guarded_niquests_checks_addresses_of_its_resolver(server: Server, names: Names) -> None:
    """The operating system cannot resolve the names, so niquests uses the DNS resolver of the caller."""

    class Inventing(SystemResolver):  # type: ignore[misc]
        def getaddrinfo(self, host: str, port: int, *options: Any, **named: Any) -> Any:
            address = "127.0.0.1" if host == "in.invented.example" else PUBLIC
            return socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)

    with GuardedSession(POLICY, resolver=Inventing()) as session:
        assert session.get(f"http://out.invented.example:{server.port}/").content == b"hello"
        with pytest.raises(resolver.Refused):
            session.get(f"http://in.invented.example:{server.port}/")
    assert names.asked == []
    assert [address for address, _ in server.visits] == [PUBLIC]


def test_guarded_niquests_still_guards_after_pickling_and_close(server: Server, names: Names) -> None:
    """A niquests session mounts new adapters after pickling and `close`; the guard checks these too."""
    session = pickle.loads(pickle.dumps(GuardedSession(POLICY, retries=2)))
    for _ in range(2):
        with pytest.raises(resolver.Refused):
            session.get(f"http://inside.example:{server.port}/")
        assert session.get_adapter("http://").max_retries.total == 2
        session.close()
    assert server.visits == []


def test_guarded_niquests_guards_mounted_adapters(server: Server, names: Names) -> None:
    class Adapter(niquests.adapters.HTTPAdapter):  # type: ignore[misc]
        """An adapter of the caller, which keeps its own methods."""

        def add_headers(self, request: Any, **named: Any) -> None:
            request.headers["Host"] = "h.example"

    with GuardedSession(POLICY) as session:
        session.mount("http://", Adapter())
        session.get(f"http://outside.example:{server.port}/")
        with pytest.raises(resolver.Refused):
            session.get(f"http://inside.example:{server.port}/")
    assert server.visits == [(PUBLIC, "h.example")]


@pytest.mark.parametrize("scheme", ["http+unix", "ws", "psse+unix"])
def test_guarded_niquests_refuses_other_schemes(scheme: str) -> None:
    """A session has no adapter, no connection pool, or no policy rule for another scheme."""
    lacks = (niquests.exceptions.InvalidSchema, niquests.exceptions.InvalidURL)
    with GuardedSession(POLICY) as session, pytest.raises((resolver.UnsupportedScheme, *lacks)):
        session.get(f"{scheme}://%2Frun%2Fdocker.sock/")


def test_guarded_niquests_verifies_certificate_for_the_name(tmp_path: Path, names: Names) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("outside.example").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    asked: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked.append(name)

    def serve() -> None:
        for _ in range(2):
            accepted, _address = listener.accept()
            with suppress(ssl.SSLError), context.wrap_socket(accepted, server_side=True) as connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")

    with socket.create_server((PUBLIC, 0)) as listener:
        port = listener.getsockname()[1]
        thread = threading.Thread(target=serve)
        thread.start()
        trusted = str(tmp_path / "ca.pem")
        with GuardedSession(POLICY, timeout=HANG) as session:
            assert session.get(f"https://outside.example:{port}/", verify=trusted).content == b"hello"
            with pytest.raises(niquests.exceptions.SSLError):
                session.get(f"https://both.example:{port}/", verify=trusted)
        thread.join()
    assert asked == ["outside.example", "both.example"]
