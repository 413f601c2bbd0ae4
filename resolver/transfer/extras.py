"""Optional features of installed extras: `br` and `zstd` content codings, HTTP/2, and public suffixes.

RFC 7932 defines `br`; RFC 8878 and RFC 9659 define `zstd`. To limit memory against a decompression bomb
(S16), the decoders receive the compressed data in small chunks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from protocols.errors import ProtocolError
from protocols.options import Frames, Unpacking
from resolver.url.registry import is_installed

#: Size in bytes of a compressed chunk for the brotli decoder. Since version 1.2, brotli can limit its output.
_BROTLI_PIECE = 1024
#: The size in bytes of a compressed chunk for the zstd decoder. A block of 4 compressed bytes can have 128
#: KiB of output, so 64 bytes decompress to at most 2 MiB.
_ZSTD_PIECE = 64
#: Maximum zstd window size in bytes. RFC 9659 section 3 requires decoders to support 8 MiB, and allows
#: decoders to reject larger windows.
_ZSTD_WINDOW = 8 << 20

_WRONG_CODING = "the body is not in its declared content coding"


class _Brotli:
    def __init__(self) -> None:
        library: Any = importlib.import_module("brotli")
        self._stream = library.Decompressor()
        self._error: type[Exception] = library.error
        self._waiting = b""
        self.taken = 0

    def feed(self, octets: bytes) -> None:
        self._waiting += octets

    def read(self, max_size: int) -> bytes:
        while self._waiting:
            if octets := self._step(max_size):
                return octets
        return self._step(max_size)  # without new input, the decoder may still have buffered output

    def _step(self, max_size: int) -> bytes:
        piece = self._waiting[:_BROTLI_PIECE] if self._stream.can_accept_more_data() else b""
        self._waiting = self._waiting[len(piece) :]
        self.taken += len(piece)
        if not piece and self._stream.is_finished():
            return b""
        try:
            return bytes(self._stream.process(piece, output_buffer_limit=max_size))
        except self._error as error:
            raise ProtocolError(_WRONG_CODING) from error

    @property
    def whole(self) -> bool:
        return not self._waiting and (self.taken == 0 or bool(self._stream.is_finished()))


class _Zstd:
    def __init__(self) -> None:
        library: Any = importlib.import_module("zstandard")
        self._decoder = library.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._error: type[Exception] = library.ZstdError
        self._frame: Any = None
        self._waiting = b""
        self.taken = 0

    def feed(self, octets: bytes) -> None:
        self._waiting += octets

    def read(self, max_size: int) -> bytes:
        octets = b""
        while not octets and self._waiting:
            octets = self._step()
        return octets

    def _step(self) -> bytes:
        if self._frame is None:
            self._frame = self._decoder.decompressobj()
        piece, self._waiting = self._waiting[:_ZSTD_PIECE], self._waiting[_ZSTD_PIECE:]
        self.taken += len(piece)
        try:
            octets = bytes(self._frame.decompress(piece))
        except self._error as error:
            raise ProtocolError(_WRONG_CODING) from error
        if self._frame.eof:
            self._waiting = self._frame.unused_data + self._waiting
            self.taken -= len(self._frame.unused_data)
            self._frame = None
        return octets

    @property
    def whole(self) -> bool:
        return not self._waiting and self._frame is None


@cache
def find_codings() -> Mapping[str, Callable[[], Unpacking]]:
    """Return the decoders of the installed extras, by content coding, without gzip and deflate."""
    codings: dict[str, Callable[[], Unpacking]] = {}
    # Older versions of brotli cannot limit their output: they expand a decompression bomb in one step.
    brotli = importlib.import_module("brotli") if is_installed("brotli") else None
    if brotli is not None and hasattr(brotli.Decompressor, "can_accept_more_data"):
        codings["br"] = _Brotli
    if is_installed("zstandard"):
        codings["zstd"] = _Zstd
    return codings


# HTTP/2 framing by the package `h2`. The package is imported lazily, when the first peer has negotiated
# HTTP/2.


def _make_frames(max_header_size: int) -> Frames:
    from resolver.network.frames import Http2Frames  # imported lazily: loads h2, a large package of an extra

    return Http2Frames(max_header_size)


@cache
def find_frames() -> Callable[[int], Frames] | None:
    """Return the function that creates the HTTP/2 framing of a connection, or None if h2 is not installed."""
    return _make_frames if is_installed("h2") else None


# Public suffixes (publicsuffix.org): domain names such as `co.uk` below which users can register names.
#
# A server must not set a cookie for a public suffix (supercookie). The list of public suffixes is part of an
# extra. The list is loaded lazily, when the first server sets a cookie with a Domain attribute.


@cache
def find_suffix_lookup() -> Callable[[str], str] | None:
    """Return the function that finds the public suffix of a host, or None if the extra is not installed."""
    return _find_suffix if is_installed("publicsuffixlist") else None


def _find_suffix(name: str) -> str:
    return _load_suffix_list()(name) or name


@cache
def _load_suffix_list() -> Callable[[str], str | None]:
    from publicsuffixlist import PublicSuffixList

    suffixes: Callable[[str], str | None] = PublicSuffixList().publicsuffix
    return suffixes
