"""From checked addresses to one connected socket: RFC 8305, "Happy Eyeballs".

IPv6 first and the families in turn; the next address is tried after 250 ms, or at once when one
failed. The first socket that connects wins, the others are closed. Addresses are numbers: nothing here
can look a name up. The time for all of it is the caller's to bound.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable
from itertools import chain, zip_longest

import trio

from protocols.errors import Unreachable
from resolver.gate.faults import reason, refusal
from resolver.gate.race import bare

#: RFC 8305 section 5: "Connection Attempt Delay", 250 ms recommended.
ATTEMPT_DELAY = 0.25


def interleave(addresses: Iterable[str]) -> list[str]:
    """IPv6 and IPv4 in turn, IPv6 first, each family in the order given (RFC 8305 section 4)."""
    addresses = list(addresses)
    six = [address for address in addresses if ":" in address]
    four = [address for address in addresses if ":" not in address]
    pairs = zip_longest(six, four)
    return [address for address in chain.from_iterable(pairs) if address is not None]


class Attempts:
    """The tries to connect to one place. `failures` says of each address why not, so far."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.failures: dict[str, str] = {}
        self._connected: list[tuple[socket.socket, str]] = []

    async def connect(self, addresses: Iterable[str], port: int) -> tuple[socket.socket, str]:
        """A connected, non-blocking socket and the address it is connected to. Raises `Unreachable`, and
        `Refused` (S09) if its peer is not the address asked for. A cancel leaves nothing open."""
        problem: BaseException | None = None
        try:
            await self._race(interleave(addresses), port)
        except BaseExceptionGroup as group:
            problem = bare(group)
        for sock, _ in self._connected[0 if problem else 1 :]:
            sock.close()
        if problem is not None:
            raise problem
        if not self._connected:
            raise Unreachable(f"cannot connect to {self._place}: {self.told}")
        return self._connected[0]

    @property
    def told(self) -> str:
        """Each address that failed, and why."""
        return "; ".join(f"{address}: {why}" for address, why in self.failures.items())

    async def _race(self, addresses: list[str], port: int) -> None:
        if len(addresses) == 1:  # nobody to race with: which a small transfer notices
            await self._attempt(addresses[0], port, trio.Event(), trio.CancelScope())
            return
        async with trio.open_nursery() as nursery:
            for address in addresses:
                failed = trio.Event()
                nursery.start_soon(self._attempt, address, port, failed, nursery.cancel_scope)
                with trio.move_on_after(ATTEMPT_DELAY):
                    await failed.wait()

    async def _attempt(self, address: str, port: int, failed: trio.Event, scope: trio.CancelScope) -> None:
        try:
            self._connected.append((await connect_to(address, port), address))
        except OSError as error:
            self.failures[address] = reason(error)
            failed.set()
        else:
            scope.cancel()


async def connect_to(address: str, port: int) -> socket.socket:
    """One TCP connection by number. Raises `OSError`; closes its socket unless it succeeds."""
    sock = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # Commands are small and each waits for its answer: Nagle's algorithm would only hold them back.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.connect((address, port))
        except BlockingIOError:
            if not _is_connected(sock):
                await trio.lowlevel.wait_writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code)) from None
        check_peer(sock, address)
    except BaseException:
        sock.close()
        raise
    return sock


def _is_connected(sock: socket.socket) -> bool:
    """Already? A peer on this machine has answered by the time that we ask."""
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def check_peer(sock: socket.socket, address: str) -> None:
    """Is the socket's peer the address that was checked? `Refused` (S09) if not."""
    reached = str(sock.getpeername()[0]).partition("%")[0]
    if reached != address and ipaddress.ip_address(reached) != ipaddress.ip_address(address):
        raise refusal("S09", f"the connection went to {reached} and not to {address}, which was checked")


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
