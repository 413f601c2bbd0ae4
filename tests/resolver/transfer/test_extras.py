"""The content codings of the extras: requested only if installed, and limited like the built-in codings."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from protocols.contract import Unpacking
from resolver import ProtocolError
from resolver.transfer import extras as codings
from resolver.transfer.extras import find_codings

TEXT = b"".join(b"line %d of some text\n" % number for number in range(5_000))
MEBIBYTE = 1 << 20
LIBRARIES = {"br": "brotli", "zstd": "zstandard"}


@pytest.fixture(params=LIBRARIES, name="coding")
def _coding(request: pytest.FixtureRequest) -> tuple[Callable[[], Unpacking], Callable[[bytes], bytes]]:
    """Return the decoder and the encoder; skip the test if the extra is not installed."""
    library: Any = pytest.importorskip(LIBRARIES[request.param])
    return find_codings()[request.param], library.compress


Coding = tuple[Callable[[], Unpacking], Callable[[bytes], bytes]]


def unpack(unpacking: Unpacking, octets: bytes, step: int) -> tuple[int, int]:
    """Return the number of decoded bytes and the size of the largest chunk."""
    count = largest = 0
    for start in range(0, len(octets), step):
        unpacking.feed(octets[start : start + step])
        while piece := unpacking.read(65_536):
            count, largest = count + len(piece), max(largest, len(piece))
    return count, largest


@pytest.mark.parametrize("step", [1, 7, 65_536])
def test_coding_decodes_pieces_of_any_size(coding: Coding, step: int) -> None:
    make, compress = coding
    octets = compress(TEXT)
    unpacking, out = make(), b""
    for start in range(0, len(octets), step):
        unpacking.feed(octets[start : start + step])
        while piece := unpacking.read(65_536):
            out += piece
    assert out == TEXT
    assert unpacking.whole
    assert unpacking.taken == len(octets)


@pytest.mark.slow
def test_coding_bomb_is_decoded_in_bounded_pieces(coding: Coding) -> None:
    make, compress = coding
    count, largest = unpack(make(), compress(bytes(16 * MEBIBYTE)), 65_536)
    assert count == 16 * MEBIBYTE
    assert largest <= 2 * MEBIBYTE


def test_truncated_coding_is_incomplete(coding: Coding) -> None:
    make, compress = coding
    octets = compress(TEXT)
    assert make().whole
    for end in (1, len(octets) // 2, len(octets) - 1):
        unpacking = make()
        unpack(unpacking, octets[:end], 65_536)
        assert not unpacking.whole


def test_invalid_coding_is_a_protocol_error(coding: Coding) -> None:
    make, compress = coding
    for octets in (b"\xff" * 100, compress(TEXT) + b"\xff" * 100):
        with pytest.raises(ProtocolError):
            unpack(make(), octets, 65_536)


class Old:
    """An old version of brotli, which has no limit for the output size."""

    class Decompressor: ...


@pytest.mark.parametrize(
    ("present", "names"),
    [((), []), (("zstandard",), ["zstd"]), (("brotli",), []), (("brotli", "zstandard"), ["zstd"])],
)
def test_find_codings_omits_missing_and_unbounded_libraries(
    present: tuple[str, ...], names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codings, "is_installed", lambda name: name in present)
    monkeypatch.setattr(importlib, "import_module", lambda name: Old)
    assert list(codings.find_codings.__wrapped__()) == names
