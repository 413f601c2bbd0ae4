"""What happens during a retrieval, for whoever watches (`on_event`, `--trace`, `-v`, progress).

Events are frozen and are handed over synchronously, in order. They never hold a password: what is
sent is given in its shown form, URLs redacted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from protocols.location import Finding


@dataclass(frozen=True, slots=True)
class Started:
    """A try begins: the first is number 1."""

    url: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Warned:
    """A rule of the policy fired and did not refuse."""

    url: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class Connected:
    """A connection stands, to the numeric `address` that was checked."""

    url: str
    address: str
    port: int
    tls: bool


@dataclass(frozen=True, slots=True)
class Sent:
    """Octets left, secrets as `****`."""

    url: str
    octets: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """Octets came. Those moved in bulk into a file are counted by `Progress` and not shown."""

    url: str
    octets: bytes


@dataclass(frozen=True, slots=True)
class Progress:
    """So many octets of the body are here; `expected` is None where nobody announced a size."""

    url: str
    received: int
    expected: int | None


@dataclass(frozen=True, slots=True)
class Retrying:
    """A try failed and another follows after `delay` seconds."""

    url: str
    error: Exception
    delay: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The retrieval is over; `error` is None if it succeeded."""

    url: str
    error: Exception | None


Event: TypeAlias = Started | Warned | Connected | Sent | Received | Progress | Retrying | Finished
OnEvent: TypeAlias = Callable[[Event], None]
