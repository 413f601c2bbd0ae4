"""Where names and passwords come from: what the caller of a `Resolver` gives, asked once a place.

An answer is remembered for the scheme, host, port and user it was given for and goes nowhere else (S11). A
source that may answer otherwise later has a `round`, and counts it up then: all that was remembered is asked
for again, and no connection is used that somebody logged in on before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

from protocols.authority import comparable_host
from protocols.contract import Credentials
from resolver.loops import running

#: (scheme, host, port, user) to credentials; user is None where the URL names none.
CredentialSource: TypeAlias = Callable[[str, str, int, bytes | None], Awaitable[Credentials | None]]
#: The same of a caller's, who may know them without waiting.
GivenSource: TypeAlias = Callable[
    [str, str, int, bytes | None], Awaitable[Credentials | None] | Credentials | None
]
Place: TypeAlias = tuple[str, str, int]
Given: TypeAlias = GivenSource | Mapping[Place, Credentials]

_Key: TypeAlias = "tuple[str, str, int, bytes | None]"


#: Places whose answers are remembered at most: strangers' URLs name any number of them.
CAPACITY = 1_024


class CredentialCache:
    """Asks, one question at a time, and remembers: the answers for the places that were asked for last."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._known: dict[_Key, Credentials | None] = {}
        self._run: object = None
        self._asked_in = self.round

    @property
    def round(self) -> int:
        """How often the answers have changed."""
        changed: int = getattr(self._given, "round", 0)
        return changed

    async def request(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        """The credentials for a place, or None."""
        key = (scheme, comparable_host(host), port, user)
        if not self._knows(key):
            async with self._turn():
                if not self._knows(key):
                    return await self._ask(key)
        self._known[key] = found = self._known.pop(key)  # the latest
        return found

    def _knows(self, key: _Key) -> bool:
        """Was it asked for since the answers changed last?"""
        if self._asked_in != (now := self.round):
            self._known.clear()
            self._asked_in = now
        return key in self._known

    async def _ask(self, key: _Key) -> Credentials | None:
        asked_in = self.round
        found = await self._find(*key)
        if asked_in == self.round:
            if len(self._known) >= CAPACITY:
                del self._known[next(iter(self._known))]
            self._known[key] = found
        return found

    def _turn(self) -> AbstractAsyncContextManager[object]:
        """The lock of this run: two retrievals of one place must not ask a person twice."""
        loop = running()
        run = loop.run()
        if run is not self._run:
            self._run, self._lock = run, loop.lock()
        return self._lock

    async def _find(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        if not isinstance(self._given, Mapping):
            found = self._given(scheme, host, port, user)
            return await found if isinstance(found, Awaitable) else found
        held = self._given.get((scheme, host, port))
        return held if held is None or user in (None, held.user) else None
