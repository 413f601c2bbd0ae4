"""Tests of Gopher replies: the shape by view or type, the media type, and errors.

The requested view decides for a framed reply, the item type for an unframed reply.
"""

from __future__ import annotations

from functools import partial

import pytest

from protocols.gopher.reply import (
    ERROR_REPLY_LIMIT,
    ErrorDetector,
    LineDetector,
    MenuDetector,
    ReplyShape,
    parse_refusal,
    read_unframed,
    shape_of_framed,
    shape_of_unframed,
)
from protocols.gopher.url import ITEM_TYPES, find_media_type
from protocols.wire import run_reader
from resolver import Declined, GopherUrl, Kind, NotFound, TryLater
from resolver.testing import CUTTERS, Cutter
from tests.protocols.typed_url import parse_as

MENU, PLUS = "application/gopher-menu", "application/gopher+-menu"
RECORDS = ReplyShape(Kind.DIRECTORY, PLUS, "records", True)
ITEMS = ReplyShape(Kind.DIRECTORY, MENU, "items", True)
TO_ASK = ReplyShape(Kind.SEARCH, MENU, "items", True)
TEXT = ReplyShape(Kind.DOCUMENT, "text/plain", None, True)
OCTETS = ReplyShape(Kind.DOCUMENT, "application/octet-stream", None, False)


def url_of(path: str) -> GopherUrl:
    return parse_as(GopherUrl, f"gopher://h.dom/{path}")


FRAMED: list[tuple[str, ReplyShape]] = [
    ("0a%09%09+", TEXT),
    ("9a%09%09+", OCTETS),
    ("1a%09%09+", ITEMS),
    ("7a%09%09+", TO_ASK),
    ("7a%09b%09+", ITEMS),
    ("0a%09+", TEXT),
    ("1a%09$", RECORDS),
    ("0a%09%09!", RECORDS),
    ("1a%09%09$", RECORDS),
    ("0a%09%09?", RECORDS),
    ("0a%09%09what", TEXT),
    ("0a%09%09+TEXT/HTML%20En_US", ReplyShape(Kind.DOCUMENT, "text/html", None, True)),
    ("1a%09%09+text/html", ReplyShape(Kind.DOCUMENT, "text/html", None, True)),
    ("7a%09b%09+text/plain", TEXT),
    ("0a%09%09+application/gopher-menu", ITEMS),
    ("1a%09%09+application/gopher+-menu", RECORDS),
    ("1a%09%09+Directory+/recursive", RECORDS),
    ("1a%09%09+Directory/recursive%20En_US", ITEMS),
]


@pytest.mark.parametrize(("path", "shape"), FRAMED)
def test_shape_of_framed_reply_follows_view(path: str, shape: ReplyShape) -> None:
    assert shape_of_framed(url_of(path)) == shape


UNFRAMED: list[tuple[str, bytes, ReplyShape]] = [
    ("0a", b"", TEXT),
    ("0a", b"+INFO: x", TEXT),
    ("0a%09%09+", b"+INFO: x", TEXT),
    ("0a%09%09!", b"+INFO: x", RECORDS),
    ("0a%09%09!", b"+INFO x", RECORDS),
    ("0a%09%09!", b"+INFORM", TEXT),
    ("0a%09%09!", b"+INFO", TEXT),
    ("0a%09!", b"+INFO: x", TEXT),
    ("7a%09b%09+", b"+INFO: x", RECORDS),
    ("7a%09b%09+", b"0hit\t", ITEMS),
    ("7a%09b", b"+INFO: x", ITEMS),
    ("7a", b"", TO_ASK),
    ("7a%09", b"", TO_ASK),
    ("1a%09%09$", b"+INFO: x", RECORDS),
    ("1a%09%09$", b"0a\tb", ITEMS),
    ("1a%09%09+text/html", b"0a\tb", ITEMS),
    ("0a%09%09+text/html", b"<html>", TEXT),
]


@pytest.mark.parametrize(("path", "first", "shape"), UNFRAMED)
def test_shape_of_unframed_reply_follows_type(path: str, first: bytes, shape: ReplyShape) -> None:
    assert shape_of_unframed(url_of(path), first) == shape


#: Section 7 of the Gopher+ page: item types, the reading of an unframed reply, and the media type.
TYPES = {
    **dict.fromkeys("0", ("text", "text/plain")),
    **dict.fromkeys("17", ("menu", MENU)),
    **dict.fromkeys("28T", ("nothing", None)),
    **dict.fromkeys("59d", ("octets", "application/octet-stream")),
    **dict.fromkeys("4", ("text", "application/mac-binhex40")),
    **dict.fromkeys("6", ("text", "text/x-uuencode")),
    **dict.fromkeys("h", ("text", "text/html")),
    **dict.fromkeys("M", ("text", "multipart/mixed")),
    **dict.fromkeys("ce", ("text", "text/calendar")),
    **dict.fromkeys("x", ("text", "text/xml")),
    **dict.fromkeys("g", ("octets", "image/gif")),
    **dict.fromkeys("I:", ("octets", "image/*")),
    **dict.fromkeys(";", ("octets", "video/*")),
    **dict.fromkeys("<s", ("octets", "audio/*")),
    **dict.fromkeys("P", ("octets", "application/pdf")),
    **dict.fromkeys("r", ("octets", "application/rtf")),
    **dict.fromkeys("v", ("octets", "model/vrml")),
    **dict.fromkeys("p3iX-+?/z", ("octets", "application/octet-stream")),
}


@pytest.mark.parametrize("character", TYPES)
def test_item_types_match_specification(character: str) -> None:
    row = ITEM_TYPES[character]
    assert (row.reading, row.media_type) == TYPES[character]


def test_item_types_are_all_tested() -> None:
    assert set(ITEM_TYPES) <= set(TYPES)


#: Item type, first bytes, media type.
SNIFFED: list[tuple[str, bytes, str]] = [
    ("I", b"GIF89a\1\0", "image/gif"),
    ("I", b"GIF87a", "image/gif"),
    ("I", b"\x89PNG\r\n\x1a\n", "image/png"),
    ("I", b"\xff\xd8\xff\xe0", "image/jpeg"),
    ("I", b"II*\0", "image/tiff"),
    ("I", b"BM12", "image/bmp"),
    ("I", b"RIFF1234WEBP", "image/webp"),
    ("I", b"%PDF-1.4", "image/*"),
    ("I", b"", "image/*"),
    ("g", b"\x89PNG\r\n\x1a\n", "image/gif"),
    ("p", b"\x89PNG\r\n\x1a\n", "image/png"),
    ("p", b"%PDF-1.4", "application/pdf"),
    ("p", b"hello", "application/octet-stream"),
    ("s", b".snd\0", "audio/basic"),
    ("<", b"RIFF1234WAVE", "audio/wav"),
    (";", b"\0\0\0\x18ftypmp42", "video/mp4"),
    ("9", b"GIF89a", "application/octet-stream"),
]


@pytest.mark.parametrize(("character", "first", "media_type"), SNIFFED)
def test_media_type_of_ambiguous_type_uses_first_bytes(character: str, first: bytes, media_type: str) -> None:
    assert find_media_type(ITEM_TYPES[character], first) == media_type


# Errors: framed errors by their code, unframed errors only by their shape.

URL = parse_as(GopherUrl, "gopher://h.dom/0n%09%09+")
assert isinstance(URL, GopherUrl)

#: An error text, and the class, code and text of its error.
REFUSALS_FRAMED: list[tuple[bytes, type[Declined], str | None, str]] = [
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


@pytest.mark.parametrize(("text", "error", "code", "words"), REFUSALS_FRAMED)
def test_parse_refusal_of_framed_error(
    text: bytes, error: type[Declined], code: str | None, words: str
) -> None:
    refusal = parse_refusal(text, URL)
    assert (type(refusal), refusal.code, refusal.text) == (error, code, words)
    assert refusal.retryable == (error is TryLater)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"3 0Moved\t/new\tnew.dom\t70\t+\r\n", "gopher://new.dom/0/new%09%09+"),
        (b"3 Somebody <a@b>\r\n1Moved\t/new\tnew.dom\t7070\r\n", "gopher://new.dom:7070/1/new"),
        (b"3 Somebody <a@b>\r\nto new.dom\r\n", "unknown location"),
        (b"3 0Moved\tx\rQUIT\tnew.dom\t70\r\n", "unknown location"),
    ],
)
def test_parse_refusal_of_moved_item_names_url(text: bytes, place: str) -> None:
    assert place in parse_refusal(text, URL).message


#: A complete reply to a menu request, and whether it is an error.
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
    (b"0'/n' does not exist!!\t\terror.host\t1\r\n.\r\n", False),  # an item by the specification
    (b"Error: not found\r\n", False),
]

#: A complete reply to any other request, and whether it is an error.
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
]
CASES = [(MenuDetector, *row) for row in MENUS] + [(LineDetector, *row) for row in LINES]


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize(("watch", "reply", "is_refusal"), CASES)
def test_error_detector_decides_at_end(
    watch: type[ErrorDetector], reply: bytes, is_refusal: bool, cutter: Cutter
) -> None:
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
        (MenuDetector, b"0a\n"),
    ],
)
def test_error_detector_accepts_content_early(watch: type[ErrorDetector], octets: bytes) -> None:
    watching = watch()
    watching.feed(octets[:-1])
    assert watching.is_refusal is None
    watching.feed(octets[-1:])
    assert watching.is_refusal is False
    watching.feed(b"3a\tb\tc\td\r\n")
    watching.finish()
    assert watching.is_refusal is False


@pytest.mark.parametrize("cutter", CUTTERS, ids=lambda cutter: cutter.__name__)
@pytest.mark.parametrize(
    ("path", "reply"),
    [
        ("0n", b"3" + b"x" * ERROR_REPLY_LIMIT + b"\t\t\t\r\n"),
        ("1n", b"3no\r\n" + b"iprose\r\n" * (ERROR_REPLY_LIMIT // 8)),
        ("1n", b"i" + b"x" * ERROR_REPLY_LIMIT),
    ],
)
def test_read_unframed_of_reply_longer_than_an_error_is_content(
    path: str, reply: bytes, cutter: Cutter
) -> None:
    url = url_of(path)
    assert run_reader(partial(read_unframed, url), *cutter(reply)) == shape_of_unframed(url, b"")


def test_line_detector_refusal_has_text() -> None:
    watching = LineDetector()
    watching.feed(b"3'/n' \x1b[2Jdoes not exist\t\terror.host\t1\r\n")
    watching.finish()
    refusal = watching.refusal
    assert (refusal.text, refusal.code) == ("'/n' [2Jdoes not exist", None)
    assert refusal.exit_code == 8
