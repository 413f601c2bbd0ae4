"""Schedules of injected faults: a random schedule from a seed, and the shrinking of a failing schedule."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

#: Injected faults of a connection. `Fault.at` is the number of the connection, and `Fault.octets` the number
#: of bytes from the server before the fault:
#:
#: - `refuse`: the server refuses the connection
#: - `blackhole`: the server does not respond, so the client's connect timeout passes
#: - `cut`: the server closes the connection after `Fault.octets` bytes
#: - `reset`: the connection is reset after `Fault.octets` bytes
#: - `hang`: after `Fault.octets` bytes, the connection stays open, but no more bytes arrive (half-open)
#: - `lag`: after `Fault.octets` bytes, no byte arrives for 45 s
#: - `drip`: after `Fault.octets` bytes, three single bytes arrive, each after 20 s
NetworkKind: TypeAlias = Literal["refuse", "blackhole", "cut", "reset", "hang", "lag", "drip"]

#: Injected faults of a DNS lookup; `Fault.at` is the number of the lookup. With `unnamed`, the name server
#: does not respond. With `moved`, the host gets another IP address.
NameKind: TypeAlias = Literal["unnamed", "moved"]

#: Injected faults of a UDP datagram; `Fault.at` is the number of the datagram, in both directions together:
#:
#: - `lost`: the datagram does not arrive
#: - `doubled`: the datagram arrives twice, the second time after `Fault.octets` virtual milliseconds
#: - `late`: the datagram arrives `Fault.octets` virtual milliseconds late, perhaps after later datagrams
#: - `outage`: this datagram and the datagrams of the next `Fault.octets` virtual milliseconds do not arrive
#: - `unsent`: the system reports that the network is unreachable, if the client sends the datagram
DatagramKind: TypeAlias = Literal["lost", "doubled", "late", "outage", "unsent"]

#: Injected errors of a system call that changes the disk; `Fault.at` is the number of the call. `short` is a
#: short write: only some of the bytes are written.
DiskKind: TypeAlias = Literal["ENOSPC", "EDQUOT", "EIO", "EMFILE", "short"]

#: Injected errors of an SQL statement that changes the ledger, or of its commit; `Fault.at` is the number of
#: the statement.
LedgerKind: TypeAlias = Literal["SQLITE_FULL", "SQLITE_IOERR"]

#: The end of the simulated process at step number `Fault.at`. A step is a change of the disk or a network
#: packet. After `kill`, the disk has all written bytes. After `power` (a power loss), the disk has all synced
#: bytes, and all, some or none of the unsynced bytes.
KillKind: TypeAlias = Literal["kill", "power"]

#: Cancellations by the caller of `World.call`; `Fault.at` is the number of the call. With `cancel`, the call
#: is cancelled at step `Fault.octets` of its task. With `timeout`, the call is cancelled after `Fault.octets`
#: virtual milliseconds.
CancelKind: TypeAlias = Literal["cancel", "timeout"]

Kind: TypeAlias = Literal[NetworkKind, NameKind, DatagramKind, DiskKind, LedgerKind, KillKind, CancelKind]

NETWORK: frozenset[str] = frozenset(get_args(NetworkKind))
NAMES: frozenset[str] = frozenset(get_args(NameKind))
DATAGRAMS: frozenset[str] = frozenset(get_args(DatagramKind))
DISK: frozenset[str] = frozenset(get_args(DiskKind))
LEDGER: frozenset[str] = frozenset(get_args(LedgerKind))
KILLS: frozenset[str] = frozenset(get_args(KillKind))
CANCELS: frozenset[str] = frozenset(get_args(CancelKind))


class Killed(BaseException):
    """The simulated end of the process. Code that still runs cannot change the disk or the network."""


class Hung(AssertionError):
    """A process life exceeded its maximum duration or its maximum number of steps."""


#: The delays in seconds before and after the function of a worker thread, chosen at random.
THREAD_DELAYS = (0.0, 0.0, 0.001, 0.1)


@dataclass(frozen=True, order=True)
class Fault:
    """An injected fault of a connection, a datagram, a DNS lookup, the disk, a call or the process.

    Attributes:
        kind: The kind of the fault.
        at: The number of the connection, datagram, DNS lookup, disk call, SQL statement, step or call that
            fails. The first number is 1.
        octets: The number of bytes after which a connection fails, the number of steps or virtual
            milliseconds after which a call is cancelled, or the virtual milliseconds of a datagram's fault.
        life: The number of the process life in which the fault occurs. The first number is 0.
    """

    kind: Kind
    at: int
    octets: int = 0
    life: int = 0


@dataclass(frozen=True)
class Schedule:
    """The injected faults of a run.

    The seed determines all other random choices: latency, packet sizes and task order.
    """

    seed: int
    faults: tuple[Fault, ...] = ()

    @classmethod
    def draw(cls, seed: int, *, kinds: Sequence[Kind], lives: int = 1, most: int = 4) -> Schedule:
        """Return a random schedule; the same arguments give the same schedule.

        Args:
            seed: The seed of the random choices.
            kinds: The kinds of faults to choose from.
            lives: The number of process lives with faults. The schedule may kill each life except the last.
            most: The maximum number of faults in a life.
        """
        source = random.Random(f"schedule {seed}")
        faults = [
            _draw(source, source.choice(kinds), life)
            for life in range(lives)
            for _ in range(source.randint(0, most))
        ]
        return cls(seed, tuple(faults))

    def of(self, life: int) -> Schedule:
        """Return a schedule with only the faults of one process life."""
        return replace(self, faults=tuple(fault for fault in self.faults if fault.life == life))

    def find(self, kinds: frozenset[str], at: int) -> Fault | None:
        """Return the first fault with the number `at` whose kind is in `kinds`, or None."""
        return next((fault for fault in self.faults if fault.at == at and fault.kind in kinds), None)


def _draw(source: random.Random, kind: Kind, life: int) -> Fault:
    if kind in NETWORK:
        octets = source.choice((source.randrange(400), source.randrange(100_000)))
        return Fault(kind, source.randint(1, 8), octets, life)
    if kind in NAMES:
        return Fault(kind, source.randint(1, 2), 0, life)
    if kind in DATAGRAMS:
        at = source.choice((source.randint(1, 12), source.randint(1, 150)))
        return Fault(kind, at, source.choice((source.randint(0, 500), source.randint(0, 30_000))), life)
    if kind in CANCELS:
        limits = (8, 40) if kind == "cancel" else (300, 3_000)
        at, *after = (source.randint(1, limit) for limit in (8, *limits))
        return Fault(kind, at, source.choice(after), life)
    return Fault(kind, source.choice((source.randint(1, 12), source.randint(1, 120))), 0, life)


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Return a minimal failing schedule (shrinking): without any one of its faults, the run passes.

    Args:
        schedule: A failing schedule.
        fails: A function that runs a schedule, and returns whether the run failed.

    Examples:
        >>> from resolver.testing.world import Fault, Schedule, shrink
        >>> schedule = Schedule(7, (Fault("refuse", 1), Fault("cut", 2, octets=300)))
        >>> shrink(schedule, lambda shorter: Fault("cut", 2, octets=300) in shorter.faults).faults
        (Fault(kind='cut', at=2, octets=300, life=0),)
    """
    number = len(schedule.faults) - 1
    while number >= 0:
        faults = schedule.faults
        shorter = replace(schedule, faults=(*faults[:number], *faults[number + 1 :]))
        if fails(shorter):
            schedule = shorter
        number -= 1
    return schedule


def leaves(error: BaseException) -> list[BaseException]:
    """Return the exceptions of a group and of its subgroups, or the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for member in error.exceptions for leaf in leaves(member)]
    return [error]
