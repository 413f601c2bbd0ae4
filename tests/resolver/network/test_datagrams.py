"""UDP: sent to checked addresses only, received from any address, redirected if the policy allows."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from protocols.contract import Datagram
from protocols.text import Masked
from protocols.wire import encode_line
from resolver import Event, Policy, Received, Refused, Sent, Unreachable, parse
from resolver.network.url_gate import UrlGate
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.ipv6 import needs_ipv6
from tests.resolver.network.peers import admit

PACKET = encode_line(b"VERSION", b"5")


class Peer:
    """A UDP socket on loopback."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind((host, 0))
        self.sock.setblocking(False)
        self.port: int = self.sock.getsockname()[1]

    async def hear(self) -> tuple[bytes, tuple[str, int]]:
        await trio.lowlevel.wait_readable(self.sock)
        octets, source = self.sock.recvfrom(65_535)
        return octets, source[:2]

    def heard_nothing(self) -> bool:
        try:
            self.sock.recvfrom(65_535)
        except BlockingIOError:
            return True
        return False


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    with peer.sock:
        yield peer


async def test_datagrams_send_and_receive_with_source_and_events(peer: Peer) -> None:
    events: list[Event] = []
    url = Masked(f"prospero://127.0.0.1:{peer.port}/x")
    async with admit(url, events=events).open_datagrams() as datagrams:
        assert (datagrams.peer, datagrams.port) == ("127.0.0.1", peer.port)
        await datagrams.send(PACKET)
        octets, source = await peer.hear()
        assert octets == b"VERSION 5\r\n"
        peer.sock.sendto(b"", source)
        peer.sock.sendto(b"reply", source)
        for reply in (b"", b"reply"):
            came = await datagrams.receive(datagrams.now() + 5)
            assert came == Datagram(reply, "127.0.0.1", peer.port)
    assert events == [
        Sent(url, b"VERSION 5\r\n"),
        Received(url, b""),
        Received(url, b"reply"),
    ]


async def test_datagrams_receive_from_another_address(peer: Peer) -> None:
    """A server may answer from another port. The protocol exchange decides whether to accept the datagram."""
    other = Peer("127.0.0.2")
    async with admit(f"prospero://127.0.0.1:{peer.port}/x").open_datagrams() as datagrams:
        await datagrams.send(PACKET)
        _, source = await peer.hear()
        other.sock.sendto(b"from elsewhere", source)
        assert await datagrams.receive(datagrams.now() + 5) == Datagram(
            b"from elsewhere", "127.0.0.2", other.port
        )
    other.sock.close()


async def test_datagrams_receive_largest_size_complete(peer: Peer) -> None:
    largest = bytes(65_507)
    async with admit(f"prospero://127.0.0.1:{peer.port}/x").open_datagrams() as datagrams:
        await datagrams.send(PACKET)
        peer.sock.sendto(largest, (await peer.hear())[1])
        came = await datagrams.receive(datagrams.now() + 5)
    assert came is not None
    assert came.octets == largest


async def test_datagrams_receive_returns_none_at_deadline(peer: Peer) -> None:
    async with admit(f"prospero://127.0.0.1:{peer.port}/x").open_datagrams() as datagrams:
        began = datagrams.now()
        assert await datagrams.receive(began + 0.2) is None
        assert datagrams.now() - began >= 0.2


async def test_datagrams_receive_returns_waiting_data_after_deadline(peer: Peer) -> None:
    async with admit(f"prospero://127.0.0.1:{peer.port}/x").open_datagrams() as datagrams:
        await datagrams.send(PACKET)
        peer.sock.sendto(b"early", (await peer.hear())[1])
        await trio.lowlevel.wait_readable(datagrams._sock)
        came = await datagrams.receive(datagrams.now() - 1)
        assert came is not None
        assert came.octets == b"early"
        assert await datagrams.receive(datagrams.now() - 1) is None


async def test_datagrams_send_oversized_is_unreachable(peer: Peer) -> None:
    async with admit(f"prospero://127.0.0.1:{peer.port}/x").open_datagrams() as datagrams:
        with pytest.raises(Unreachable, match="too long"):
            await datagrams.send(encode_line(bytes([65]) * 70_000))


def admit_both(port: int) -> UrlGate:
    """Return the gate of a host that has three addresses. The policy refuses one of them."""

    async def look_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "0.0.0.0", "::1"]

    return Network(policy=Policy.default(), lookup=look_up).admit(parse(f"prospero://h.example:{port}/x"))


@needs_ipv6
async def test_datagrams_switch_between_addresses_of_a_host(peer: Peer) -> None:
    """The client tries IPv6 first. One socket serves both address families (S09)."""
    url_gate = admit_both(peer.port)
    async with url_gate.open_datagrams() as datagrams:
        assert (datagrams.addresses, datagrams.peer) == (("::1", "127.0.0.1"), "::1")
        await datagrams.send(PACKET)  # no server listens there
        datagrams.switch_to("127.0.0.1")
        await datagrams.send(PACKET)
        peer.sock.sendto(b"reply", (await peer.hear())[1])
        assert await datagrams.receive(datagrams.now() + 5) == Datagram(b"reply", "127.0.0.1", peer.port)
    assert url_gate.peer == "127.0.0.1"
    assert peer.heard_nothing()


async def test_datagrams_without_ipv6_use_other_addresses(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.socket

    def open_ipv4_only(family: int, kind: int) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return real(family, kind)

    monkeypatch.setattr("resolver.network.datagrams.socket.socket", open_ipv4_only)
    async with admit_both(peer.port).open_datagrams() as datagrams:
        with pytest.raises(Unreachable, match="::1"):
            await datagrams.send(PACKET)
        datagrams.switch_to("127.0.0.1")
        await datagrams.send(PACKET)
        assert (await peer.hear())[0] == b"VERSION 5\r\n"


async def test_datagrams_are_not_sent_to_refused_address(peer: Peer) -> None:
    async def look_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    policy = Policy(name="untrusted", allow_port={peer.port})
    url_gate = Network(policy=policy, lookup=look_up).admit(parse(f"prospero://h.example:{peer.port}/x"))
    with pytest.raises(Refused, match="S08"):
        async with url_gate.open_datagrams():
            pass
    assert peer.heard_nothing()


@pytest.mark.parametrize("host", ["127.0.0.2", pytest.param("::1", marks=needs_ipv6)])
async def test_datagrams_redirect_to_allowed_address_and_port(peer: Peer, host: str) -> None:
    other = Peer(host)
    policy = Policy(allow_port={peer.port, other.port})
    url_gate = admit(f"prospero://127.0.0.1:{peer.port}/x", policy=policy)
    async with url_gate.open_datagrams() as datagrams:
        datagrams.redirect_to(host, other.port)
        await datagrams.send(PACKET)
        octets, source = await other.hear()
        other.sock.sendto(octets, source)
        assert await datagrams.receive(datagrams.now() + 5) == Datagram(octets, host, other.port)
        assert (datagrams.peer, datagrams.port, url_gate.peer) == (host, other.port, host)
    other.sock.close()
    assert peer.heard_nothing()


@pytest.mark.parametrize(
    ("address", "port", "rule"),
    [("127.0.0.2", 25, "S04"), ("169.254.169.254", 1525, "S08"), ("224.0.0.1", 1525, "S08")],
)
async def test_datagrams_redirect_to_forbidden_target_is_refused(
    peer: Peer, address: str, port: int, rule: str
) -> None:
    policy = Policy(allow_port={peer.port})
    async with admit(f"prospero://127.0.0.1:{peer.port}/x", policy=policy).open_datagrams() as datagrams:
        with pytest.raises(Refused) as raised:
            datagrams.redirect_to(address, port)
        assert raised.value.rule == rule
        await datagrams.send(PACKET)
        assert (await peer.hear())[0] == b"VERSION 5\r\n"


@pytest.mark.parametrize(("answering", "allowed"), [("127.0.0.1", True), ("10.0.0.9", False)])
async def test_datagrams_redirect_scope_depends_on_answering_address(answering: str, allowed: bool) -> None:
    """The address that answered decides about the redirect, not the other addresses of the host (S08)."""

    async def look_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "10.0.0.9"]

    url_gate = Network(policy=Policy.default(), lookup=look_up).admit(parse("prospero://h.example/x"))
    async with url_gate.open_datagrams() as datagrams:
        datagrams.switch_to(answering)
        if allowed:
            datagrams.redirect_to("127.0.0.2", 1525)
        else:
            with pytest.raises(Refused, match="S08"):
                datagrams.redirect_to("127.0.0.2", 1525)
    assert url_gate.peer == ("127.0.0.2" if allowed else answering)


async def test_datagrams_close_socket_after_cancel(peer: Peer) -> None:
    async with admit(f"prospero://127.0.0.1:{peer.port}/x").open_datagrams() as datagrams:
        sock = datagrams._sock
        with trio.move_on_after(0.02) as scope:
            await datagrams.receive(datagrams.now() + 60)
        assert scope.cancelled_caught
    assert sock.fileno() == -1


async def test_datagrams_send_at_once_works_while_cancelled(peer: Peer) -> None:
    events: list[Event] = []
    url = Masked(f"prospero://127.0.0.1:{peer.port}/x")
    async with admit(url, events=events).open_datagrams() as datagrams:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await datagrams.receive(datagrams.now() + 60)
            finally:
                datagrams.send_at_once(PACKET)
    assert (await peer.hear())[0] == b"VERSION 5\r\n"
    assert events == [Sent(url, b"VERSION 5\r\n")]


async def test_datagrams_send_at_once_ignores_failure(peer: Peer) -> None:
    events: list[Event] = []
    async with admit(f"prospero://127.0.0.1:{peer.port}/x", events=events).open_datagrams() as datagrams:
        datagrams.send_at_once(encode_line(bytes([65]) * 70_000))
    assert events == []


async def test_datagrams_receive_from_flooding_peer_can_be_cancelled(peer: Peer) -> None:
    """Reading datagrams that have already arrived does not wait. A time limit ends the loop nevertheless."""
    async with admit(f"prospero://127.0.0.1:{peer.port}/x").open_datagrams() as datagrams:
        await datagrams.send(PACKET)
        source = (await peer.hear())[1]
        with trio.fail_after(HANG), trio.move_on_after(0.01) as scope:
            while True:
                peer.sock.sendto(b"junk", source)
                await datagrams.receive(datagrams.now())
        assert scope.cancelled_caught


async def test_draw_number_covers_full_range(peer: Peer) -> None:
    async with admit(f"prospero://127.0.0.1:{peer.port}/x").open_datagrams() as datagrams:
        numbers = {datagrams.draw_number() for _ in range(2000)}
    assert 1 <= min(numbers) <= 2000
    assert 63_000 <= max(numbers) <= 65_535
    assert len(numbers) > 1900


@needs_ipv6
async def test_datagrams_normalize_ipv6_address() -> None:
    """The client compares the source address of an answer with the destination of its request."""
    other = Peer("::1")
    async with admit(f"prospero://[0:0:0:0:0:0:0:1]:{other.port}/x").open_datagrams() as datagrams:
        await datagrams.send(PACKET)
        _, source = await other.hear()
        other.sock.sendto(b"", source)
        came = await datagrams.receive(datagrams.now() + 5)
        assert came is not None
        assert came.address == datagrams.peer == "::1"
    other.sock.close()
