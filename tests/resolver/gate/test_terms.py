"""Two URLs, two listeners, one connection: the limits, the password rule and the listener are always those
of the URL that the connection serves at that moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pytest
import trio

from protocols.contract import Line, Stream
from protocols.wire import Buffer
from resolver import Event, Limits, Options, Policy, Received, Sent, TimedOut, Url, Verdict, parse
from resolver.network.admission import Admission
from resolver.network.url_gate import UrlGate
from resolver.transfer.network import Network
from tests.hang import HANG, NEVER
from tests.protocols.in_memory import MemorySink
from tests.resolver.gate.peers import start

HELLO = Line(b"hello\r\n", b"hello\r\n")
SECRET = Line(b"PASS word\r\n", b"PASS ****\r\n", (b"word",))
SHORT = 0.2


@dataclass
class Shared:
    """What is known of a connection that several share."""

    idle: bool = True
    has_room: bool = True
    generation: int = 0
    buffer: Buffer = field(default_factory=Buffer)
    farewell: tuple[Line, ...] = ()


@dataclass
class User:
    """One URL on its way out, with limits and a listener of its own."""

    url_gate: UrlGate
    heard: list[Event]

    async def listen(self, stream: Stream, what: Line) -> None:
        await stream.send(what)
        assert await stream.receive() == what.octets

    def urls(self) -> set[str]:
        return {event.url for event in self.heard if isinstance(event, Sent | Received)}


def user(network: Network, url: str, idle: float) -> User:
    """Of the same run as any other through the gate: it has the same connections."""
    heard: list[Event] = []
    shared = replace(network._shared, limits=Limits(idle=idle, connect=NEVER), report=heard.append)
    options = Options(prompt=True)
    admitted = Admission(shared, parse(url), origin="user", referrer=None, server=None, options=options)
    return User(UrlGate(admitted), heard)


async def echo(stream: trio.SocketStream) -> None:
    async for octets in stream:
        await stream.send_all(octets)


Sharing: TypeAlias = Callable[[AsyncExitStack, User, User], Awaitable[tuple[Stream, Stream]]]


async def kept(stack: AsyncExitStack, first: User, second: User) -> tuple[Stream, Stream]:
    """The second has it when the first has done."""
    async with first.url_gate.acquire(None, tls=False) as pooled:
        await first.listen(pooled.stream, SECRET)
        pooled.keep("in order")
    again = await stack.enter_async_context(second.url_gate.acquire(None, tls=False))
    assert again.state == "in order"
    return pooled.stream, again.stream


async def kept_and_joined(stack: AsyncExitStack, first: User, second: User) -> tuple[Stream, Stream]:
    async with first.url_gate.join(None, Shared(), tls=False, anew=False) as slot:
        await first.listen(slot.stream, SECRET)
        slot.end_response()
    again = await stack.enter_async_context(second.url_gate.join(None, Shared(), tls=False, anew=False))
    return slot.stream, again.stream


async def joined(stack: AsyncExitStack, first: User, second: User) -> tuple[Stream, Stream]:
    """Both have it; the second sends and reads last."""
    one = await stack.enter_async_context(first.url_gate.join(None, Shared(), tls=False, anew=False))
    two = await stack.enter_async_context(second.url_gate.join(None, Shared(), tls=False, anew=False))
    await first.listen(one.stream, SECRET)
    return one.stream, two.stream


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs for which somebody asked whether a password may leave. On loopback it may."""
    found: list[str] = []

    def judge(url: Url, address: str, policy: Policy, **more: object) -> Verdict:
        found.append(url.text)
        return Verdict()

    monkeypatch.setattr("resolver.network.admission.judge_credentials", judge)
    return found


@pytest.mark.parametrize("sharing", [kept, kept_and_joined, joined], ids=lambda way: way.__name__)
async def test_the_second_url_goes_by_its_own_terms(
    sharing: Sharing, judged: list[str], nursery: trio.Nursery
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
        assert (first.urls(), second.urls(), judged) == ({a}, set(), [a])
        told = len(first.heard)
        await second.listen(stream, SECRET)
        with trio.fail_after(HANG), pytest.raises(TimedOut, match=f" {SHORT:g} s "):
            await stream.receive()
        assert (len(first.heard), second.urls(), judged) == (told, {b}, [a, b])
    assert len(connections) == 1


async def test_each_in_a_pipeline_hears_by_its_own_terms(nursery: trio.Nursery) -> None:
    """Both have sent before either reads: whose response it is tells whose terms hold next."""

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
            with trio.fail_after(HANG), pytest.raises(TimedOut, match=f" {SHORT:g} s "):
                await one.stream.move(MemorySink(), 10)
        assert (first.urls(), second.urls()) == ({a}, {b})
        assert not any(isinstance(event, Received) for event in second.heard)
