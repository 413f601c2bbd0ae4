"""Lines of a listing: only CR LF ends one."""

from __future__ import annotations

import pytest

from protocols.errors import LimitExceeded
from protocols.news.lines import Lines

CASES = [
    (b"", []),
    (b"a\r\n", [b"a"]),
    (b"a\r\nb", [b"a", b"b"]),
    (b"\r\n\r\n", [b"", b""]),
    (b"a\nb\rc\r\n", [b"a\nb\rc"]),
    (b"a\r\r\nb\n\r\n", [b"a\r", b"b\n"]),
]


@pytest.mark.parametrize(("octets", "expected"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines(octets: bytes, expected: list[bytes], size: int) -> None:
    lines = Lines(100)
    found = []
    for start in range(0, len(octets), size):
        found += lines.feed(octets[start : start + size])
    assert found + lines.finish() == expected
    assert lines.finish() == []


@pytest.mark.parametrize("pieces", [[b"abcd\r\n"], [b"ab", b"cd"], [b"a\r\nb\r\nabcd"], [b"abcd\r\na\r\n"]])
def test_a_line_too_long(pieces: list[bytes]) -> None:
    lines = Lines(3)
    with pytest.raises(LimitExceeded) as caught:
        list(map(lines.feed, pieces))
    assert caught.value.limit == "line"


def test_as_long_as_may_be() -> None:
    assert Lines(3).feed(b"abc\r\nabc\r\n") == [b"abc", b"abc"]
