"""COMPRESS DEFLATE: the codec alone, and bytes recorded from INN."""

from __future__ import annotations

import time
import zlib

import pytest

from protocols.news.session import Deflate, parse_capabilities
from protocols.options import DecodingBudget
from resolver import LimitExceeded, ProtocolError
from tests.protocols.news.captures import LAST_CLEAR_LINE, bytes_of_side, load

MIB = 1_048_576


def packed(octets: bytes, flush: int = zlib.Z_SYNC_FLUSH) -> bytes:
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return packer.compress(octets) + packer.flush(flush)


def unpack(machine: Deflate, octets: bytes, most: int = 65_536, step: int | None = None) -> bytes:
    """Return the decompressed bytes; the input is fed in chunks of `step` bytes."""
    step = step or len(octets)
    found = []
    for start in range(0, len(octets), step):
        machine.feed(octets[start : start + step])
        while piece := machine.read(most):
            assert len(piece) <= most
            found.append(piece)
        assert not machine.has_more
    return b"".join(found)


@pytest.mark.parametrize("step", [1, 2, 3, 7, None])
@pytest.mark.parametrize("most", [1, 100, 65_536])
def test_deflate_unpacks_capture_of_inn(step: int | None, most: int) -> None:
    octets = b"".join(octets for speaker, octets in load("compress_deflate") if speaker == "server")
    coded = octets.partition(LAST_CLEAR_LINE["server"])[2]
    plain = bytes_of_side("compress_deflate", "server").partition(LAST_CLEAR_LINE["server"])[2]
    assert unpack(Deflate(DecodingBudget(100, None)), coded, most, step) == plain
    assert b"\r\n502 " in plain


def test_deflate_flushes_every_command() -> None:
    machine, peer = Deflate(DecodingBudget(100, None)), zlib.decompressobj(-zlib.MAX_WBITS)
    for command in (b"GROUP a.b\r\n", b"OVER 1-1000\r\n", b"QUIT\r\n"):
        assert peer.decompress(machine.pack(command)) == command


def test_deflate_exact_chunk_leaves_no_data() -> None:
    machine = Deflate(DecodingBudget(100, None))
    machine.feed(packed(b"x" * 200))
    assert machine.read(100) == b"x" * 100
    assert machine.has_more
    assert machine.read(100) == b"x" * 100
    assert machine.read(100) == b""
    assert not machine.has_more


@pytest.mark.parametrize(
    "octets", [b"211 5 1 5 a.b\r\n", b"\xff" * 20, packed(b"x", zlib.Z_FINISH) + b"200 smuggled\r\n"]
)
def test_deflate_of_uncompressed_data_raises(octets: bytes) -> None:
    with pytest.raises(ProtocolError):
        unpack(Deflate(DecodingBudget(100, None)), octets)


def test_deflate_after_end_of_stream_raises() -> None:
    machine = Deflate(DecodingBudget(100, None))
    assert unpack(machine, packed(b"x", zlib.Z_FINISH)) == b"x"
    with pytest.raises(ProtocolError):
        unpack(machine, b"y")


def test_deflate_bomb_over_ratio_raises() -> None:
    """No chunk exceeds the requested size until the limit is reached."""
    machine = Deflate(DecodingBudget(100, None))
    pieces: list[bytes] = []
    machine.feed(packed(bytes(16 * MIB)))
    with pytest.raises(LimitExceeded) as caught:
        pieces.extend(iter(lambda: machine.read(65_536), b""))
    assert caught.value.limit == "ratio"
    assert MIB <= len(b"".join(pieces)) <= 2 * MIB
    assert max(map(len, pieces)) == 65_536


def test_deflate_of_endless_empty_blocks_raises() -> None:
    """Empty deflate blocks without end."""
    empty = b"\x00\x00\x00\xff\xff" * 300_000
    with pytest.raises(LimitExceeded) as caught:
        unpack(Deflate(DecodingBudget(100, None)), empty, step=65_536)
    assert caught.value.limit == "ratio"


def test_deflate_of_one_mib_of_zeros_succeeds() -> None:
    assert unpack(Deflate(DecodingBudget(100, None)), packed(bytes(MIB))) == bytes(MIB)


def test_parse_capabilities_of_one_label_takes_linear_time() -> None:
    """The server may send 64 KiB of lines with the same label. Quadratic work would take 20 s."""
    began = time.process_time()
    labels = parse_capabilities(b"\r\n".join(b"A %d" % number for number in range(20_000))).labels
    assert len(labels[b"A"]) == 20_000
    assert time.process_time() - began < 2
