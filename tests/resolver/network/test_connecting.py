"""Happy Eyeballs (RFC 8305) on a simulated clock, real sockets to loopback, and `first_of`."""

from __future__ import annotations

import select
import socket
from contextlib import ExitStack

import pytest
import trio
import trio.testing

from protocols.contract import FirstResult
from resolver import Disconnected, NotFound, Refused, TimedOut, Unreachable
from resolver.network import connecting
from resolver.network.connecting import ConnectAttempts, check_peer, first_of, interleave, unwrap_group
from tests.resolver.network.peers import admit, closed_port, silent_listener

SIX, SIX2, FOUR, FOUR2 = "2001:db8::1", "2001:db8::2", "192.0.2.1", "192.0.2.2"


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ([FOUR, FOUR2], [FOUR, FOUR2]),
        ([FOUR, SIX], [SIX, FOUR]),
        ([FOUR, FOUR2, SIX, SIX2], [SIX, FOUR, SIX2, FOUR2]),
        ([SIX, SIX2, FOUR], [SIX, FOUR, SIX2]),
        ([], []),
    ],
)
def test_interleave_puts_ipv6_first_and_alternates_families(given: list[str], order: list[str]) -> None:
    assert interleave(given) == order


class Network:
    """A fake connect function with a delay and an outcome for each address.

    It records the connection attempts.
    """

    def __init__(self, **behavior: tuple[float, bool]) -> None:
        self.behavior = {name.replace("_", "."): what for name, what in behavior.items()}
        self.tried: list[tuple[str, float]] = []
        self.sockets: dict[str, socket.socket] = {}
        self.began = trio.current_time()

    async def __call__(self, address: str, port: int, until: float) -> socket.socket:
        self.tried.append((address, round(trio.current_time() - self.began, 3)))
        delay, connects = self.behavior[address]
        await trio.sleep(delay)
        if not connects:
            raise ConnectionRefusedError(111, "Connection refused")
        self.sockets[address] = socket.socket()
        return self.sockets[address]


@pytest.mark.parametrize(
    ("behavior", "winner", "tried"),
    [
        ({"a": (0.1, True), "b": (0, True)}, "a", [("a", 0)]),
        ({"a": (9, True), "b": (0.1, True)}, "b", [("a", 0), ("b", 0.25)]),
        # The first attempt is slow, but may still succeed first.
        ({"a": (0.3, True), "b": (9, True)}, "a", [("a", 0), ("b", 0.25)]),
        # A failed attempt starts the next attempt immediately.
        ({"a": (0.1, False), "b": (0.1, True)}, "b", [("a", 0), ("b", 0.1)]),
        ({"a": (0, False), "b": (0, False), "c": (0, True)}, "c", [("a", 0), ("b", 0), ("c", 0)]),
    ],
)
async def test_connect_attempts_try_next_address_after_250_ms(
    behavior: dict[str, tuple[float, bool]],
    winner: str,
    tried: list[tuple[str, float]],
    autojump_clock: trio.testing.MockClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = Network(**behavior)
    monkeypatch.setattr(connecting, "connect_to", network)
    sock, address = await ConnectAttempts("h.example port 70").connect(list(behavior), 70)
    assert (address, network.tried) == (winner, tried)
    assert sock is network.sockets[winner]
    sock.close()


async def test_second_connection_in_the_same_turn_is_closed(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(a=(0.25, True), b=(0.0, True))
    monkeypatch.setattr(connecting, "connect_to", network)
    sock, address = await ConnectAttempts("h.example port 70").connect(["a", "b"], 70)
    others = [other for name, other in network.sockets.items() if name != address]
    assert all(other.fileno() == -1 for other in others)
    assert sock.fileno() != -1
    sock.close()


async def test_connect_attempts_failure_lists_each_address_and_cause(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting, "connect_to", Network(a=(0, False), b=(1, False)))
    with pytest.raises(Unreachable, match=r" h port 70: a: connection refused; b: connect"):
        await ConnectAttempts("h port 70").connect(["a", "b"], 70)


async def test_connect_attempts_cancelled_leave_no_open_socket(
    autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(a=(9, True), b=(9, True))
    monkeypatch.setattr(connecting, "connect_to", network)
    with trio.move_on_after(1) as scope:
        await ConnectAttempts("h port 70").connect(["a", "b"], 70)
    assert scope.cancelled_caught
    assert len(network.tried) == 2
    assert network.sockets == {}


async def test_connected_socket_is_nonblocking_without_nagle() -> None:
    listener, port = silent_listener()
    with listener:
        sock, address = await ConnectAttempts("here").connect(["127.0.0.1"], port)
        with sock:
            assert address == "127.0.0.1"
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert not sock.getblocking()


async def test_connect_to_closed_port_is_unreachable() -> None:
    with closed_port() as port, pytest.raises(Unreachable, match=r"127\.0\.0\.1: connection refused"):
        await ConnectAttempts("here").connect(["127.0.0.1"], port)


async def test_connect_to_unresponsive_address_times_out() -> None:
    """A connection attempt to a single address has no cancel scope, but the same deadline."""
    with ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port, is_full = listener.getsockname()[1], False
        while not is_full:
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
            is_full = not select.select([], [waiting], [], 0)[1]
        words = rf" 127\.0\.0\.1 port {port} .* 0\.1 s$"
        with pytest.raises(TimedOut, match=words) as caught:
            async with admit(f"http://127.0.0.1:{port}/", connect=0.1).connect(tls=False):
                pass
        assert caught.value.setting == "connect_timeout"


@pytest.mark.parametrize("tls", [False, True])
async def test_connect_timeout_names_host_with_and_without_tls(
    monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    """With TLS, the connection attempt has a cancel scope with the same deadline."""

    async def connect_to(address: str, port: int, until: float) -> socket.socket:
        raise connecting.ConnectTimeout

    monkeypatch.setattr(connecting, "connect_to", connect_to)
    with pytest.raises(TimedOut, match=r"127\.0\.0\.1 port 80 "):
        async with admit("http://127.0.0.1/").connect(tls=tls):
            pass


async def test_check_peer_refuses_unchecked_address() -> None:
    listener, port = silent_listener()
    with listener, socket.create_connection(("127.0.0.1", port)) as sock:
        check_peer(sock.getpeername(), "127.0.0.1")
        with pytest.raises(Refused, match=r"127\.0\.0\.1 .*127\.0\.0\.2") as raised:
            check_peer(sock.getpeername(), "127.0.0.2")
    assert raised.value.rule == "S09"


# `first_of`: no received result is lost, and errors are raised without an exception group.


async def soon() -> str:
    await trio.lowlevel.checkpoint()
    return "soon"


async def at_once() -> int:
    return 7


async def fail() -> str:
    raise Disconnected("gone")


async def test_first_of_returns_first_result_and_cancels_the_other() -> None:
    cancelled = False

    async def never() -> None:
        nonlocal cancelled
        try:
            await trio.sleep_forever()
        finally:
            cancelled = True

    assert await first_of(soon, never) == (FirstResult("soon"), None)
    assert cancelled
    assert await first_of(never, soon) == (None, FirstResult("soon"))


async def test_first_of_returns_both_results_of_the_same_turn(nursery: trio.Nursery) -> None:
    event = trio.Event()

    async def heard() -> str:
        await event.wait()
        return "heard"

    async def ring() -> None:
        await trio.testing.wait_all_tasks_blocked()
        event.set()

    nursery.start_soon(ring)
    assert await first_of(heard, heard) == (FirstResult("heard"), FirstResult("heard"))


async def test_first_of_accepts_none_as_result() -> None:
    async def nothing() -> None:
        await trio.lowlevel.checkpoint()

    assert await first_of(nothing, trio.sleep_forever) == (FirstResult(None), None)


async def test_first_of_raises_error_without_group_and_keeps_its_cause() -> None:
    cause = OSError("reset")

    async def caused() -> None:
        raise Disconnected("gone") from cause

    for calls in ((caused, trio.sleep_forever), (trio.sleep_forever, caused), (caused, caused)):
        with pytest.raises(Disconnected) as raised:
            await first_of(*calls)
        assert raised.value.__cause__ is cause
        assert not isinstance(raised.value.__context__, BaseExceptionGroup)


async def test_first_of_result_takes_precedence_over_error() -> None:
    assert await first_of(fail, at_once) == (None, FirstResult(7))


async def test_first_of_cancelled_from_outside_cancels_both() -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await first_of(trio.sleep_forever, trio.sleep_forever)
    assert scope.cancelled_caught


async def test_first_of_raises_interrupt_without_group_despite_result() -> None:
    async def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await first_of(interrupted, at_once)


async def test_first_of_raises_listener_error_without_group_despite_result() -> None:
    async def mistaken() -> None:
        raise LookupError("of the listener")

    for calls in ((mistaken, at_once), (at_once, mistaken)):
        with pytest.raises(LookupError):
            await first_of(*calls)


def test_unwrap_group_prefers_first_error_and_interrupts() -> None:
    gone, missing, interrupt = Disconnected("gone"), NotFound("missing"), KeyboardInterrupt()
    assert unwrap_group(BaseExceptionGroup("", [gone, missing])) is gone
    assert (
        unwrap_group(BaseExceptionGroup("", [BaseExceptionGroup("", [missing, interrupt]), gone]))
        is interrupt
    )
