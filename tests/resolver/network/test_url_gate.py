"""`UrlGate`: a refused URL causes no connection, and connections go only to checked addresses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
import trio.testing

from protocols.contract import FirstResult, Line, Stream
from protocols.text import Masked
from protocols.wire import Buffer, encode_line
from resolver import (
    Connected,
    Event,
    InvalidUrl,
    Limits,
    Options,
    Policy,
    Received,
    Referrer,
    Refused,
    Sent,
    TimedOut,
    Unreachable,
    UnsupportedScheme,
    Url,
    Verdict,
    parse,
)
from resolver.network.admission import Admission, Family
from resolver.network.lookup import Lookup
from resolver.network.url_gate import UrlGate
from resolver.policy.subject import NewsServer
from resolver.transfer.network import Network
from tests.hang import HANG, NEVER
from tests.ipv6 import HAS_IPV6, needs_ipv6
from tests.protocols.in_memory import MemorySink
from tests.resolver.network.peers import admit, closed_port, echo, no_lookup, seen, silent_listener, start

HERE = "127.0.0.1"


def answers(*found: list[str]) -> Lookup:
    """Return a DNS lookup that gives these answers in turn."""
    remaining = list(found)

    async def look_up(host: str, port: int) -> list[str]:
        return remaining.pop(0)

    return look_up


def network(
    lookup: Lookup = no_lookup, policy: Policy | None = None, family: Family | None = None
) -> Network:
    limits = Limits(connect=5, idle=5)
    return Network(policy=policy or Policy.default(), limits=limits, lookup=lookup, family=family)


@pytest.mark.parametrize(
    ("url", "policy", "origin", "rule"),
    [
        ("gopher://127.0.0.1:{port}/", Policy.cautious(), "user", "S04"),
        ("gopher://127.0.0.1:{port}/", Policy.default(), "derived", "S04"),
        ("http://127.0.0.1:{port}/", Policy.untrusted(), "user", "S08"),
        ("http://localhost:{port}/", Policy.untrusted(), "user", "S08"),
        ("http://[::ffff:127.0.0.1]:{port}/", Policy.untrusted(), "user", "S08"),
        ("http://127.0.0.1:{port}/", Policy.default(), "derived", "S08"),
        ("gopher://127.0.0.1:{port}/0a%0D%0Ab", Policy.default(), "user", "S02"),
        ("http://u:p@127.0.0.1:{port}/", Policy.cautious(), "user", "S06"),
    ],
)
def test_admit_refused_url_causes_no_lookup_and_no_connection(
    url: str, policy: Policy, origin: str, rule: str
) -> None:
    listener, port = silent_listener()
    with listener:
        with pytest.raises(Refused) as raised:
            network(policy=policy).admit(parse(url.format(port=port)), origin=origin)  # type: ignore[arg-type]
        assert raised.value.rule == rule
        assert not seen(listener)


def test_admit_scheme_without_handler_is_unsupported() -> None:
    with pytest.raises(UnsupportedScheme, match="S19"):
        network().admit(parse("x-none://127.0.0.1/"))


async def test_connect_checks_resolved_address_before_connecting() -> None:
    listener, port = silent_listener()
    with listener:
        url_gate = network(answers([HERE]), Policy.untrusted()).admit(parse(f"http://h.example:{port}/"))
        with pytest.raises(Refused) as raised:
            async with url_gate.connect(tls=False):
                pass
        assert (raised.value.rule, raised.value.url) == ("S08", f"http://h.example:{port}/")
        assert not seen(listener)
        assert url_gate.peer is None


async def test_connect_drops_refused_addresses_and_uses_the_rest(nursery: trio.Nursery) -> None:
    port = await start(nursery, lambda stream: stream.send_all(b"here"))
    policy = Policy(name="untrusted", allow_address={"127.0.0.1"})
    url_gate = network(answers(["0.0.0.0", "127.0.0.2", HERE]), policy).admit(
        parse(f"http://h.example:{port}/")
    )
    async with url_gate.connect(tls=False) as stream:
        assert (stream.peer, await stream.receive()) == (HERE, b"here")
    assert url_gate.peer == HERE


async def test_connect_checks_rebound_name_again(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """DNS rebinding: the first answer is cached for a minute. The second answer is checked again."""
    policy = Policy(name="untrusted", allow_address={"127.0.0.2"})
    port = await start(nursery, lambda stream: stream.send_all(b"two"), host="127.0.0.2")
    listener, _ = silent_listener()
    with listener:
        url_gate = network(answers(["127.0.0.2"], [HERE]), policy).admit(
            parse(f"http://rebind.example:{port}/")
        )
        for _ in range(2):
            async with url_gate.connect(tls=False) as stream:
                assert (stream.peer, await stream.receive()) == ("127.0.0.2", b"two")
        mock_clock.jump(61)
        with pytest.raises(Refused, match="S08"):
            async with url_gate.connect(tls=False):
                pass
        assert not seen(listener)


async def test_connect_to_localhost_tries_both_families_without_lookup(nursery: trio.Nursery) -> None:
    """`::1` is tried first. If no server listens there, `127.0.0.1` follows immediately."""
    port = await start(nursery, lambda stream: stream.send_all(b"four"))
    for host in ("localhost", "x.localhost"):
        async with admit(f"http://{host}:{port}/").connect(tls=False) as stream:
            assert (stream.peer, await stream.receive()) == (HERE, b"four")


@pytest.mark.parametrize(("family", "peer"), [("4", HERE), pytest.param("6", "::1", marks=needs_ipv6)])
async def test_connect_with_family_uses_one_ip_version(
    nursery: trio.Nursery, family: Family, peer: str
) -> None:
    port = await start(nursery, lambda stream: stream.send_all(b"x"), host=peer)
    url_gate = network(family=family).admit(parse(f"http://localhost:{port}/"))
    async with url_gate.connect(tls=False) as stream:
        assert stream.peer == peer
    other = {HERE: "[::1]", "::1": HERE}[peer]
    with pytest.raises(Unreachable, match=f"no IPv{family} "):
        async with network(family=family).admit(parse(f"http://{other}:{port}/")).connect(tls=False):
            pass


async def test_connect_to_closed_port_is_unreachable_with_causes() -> None:
    with closed_port() as port:
        with pytest.raises(Unreachable) as raised:
            async with admit(f"http://localhost:{port}/").connect(tls=False):
                pass
        six = "connection refused" if HAS_IPV6 else "cannot assign requested address"
        failures = f" localhost port {port}: ::1: {six}; 127.0.0.1: connection refused"
        assert raised.value.message.endswith(failures)


async def test_connect_limit_covers_lookup_and_all_addresses(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    from resolver.network import connecting

    async def slow_lookup(host: str, port: int) -> list[str]:
        await trio.sleep(3)
        return ["192.0.2.1", "192.0.2.2"]

    async def connect_to(address: str, port: int, until: float) -> None:
        if address.endswith("1"):
            raise ConnectionRefusedError(111, "Connection refused")
        await trio.sleep_forever()

    monkeypatch.setattr(connecting, "connect_to", connect_to)
    began = trio.current_time()
    with pytest.raises(TimedOut) as raised:
        async with network(slow_lookup).admit(parse("http://h.example/")).connect(tls=False):
            pass
    assert trio.current_time() - began == pytest.approx(5)
    assert raised.value.message.startswith("timed out: ")
    assert " h.example port 80 " in raised.value.message
    assert raised.value.message.endswith(" 5 s: 192.0.2.1: connection refused")
    assert raised.value.setting == "connect_timeout"


async def test_url_gate_keeps_warnings_once(nursery: trio.Nursery) -> None:
    port = await start(nursery, lambda stream: stream.send_all(b"x"))
    url_gate = admit(f"gopher://{HERE}:{port}/")
    assert [(finding.rule, finding.action) for finding in url_gate.findings] == [("S04", "warn")]
    for _ in range(2):
        async with url_gate.connect(tls=False):
            pass
    assert [finding.rule for finding in url_gate.findings] == ["S04"]


async def test_admit_checks_and_uses_news_server_of_user(nursery: trio.Nursery) -> None:
    port = await start(nursery, lambda stream: stream.send_all(b"200"))
    url = parse("news:comp.infosystems")
    url_gate = UrlGate(network().judge_url(url, server=NewsServer(HERE, port)))
    async with url_gate.connect(tls=False) as stream:
        assert await stream.receive() == b"200"
    with pytest.raises(Refused) as raised:
        network(policy=Policy.untrusted()).judge_url(url, server=NewsServer(HERE, port))
    assert raised.value.rule in ("S04", "S08")


async def test_connect_data_uses_peer_of_control_connection(nursery: trio.Nursery) -> None:
    control = await start(nursery, lambda stream: stream.receive_some(), host="127.0.0.2")
    data = await start(nursery, lambda stream: stream.send_all(b"data"), host="127.0.0.2")
    events: list[Event] = []
    url = f"ftp://127.0.0.2:{control}/"
    url_gate = admit(url, events=events)
    async with url_gate.connect(tls=False), url_gate.connect_data(data) as stream:
        assert (stream.peer, await stream.receive()) == ("127.0.0.2", b"data")
    assert [event for event in events if isinstance(event, Connected)] == [
        Connected(Masked(url), "127.0.0.2", control, False),
        Connected(Masked(url), "127.0.0.2", data, False),
    ]


async def test_connect_data_to_reserved_port_is_refused(nursery: trio.Nursery) -> None:
    port = await start(nursery, lambda stream: stream.receive_some())
    url_gate = admit(f"ftp://{HERE}:{port}/")
    async with url_gate.connect(tls=False):
        with pytest.raises(Refused) as raised:
            async with url_gate.connect_data(25):
                pass
    assert raised.value.rule == "S13"


async def test_open_file_for_http_url_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="http URL") as raised:
        async with admit(f"http://{HERE}/").open_file((b"etc", b"hostname")):
            pass
    assert raised.value.rule == "S12"


async def test_first_of_returns_reply_while_data_connection_is_idle(nursery: trio.Nursery) -> None:
    """FTP waits for both connections: a reply arrives on one connection, and no data on the other."""

    async def echo(stream: trio.SocketStream) -> None:
        await stream.send_all(await stream.receive_some())

    port = await start(nursery, echo)
    url_gate = admit(f"ftp://{HERE}:{port}/")
    async with url_gate.connect(tls=False) as control, url_gate.connect_data(port) as data:
        await control.send(encode_line(b"NOOP"))
        assert await url_gate.first_of(control.receive, data.receive) == (FirstResult(b"NOOP\r\n"), None)


async def test_admit_derived_url_depends_on_referrer_address(nursery: trio.Nursery) -> None:
    port = await start(nursery, lambda stream: stream.send_all(b"x"))
    url = parse(f"http://{HERE}:{port}/")
    url_gate = network().admit(url, origin="derived", referrer=Referrer("http://127.0.0.3/", "127.0.0.3"))
    async with url_gate.connect(tls=False) as stream:
        assert stream.peer == HERE
    with pytest.raises(Refused, match="S08"):
        network().admit(url, origin="derived", referrer=Referrer("http://h.example/", "192.0.2.1"))


async def test_derive_gate_checks_as_derived_from_answering_address() -> None:
    """A derived gate has the origin `derived`. Its referrer is the address that served the first URL.

    A refusal of the derived gate has the exit code of a redirect.
    """
    url_gate = admit("prospero://10.0.0.1/x")
    with pytest.raises(Refused) as raised:
        url_gate.derive_gate("prospero://10.0.0.2/y")  # no server has answered yet
    assert (raised.value.rule, raised.value.exit_code) == ("S08", 15)
    async with url_gate.open_datagrams() as datagrams:
        assert datagrams.peer == "10.0.0.1"
    there = url_gate.derive_gate("prospero://10.0.0.2/y")
    async with there.open_datagrams() as datagrams:
        assert datagrams.peer == "10.0.0.2"
    assert (url_gate.peer, there.peer) == ("10.0.0.1", "10.0.0.2")
    assert url_gate.derive_gate("prospero://10.0.0.2/y") is there  # this gate has a known peer address
    for location, rule in (
        ("prospero://127.0.0.1/y", "S08"),
        ("prospero://10.0.0.2:1570/y", "S04"),
        ("prospero://10.0.0.2/a%0Ab", "S02"),
        ("file:///etc/passwd", "S10"),
        ("telnet://10.0.0.2/", "S10"),
    ):
        with pytest.raises(Refused) as raised:
            there.derive_gate(location)
        assert (raised.value.rule, raised.value.exit_code) == (rule, 15)
    with pytest.raises(InvalidUrl):
        url_gate.derive_gate("prospero://h h/")


async def test_derive_gate_keeps_findings_accepted_for_same_host_and_port() -> None:
    url_gate = admit("prospero://10.0.0.1:1570/x")
    async with url_gate.open_datagrams():
        there = url_gate.derive_gate("prospero://10.0.0.1:1570/y")
    assert [finding.rule for finding in there.findings] == ["S04"]
    assert there.findings == url_gate.findings


# Two URLs and two listeners share one connection. The URL that uses the connection determines the limits, the
# password rule and the listener.

HELLO = Line(b"hello\r\n", b"hello\r\n")
SECRET = Line(b"PASS word\r\n", b"PASS ****\r\n", (b"word",))
SHORT = 0.2


@dataclass
class Shared:
    """The state that is shared by the URLs on one connection."""

    idle: bool = True
    has_room: bool = True
    generation: int = 0
    buffer: Buffer = field(default_factory=Buffer)
    farewell: tuple[Line, ...] = ()


@dataclass
class User:
    """A URL with its gate, limits and listener."""

    url_gate: UrlGate
    heard: list[Event]

    async def listen(self, stream: Stream, what: Line) -> None:
        await stream.send(what)
        assert await stream.receive() == what.octets

    def urls(self) -> set[str]:
        return {event.url for event in self.heard if isinstance(event, Sent | Received)}


def user(network: Network, url: str, idle: float) -> User:
    """Return a user with a gate of this network. All users of the network share its connections."""
    events: list[Event] = []
    shared = replace(network._shared, limits=Limits(idle=idle, connect=NEVER), report=events.append)
    options = Options(prompt=True)
    admitted = Admission(shared, parse(url), origin="user", referrer=None, server=None, options=options)
    return User(UrlGate(admitted), events)


Sharing: TypeAlias = Callable[[AsyncExitStack, User, User], Awaitable[tuple[Stream, Stream]]]


async def share_after_release(stack: AsyncExitStack, first: User, second: User) -> tuple[Stream, Stream]:
    """Give the connection to the second URL after the first has released it."""
    async with first.url_gate.acquire(None, tls=False) as pooled:
        await first.listen(pooled.stream, SECRET)
        pooled.keep("in order")
    again = await stack.enter_async_context(second.url_gate.acquire(None, tls=False))
    assert again.state == "in order"
    return pooled.stream, again.stream


async def share_by_join_after_release(
    stack: AsyncExitStack, first: User, second: User
) -> tuple[Stream, Stream]:
    async with first.url_gate.join(None, Shared(), tls=False, anew=False) as slot:
        await first.listen(slot.stream, SECRET)
        slot.end_response()
    again = await stack.enter_async_context(second.url_gate.join(None, Shared(), tls=False, anew=False))
    return slot.stream, again.stream


async def share_concurrently(stack: AsyncExitStack, first: User, second: User) -> tuple[Stream, Stream]:
    """Give the connection to both URLs at the same time. The second URL sends and reads after the first."""
    one = await stack.enter_async_context(first.url_gate.join(None, Shared(), tls=False, anew=False))
    two = await stack.enter_async_context(second.url_gate.join(None, Shared(), tls=False, anew=False))
    await first.listen(one.stream, SECRET)
    return one.stream, two.stream


@pytest.fixture
def checked_urls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record each URL for which the policy is asked whether a password may be sent; always allow it."""
    result: list[str] = []

    def judge(url: Url, address: str, policy: Policy, **more: object) -> Verdict:
        result.append(url.text)
        return Verdict()

    monkeypatch.setattr("resolver.network.admission.judge_credentials", judge)
    return result


@pytest.mark.parametrize(
    "sharing",
    [share_after_release, share_by_join_after_release, share_concurrently],
    ids=lambda way: way.__name__,
)
async def test_shared_connection_follows_settings_of_second_url(
    sharing: Sharing, checked_urls: list[str], nursery: trio.Nursery
) -> None:
    connections: list[trio.SocketStream] = []

    async def serve(stream: trio.SocketStream) -> None:
        connections.append(stream)
        await echo(stream)

    port = await start(nursery, serve)
    a, b = (f"http://127.0.0.1:{port}/{name}" for name in "ab")
    async with Network(policy=Policy()) as network, AsyncExitStack() as stack:
        first, second = user(network, a, NEVER), user(network, b, SHORT)
        _, stream = await sharing(stack, first, second)
        assert (first.urls(), second.urls(), checked_urls) == ({a}, set(), [a])
        count = len(first.heard)
        await second.listen(stream, SECRET)
        with trio.fail_after(HANG), pytest.raises(TimedOut, match=f" {SHORT:g} s$"):
            await stream.receive()
        assert (len(first.heard), second.urls(), checked_urls) == (count, {b}, [a, b])
    assert len(connections) == 1


async def test_pipelined_response_follows_settings_of_its_url(nursery: trio.Nursery) -> None:
    """Both URLs send before either reads. The settings are those of the URL whose response is being read."""

    async def answer_once(stream: trio.SocketStream) -> None:
        await stream.send_all(b"an answer")
        await trio.sleep_forever()

    port = await start(nursery, answer_once)
    a, b = (f"http://127.0.0.1:{port}/{name}" for name in "ab")
    async with Network(policy=Policy()) as network:
        first, second = user(network, a, SHORT), user(network, b, NEVER)
        async with (
            first.url_gate.join(None, Shared(), tls=False, anew=False) as one,
            second.url_gate.join(None, Shared(), tls=False, anew=False) as two,
        ):
            await one.stream.send(HELLO)
            await two.stream.send(HELLO)
            assert await one.stream.receive() == b"an answer"
            await two.stream.send(HELLO)
            with trio.fail_after(HANG), pytest.raises(TimedOut, match=f" {SHORT:g} s$"):
                await one.stream.move(MemorySink(), 10)
        assert (first.urls(), second.urls()) == ({a}, {b})
        assert not any(isinstance(event, Received) for event in second.heard)
