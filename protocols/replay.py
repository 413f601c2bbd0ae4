"""Who answers for an object that is kept: a peer that has nothing else.

A dialogue asks it what it would ask a server, so that the octets of an archive are read by the very readers
that read those of the wire. It is a machine without I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol

from protocols.values import NamedTuple


class ArchivedObject(NamedTuple):
    """An object in an archive: its `media_type` as it is kept, the `commands` whose answers it is, if it is
    made of some, and its `block` in pieces. `size` is what the peer had announced."""

    media_type: str
    commands: tuple[str, ...]
    size: int | None
    modified: datetime | None
    block: Callable[[], Iterator[bytes]]


class ReplayPeer(Protocol):
    """`greeting` is what it says unasked."""

    @property
    def greeting(self) -> bytes: ...

    def answer(self, line: bytes, /) -> Iterator[bytes | None]:
        """What it says to a line, in pieces; None: what follows comes when all data were taken."""
        ...
