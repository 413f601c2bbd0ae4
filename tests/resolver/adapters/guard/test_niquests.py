"""The guard under niquests, which has the connections of urllib3.future."""

from __future__ import annotations

import pickle
import socket
from typing import Any

import niquests
import pytest
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
    """The names are unknown to the system: niquests asks the resolver of the caller."""

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
    """A session of niquests mounts other adapters then."""
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
    """The session lacks an adapter, the pool manager a pool, or the policy a handler."""
    lacks = (niquests.exceptions.InvalidSchema, niquests.exceptions.InvalidURL)
    with GuardedSession(POLICY) as session, pytest.raises((resolver.UnsupportedScheme, *lacks)):
        session.get(f"{scheme}://%2Frun%2Fdocker.sock/")
