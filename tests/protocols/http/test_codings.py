"""Tests of content decoding: correct for every split, within the limits, in constant memory."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.http import BOMB
from protocols.http.codings import ALWAYS, MAX_FED, PIECE, Decoding, choose
from protocols.options import DecodingBudget
from resolver import LimitExceeded, ProtocolError, ResolveError, Truncated
from tests.protocols.filtered import Filtered, Pieces
from tests.protocols.in_memory import MemorySink

TEXT = b"".join(b"line %d of some text\n" % number for number in range(5_000))
MEBIBYTE = 1 << 20


class NullSink(MemorySink):
    """A sink that discards all bytes."""

    def write(self, octets: bytes | memoryview) -> None:
        assert len(octets) <= PIECE


def split_bytes(octets: bytes, step: int) -> list[bytes]:
    return [octets[start : start + step] for start in range(0, len(octets), step)]


def decoded_body(coding: str, pieces: Iterable[bytes], ratio: int = 100) -> Filtered:
    return Filtered(Pieces(pieces), choose([coding], ALWAYS, DecodingBudget(ratio, None)))


async def take(body: Filtered) -> tuple[bytes, int]:
    """Return all bytes and the size of the largest piece."""
    pieces = [octets async for octets in body]
    assert all(pieces), "an empty piece of a body"
    return b"".join(pieces), max(map(len, pieces), default=0)


class InputRecorder:
    """A decoder without a coding that records the sizes of its inputs."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._held = b""
        self.taken = 0
        self.whole = True

    def feed(self, octets: bytes) -> None:
        assert not self._held, "earlier output must be read first"
        self.sizes.append(len(octets))
        self._held = octets

    def read(self, most: int) -> bytes:
        octets, self._held = self._held[:most], self._held[most:]
        self.taken += len(octets)
        return octets


def test_decoding_feeds_large_input_in_pieces() -> None:
    fed, octets = InputRecorder(), bytes(range(256)) * 4_097
    decoding = Decoding(fed, DecodingBudget(100, None))
    assert b"".join(decoding.feed(octets)) == octets
    assert sum(fed.sizes) == len(octets)
    assert max(fed.sizes) == MAX_FED


def test_decoding_of_many_empty_members_raises() -> None:
    empty = gzip.compress(b"", mtime=0)
    decoding = choose(["gzip"], ALWAYS, DecodingBudget(100, None))
    with pytest.raises(LimitExceeded, match="to nothing"):
        list(decoding.feed(empty * (2 * MEBIBYTE // len(empty))))


CODED = [
    ("gzip", gzip.compress(TEXT, mtime=0)),
    (
        "gzip",
        gzip.compress(TEXT[:1000], mtime=0)
        + gzip.compress(b"", mtime=0) * 2000
        + gzip.compress(TEXT[1000:], mtime=0),
    ),
    ("deflate", zlib.compress(TEXT)),
    ("deflate", zlib.compress(TEXT)[2:-4]),
    ("deflate", zlib.compress(TEXT, level=0)[2:-4]),
]


@pytest.mark.parametrize(("coding", "octets"), CODED)
@pytest.mark.parametrize("step", [1, 7, 65_536])
async def test_decoding_gives_small_pieces_for_every_split(coding: str, octets: bytes, step: int) -> None:
    content, largest = await take(decoded_body(coding, split_bytes(octets, step)))
    assert content == TEXT
    assert largest <= PIECE


async def test_decoding_drain_gives_same_bytes() -> None:
    sink = MemorySink()
    assert await decoded_body("gzip", [gzip.compress(TEXT, mtime=0)]).drain(sink) == len(TEXT)
    assert sink.octets == TEXT


@pytest.mark.parametrize(("coding", "octets"), CODED)
async def test_decoding_truncated_stream_raises_truncated(coding: str, octets: bytes) -> None:
    for end in (1, 5, len(octets) // 2, len(octets) - 1):
        with pytest.raises(Truncated) as caught:
            await take(decoded_body(coding, [octets[:end]]))
        assert caught.value.received <= len(TEXT)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_decoding_of_no_bytes_gives_no_bytes(coding: str) -> None:
    assert await take(decoded_body(coding, [])) == (b"", 0)


@pytest.mark.parametrize(
    ("coding", "octets"),
    [
        ("gzip", b"hello, no gzip"),
        ("gzip", gzip.compress(TEXT, mtime=0) + b"hello, no gzip"),
        ("gzip", gzip.compress(TEXT, mtime=0)[:-8] + bytes(8)),  # wrong checksum and length
        ("deflate", b"\xff\xff\xff\xff"),
        ("deflate", zlib.compress(TEXT)[:-4] + bytes(4)),
        ("gzip", zlib.compress(TEXT)),
    ],
)
async def test_decoding_invalid_stream_raises(coding: str, octets: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        await take(decoded_body(coding, [octets]))
    assert not isinstance(caught.value, LimitExceeded)


def bomb(size: int) -> bytes:
    return gzip.compress(bytes(size), 9, mtime=0)


@pytest.mark.parametrize(
    ("size", "ratio", "limit"),
    [
        (MEBIBYTE, 100, None),  # the ratio is checked only above 1 MiB
        (MEBIBYTE + 1, 100, "ratio"),
        (8 * MEBIBYTE, 1_100, None),  # the maximum ratio of deflate is 1,032
        (64 * MEBIBYTE, 100, "ratio"),
    ],
)
async def test_decoding_ratio_is_limited(size: int, ratio: int, limit: str | None) -> None:
    body = decoded_body("gzip", split_bytes(bomb(size), 4096), ratio)
    if limit is None:
        assert len((await take(body))[0]) == size
        return
    sink = MemorySink()
    with pytest.raises(LimitExceeded) as caught:
        await body.drain(sink)
    assert (caught.value.limit, caught.value.exit_code) == (limit, 14)
    assert len(sink.octets) <= max(MEBIBYTE, ratio * 4096)


async def test_decoding_bomb_after_incompressible_data_uses_bounded_memory() -> None:
    """Incompressible bytes raise the allowance for the rest, which is still decoded piece by piece."""
    import random

    honest = random.Random(1).randbytes(MEBIBYTE)
    octets = gzip.compress(honest, mtime=0) + bomb(64 * MEBIBYTE)
    body = decoded_body("gzip", split_bytes(octets, 65_536))
    received = 0
    tracemalloc.start()
    try:
        async for piece in body:
            received += len(piece)
            assert len(piece) <= PIECE
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert received == 65 * MEBIBYTE
    assert peak < MEBIBYTE


async def test_decoding_bomb_is_refused_in_bounded_memory() -> None:
    octets = gzip.decompress(BOMB)  # 64 MiB, compressed once
    tracemalloc.start()
    try:
        with pytest.raises(LimitExceeded):
            await decoded_body("gzip", split_bytes(octets, 65_536)).drain(NullSink())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MEBIBYTE


@pytest.mark.parametrize(
    ("codings", "error"),
    [
        (["gzip", "gzip"], LimitExceeded),
        (["gzip", "br"], LimitExceeded),
        (["deflate"] * 1000, LimitExceeded),
        (["compress"], ProtocolError),
        (["br"], ProtocolError),  # without the extra
        (["x-deflate"], ProtocolError),
    ],
)
def test_choose_unsupported_codings_raise(codings: list[str], error: type[ProtocolError]) -> None:
    with pytest.raises(ProtocolError) as caught:
        choose(codings, ALWAYS, DecodingBudget(100, None))
    assert type(caught.value) is error
    assert len(caught.value.message) < 200


@given(st.sampled_from(["gzip", "deflate"]), st.binary(max_size=200), st.sampled_from([1, 3, 200]))
async def test_decoding_any_bytes_gives_bytes_or_error(coding: str, octets: bytes, step: int) -> None:
    try:
        content, _ = await take(decoded_body(coding, split_bytes(octets, step)))
    except ResolveError:
        return
    assert isinstance(content, bytes)
