"""gopher URLs (RFC 1738 3.4): type, selector, search, Gopher+ string; the item types."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from protocols.authority import build_login, parse_hostport
from protocols.errors import InvalidUrl
from protocols.location import HostUrl, Kind, UrlText
from protocols.syntax import (
    RESERVED,
    build_url,
    encode,
    find,
    invalid,
    note_characters,
    position_at,
    take,
)

#: The name of the secret part of a gopher URL: the answers of a form with a password field. The answers are
#: never displayed.
ANSWERS = "answers"
_LINE_END = re.compile(rb"[\r\n]")
_TAB = "%09"  # TAB is the only delimiter that is percent-encoded (RFC 1738 3.4.2).


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GopherUrl(HostUrl):
    """A gopher URL.

    `gophertype` is a graphic ASCII character. If a Gopher+ string follows an empty search, `search` is `b""`
    instead of None.

    Examples:
        >>> url = resolver.parse("gopher://h.example/7find%09words")
        >>> url.gophertype, url.selector, url.search
        ('7', b'find', b'words')
    """

    gophertype: str = "1"
    selector: bytes = b""
    search: bytes | None = None
    gopherplus: bytes | None = None


def parse(text: UrlText) -> GopherUrl:
    """Parse a gopher URL, with reserved characters such as `?` as part of the selector."""
    login, start = parse_hostport(text)
    if text.end - start < 2:
        return GopherUrl(**login, **text.common())
    note_characters(text, start, text.end, RESERVED)
    gophertype, at = _parse_type(text, start + 1)
    first = find(text, _TAB, at)
    second = find(text, _TAB, first + 3) if first < text.end else text.end
    return GopherUrl(
        **login,
        gophertype=gophertype,
        selector=_take_line(text, "selector", at, first),
        search=None if first == text.end else _take_line(text, "search", first + 3, second),
        gopherplus=None if second == text.end else take(text, "gopherplus", second + 3, text.end),
        **text.common(),
    )


def _parse_type(text: UrlText, start: int) -> tuple[str, int]:
    if text.text[start] != "%":  # every other character of a URL is graphic
        return text.cut("gophertype", start, start + 1), start + 1
    octet = take(text, "gophertype", start, start + 3)
    if not b"\x21" <= octet <= b"\x7e":
        raise invalid(text.text, "bad-gophertype", "type must be a graphic character", start)
    return octet.decode("ascii"), start + 3


def _take_line(text: UrlText, name: str, start: int, end: int) -> bytes:
    octets = take(text, name, start, end)
    if control := _LINE_END.search(octets):
        text.note("selector-control", position_at(text.text, start, control.start()))
    return octets


def build(url: GopherUrl) -> str:
    """Return the URL as text.

    Raises:
        InvalidUrl: The type is not one graphic character, or selector or search contains a TAB.
    """
    if len(url.gophertype) != 1 or not "\x21" <= url.gophertype <= "\x7e":
        raise InvalidUrl("bad-gophertype", 0, f"bad-gophertype: {url.gophertype!r} is not a gopher type")
    search = b"" if url.search is None and url.gopherplus is not None else url.search
    _check_no_tab("selector", url.selector)
    _check_no_tab("search", search or b"")
    pieces = [url.gophertype.encode("ascii") + url.selector]
    pieces += [octets for octets in (search, url.gopherplus) if octets is not None]
    return build_url(url, f"{build_login(url)}/{_TAB.join(encode(octets, RESERVED) for octets in pieces)}")


def _check_no_tab(name: str, octets: bytes) -> None:
    if b"\t" in octets:
        position = octets.index(b"\t")
        raise InvalidUrl("selector-control", position, f"selector-control: TAB at {position} of the {name}")


def list_names(url: GopherUrl) -> tuple[bytes, ...]:
    """Return the path segments of the selector, from which a file name is chosen.

    A selector is an opaque string (RFC 1436 2), but on most servers it is a path, sometimes with the item
    type before the path. Therefore the selector is split at its slashes. The URL of a form has no path
    segments before the user has filled in the form.
    """
    if url.gopherplus == b"?":
        return ()
    selector = url.selector
    if selector[:1] == url.gophertype.encode("ascii") and selector[1:2] in (b"", b"/"):
        selector = selector[1:]
    return tuple(filter(None, selector.split(b"/")))


def with_name(url: GopherUrl, *names: bytes) -> GopherUrl | None:
    """Return the URL of another item in the same menu, or in a submenu.

    On most servers the selector is a path. The path of the menu ends at the last slash of the selector, and a
    name may begin with the path of the menu. The function returns `None` in two cases:

    - The item is not transferred as binary data. For example, the server chooses the line ends of a
      text. The size of the file may then differ from the number of received bytes.
    - The URL has a search or the answers of a form.

    Args:
        url: The URL of an item in the menu.
        *names: The names of menus below the menu of `url`, then the name of the other item.
    """

    gopherplus = url.gopherplus or b"+"
    has_query = url.search or gopherplus[:1] != b"+" or b"\t" in gopherplus
    if has_query or ITEM_TYPES[url.gophertype].reading != "octets":
        return None
    name, (menu, slash, _) = b"/".join(names), url.selector.rpartition(b"/")
    selector = name if name.startswith(menu + slash) else menu + slash + name
    return replace(url, selector=selector, search=None, gopherplus=None, text="", places=(), findings=())


def with_search(url: GopherUrl, words: str) -> GopherUrl:
    """Return the URL that searches for `words`, encoded as UTF-8."""
    return replace(url, search=words.encode(), text="", places=(), findings=())


def with_view(url: GopherUrl, view: str) -> GopherUrl:
    """Return the URL for a view of the item: a media type, or a media type, a blank and a language.

    An empty string requests the default view.
    """
    return with_gopherplus(url, b"+" + view.encode())


def with_gopherplus(url: GopherUrl, gopherplus: bytes) -> GopherUrl:
    """Replace the Gopher+ string of the URL."""
    return replace(url, search=url.search or b"", gopherplus=gopherplus, text="", places=(), findings=())


# The Gopher item types (RFC 1436 3.8, the Gopher+ memo, and types that servers use today).
#
# The type character comes from the URL or from a menu line. The character selects the parser of the
# reply, and the description of the reply for the user. The client never sends the type character to the
# server.


#: The encoding of an unframed reply. A text or a menu uses dot-stuffing, and octets are binary data. An item
#: with the encoding "nothing" is never fetched.
ReplyReading: TypeAlias = Literal["text", "menu", "octets", "nothing"]


class ItemType(NamedTuple):
    """The definition of a Gopher item type.

    Attributes:
        reading: The encoding of the reply.
        media_type: The default media type, used if the view does not determine the media type.
        kind: The kind of an item of this type in a listing.
        sniffed: Whether a more exact media type is detected from the first bytes (content sniffing).
    """

    character: str
    description: str
    reading: ReplyReading
    media_type: str | None
    kind: Kind = Kind.DOCUMENT
    sniffed: bool = False


_TABLE = (
    ItemType("0", "text file", "text", "text/plain"),
    ItemType("1", "menu", "menu", "application/gopher-menu", Kind.DIRECTORY),
    ItemType("2", "CSO phone book", "nothing", None, Kind.SERVICE),
    ItemType("3", "error", "octets", "application/octet-stream", Kind.ERROR),
    ItemType("4", "BinHex text", "text", "application/mac-binhex40"),
    ItemType("5", "PC archive", "octets", "application/octet-stream"),
    ItemType("6", "uuencoded text", "text", "text/x-uuencode"),
    ItemType("7", "search", "menu", "application/gopher-menu", Kind.SEARCH),
    ItemType("8", "telnet session", "nothing", None, Kind.SERVICE),
    ItemType("9", "binary file", "octets", "application/octet-stream"),
    ItemType("T", "tn3270 session", "nothing", None, Kind.SERVICE),
    ItemType("g", "GIF image", "octets", "image/gif"),
    ItemType("I", "image", "octets", "image/*", sniffed=True),
    ItemType(":", "bitmap image", "octets", "image/*", sniffed=True),
    ItemType(";", "movie", "octets", "video/*", sniffed=True),
    ItemType("<", "sound", "octets", "audio/*", sniffed=True),
    ItemType("s", "sound", "octets", "audio/*", sniffed=True),
    ItemType("h", "HTML page", "text", "text/html"),
    ItemType("i", "prose of a menu", "octets", "application/octet-stream", Kind.INFO),
    ItemType("M", "MIME message or mailbox", "text", "multipart/mixed"),
    ItemType("d", "document", "octets", "application/octet-stream"),
    ItemType("P", "PDF document", "octets", "application/pdf"),
    ItemType("p", "PNG image or PDF document", "octets", "application/octet-stream", sniffed=True),
    ItemType("r", "RTF document", "octets", "application/rtf"),
    ItemType("c", "calendar", "text", "text/calendar"),
    ItemType("e", "event", "text", "text/calendar"),
    ItemType("x", "XML document", "text", "text/xml"),
    ItemType("v", "VRML world", "octets", "model/vrml"),
)


class _ItemTypes(dict[str, ItemType]):
    """The definitions of item types, by type character. An unknown character means binary data."""

    def __missing__(self, character: str) -> ItemType:
        return ItemType(character, "unknown type", "octets", "application/octet-stream", Kind.UNKNOWN)


ITEM_TYPES = _ItemTypes({row.character: row for row in _TABLE})

#: The length of the longest file signature (magic number), in bytes.
SIGNATURE_LENGTH = 12

#: File signatures (magic numbers) and their media types.
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


def find_media_type(item_type: ItemType, first: bytes) -> str | None:
    """Return the media type of a reply that begins with the bytes `first`.

    Some item types are `sniffed`. For these types, the file signature determines the media type, if it
    belongs to the same family as the item type. Otherwise the item type determines the media type.
    """
    if not item_type.sniffed or item_type.media_type is None:
        return item_type.media_type
    family, _, open_ended = item_type.media_type.partition("/")
    for signature, media_type in _SIGNATURES:
        if re.match(signature, first) and (open_ended != "*" or media_type.startswith(f"{family}/")):
            return media_type
    return item_type.media_type
