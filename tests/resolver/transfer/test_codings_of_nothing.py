"""Coded bodies that decode to few or no bytes: the bytes received count against the limits."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import httpx
import pytest
import trio

from fixtures.http import coded, serve
from protocols.http.codings import ALWAYS, Codings, choose
from protocols.options import DecodingBudget
from resolver import HttpxTransport, LimitExceeded, Limits, Resolver
from resolver.transfer.extras import find_codings
from tests.protocols.filtered import Filtered, Pieces
from tests.sampled import sampled

MEBIBYTE = 1 << 20
PIECE = 65_536

_EMPTY_MEMBER = gzip.compress(b"", mtime=0)
_EMPTY_BLOCK = b"\0\0\0\xff\xff"  # a stored block of 0 bytes (RFC 1951 3.2.4)
# a gzip member whose file name never ends with NUL (RFC 1952 2.3)
_OPEN_NAME = b"\x1f\x8b\x08\x08" + bytes(6)
_SKIPPED_FRAME = b"\x50\x2a\x4d\x18\0\0\0\0"  # RFC 8878 3.1.2
_EMPTY_FRAME = b"\x28\xb5\x2f\xfd\x20\x00\x01\0\0"  # with one raw block of 0 bytes (RFC 8878 3.1.1)

#: Ways to send no content: the coding, the start, and the bytes that may follow without end.
NOTHINGS: dict[str, tuple[str, bytes, bytes]] = {
    "empty members": ("gzip", b"", _EMPTY_MEMBER),
    "empty blocks": ("gzip", _EMPTY_MEMBER[:10], _EMPTY_BLOCK),
    "a file name": ("gzip", _OPEN_NAME, b"name"),
    "empty streams": ("deflate", b"", zlib.compress(b"")),
    "empty blocks of deflate": ("deflate", b"", _EMPTY_BLOCK),
    "metadata": ("br", b"\x0c", b"\x06"),  # skipped blocks of 0 bytes (RFC 7932 9.2)
    "skipped frames": ("zstd", b"", _SKIPPED_FRAME),
    "empty frames": ("zstd", b"", _EMPTY_FRAME),
}


def empty_body(kind: str, size: int) -> tuple[str, bytes]:
    """Return the coding and about `size` bytes that decode to no bytes."""
    coding, begin, again = NOTHINGS[kind]
    if coding not in known():
        pytest.skip(f"the extra for {coding} is not installed")
    return coding, begin + again * (size // len(again))


def known() -> Codings:
    return {**ALWAYS, **find_codings()}


def in_pieces(octets: bytes) -> Pieces:
    return Pieces(octets[start : start + PIECE] for start in range(0, len(octets), PIECE))


async def end_of(coding: str, body: Pieces, most: int | None) -> tuple[int, LimitExceeded | None]:
    """Return the number of decoded bytes, and the error of the decoder or None."""
    decoding, given = choose([coding], known(), DecodingBudget(100, most)), 0
    try:
        async for octets in Filtered(body, decoding):
            given += len(octets)
    except LimitExceeded as error:
        return given, error
    return given, None


@pytest.mark.parametrize("kind", NOTHINGS)
async def test_empty_coding_exceeds_ratio_after_1_mib(kind: str) -> None:
    coding, octets = empty_body(kind, 4 * MEBIBYTE)
    body = in_pieces(octets)
    given, error = await end_of(coding, body, None)
    assert error is not None
    assert (given, error.limit, error.exit_code) == (0, "ratio", 14)
    assert body.received <= MEBIBYTE + 2 * PIECE


@pytest.mark.parametrize("kind", NOTHINGS)
async def test_empty_coding_counts_against_body_limit(kind: str) -> None:
    coding, octets = empty_body(kind, MEBIBYTE // 2)
    body = in_pieces(octets)
    given, error = await end_of(coding, body, 1_000)
    assert error is not None
    assert (given, error.limit, error.exit_code) == (0, "body", 14)
    assert body.received <= PIECE


#: The codings that allow consecutive streams, between which anything can be empty.
FOLLOWING = {"gzip": gzip.compress(b"x", mtime=0), "deflate": zlib.compress(b"x")}


@pytest.mark.parametrize("kind", sampled(["empty members", "empty streams"], lambda kind: None))
@pytest.mark.slow
async def test_sparse_coding_counts_against_body_limit(kind: str) -> None:
    coding, octets = empty_body(kind, MEBIBYTE // 2)
    body = in_pieces((FOLLOWING[coding] + octets) * 8)
    given, error = await end_of(coding, body, 2 * MEBIBYTE)
    assert error is not None
    assert error.limit == "body"
    assert 0 < given < 8
    assert body.received <= 2 * MEBIBYTE + PIECE
    unbound = in_pieces((FOLLOWING[coding] + octets) * 8)
    assert await end_of(coding, unbound, None) == (8, None)


@pytest.mark.parametrize("size", [0, 1, 1_000])
async def test_body_of_limit_size_is_decoded(size: int) -> None:
    content = b"a" * size
    octets = gzip.compress(content, mtime=0)
    assert await end_of("gzip", in_pieces(octets), max(size, len(octets))) == (size, None)


async def by_fetch(url: str, limits: Limits, path: Path) -> None:
    async with Resolver(limits=limits) as session:
        await session.fetch(url)


async def by_stream(url: str, limits: Limits, path: Path) -> None:
    async with Resolver(limits=limits) as session, session.stream(url) as reply:
        async for _ in reply.body:
            pass


async def by_save(url: str, limits: Limits, path: Path) -> None:
    async with Resolver(limits=limits) as session:
        await session.save(url, path)


async def by_httpx(url: str, limits: Limits, path: Path) -> None:
    async with httpx.AsyncClient(transport=HttpxTransport(limits=limits)) as client:
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            await client.get(url)
    assert caught.value.__cause__ is not None
    raise caught.value.__cause__


WAYS = {"fetch": by_fetch, "stream": by_stream, "save": by_save, "httpx": by_httpx}


def _sizes() -> Iterable[tuple[Limits, int, str]]:
    yield Limits(), 4 * MEBIBYTE, "ratio"
    yield Limits(body=1_000, body_everywhere=True), MEBIBYTE // 2, "body"


ENDED = sampled(product(WAYS, ["empty members", "metadata", "skipped frames"]), lambda row: row[0])


@pytest.mark.parametrize(("way", "kind"), ENDED)
async def test_empty_coding_is_refused_by_fetch_stream_save_and_httpx(
    way: str, kind: str, tmp_path: Path, nursery: trio.Nursery
) -> None:
    for limits, size, limit in _sizes():
        coding, octets = empty_body(kind, size)
        server = await serve(nursery, site={"/": coded(octets, coding)})
        with pytest.raises(LimitExceeded) as caught:
            await WAYS[way](server.url("/"), limits, tmp_path / "file")
        assert (caught.value.limit, caught.value.exit_code) == (limit, 14)
