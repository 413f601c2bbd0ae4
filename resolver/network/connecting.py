"""From checked addresses to one connected socket: RFC 8305, "Happy Eyeballs", and the race that it needs.

IPv6 first and the families in turn; the next address is tried after 250 ms, or immediately when one failed.
The first socket that connects wins, the others are closed. Addresses are numbers: no name can be looked up
here. The caller bounds the total time.
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

# A race of two tasks in one call: the nursery is opened and closed inside it. A nursery wraps errors in an
# ExceptionGroup, which must not leave the gate. `unwrap_group` takes the one error out that tells what
# happened.

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")


def unwrap_group(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception of a group that tells most: an interrupt, then an error, then a cancellation."""
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
    """Await both; as soon as one is done, cancel the other. See `Gate.first_of`. The first is awaited by
    this task itself: one task less to start and to wait for, which a small transfer notices.
    What the peer did wrong shows again with the next read; what a listener raised does not, so it passes."""
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
        raise problem  # outside the except block: the group is no part of its story
    return (left[0] if left else None, right[0] if right else None)


async def _run(call: Callable[[], Awaitable[T]], came: list[FirstResult[T]], scope: CancelScope) -> None:
    came.append(FirstResult(await call()))
    scope.cancel()


#: RFC 8305 section 5: "Connection Attempt Delay", 250 ms recommended.
ATTEMPT_DELAY = 0.25

#: What the system says of a connection that stood and was reset before it was looked at.
_LEFT = frozenset({errno.ECONNRESET, errno.ENOTCONN, errno.EPIPE})

#: What a machine says that has no addresses of one of the two families.
_NO_ROUTE = (errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def interleave(addresses: Iterable[str]) -> list[str]:
    """IPv6 and IPv4 in turn, IPv6 first, each family in the order given (RFC 8305 section 4)."""
    addresses = list(addresses)
    if len(addresses) == 1:
        return addresses
    six = [address for address in addresses if ":" in address]
    four = [address for address in addresses if ":" not in address]
    pairs = zip_longest(six, four)
    return [address for address in chain.from_iterable(pairs) if address is not None]


class ConnectTimeout(Exception):
    """The time is over in which the only address was to answer."""


class ConnectAttempts:
    """The tries to connect to one place. `failures` says of each address why not, so far. A single address
    has until the time `until`: whoever has more, or does more, bounds that, too."""

    def __init__(self, place: str, until: float = math.inf) -> None:
        self._place = place
        self._until = until
        self.failures: dict[str, str] = {}
        self._codes: set[int | None] = set()
        self._connected: list[tuple[socket.socket, str]] = []

    async def connect(self, addresses: Iterable[str], port: int) -> tuple[socket.socket, str]:
        """A connected, non-blocking socket and the address it is connected to. Raises `Unreachable`,
        `ConnectTimeout`, `LocalError` where no descriptor is left, and `Refused` (S09) if its peer is not the
        address asked for. A cancel leaves nothing open."""
        won: list[tuple[socket.socket, str]] = []
        ordered = interleave(addresses)
        try:
            if len(ordered) == 1:  # nobody to race with: which a small transfer notices
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
        """Why there is no connection. A peer that broke one before we saw that it stood has left, and is not
        unreachable: whose processor was faster makes no difference."""
        if _LEFT.isdisjoint(self._codes):
            words = f"cannot connect to {self._place}: {self.reported}"
            return Unreachable(words, lasting=self._is_refused)
        return Disconnected(f"the connection to {self._place} broke: {self.reported}")

    @property
    def _is_refused(self) -> bool:
        """Does somebody refuse, and nobody else do anything that may pass?"""
        return errno.ECONNREFUSED in self._codes and self._codes <= {errno.ECONNREFUSED, *_NO_ROUTE}

    @property
    def reported(self) -> str:
        """Each address that failed, and why."""
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
            if is_scarce(error):  # which no other address mends
                words = f"cannot connect to {self._place}: {reason(error)} (do less at once: -j)"
                raise LocalError(words) from error
            self.failures[address] = reason(error)
            self._codes.add(error.errno)
            if failed is not None:
                failed.set()
        else:
            if others is not None:
                others.cancel()


async def connect_to(address: str, port: int, until: float) -> socket.socket:
    """One TCP connection by number. Raises `OSError`, and `ConnectTimeout` at that time; closes its socket
    unless it succeeds."""
    sock = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        check_spare(sock.fileno())
        sock.setblocking(False)
        # Commands are small and each waits for its answer: Nagle's algorithm would only hold them back.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # What is urgent is an octet like any other, and has its place among them: telnet's Synch is one.
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
    """Already? A peer on this machine has answered by the time that we ask."""
    try:
        peer: tuple[Any, ...] = sock.getpeername()
    except OSError:
        return None
    return peer


def check_peer(peer: tuple[Any, ...], address: str) -> None:
    """Is the peer of a socket the address that was checked? `Refused` (S09) if not."""
    if peer[0] == address:
        return
    reached = address_of(peer) if "%" in address else str(peer[0]).partition("%")[0]
    if reached != address and ipaddress.ip_address(reached) != ipaddress.ip_address(address):
        raise refusal("S09", f"the connection went to {reached} and not to {address}, which was checked")


def family_of(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
