"""Lines, and what becomes of one that is too long."""

from __future__ import annotations

import pytest

from protocols.gopher.menu import LINE_LIMIT, MenuLines, TextLine
from resolver.testing import CUTTERS, Cutter

OCTETS = b"one\r\ntwo\n\r\n\n\rthree\r\r\nfour\r"
LINES = [b"one", b"two", b"", b"", b"\rthree\r", b"four"]


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
def test_lines_end_at_lf_and_lose_one_cr(cutter: Cutter) -> None:
    lines = MenuLines()
    read = [line for piece in cutter(OCTETS) for line in lines.feed(piece)]
    assert [*read, *lines.finish()] == [TextLine(line) for line in LINES]
    assert lines.finish() == []


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
def test_a_line_that_is_too_long_is_cut_and_the_next_is_not(cutter: Cutter) -> None:
    octets = b"x" * 10 + b"\r\n" + b"y" * 11 + b"\r\n" + b"z" * 11 + b"\n" + b"w" * 500 + b"\nshort\n"
    lines = MenuLines(limit=10)
    assert [line for piece in cutter(octets) for line in lines.feed(piece)] == [
        TextLine(b"x" * 10),
        TextLine(b"y" * 10, whole=False),
        TextLine(b"z" * 10, whole=False),
        TextLine(b"w" * 10, whole=False),
        TextLine(b"short"),
    ]


def test_a_line_without_end_is_not_kept() -> None:
    lines = MenuLines()
    for _ in range(100):
        assert lines.feed(b"x" * LINE_LIMIT) == []
    assert lines.finish() == [TextLine(b"x" * LINE_LIMIT, whole=False)]
