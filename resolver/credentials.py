"""Where names and passwords come from: what the caller of a `Resolver` gives, asked once a place.

An answer is remembered for the scheme, host, port and user it was given for and goes nowhere else (S11).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import trio

from protocols.contract import Credentials

#: (scheme, host, port, user) to credentials; user is None where the URL names none.
Ask: TypeAlias = Callable[[str, str, int, bytes | None], Awaitable[Credentials | None]]
Place: TypeAlias = tuple[str, str, int]
Given: TypeAlias = Ask | Mapping[Place, Credentials]


class Keeper:
    """Asks, one question at a time, and remembers."""

    def __init__(self, given: Given | None) -> None:
        self._given = given
        self._known: dict[tuple[str, str, int, bytes | None], Credentials | None] = {}
        self._turn = trio.Lock()  # two retrievals of one place must not ask a person twice

    async def ask(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        """The credentials for a place, or None."""
        if self._given is None:
            return None
        key = (scheme, host.lower(), port, user)
        async with self._turn:
            if key not in self._known:
                self._known[key] = await self._find(*key)
            return self._known[key]

    async def _find(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        if not isinstance(self._given, Mapping):
            assert self._given is not None
            return await self._given(scheme, host, port, user)
        held = self._given.get((scheme, host, port))
        return held if held is None or user in (None, held.user) else None
