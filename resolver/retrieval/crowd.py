"""How many connections bring pieces from one host: counted over all objects of a session.

An object that comes in one stream has one connection, which whoever starts it counts. One that comes in
pieces has that one in any case, and more as long as its hosts have room: `at_once` says for how many.
"""

from __future__ import annotations

from collections import Counter

from protocols.contract import Url
from resolver.policy import at_once, host_key


class HostConnectionCounter:
    """Those of one session. `wanted` at one host, None for as many as are polite."""

    def __init__(self, wanted: int | None) -> None:
        self._wanted = wanted
        self._there: Counter[str] = Counter()

    def has_room(self, url: Url) -> bool:
        """May one more ask there?"""
        most = self.most(url)
        return most is None or self._there[host_key(url)] < most

    def most(self, url: Url) -> int | None:
        """How many may ask there at once; None: as many as there are."""
        return at_once(url.scheme, wanted=self._wanted)

    def enter(self, url: Url) -> None:
        """One more asks there."""
        self._there[host_key(url)] += 1

    def leave(self, url: Url) -> None:
        """One less does."""
        self._there[host_key(url)] -= 1
