"""TCP connection attempts to several checked IP addresses, by RFC 8305 ("Happy Eyeballs").

The client tries an IPv6 address first, and then alternates between IPv4 and IPv6. The attempt with the next
address starts after 250 ms, or immediately after a failed attempt. The first socket that connects is used,
and the other sockets are closed. This module does not make DNS lookups. The caller limits the total time.
"""

from __future__ import annotations

import errno
import ipaddress
import math
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any, TypeVar

from protocols.contract import FirstResult
from protocols.errors import Disconnected, LocalError, NetworkError, ResolveError, Unreachable
from resolver.files.faults import check_spare, is_scarce, reason
from resolver.loops import CancelScope, Event, is_cancel, running
from resolver.network.lookup import format_peer, socket_address
from resolver.policy.subject import refusal

# A nursery wraps errors in an ExceptionGroup. Callers of the gate expect single exceptions. Therefore
# `unwrap_group` selects the most informative exception of the group.

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


def unwrap_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the exception of a group: an interrupt first, then an error, then a cancellation."""
    return min(_iterate_leaves(group), key=_rank_leaf)


def _rank_leaf(leaf: BaseException) -> int:
    return 1 if isinstance(leaf, Exception) else 2 if is_cancel(type(leaf)) else 0


def _iterate_leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _iterate_leaves(error)
        else:
            yield error


async def first_of(
    first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
) -> tuple[FirstResult[A] | None, FirstResult[B] | None]:
    """Await two operations and cancel the slower operation; see `Gate.first_of`.

    The calling task itself awaits the first operation. Without a new task for the first operation, small
    transfers are measurably faster.

    If one operation has completed, a `ResolveError` of the other operation is ignored. The next read raises
    the error again. An exception of an event listener is raised immediately, because no later call raises the
    exception again.
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
        raise problem  # raised outside `except`, so that the group does not become the `__context__`
    return (left[0] if left else None, right[0] if right else None)


async def _run(call: Callable[[], Awaitable[T]], results: list[FirstResult[T]], scope: CancelScope) -> None:
    results.append(FirstResult(await call()))
    scope.cancel()


async def run_all(operations: Iterable[Callable[[], Coroutine[object, object, None]]]) -> None:
    """Run operations concurrently. An exception cancels the other operations, and is raised unchanged."""
    problem: BaseException | None = None
    try:
        async with running().open_nursery() as nursery:
            for operation in operations:
                nursery.start_soon(operation)
    except BaseExceptionGroup as group:
        problem = unwrap_group(group)
    if problem is not None:
        raise problem  # raised outside `except`, as in `first_of`


#: RFC 8305 section 5: "Connection Attempt Delay", 250 ms recommended.
ATTEMPT_DELAY = 0.25

#: `errno` codes for a connection that the peer has reset before `connect_to` checked its result.
_RESET_CODES = frozenset({errno.ECONNRESET, errno.ENOTCONN, errno.EPIPE})

#: `errno` codes of a connection attempt on a machine without IPv4 or without IPv6.
_NO_ROUTE_CODES = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def interleave(addresses: Iterable[str]) -> list[str]:
    """Return the addresses with IPv6 and IPv4 alternating, IPv6 first (RFC 8305 section 4).

    Within each address family the order does not change.
    """
    addresses = list(addresses)
    six = [address for address in addresses if ":" in address]
    four = [address for address in addresses if ":" not in address]
    pairs = zip_longest(six, four)
    return [address for address in chain.from_iterable(pairs) if address is not None]


class ConnectTimeout(Exception):
    """The deadline passed during the attempts to connect."""


class ConnectAttempts:
    """The attempts to connect to one host and port.

    Args:
        place: the host and port for error messages.
        until: the deadline of the attempts.

    Attributes:
        place: the host and port.
        failures: the reason for the failure, by IP address.
    """

    def __init__(self, place: str, until: float = math.inf) -> None:
        self.place = place
        self._until = until
        self.failures: dict[str, str] = {}
        self._codes: set[int | None] = set()

    async def connect(self, addresses: Sequence[str], port: int) -> tuple[socket.socket, str]:
        """Return a connected, non-blocking socket and the IP address of the peer.

        A cancellation leaves no socket open.

        Raises:
            Unreachable: no address accepts a connection.
            Disconnected: the peer reset an established connection.
            ConnectTimeout: the deadline passed.
            LocalError: no file descriptor is left.
            Refused: the peer of the socket is not the requested address (S09).
        """
        if len(addresses) == 1:  # without a nursery, small transfers are measurably faster
            connection = await self._attempt(addresses[0], port, self._until)
        else:
            with running().move_on_at(self._until) as scope:
                connection = await self._race(interleave(addresses), port)
            if scope.cancelled_caught:
                raise ConnectTimeout
        if connection is None:
            raise self._failure()
        return connection

    def _failure(self) -> NetworkError:
        """Return the error for a failed connection.

        If the peer resets an established connection, the error is always `Disconnected`, even if the reset
        arrived before the first check. So the class of the error does not depend on timing.
        """
        if _RESET_CODES.isdisjoint(self._codes):
            words = f"cannot connect to {self.place}: {self.reasons}"
            return Unreachable(words, lasting=self._is_refused)
        return Disconnected(f"the connection to {self.place} broke: {self.reasons}")

    @property
    def _is_refused(self) -> bool:
        """Return whether a peer refused the connection and all other failures are permanent."""
        return errno.ECONNREFUSED in self._codes and self._codes <= {errno.ECONNREFUSED, *_NO_ROUTE_CODES}

    @property
    def reasons(self) -> str:
        """Return the failed addresses with the reasons of the failures."""
        return "; ".join(f"{address}: {cause}" for address, cause in self.failures.items())

    async def _race(self, addresses: list[str], port: int) -> tuple[socket.socket, str] | None:
        """Return the first connection; the other connections are closed."""
        loop, problem, keep_count = running(), None, 0
        connected: list[tuple[socket.socket, str]] = []

        async def compete(address: str, failed: Event) -> None:
            if (connection := await self._attempt(address, port, math.inf)) is None:
                failed.set()
            else:
                connected.append(connection)
                nursery.cancel_scope.cancel()

        try:
            async with loop.open_nursery() as nursery:
                for address in addresses:
                    nursery.start_soon(compete, address, failed := loop.event())
                    with loop.move_on_after(ATTEMPT_DELAY):
                        await failed.wait()
            keep_count = 1
        except BaseExceptionGroup as group:
            problem = unwrap_group(group)
        finally:
            for sock, _ in connected[keep_count:]:
                sock.close()
        if problem is not None:
            raise problem
        return connected[0] if connected else None

    async def _attempt(self, address: str, port: int, until: float) -> tuple[socket.socket, str] | None:
        """Return a connected socket and its address, or None after a failure."""
        try:
            return await connect_to(address, port, until), address
        except OSError as error:
            if is_scarce(error):  # no file descriptor is left, so attempts with other addresses fail, too
                words = f"cannot connect to {self.place}: {reason(error)} (reduce concurrency: -j)"
                raise LocalError(words) from error
            self.failures[address] = reason(error)
            self._codes.add(error.errno)
            return None


async def connect_to(address: str, port: int, until: float) -> socket.socket:
    """Open one TCP connection to an IP address.

    If the call fails, the socket is closed.

    Raises:
        OSError: the system reports a failure.
        ConnectTimeout: the connection is not established at the time `until`.
    """
    sock = socket.socket(find_family(address), socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        check_spare(sock.fileno())
        # Nagle's algorithm would only delay the commands, because each small command waits for a reply
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # With this option, TCP urgent data stays at its position in the stream. An example is the Telnet
        # Synch signal.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        peer: tuple[Any, ...] | None = None
        try:
            sock.connect(socket_address(address, port) if "%" in address else (address, port))
        except BlockingIOError:
            try:
                peer = sock.getpeername()  # A connection to this machine is usually established immediately.
            except OSError:
                if not await running().writable_by(sock, until):
                    raise ConnectTimeout from None
                if code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise OSError(code, os.strerror(code)) from None
        check_peer(peer or sock.getpeername(), address)
    except BaseException:
        sock.close()
        raise
    return sock


def check_peer(peer: tuple[Any, ...], address: str) -> None:
    """Raise `Refused` if the peer of a socket is not the checked address (S09)."""
    if peer[0] == address:
        return
    reached = format_peer(peer) if "%" in address else str(peer[0]).partition("%")[0]
    if reached != address and ipaddress.ip_address(reached) != ipaddress.ip_address(address):
        raise refusal("S09", f"connected to {reached} instead of the checked address {address}")


def find_family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
