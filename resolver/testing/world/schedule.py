"""The faults of a run as data: they are drawn from a seed, printed, and removed one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

#: Faults of a connection; `Fault.at` is the number of the connection:
#:
#: - `refuse`: the connection is refused; `blackhole`: no packet is answered
#: - `cut`: the peer closes the connection after `Fault.octets` bytes; `reset`: the connection is reset there
#: - `hang`: the connection stays open, but no further byte arrives (half-open)
#: - `lag`: no byte arrives for 45 s; `drip`: three single bytes arrive, each after 20 s
NetworkKind: TypeAlias = Literal["refuse", "blackhole", "cut", "reset", "hang", "lag", "drip"]

#: Faults of a DNS lookup; `Fault.at` is the number of the lookup. The name server fails, or the host gets
#: another address.
NameKind: TypeAlias = Literal["unnamed", "moved"]

#: Errors of a call that changes the disk; `Fault.at` is the number of the call. `short` writes some bytes.
DiskKind: TypeAlias = Literal["ENOSPC", "EDQUOT", "EIO", "EMFILE", "short"]

#: The end of a life at the step `Fault.at`, which is a call of the disk or a packet of the network. After
#: `kill` the disk has all written bytes. After `power` it has the synced bytes, and any part of the others.
KillKind: TypeAlias = Literal["kill", "power"]

Kind: TypeAlias = Literal[NetworkKind, NameKind, DiskKind, KillKind]

NETWORK: frozenset[str] = frozenset(get_args(NetworkKind))
NAMES: frozenset[str] = frozenset(get_args(NameKind))
DISK: frozenset[str] = frozenset(get_args(DiskKind))
KILLS: frozenset[str] = frozenset(get_args(KillKind))


class Killed(BaseException):
    """The end of the process at a step. Nothing that runs afterwards changes the disk or the network."""


@dataclass(frozen=True, order=True)
class Fault:
    """A fault.

    Attributes:
        kind: The kind of the fault.
        at: The number of the connection, lookup, disk call or step that fails, from 1.
        octets: The number of bytes after which a connection fails.
        life: The life in which the numbers are counted, from 0.
    """

    kind: Kind
    at: int
    octets: int = 0
    life: int = 0


@dataclass(frozen=True)
class Schedule:
    """The faults of a run, and the seed of all other random choices (latency, packet sizes, task order)."""

    seed: int
    faults: tuple[Fault, ...] = ()

    @classmethod
    def draw(cls, seed: int, *, kinds: Sequence[Kind], lives: int = 1, most: int = 4) -> Schedule:
        """Return the schedule of a seed.

        Args:
            seed: The seed.
            kinds: The kinds of faults to choose from.
            lives: The number of lives that have faults. Each life except the last may end with a kill.
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
        """Return the faults of one life."""
        return replace(self, faults=tuple(fault for fault in self.faults if fault.life == life))

    def find(self, kinds: frozenset[str], at: int) -> Fault | None:
        """Return the first fault of one of the kinds with the number `at`."""
        return next((fault for fault in self.faults if fault.at == at and fault.kind in kinds), None)


def _draw(source: random.Random, kind: Kind, life: int) -> Fault:
    if kind in NETWORK:
        octets = source.choice((source.randrange(400), source.randrange(100_000)))
        return Fault(kind, source.randint(1, 8), octets, life)
    if kind in NAMES:
        return Fault(kind, source.randint(1, 2), 0, life)
    return Fault(kind, source.choice((source.randint(1, 12), source.randint(1, 120))), 0, life)


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """Return a schedule from which no single fault can be removed without losing the failure.

    Args:
        schedule: A schedule that fails.
        fails: A function that runs a schedule and returns whether the run fails.

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
