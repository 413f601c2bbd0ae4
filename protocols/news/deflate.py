"""Raw DEFLATE (RFC 1951) in both directions of a connection, as both sides agreed: a machine without I/O.

What is said leaves with a sync flush behind it, so that the peer can read all of it. What comes is unpacked
in pieces, each made only when it is asked for, and within the bounds of rule S16: not more than `ratio` times
what went in, once it is more than a mebibyte, and not more than a mebibyte on end that becomes nothing.
"""

from __future__ import annotations

import zlib

from protocols.errors import LimitExceeded, ProtocolError

#: Octets that may come out whatever went in, and those that may go in with nothing out.
_GRACE = 1_048_576


class Deflate:
    """Both directions, each with its own memory of what went before. Raises `ProtocolError` for octets that
    are no DEFLATE, and behind the end of it; `LimitExceeded` (ratio)."""

    def __init__(self, ratio: int) -> None:
        self._packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        self._unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        self._ratio = ratio
        self._waiting = b""
        self._taken = 0
        self._given = 0
        self._in_vain = 0
        self.has_more = False

    def pack(self, octets: bytes) -> bytes:
        """What is to be sent in place of these octets."""
        return self._packer.compress(octets) + self._packer.flush(zlib.Z_SYNC_FLUSH)

    def feed(self, octets: bytes) -> None:
        """These came: all before them has been read."""
        assert not self.has_more, "what came before is read first"
        if self._in_vain >= _GRACE:
            raise LimitExceeded("ratio", f"{self._in_vain} compressed octets become nothing at all")
        self._in_vain += len(octets)
        self._waiting = octets
        self.has_more = True

    def read(self, most: int) -> bytes:
        """The next octets, at most so many; none where more has to come first."""
        if not self.has_more:
            return b""
        before = len(self._waiting)
        try:
            octets = self._unpacker.decompress(self._waiting, most)
        except zlib.error as error:
            raise ProtocolError("what the server sends is not compressed as it said") from error
        if self._unpacker.unused_data:
            raise ProtocolError("octets came behind the end of what was compressed")
        self._waiting = self._unpacker.unconsumed_tail
        self._taken += before - len(self._waiting)
        self.has_more = len(octets) == most or bool(self._waiting)
        self._count(len(octets))
        return octets

    def _count(self, octets: int) -> None:
        self._given += octets
        self._in_vain = 0 if octets else self._in_vain
        if self._given > _GRACE and self._given > self._ratio * self._taken:
            raise LimitExceeded(
                "ratio", f"{self._taken} compressed octets become more than {self._ratio} times as many"
            )
