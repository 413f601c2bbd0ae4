"""Servers and a network in memory. The clock moves only when every task waits.

A `Gate` knows its URL and referrer like the real gate, and refuses the hosts that a test forbids. The network
records every sent packet with its destination.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from fixtures.prospero import DISTRIBUTED, Behavior, Channel, Flavor, Node, Service
from protocols.contract import Datagram, Line, Timer
from resolver import HostUrl, Limits, Options, Refused, Unreachable
from tests.protocols.typed_url import parse_as

T = TypeVar("T")


@dataclass
class Host:
    """A server: its address and its service."""

    address: str
    service: Service


class Network:
    """Servers by host and port. `forbidden` are the hosts which the policy refuses as link targets."""

    def __init__(self, weather: Channel | None = None, forbidden: frozenset[str] = frozenset()) -> None:
        self.hosts: dict[tuple[str, int], Host] = {}
        self.weather = Channel() if weather is None else weather
        self.forbidden = forbidden
        self.now = 1000.0
        self.numbers = itertools.count(1)
        #: Sent packets: the destination and the bytes.
        self.sent: list[tuple[str, bytes]] = []
        #: URLs checked against the policy, each with the referring URL and the address that answered it.
        self.checked: list[tuple[str, str, str | None]] = []

    def add(
        self,
        host: str,
        tree: Mapping[bytes, Node],
        behaviors: Mapping[bytes | None, Behavior] | None = None,
        port: int = 1525,
        flavor: Flavor = DISTRIBUTED,
    ) -> Service:
        name = host if port == 1525 else f"{host}({port})"
        service = Service(tree, name.encode("ascii"), behaviors, flavor=flavor)
        self.hosts[host, port] = Host(f"192.0.2.{len(self.hosts) + 1}", service)
        return service

    def gate(self, url: str, limits: Limits | None = None, options: Options | None = None) -> Gate:
        parsed = parse_as(HostUrl, url)
        return Gate(self, parsed, limits or Limits(), options or Options())

    @property
    def violations(self) -> list[str]:
        return [each for host in self.hosts.values() for each in host.service.violations]

    def at(self, address: str, port: int) -> Service | None:
        for (_, number), host in self.hosts.items():
            if (host.address, number) == (address, port):
                return host.service
        return None


class Datagrams:
    """A socket of the network. Each packet is answered immediately; the answers are queued until received."""

    def __init__(self, network: Network, gate: Gate, address: str, port: int) -> None:
        self._network = network
        self._gate = gate
        self._waiting: deque[Datagram] = deque()
        self.addresses = (address,)
        self.peer = address
        self.port = port
        self.open = True

    def now(self) -> float:
        return self._network.now

    def draw_number(self) -> int:
        return next(self._network.numbers)

    async def send(self, packet: Line) -> None:
        self.send_at_once(packet)

    def send_at_once(self, packet: Line) -> None:
        assert self.open
        self._network.sent.append((f"{self.peer}:{self.port}", packet.octets))
        service = self._network.at(self.peer, self.port)
        if service is None:
            return
        for arriving in self._network.weather.carry([packet.octets]):
            out, about = service.receive(arriving, id(self))
            address = "198.51.100.9" if about.other_address else self.peer
            port = 999 if about.other_port else self.port
            self._waiting += [Datagram(octets, address, port) for octets in self._network.weather.carry(out)]

    async def receive(self, deadline: float) -> Datagram | None:
        assert self.open
        if self._waiting:
            return self._waiting.popleft()
        self._network.now = max(self._network.now, deadline)
        return None

    def switch_to(self, address: str) -> None:
        assert address in self.addresses
        self.peer = address

    def redirect_to(self, address: str, port: int) -> None:
        self._network.checked.append((f"prospero://{address}:{port}", self._gate.url.text, self._gate.peer))
        if address in self._network.forbidden:
            raise Refused("S08", f"{address} is not to be turned to")
        self.addresses = (address,)
        self.peer = self._gate.peer = address
        self.port = port


@dataclass
class Gate:
    """The part of a gate that Prospero uses; any other attribute fails the test."""

    network: Network
    url: HostUrl
    limits: Limits
    options: Options
    peer: str | None = None
    opened: list[Datagrams] = field(default_factory=list)
    led_to: dict[str, Gate] = field(default_factory=dict)

    @asynccontextmanager
    async def open_datagrams(self) -> AsyncIterator[Datagrams]:
        host = self.network.hosts.get((self.url.host, self.url.effective_port))
        if host is None:
            raise Unreachable(f"{self.url.host} has no address")
        self.peer = host.address
        datagrams = Datagrams(self.network, self, host.address, self.url.effective_port)
        self.opened.append(datagrams)
        try:
            yield datagrams
        finally:
            datagrams.open = False

    async def stand_by(self) -> NoReturn:
        raise AssertionError("concurrent sends are not supported")

    async def pause(self) -> None:
        """Return immediately: no other task runs."""

    def timer(self, seconds: float) -> Timer:
        raise AssertionError("timers are not supported")

    def derive_gate(self, location: str) -> Gate:
        if location not in self.led_to:
            self.led_to[location] = self._checked_gate(location)
        return self.led_to[location]

    def _checked_gate(self, location: str) -> Gate:
        self.network.checked.append((location, self.url.text, self.peer))
        gate = self.network.gate(location, self.limits, self.options)
        if gate.url.host in self.network.forbidden:
            raise Refused("S08", f"{gate.url.host} is farther inside")
        return gate

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not supported")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("the coroutine waits for an event outside the network")
