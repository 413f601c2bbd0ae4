"""Connecting a socket to one of several checked addresses, by RFC 8305 ("Happy Eyeballs").

IPv6 is first and the address families alternate. The next address is tried after 250 ms, or immediately when
an attempt fails. The first socket that connects is used, and the others are closed. All addresses are IP
addresses: no name is resolved here. The caller limits the total time.
"""

from __future__ import annotations

import errno
import ipaddress
import math
import os
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain, zip_longest
from typing import Any, TypeVar

from protocols.contract import FirstResult
from protocols.errors import Disconnected, LocalError, NetworkError, ResolveError, Unreachable
from resolver.files.faults import check_spare, is_scarce, reason
from resolver.loops import CancelScope, Event, is_cancel, running
from resolver.network.lookup import address_of, socket_address
from resolver.policy.subject import refusal

# A race of two tasks in one call: the nursery is opened and closed inside the call. A nursery wraps errors in
# an ExceptionGroup, which must not leave the gate. `unwrap_group` returns the most informative exception.

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


def unwrap_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the most informative exception of a group: an interrupt, else an error, else a cancellation."""
    leaves = list(_iterate_leaves(group))
    cancelled = [leaf for leaf in leaves if is_cancel(type(leaf))]
    errors = [leaf for leaf in leaves if isinstance(leaf, Exception)]
    interrupts = [leaf for leaf in leaves if leaf not in errors and leaf not in cancelled]
    return (interrupts + errors + cancelled)[0]


def _iterate_leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _iterate_leaves(error)
        else:
            yield error


async def first_of(
    first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
    """Await two operations and cancel one as soon as the other completes; see `Gate.first_of`.

    The calling task itself awaits the first operation, which saves the start of a task and makes small
    transfers measurably faster. If one operation completed, a `ResolveError` of the other is dropped, because
    the next read raises the error again. An exception of an event listener would not be raised again, so it
    is raised here.
    """
    left: list[FirstResult[A]] = []
    right: list[FirstResult[B]] = []
    problem: BaseException | None = None
    try:
        async with running().open_nursery() as nursery:
            nursery.start_soon(_run, second, right, nursery.cancel_scope)
            await _run(first, left, nursery.cancel_scope)
    except BaseExceptionGroup as group:
        problem = unwrap_group(group)
    if problem is not None and not (isinstance(problem, ResolveError) and (left or right)):
        raise problem  # raised here, so that the group does not become its context
    return (left[0] if left else None, right[0] if right else None)


async def _run(call: Callable[[], Awaitable[T]], came: list[FirstResult[T]], scope: CancelScope) -> None:
    came.append(FirstResult(await call()))
    scope.cancel()


#: RFC 8305 section 5: "Connection Attempt Delay", 250 ms recommended.
ATTEMPT_DELAY = 0.25

#: System errors for a connection that was reset after it was established and before the first check.
_LEFT = frozenset({errno.ECONNRESET, errno.ENOTCONN, errno.EPIPE})

#: System errors on a machine that has no address of one family.
_NO_ROUTE = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def interleave(addresses: Iterable[str]) -> list[str]:
    """Return the addresses with IPv6 and IPv4 alternating, IPv6 first (RFC 8305 section 4).

    Each family keeps the given order.
    """
    addresses = list(addresses)
    if len(addresses) == 1:
        return addresses
    six = [address for address in addresses if ":" in address]
    four = [address for address in addresses if ":" not in address]
    pairs = zip_longest(six, four)
    return [address for address in chain.from_iterable(pairs) if address is not None]


class ConnectTimeout(Exception):
    """The deadline passed while the only address was being tried."""


class ConnectAttempts:
    """The attempts to connect to one host and port.

    `failures` holds the reason for each address that failed so far. With a single address, `until` is the
    deadline. With several addresses, and for all other work, the caller limits the time.
    """

    def __init__(self, place: str, until: float = math.inf) -> None:
        self._place = place
        self._until = until
        self.failures: dict[str, str] = {}
        self._codes: set[int | None] = set()
        self._connected: list[tuple[socket.socket, str]] = []

    async def connect(self, addresses: Iterable[str], port: int) -> tuple[socket.socket, str]:
        """Return a connected, non-blocking socket and the address of its peer.

        A cancellation leaves no socket open.

        Raises:
            Unreachable: no address accepts a connection.
            ConnectTimeout: the deadline passed with a single address.
            LocalError: no file descriptor is left.
            Refused: the peer of the socket is not the requested address (S09).
        """
        won: list[tuple[socket.socket, str]] = []
        ordered = interleave(addresses)
        try:
            if len(ordered) == 1:  # no race: small transfers become measurably faster
                await self._attempt(ordered[0], port, None, None)
            else:
                await self._race(ordered, port)
            won = self._connected[:1]
        finally:
            for sock, _ in self._connected[len(won) :]:
                sock.close()
        if not won:
            raise self._failure()
        return won[0]

    def _failure(self) -> NetworkError:
        """Return the error for a failed connection.

        A peer that reset an established connection is `Disconnected`, not `Unreachable`, even if the reset
        arrived before the first check. Processor speed must not change the kind of error.
        """
        if _LEFT.isdisjoint(self._codes):
            words = f"cannot connect to {self._place}: {self.reported}"
            return Unreachable(words, lasting=self._is_refused)
        return Disconnected(f"the connection to {self._place} broke: {self.reported}")

    @property
    def _is_refused(self) -> bool:
        """Return whether an address refused the connection and no other failure can be temporary."""
        return errno.ECONNREFUSED in self._codes and self._codes <= {errno.ECONNREFUSED, *_NO_ROUTE}

    @property
    def reported(self) -> str:
        """Return the failed addresses with their reasons."""
        return "; ".join(f"{address}: {why}" for address, why in self.failures.items())

    async def _race(self, addresses: list[str], port: int) -> None:
        loop, problem = running(), None
        try:
            async with loop.open_nursery() as nursery:
                for address in addresses:
                    failed = loop.event()
                    nursery.start_soon(self._attempt, address, port, failed, nursery.cancel_scope)
                    with loop.move_on_after(ATTEMPT_DELAY):
                        await failed.wait()
        except BaseExceptionGroup as group:
            problem = unwrap_group(group)
        if problem is not None:
            raise problem

    async def _attempt(
        self, address: str, port: int, failed: Event | None, others: CancelScope | None
    ) -> None:
        try:
            until = self._until if others is None else math.inf
            self._connected.append((await connect_to(address, port, until), address))
        except OSError as error:
            if is_scarce(error):  # another address would fail in the same way
                words = f"cannot connect to {self._place}: {reason(error)} (reduce concurrency: -j)"
                raise LocalError(words) from error
            self.failures[address] = reason(error)
            self._codes.add(error.errno)
            if failed is not None:
                failed.set()
        else:
            if others is not None:
                others.cancel()


async def connect_to(address: str, port: int, until: float) -> socket.socket:
    """Open one TCP connection to an IP address.

    The socket is closed unless the call succeeds.

    Raises:
        OSError: the system reports a failure.
        ConnectTimeout: the connection is not established at the time `until`.
    """
    sock = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        check_spare(sock.fileno())
        sock.setblocking(False)
        # Commands are small and each waits for its reply: Nagle's algorithm would only delay them.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Urgent data stays in the byte stream at its position: telnet's Synch is urgent data.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        peer = None
        try:
            sock.connect(socket_address(address, port) if "%" in address else (address, port))
        except BlockingIOError:
            if (peer := _peer_of(sock)) is None:
                if not await running().writable_by(sock, until):
                    raise ConnectTimeout from None
                if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(code, os.strerror(code)) from None
        check_peer(peer or sock.getpeername(), address)
    except BaseException:
        sock.close()
        raise
    return sock


def _peer_of(sock: socket.socket) -> tuple[Any, ...] | None:
    """Return the peer if the connection is already established, as with a peer on this machine."""
    try:
        peer: tuple[Any, ...] = sock.getpeername()
    except OSError:
        return None
    return peer


def check_peer(peer: tuple[Any, ...], address: str) -> None:
    """Raise `Refused` unless the peer of a socket is the checked address (S09)."""
    if peer[0] == address:
        return
    reached = address_of(peer) if "%" in address else str(peer[0]).partition("%")[0]
    if reached != address and ipaddress.ip_address(reached) != ipaddress.ip_address(address):
        raise refusal("S09", f"connected to {reached} instead of the checked address {address}")


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
