"""What a reply is read as: by the view asked for if framed, by the type if not; and what it is called."""

from __future__ import annotations

import pytest

from protocols.gopher.reply import GopherListing, ReplyShape, shape_of_framed, shape_of_unframed
from protocols.gopher.url import ITEM_TYPES, ReplyReading, find_type, media_type_of
from resolver import GopherUrl, Kind, parse

MENU, PLUS = "application/gopher-menu", "application/gopher+-menu"
RECORDS = ReplyShape(Kind.DIRECTORY, PLUS, GopherListing.RECORDS, True)
ITEMS = ReplyShape(Kind.DIRECTORY, MENU, GopherListing.ITEMS, True)
TO_ASK = ReplyShape(Kind.SEARCH, MENU, GopherListing.ITEMS, True)
TEXT = ReplyShape(Kind.DOCUMENT, "text/plain", None, True)
OCTETS = ReplyShape(Kind.DOCUMENT, "application/octet-stream", None, False)


def url_of(path: str) -> GopherUrl:
    url = parse(f"gopher://h.dom/{path}")
    assert isinstance(url, GopherUrl)
    return url


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
def test_a_framed_reply_is_read_by_the_view(path: str, shape: ReplyShape) -> None:
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
def test_an_unframed_reply_is_read_by_the_type(path: str, first: bytes, shape: ReplyShape) -> None:
    assert shape_of_unframed(url_of(path), first) == shape


#: Section 7 of the Gopher+ page: the types, how an unframed reply is read, and the media type.
TYPES = {
    **dict.fromkeys("0", (ReplyReading.TEXT, "text/plain")),
    **dict.fromkeys("17", (ReplyReading.MENU, MENU)),
    **dict.fromkeys("28T", (ReplyReading.NOTHING, None)),
    **dict.fromkeys("59d", (ReplyReading.OCTETS, "application/octet-stream")),
    **dict.fromkeys("4", (ReplyReading.TEXT, "application/mac-binhex40")),
    **dict.fromkeys("6", (ReplyReading.TEXT, "text/x-uuencode")),
    **dict.fromkeys("h", (ReplyReading.TEXT, "text/html")),
    **dict.fromkeys("M", (ReplyReading.TEXT, "multipart/mixed")),
    **dict.fromkeys("ce", (ReplyReading.TEXT, "text/calendar")),
    **dict.fromkeys("x", (ReplyReading.TEXT, "text/xml")),
    **dict.fromkeys("g", (ReplyReading.OCTETS, "image/gif")),
    **dict.fromkeys("I:", (ReplyReading.OCTETS, "image/*")),
    **dict.fromkeys(";", (ReplyReading.OCTETS, "video/*")),
    **dict.fromkeys("<s", (ReplyReading.OCTETS, "audio/*")),
    **dict.fromkeys("P", (ReplyReading.OCTETS, "application/pdf")),
    **dict.fromkeys("r", (ReplyReading.OCTETS, "application/rtf")),
    **dict.fromkeys("v", (ReplyReading.OCTETS, "model/vrml")),
    **dict.fromkeys("p3iX-+?/z", (ReplyReading.OCTETS, "application/octet-stream")),
}


@pytest.mark.parametrize("character", TYPES)
def test_the_table_of_types(character: str) -> None:
    row = find_type(character)
    assert (row.reading, row.media_type) == TYPES[character]


def test_the_table_has_no_type_more() -> None:
    assert set(ITEM_TYPES) <= set(TYPES)


#: Type, first octets, media type.
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
def test_the_first_octets_tell_where_the_type_leaves_it_open(
    character: str, first: bytes, media_type: str
) -> None:
    assert media_type_of(find_type(character), first) == media_type
