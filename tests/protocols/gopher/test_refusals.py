"""Errors: framed ones by their code, unframed ones by their shape and by nothing else."""

from __future__ import annotations

import pytest

from protocols.gopher.reply import WATCH_LIMIT, ErrorDetector, LineDetector, MenuDetector, parse_refusal
from resolver import Declined, GopherUrl, NotFound, TryLater
from resolver.testing import CUTTERS, Cutter
from tests.protocols.typed_url import parse_as

URL = parse_as(GopherUrl, "gopher://h.dom/0n%09%09+")
assert isinstance(URL, GopherUrl)

#: An error text, its class, code, and words.
FRAMED: list[tuple[bytes, type[Declined], str | None, str]] = [
    (b"1 Somebody <a@b>\r\nnot there\r\n.\r\n", NotFound, "1", "not there"),
    (b"1 Somebody <a@b>\nnot\nthere\n", NotFound, "1", "not\nthere"),
    (b"1 Somebody <a@b>", NotFound, "1", "Somebody <a@b>"),
    (b"1", NotFound, "1", ""),
    (b"2 Somebody\r\nlater\r\n", TryLater, "2", "later"),
    (b"02\r\nlater", TryLater, "2", "later"),
    (b"3 Somebody\r\nsomewhere else\r\n", Declined, "3", "somewhere else"),
    (b"4 x\r\ny", Declined, "4", "y"),
    (b"0 x\r\ny", Declined, "0", "y"),
    (b"1x\r\ny", Declined, None, "y"),
    (b"no code at all\r\n", Declined, None, "no code at all"),
    (b"", Declined, None, ""),
    (b".\r\n", Declined, None, ""),
    (b"1\r\n.\r\n", NotFound, "1", ""),
    (b"3 x\r\n0New\ts\th.dom\t70\r\n", Declined, "3", "0New\ts\th.dom\t70"),
    (b"99999999999 x\r\n", Declined, None, "99999999999 x"),
    (b"1 a\r\n\x1b[31mred\x00\xe9\r\n", NotFound, "1", "[31mredé"),
]


@pytest.mark.parametrize(("text", "error", "code", "words"), FRAMED)
def test_framed_errors(text: bytes, error: type[Declined], code: str | None, words: str) -> None:
    refusal = parse_refusal(text, URL)
    assert (type(refusal), refusal.code, refusal.text) == (error, code, words)
    assert refusal.retryable == (error is TryLater)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"3 0Moved\t/new\tnew.dom\t70\t+\r\n", "gopher://new.dom/0/new%09%09+"),
        (b"3 Somebody <a@b>\r\n1Moved\t/new\tnew.dom\t7070\r\n", "gopher://new.dom:7070/1/new"),
        (b"3 Somebody <a@b>\r\nto new.dom\r\n", "does not name"),
        (b"3 0Moved\tx\rQUIT\tnew.dom\t70\r\n", "does not name"),
    ],
)
def test_a_new_place_is_told_as_a_url(text: bytes, place: str) -> None:
    assert place in parse_refusal(text, URL).message


#: A whole reply to a menu request, and is it an error?
MENUS: list[tuple[bytes, bool]] = [
    (b"", False),
    (b".\r\n", False),
    (b"3no\t\terror.host\t1\r\n", True),
    (b"3no\t\terror.host\t1\r\n.\r\n", True),
    (b"3no", True),
    (b"3no\r\niprose\r\n\r\n3again\r\n", True),
    (b"iprose\r\n3no\r\n", True),
    (b"iprose\r\n", False),
    (b"3no\r\n0yes\ty\th\t70\r\n", False),
    (b"3no\r\n0yes", False),
    (b"0'/n' does not exist!!\t\terror.host\t1\r\n.\r\n", False),  # by the letter: an item
    (b"Error: not found\r\n", False),
    (b"3no\r\n" + b"iprose\r\n" * (WATCH_LIMIT // 8), False),
]

#: The same for anything else.
LINES: list[tuple[bytes, bool]] = [
    (b"", False),
    (b"3'/n' does not exist\t\terror.host\t1\r\n", True),
    (b"3'/n' does not exist\t\terror.host\t1", True),
    (b"3'/n' does not exist\t\terror.host\t1\n.\n", True),
    (b"3'/n' does not exist\t\terror.host\t1\r\n.", True),
    (b"3\ta\tb\tc\td\r\n.\r\n", True),
    (b"3\ta\tb\r\n", False),
    (b"3 apples\r\n", False),
    (b"3a\tb\tc\td\r\nmore\r\n", False),
    (b"3a\tb\tc\td\r\n..\r\n", False),
    (b"3a\tb\tc\td\r\n.\r\n.\r\n", False),
    (b"3a\tb\tc\td\r\n\r\n", False),
    (b"0'/n' does not exist!!\t\terror.host\t1\r\n.\r\n", True),
    (b"0'/n' does not exist!!\t\terror.host\t1\t+\r\n", True),
    (b"0a\tb\terror.host\t70\r\n", False),
    (b"0a\tb\tother.host\t1\r\n", False),
    (b"0a\terror.host\t1\t1\r\n", False),
    (b"1a\tb\terror.host\t1\r\n", False),
    (b".\r\n", False),
    (b"GIF89a", False),
    (b"3" + b"x" * WATCH_LIMIT + b"\t\t\t\r\n", False),
]
CASES = [(MenuDetector, *row) for row in MENUS] + [(LineDetector, *row) for row in LINES]


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize(("watch", "reply", "is_refusal"), CASES)
def test_unframed_errors(watch: type[ErrorDetector], reply: bytes, is_refusal: bool, cutter: Cutter) -> None:
    watching = watch()
    for piece in cutter(reply):
        watching.feed(piece)
        assert watching.is_refusal is not True, "decided before the end"
    watching.finish()
    assert watching.is_refusal is is_refusal


@pytest.mark.parametrize(
    ("watch", "octets"),
    [
        (LineDetector, b"G"),
        (LineDetector, b"\r"),
        (LineDetector, b"3 apples\n"),
        (LineDetector, b"3a\tb\tc\td\nx"),
        (LineDetector, b"3" + b"x" * WATCH_LIMIT),
        (MenuDetector, b"0a\n"),
        (MenuDetector, b"i" + b"x" * WATCH_LIMIT),
    ],
)
def test_content_is_known_as_soon_as_it_can_be(watch: type[ErrorDetector], octets: bytes) -> None:
    watching = watch()
    watching.feed(octets[:-1])
    assert watching.is_refusal is None
    watching.feed(octets[-1:])
    assert watching.is_refusal is False
    watching.feed(b"3a\tb\tc\td\r\n")
    watching.finish()
    assert watching.is_refusal is False


def test_the_words_of_an_error_line() -> None:
    watching = LineDetector()
    watching.feed(b"3'/n' \x1b[2Jdoes not exist\t\terror.host\t1\r\n")
    watching.finish()
    refusal = watching.refusal
    assert (refusal.text, refusal.code) == ("'/n' [2Jdoes not exist", None)
    assert refusal.exit_code == 8
