"""The item types of Gopher as data: how a reply to each is read and what it is called.

The one character comes from the URL or from a menu line (RFC 1436 3.8, the Gopher+ memo, and what
servers use today). It decides only how the reply is read and what to tell the user; it is never sent,
and no server can contradict it.
"""

from __future__ import annotations

import enum
import re

from protocols.location import Kind
from protocols.values import dataclass


class ReplyReading(enum.Enum):
    """How an unframed reply is read. TEXT and MENU undo what the protocol does to lines of periods;
    OCTETS changes nothing; NOTHING is never fetched."""

    TEXT = "text"
    MENU = "menu"
    OCTETS = "octets"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ItemType:
    """One row: the character, what it names, how its reply is read, and the media type if no view says
    better. `kind` is what an item of this type is in a listing; `sniffed` says that the first octets
    may tell the media type more exactly."""

    character: str
    what: str
    reading: ReplyReading
    media_type: str | None
    kind: Kind = Kind.DOCUMENT
    sniffed: bool = False


_TEXT, _MENU, _OCTETS, _NOTHING = (
    ReplyReading.TEXT,
    ReplyReading.MENU,
    ReplyReading.OCTETS,
    ReplyReading.NOTHING,
)

_TABLE = (
    ItemType("0", "text file", _TEXT, "text/plain"),
    ItemType("1", "menu", _MENU, "application/gopher-menu", Kind.DIRECTORY),
    ItemType("2", "CSO phone book", _NOTHING, None, Kind.SERVICE),
    ItemType("3", "error", _OCTETS, "application/octet-stream", Kind.ERROR),
    ItemType("4", "BinHex text", _TEXT, "application/mac-binhex40"),
    ItemType("5", "PC archive", _OCTETS, "application/octet-stream"),
    ItemType("6", "uuencoded text", _TEXT, "text/x-uuencode"),
    ItemType("7", "search", _MENU, "application/gopher-menu", Kind.SEARCH),
    ItemType("8", "telnet session", _NOTHING, None, Kind.SERVICE),
    ItemType("9", "binary file", _OCTETS, "application/octet-stream"),
    ItemType("T", "tn3270 session", _NOTHING, None, Kind.SERVICE),
    ItemType("g", "GIF image", _OCTETS, "image/gif"),
    ItemType("I", "image", _OCTETS, "image/*", sniffed=True),
    ItemType(":", "bitmap image", _OCTETS, "image/*", sniffed=True),
    ItemType(";", "movie", _OCTETS, "video/*", sniffed=True),
    ItemType("<", "sound", _OCTETS, "audio/*", sniffed=True),
    ItemType("s", "sound", _OCTETS, "audio/*", sniffed=True),
    ItemType("h", "HTML page", _TEXT, "text/html"),
    ItemType("i", "prose of a menu", _OCTETS, "application/octet-stream", Kind.INFO),
    ItemType("M", "MIME message or mailbox", _TEXT, "multipart/mixed"),
    ItemType("d", "document", _OCTETS, "application/octet-stream"),
    ItemType("P", "PDF document", _OCTETS, "application/pdf"),
    ItemType("p", "PNG image or PDF document", _OCTETS, "application/octet-stream", sniffed=True),
    ItemType("r", "RTF document", _OCTETS, "application/rtf"),
    ItemType("c", "calendar", _TEXT, "text/calendar"),
    ItemType("e", "event", _TEXT, "text/calendar"),
    ItemType("x", "XML document", _TEXT, "text/xml"),
    ItemType("v", "VRML world", _OCTETS, "model/vrml"),
)

ITEM_TYPES: dict[str, ItemType] = {row.character: row for row in _TABLE}

#: As many first octets as the longest signature needs.
SIGNATURE_LENGTH = 12

#: Compiled where one is looked for: most types leave no question open.
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (rb"GIF8[79]a", "image/gif"),
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"II\*\0|MM\0\*", "image/tiff"),
    (rb"BM", "image/bmp"),
    (rb"(?s)RIFF....WEBP", "image/webp"),
    (rb"%PDF-", "application/pdf"),
    (rb"\.snd", "audio/basic"),
    (rb"(?s)RIFF....WAVE", "audio/wav"),
    (rb"OggS", "audio/ogg"),
    (rb"ID3", "audio/mpeg"),
    (rb"(?s)RIFF....AVI ", "video/x-msvideo"),
    (rb"\0\0\x01\xba", "video/mpeg"),
    (rb"(?s)....ftyp", "video/mp4"),
)


def find_type(character: str) -> ItemType:
    """The row of a type; any other character is octets of an unknown kind."""
    known = ITEM_TYPES.get(character)
    if known is not None:
        return known
    return ItemType(character, "unknown type", ReplyReading.OCTETS, "application/octet-stream", Kind.UNKNOWN)


def media_type_of(item_type: ItemType, first: bytes) -> str | None:
    """The media type of a reply that begins with the octets `first`: its signature where the type
    leaves the question open and the signature is of that family, else what the type says."""
    if not item_type.sniffed or item_type.media_type is None:
        return item_type.media_type
    family, _, open_ended = item_type.media_type.partition("/")
    for signature, media_type in _SIGNATURES:
        if re.match(signature, first) and (open_ended != "*" or media_type.startswith(f"{family}/")):
            return media_type
    return item_type.media_type
