"""Lines of a listing as its octets come: ended by CR LF and by nothing else (RFC 3977 3.1.1)."""

from __future__ import annotations

from protocols.errors import LimitExceeded


class Lines:
    """Splits the content of a block into lines; holds the one that has not ended yet.

    Raises `LimitExceeded` (line) for a line of more than `limit` octets.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, octets: bytes) -> list[bytes]:
        """The lines that have ended now, without their ends."""
        self._rest += octets
        if b"\n" not in octets:
            self._check(len(self._rest))
            return []
        *lines, rest = bytes(self._rest).split(b"\r\n")
        self._rest = bytearray(rest)
        self._check(max(map(len, [*lines, rest])))
        return lines

    def finish(self) -> list[bytes]:
        """The octets have ended: what stands behind the last line end."""
        rest, self._rest = bytes(self._rest), bytearray()
        return [rest] if rest else []

    def _check(self, longest: int) -> None:
        if longest > self._limit:
            raise LimitExceeded("line", f"a line of the listing is longer than {self._limit} octets")
