"""A machine that turns the octets of a body into others, piece by piece."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Filter(Protocol):
    """Fed what comes, it gives what the body gets, in pieces that are made while they are taken: so nothing
    is collected without a bound, however much a few octets unpack to. All are taken before it is fed more."""

    def feed(self, octets: bytes) -> Iterable[bytes]: ...

    def finish(self) -> Iterable[bytes]:
        """The octets have ended: what was held back. May raise `Truncated` or `ProtocolError`."""
        ...
