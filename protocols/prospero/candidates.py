"""The addresses of one server's name: asked one after the other, until one of them answers.

Without a connection only an answer tells which of them is alive, so the next is asked when a moment has
brought none (RFC 8305; rule S09). Whichever answers first is the server from then on. An address that
was not asked yet is believed as well, for a host with several may answer from another one (protocol page
4.6).
"""

from __future__ import annotations

from collections.abc import Sequence

#: Seconds before the next address is asked (RFC 8305 section 5).
ATTEMPT_DELAY = 0.25

_NEVER = float("inf")


class CandidateAddresses:
    """`addresses` are the preferred ones first, one at least. `asked` are those that the request goes to;
    `next_at` is when the next one is due; `settled`: there is only one that may answer."""

    def __init__(self, addresses: Sequence[str]) -> None:
        first, *rest = addresses
        self.requested = [first]
        self._waiting = rest
        self.settled = not rest
        self.next_at = _NEVER

    def begin(self, now: float) -> None:
        self.next_at = now + ATTEMPT_DELAY if self._waiting else _NEVER

    def request_next(self, now: float) -> str:
        """The address whose turn it is."""
        address = self._waiting.pop(0)
        self.requested.append(address)
        self.begin(now)
        return address

    def believes(self, address: str) -> bool:
        return address in self.requested or address in self._waiting

    def settle(self, address: str) -> None:
        """It has answered: nobody else is believed any more."""
        self.requested, self._waiting, self.settled, self.next_at = [address], [], True, _NEVER

    def lose(self, address: str, now: float) -> bool:
        """Nothing can be sent there. Is there another, asked already or due at once?"""
        self.requested = [each for each in self.requested if each != address]
        if self._waiting:
            self.next_at = now
        return bool(self.requested or self._waiting)
