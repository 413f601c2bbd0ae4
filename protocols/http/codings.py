"""Decoding of content codings (RFC 9110 8.4) within limits, which prevent decompression bombs (S16).

Only one content coding is accepted per body. The decoder returns a block of decoded bytes only when the
caller requests it. A few coded bytes therefore never become a very large body in memory.

A `DecodingBudget` limits the coded and the decoded bytes. The coded bytes are limited like any body.

The decoders for gzip and deflate come from the standard library. The caller supplies other decoders.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeAlias

from protocols.errors import LimitExceeded, ProtocolError, Truncated
from protocols.options import DecodingBudget, Unpacking

#: The requested size of a decoded block, in bytes.
PIECE = 65_536

#: The maximum number of coded bytes that the decoder receives at a time. The decoder copies the unused bytes
#: for each gzip member and each decoded block. If an attacker sent many gzip members of 21 bytes, a larger
#: value would lead to quadratic time.
MAX_FED = 16_384

Codings: TypeAlias = Mapping[str, Callable[[], Unpacking]]


class _Inflation:
    """A decoder of consecutive zlib streams (RFC 1952 2.2)."""

    def __init__(self, window_bits: int | None) -> None:
        self._window_bits = window_bits
        self._stream: zlib._Decompress | None = None
        self._pending = b""
        self.taken = 0

    def feed(self, octets: bytes) -> None:
        self._pending += octets

    def read(self, most: int) -> bytes:
        octets = b""
        while not octets and self._has_stream():
            octets = self._inflate(most)
            if not octets and not self._stream_ended():
                break
        return octets

    def _inflate(self, max_size: int) -> bytes:
        assert self._stream is not None
        before = len(self._pending)
        try:
            octets = self._stream.decompress(self._pending, max_size)
        except zlib.error as error:
            raise ProtocolError("the body is not valid in its content coding") from error
        self._pending = self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
        self.taken += before - len(self._pending)
        return octets

    def _stream_ended(self) -> bool:
        return self._stream is None or self._stream.eof

    def _has_stream(self) -> bool:
        """Return whether a compressed stream is open; start the next stream if the previous one has ended.

        A stream starts with two bytes that identify the format. By the RFC, deflate is the zlib format (RFC
        1950 2.2), but some servers send raw deflate.
        """
        if not self._stream_ended():
            return True
        if len(self._pending) < 2:
            return False
        bits = self._window_bits
        if bits is None:
            header = int.from_bytes(self._pending[:2], "big")
            bits = zlib.MAX_WBITS if header >> 8 & 0x0F == 8 and header % 31 == 0 else -zlib.MAX_WBITS
        self._stream = zlib.decompressobj(bits)
        return True

    @property
    def whole(self) -> bool:
        return not self._pending and self._stream_ended()


#: The codings that are always supported. `x-gzip` is equivalent to gzip (RFC 9110 8.4.1.3).
ALWAYS: Codings = {"gzip": partial(_Inflation, 16 + zlib.MAX_WBITS), "deflate": partial(_Inflation, None)}
_ALIASES = {"x-gzip": "gzip"}


def choose(codings: list[str], supported: Codings, budget: DecodingBudget) -> Decoding:
    """Return a new filter for the only content coding of a body.

    Raises:
        LimitExceeded: the body has more than one coding (ratio). With two codings, the expansion ratios would
            multiply.
        ProtocolError: the coding is not supported and was not requested.
    """
    if len(codings) > 1:
        raise LimitExceeded(
            "ratio", f"the body has {len(codings)} content codings, expected one: {', '.join(codings[:4])}"
        )
    (coding,) = codings
    unpacking = supported.get(_ALIASES.get(coding, coding))
    if unpacking is None:
        raise ProtocolError(f"the body has the content coding {coding!r}, which was not requested")
    return Decoding(unpacking(), budget)


class Decoding:
    """A filter that decodes a content coding in blocks. The caller must limit the decoded body."""

    def __init__(self, unpacking: Unpacking, budget: DecodingBudget) -> None:
        self._unpacking = unpacking
        self._budget = budget

    def feed(self, octets: bytes) -> Iterator[bytes]:
        """Feed coded bytes, and yield the decoded blocks.

        Raises:
            LimitExceeded: the coded body is too large or expands too much.
            ProtocolError: the bytes are not valid in the coding.
        """
        for start in range(0, len(octets), MAX_FED):
            fed = octets[start : start + MAX_FED]
            self._budget.feed(len(fed))
            self._unpacking.feed(fed)
            while piece := self._unpacking.read(PIECE):
                self._budget.take(len(piece), self._unpacking.taken)
                yield piece

    def finish(self) -> Iterator[bytes]:
        """Check that the coding is complete.

        Raises:
            Truncated: the body ends in the middle of its coding.
        """
        if not self._unpacking.whole:
            raise Truncated("the body ends in the middle of its content coding", received=self._budget.given)
        return iter(())
