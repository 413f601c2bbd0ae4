"""Content codings undone (RFC 9110 8.4), within the bounds of rule S16.

One coding only. Octets come out in pieces, each made only when it is asked for, so that what a few
octets blow up to is never in memory at once; and not more of them than `ratio` times what went in, once
they are more than a mebibyte. What goes in is bounded too, for it may become nothing: as the body is, and
to a mebibyte on end that brings nothing out. gzip and deflate are the standard library's; others are
brought along by whoever has them.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from protocols.errors import LimitExceeded, ProtocolError, Truncated
from protocols.options import Unpacking

#: Octets that come out at most at a time.
PIECE = 65_536

#: Octets that go in at most at a time. What is left of them is copied for each member of gzip and each piece
#: that comes out: members of 21 octets would cost the square of all that came at once.
FED = 16_384

#: Octets that may come out whatever went in: a page of blanks is no attack.
_GRACE = 1_048_576

#: Octets that may go in on end with nothing out. Empty members and blocks, metadata and skippable frames
#: make no octet however many of them there are; no coder sends more than a few between two that do.
_IN_VAIN = 1_048_576

#: What a coding adds to octets that cannot be packed: heads and a name, and five octets a block of 16 KiB.
_WRAPPING = 1_024
_BLOCKS = 1_000

Codings: TypeAlias = Mapping[str, Callable[[], Unpacking]]


class _Inflation:
    """zlib's streams, one behind the other (RFC 1952 2.2)."""

    def __init__(self, window_bits: int | None) -> None:
        self._window_bits = window_bits
        self._stream: zlib._Decompress | None = None
        self._waiting = b""
        self.taken = 0

    def feed(self, octets: bytes) -> None:
        self._waiting += octets

    def read(self, most: int) -> bytes:
        octets = b""
        while not octets and self._has_stream():
            octets = self._inflate(most)
            if not octets and not self._stream_ended():
                break
        return octets

    def _inflate(self, most: int) -> bytes:
        assert self._stream is not None
        before = len(self._waiting)
        try:
            octets = self._stream.decompress(self._waiting, most)
        except zlib.error as error:
            raise ProtocolError("the body is not of the content coding it is said to be of") from error
        self._waiting = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
        self.taken += before - len(self._waiting)
        return octets

    def _stream_ended(self) -> bool:
        return self._stream is None or self._stream.eof

    def _has_stream(self) -> bool:
        """Is there one to read on? Begins the next as soon as two octets tell which: deflate is zlib's
        format by the RFC and bare deflate by the practice of some servers (RFC 1950 2.2)."""
        if not self._stream_ended():
            return True
        if len(self._waiting) < 2:
            return False
        bits = self._window_bits
        if bits is None:
            header = int.from_bytes(self._waiting[:2], "big")
            bits = zlib.MAX_WBITS if header >> 8 & 0x0F == 8 and header % 31 == 0 else -zlib.MAX_WBITS
        self._stream = zlib.decompressobj(bits)
        return True

    @property
    def whole(self) -> bool:
        return not self._waiting and self._stream_ended()


def _gzip() -> Unpacking:
    return _Inflation(16 + zlib.MAX_WBITS)


def _deflate() -> Unpacking:
    return _Inflation(None)


#: What we can always undo. `x-gzip` is the same by another name (RFC 9110 8.4.1.3).
ALWAYS: Codings = {"gzip": _gzip, "deflate": _deflate}
_ALIASES = {"x-gzip": "gzip"}


def choose(codings: list[str], known: Codings) -> Unpacking:
    """What undoes these codings of a body, of which there is one.

    Raises `LimitExceeded` (ratio) for more than one: each would multiply what the other lets through;
    `ProtocolError` for one that we cannot undo and did not ask for.
    """
    if len(codings) > 1:
        raise LimitExceeded("ratio", f"the body is coded {len(codings)} times over: {', '.join(codings[:4])}")
    (coding,) = codings
    unpacking = known.get(_ALIASES.get(coding, coding))
    if unpacking is None:
        raise ProtocolError(f"the body has the content coding {coding!r}, which was not asked for")
    return unpacking()


class Decoding:
    """A filter that undoes a content coding, piece by piece. `most` bounds what comes of the body, coded;
    None is no bound. What it becomes is bounded like any body, by whoever takes it."""

    def __init__(self, unpacking: Unpacking, ratio: int, most: int | None) -> None:
        self._unpacking = unpacking
        self._ratio = ratio
        self._most = most
        self._came = 0
        self._in_vain = 0
        self._given = 0

    def feed(self, octets: bytes) -> Iterator[bytes]:
        """Raises `LimitExceeded`, and `ProtocolError` for what is not of that coding."""
        for start in range(0, len(octets), FED):
            fed = octets[start : start + FED]
            self._count_coded(len(fed))
            self._unpacking.feed(fed)
            while piece := self._unpacking.read(PIECE):
                self._count(len(piece))
                yield piece

    def finish(self) -> Iterator[bytes]:
        """Raises `Truncated` in the middle of the coding."""
        if not self._unpacking.whole:
            raise Truncated("the body ends in the middle of its content coding", received=self._given)
        return iter(())

    def _count_coded(self, octets: int) -> None:
        """More is to go in, for what went in since `_count` has brought nothing out."""
        self._came += octets
        if self._most is not None and self._came > self._most + self._most // _BLOCKS + _WRAPPING:
            raise LimitExceeded(
                "body", f"the coded body is larger than the limit of {self._most} octets (--max-size)"
            )
        if self._in_vain >= _IN_VAIN:
            raise LimitExceeded("ratio", f"{self._in_vain} octets of the body become nothing at all")
        self._in_vain += octets

    def _count(self, octets: int) -> None:
        self._given += octets
        self._in_vain = 0
        if self._given > _GRACE and self._given > self._ratio * self._unpacking.taken:
            raise LimitExceeded(
                "ratio",
                f"{self._unpacking.taken} octets of the body become more than {self._ratio} times as many",
            )
