"""A datagram that cannot be sent goes to the next of the server's addresses, and at once (rule S09)."""

from __future__ import annotations

import pytest

from fixtures.prospero import file
from protocols.contract import Line
from protocols.conversation.performer import carry
from protocols.prospero.ardp import ArdpExchange
from protocols.prospero.message import join_packets
from resolver import Unreachable
from tests.protocols.prospero.network import Datagrams, Network

AWAY = ("2001:db8::1", "2001:db8::2")
ASK = b"VERSION 5\nDIRECTORY ASCII / \nLIST VERIFY\n"


class Halfway(Datagrams):
    """A host from which some addresses cannot be sent to: the machine has no way there."""

    def __init__(self, network: Network, *addresses: str) -> None:
        super().__init__(network, network.gate("prospero://h/x"), addresses[0], 1525)
        self.addresses = addresses  # type: ignore[assignment]
        self.tried: list[str] = []

    async def send(self, packet: Line) -> None:
        self.tried.append(self.peer)
        if self.peer in AWAY:
            raise Unreachable(f"cannot send to {self.peer}")
        await super().send(packet)


def network() -> tuple[Network, str]:
    """And the address of its one host."""
    found = Network()
    found.add("h", {b"x": file(b"text")})
    return found, found.hosts["h", 1525].address


def exchange(addresses: tuple[str, ...], request: bytes = ASK) -> ArdpExchange:
    return ArdpExchange(Line(request, request), 1, addresses, patience=60.0, most=1_000_000)


@pytest.mark.parametrize("away", [AWAY[:1], AWAY])
@pytest.mark.parametrize("request_size", [1, 200])  # one packet, and a window of them
async def test_the_next_address_is_sent_to_without_waiting(away: tuple[str, ...], request_size: int) -> None:
    net, here = network()
    began = net.now
    datagrams = Halfway(net, *away, here)
    asked = exchange(datagrams.addresses, ASK * request_size)
    await carry(asked, datagrams)
    assert asked.turned is None
    assert list(dict.fromkeys(datagrams.tried)) == [*away, here]
    assert datagrams.peer == here
    assert join_packets(asked.pieces) != b""
    assert net.now == began, "somebody waited"


async def test_where_no_address_can_be_sent_to_nothing_is_waited_for() -> None:
    net, _ = network()
    began = net.now
    datagrams = Halfway(net, *AWAY)
    with pytest.raises(Unreachable, match=AWAY[1]):
        await carry(exchange(datagrams.addresses), datagrams)
    assert datagrams.tried == list(AWAY)
    assert (net.sent, net.now) == ([], began)
