"""DNS lookups, which are cached for a minute. The tests send no queries to a name server."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from resolver import Unreachable, fetch, parse
from resolver.network import lookup
from resolver.network.connector import Connector
from resolver.network.lookup import LookupCache, look_up
from resolver.transfer.network import Network


class Names:
    """A DNS lookup that returns its answers in turn and records the requests."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("127.0.0.1", ("127.0.0.1",)),
        ("::1", ("::1",)),
        ("::ffff:127.0.0.1", ("::ffff:127.0.0.1",)),
        ("localhost", ("::1", "127.0.0.1")),
        ("localhost.", ("::1", "127.0.0.1")),
        ("a.b.localhost", ("::1", "127.0.0.1")),
    ],
)
async def test_connector_does_not_look_up_literals_and_localhost(
    host: str, addresses: tuple[str, ...]
) -> None:
    names = Names()
    connector = Connector(Network(lookup=names).judge_url(parse("http://h.example/")))
    assert await connector.select_addresses(host, 70) == addresses
    assert names.asked == []


async def test_lookup_cache_keeps_answer_for_a_minute(mock_clock: trio.testing.MockClock) -> None:
    names = Names(["192.0.2.1"], ["192.0.2.2"])
    cache = LookupCache(names)
    assert await cache.find_addresses("h.example", 70) == ("192.0.2.1",)
    mock_clock.jump(59)
    assert await cache.find_addresses("h.example", 21) == ("192.0.2.1",)
    mock_clock.jump(2)
    assert await cache.find_addresses("h.example", 70) == ("192.0.2.2",)
    assert names.asked == [("h.example", 70), ("h.example", 70)]


async def test_lookup_cache_drops_zones_duplicates_and_non_addresses() -> None:
    names = Names(["fe80::1%eth0", "192.0.2.1", "192.0.2.1", "elsewhere.example"])
    assert await LookupCache(names).find_addresses("h.example", 70) == ("fe80::1", "192.0.2.1")


async def test_lookup_cache_does_not_keep_empty_answer() -> None:
    names = Names([], ["192.0.2.1"])
    cache = LookupCache(names)
    with pytest.raises(Unreachable, match=r"no address .*h\.example"):
        await cache.find_addresses("h.example", 70)
    assert await cache.find_addresses("h.example", 70) == ("192.0.2.1",)


async def test_lookup_cache_evicts_oldest_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "CAPACITY", 2)
    names = Names(["192.0.2.1"], ["192.0.2.2"], ["192.0.2.3"], ["192.0.2.4"])
    cache = LookupCache(names)
    for host in ("a.example", "b.example", "c.example", "b.example", "a.example"):
        await cache.find_addresses(host, 70)
    assert [host for host, _ in names.asked] == ["a.example", "b.example", "c.example", "a.example"]


class FakeResolver(trio.abc.HostnameResolver):
    """A fake of the system's DNS resolver, with a fixed answer or error."""

    def __init__(self, answer: list[str] | Exception) -> None:
        self.answer = answer
        self.asked: list[bytes | str | None] = []

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):  # type: ignore[no-untyped-def]
        self.asked.append(host)
        if isinstance(self.answer, Exception):
            raise self.answer
        return [(socket.AF_INET, type, 6, "", (address, port)) for address in self.answer]

    async def getnameinfo(self, sockaddr, flags):  # type: ignore[no-untyped-def]
        raise AssertionError("unexpected reverse lookup")


async def test_look_up_passes_name_as_bytes() -> None:
    system = FakeResolver(["192.0.2.7", "192.0.2.8"])
    trio.socket.set_custom_hostname_resolver(system)
    assert await look_up("under_score.example", 70) == ["192.0.2.7", "192.0.2.8"]
    assert system.asked == [b"under_score.example"]


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), True),
        (socket.gaierror(socket.EAI_AGAIN, "Name server is not there"), False),
        (socket.gaierror(socket.EAI_FAIL, "Name server has trouble"), False),
        (UnicodeError("label too long"), True),
    ],
)
async def test_look_up_failure_is_unreachable(error: Exception, lasting: bool) -> None:
    trio.socket.set_custom_hostname_resolver(FakeResolver(error))
    with pytest.raises(Unreachable, match=r"no\.example: (Name|label)") as raised:
        await look_up("no.example", 70)
    assert raised.value.__cause__ is error
    assert raised.value.lasting == lasting  # the error of an unknown name is final


@pytest.mark.parametrize("url", ["http://h.example/", "ftp://h.example/x"])
async def test_failed_lookup_of_proxy_names_the_proxy(url: str) -> None:
    system = FakeResolver(socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    trio.socket.set_custom_hostname_resolver(system)
    with pytest.raises(Unreachable, match=r"gate\.example: .*the proxy http://gate\.example:1080 ") as raised:
        await fetch(url, proxy="http://gate.example")
    assert (raised.value.lasting, system.asked) == (True, [b"gate.example"])
