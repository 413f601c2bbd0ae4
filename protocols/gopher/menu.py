"""Gopher menus (RFC 1436 3.8): a parser that turns menu lines into items, and items into listing entries.

An invalid item does not end the parsing of the menu. The module also names the views of an item.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from typing import NamedTuple

from protocols.authority import build_host, build_login, build_port, build_userinfo, comparable_host
from protocols.errors import InvalidUrl
from protocols.gopher.url import ITEM_TYPES, GopherUrl
from protocols.location import BuiltUrl, Entry, HostUrl, JsonValue, Kind
from protocols.syntax import encode
from protocols.text import decode_text

# Menu lines (RFC 1436 3.8, Gopher+ memo 2.1) and the URLs of their targets.
#
# The fields are untrusted input from the server. Only valid fields become a URL (rule S20, links from
# servers). An item with an invalid field gets the reason instead of a URL. The other items of the menu are
# still parsed.

#: The URL schemes that are allowed in a `URL:` selector (rule S20, links from servers).
LINKED_SCHEMES = ("http", "https", "ftp", "gopher", "news", "nntp", "wais", "telnet")

# Reserved characters that are not percent-encoded in a selector. `?` and `;` are percent-encoded because
# other clients would parse them as delimiters.
_UNESCAPED = "/:@&="
_PORT = re.compile(rb"0*([1-9][0-9]{0,4})\Z")
_ENDS_LINE = re.compile(rb"[\0\r\n]")
_URL = re.compile(rb"[!-~]+\Z")
_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)))
_CONTROLS_OF_TEXT = {code: None for code in _CONTROLS if code != 0x09}
_SESSIONS = {"8": "telnet", "T": "tn3270"}
_SESSION_PORT = 23


class MenuItem(NamedTuple):
    """The fields of a menu line. A field that is missing at the end of the line is `None`.

    Attributes:
        character: The item type; empty for an empty line. The type `+` is a mirror: a copy of the previous
            item on another server.
        tag: `+` for a Gopher+ item, `?` for an item with a form, otherwise empty.
    """

    character: str
    display: bytes
    selector: bytes | None
    host: bytes | None
    port: bytes | None
    tag: str
    raw: bytes

    def as_json(self) -> dict[str, JsonValue]:
        """Return the fields as JSON strings, decoded as ISO 8859-1 (one character per byte)."""
        return {
            "type": self.character,
            "selector": _latin1(self.selector),
            "host": _latin1(self.host),
            "port": _latin1(self.port),
            "gopherplus": self.tag or None,
        }


def parse_item(line: bytes) -> MenuItem:
    """Parse any menu line as an item, and ignore fields after the fifth."""
    display, *fields = line[1:].split(b"\t", 5)
    selector, host, port, tag = chain(fields[:4], repeat(None, 4 - len(fields[:4])))
    return MenuItem(
        character=line[:1].decode("latin-1"),
        display=display,
        selector=selector,
        host=host,
        port=port,
        tag=tag.decode("ascii") if tag in (b"+", b"?") else "",
        raw=line,
    )


class MenuLink(NamedTuple):
    """The target of an item: a URL, or the reason why the item has no URL.

    An informational line or an error line has neither a URL nor a reason. A URL that is not a `BuiltUrl` is
    unchanged text from the server.
    """

    url: str | None = None
    unusable: str | None = None


def make_link(item: MenuItem, character: str, menu: GopherUrl) -> MenuLink:
    """Return the target of an item.

    Args:
        item: The fields of the menu line.
        character: The item type.
        menu: The URL of the menu that has the item.
    """
    if character in ("i", "3"):
        return MenuLink()
    target = linked_url(item.selector) if character == "h" and item.selector else None
    try:
        if target is not None:
            return MenuLink(check_linked(target))
        return MenuLink(_build_target(item, character, menu))
    except InvalidUrl as error:
        return MenuLink(unusable=error.message)


def linked_url(selector: bytes) -> bytes | None:
    """Return the text after `URL:` at the start of the selector of an item of type h, or None."""
    for mark in (b"URL:", b"/URL:"):
        if selector.startswith(mark):
            return selector[len(mark) :]
    return None


def check_linked(target: bytes) -> str:
    """Check the URL of a `URL:` selector, and return the URL unchanged.

    Raises:
        InvalidUrl: The text is not a URL, or the URL's scheme is not in `LINKED_SCHEMES`.
    """
    if not _URL.match(target):
        raise InvalidUrl("bad-char", 0, "link contains bytes that a URL cannot have")
    text = target.decode("ascii")
    scheme = text.partition(":")[0].lower()
    if scheme not in LINKED_SCHEMES:
        raise InvalidUrl("bad-scheme", 0, f"link of scheme {scheme!r} is not allowed")
    return text


def _build_target(item: MenuItem, character: str, menu: GopherUrl) -> BuiltUrl:
    selector = item.selector or b""
    if item.host is None or item.port is None:
        raise InvalidUrl("no-host", 0, "menu line has no host and port")
    match = _PORT.match(item.port)
    if match is None:
        raise InvalidUrl("bad-port", 0, f"port must be 1 to 65535, got {display_text(item.port)!r}")
    if _ENDS_LINE.search(selector):
        raise InvalidUrl("selector-control", 0, "selector contains NUL, CR or LF")
    if not "\x21" <= character <= "\x7e":
        raise InvalidUrl("bad-gophertype", 0, f"type must be a graphic character, got {character!r}")
    host, port = item.host.decode("latin-1").lower(), int(match[1])
    if character in _SESSIONS:
        return build_session(character, host, port, selector)
    server = HostUrl(scheme="gopher", host=host, port=port, default_port=menu.default_port)
    scheme = menu.scheme if _is_same_server(server, menu) else "gopher"
    tag = f"%09%09{item.tag}" if item.tag else ""
    path = encode(character.encode("ascii") + selector, _UNESCAPED)
    return BuiltUrl(f"{scheme}:{build_login(server)}/{path}{tag}")


def build_session(character: str, host: str, port: int, login: bytes) -> BuiltUrl:
    """Build the telnet or tn3270 URL of an item of type 8 or T, with the suggested user `login`."""
    user = build_userinfo(login or None, None)
    return BuiltUrl(f"{_SESSIONS[character]}://{user}{build_host(host)}{build_port(port, _SESSION_PORT)}/")


def _is_same_server(server: HostUrl, menu: GopherUrl) -> bool:
    """Return whether the item has the same host and port as the menu.

    A menu line cannot specify TLS. Therefore an item of a `gophers` menu gets the scheme `gophers` only if
    the host and port are the same as those of the menu.
    """
    return (comparable_host(server.host), server.port) == (comparable_host(menu.host), menu.effective_port)


def display_text(octets: bytes) -> str:
    """Decode bytes (UTF-8, or else ISO 8859-1) for display, without control characters."""
    return decode_text(octets).translate(_CONTROLS)


def line_text(octets: bytes) -> str:
    """Decode a line of text for display, without control characters except TAB."""
    return decode_text(octets).translate(_CONTROLS_OF_TEXT)


def _latin1(octets: bytes | None) -> str | None:
    return None if octets is None else octets.decode("latin-1")


# The splitter for the lines of a menu or an attribute list. A line ends at LF. One CR before the LF is
# removed: RFC 1436 requires CR LF, but some servers send LF only. A line that is too long is truncated and
# marked as truncated.

#: The default of `Limits.line` in bytes: far longer than any legitimate line.
LINE_LIMIT = 65_536


class TextLine(NamedTuple):
    """A line without its line end; `is_complete` is False if the line was truncated to the line limit."""

    octets: bytes
    is_complete: bool = True


class MenuLines:
    """A splitter of bytes into lines. It buffers at most `limit` bytes of a line."""

    def __init__(self, limit: int = LINE_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._length = 0

    def feed(self, octets: bytes) -> list[TextLine]:
        *ended, rest = octets.split(b"\n")
        lines = []
        for piece in ended:
            self._append(piece)
            lines.append(self._end())
        self._append(rest)
        return lines

    def finish(self) -> list[TextLine]:
        """Return the last line if it has no line end, or else an empty list."""
        return [self._end()] if self._length else []

    def _append(self, piece: bytes) -> None:
        room = self._limit + 1 - len(self._buffer)  # One more byte, for the CR of CR LF.
        self._buffer += piece[:room]
        self._length += len(piece)

    def _end(self) -> TextLine:
        line = bytes(self._buffer)
        is_complete = self._length == len(line)
        if is_complete and line.endswith(b"\r"):
            line = line[:-1]
        self._buffer.clear()
        self._length = 0
        return TextLine(line[: self._limit], is_complete and len(line) <= self._limit)


_NO_ITEM = ("i", "3", "+", "")


class MenuItems:
    """A converter of menu items to listing entries, in the order of the menu.

    An item of type `+` is a mirror of the previous item on another server. The mirror gets the type of the
    previous item. Informational lines between an item and its mirror are ignored.
    """

    def __init__(self, menu: GopherUrl) -> None:
        self._menu = menu
        self._last_type = "+"

    def entry(self, item: MenuItem) -> Entry:
        character = self._last_type if item.character == "+" else item.character
        if character not in _NO_ITEM:
            self._last_type = character
        link = make_link(item, character, self._menu)
        return Entry(
            name=display_text(item.display),
            url=link.url,
            kind=_kind(item, character),
            raw=item.raw,
            extra={**item.as_json(), **({} if link.unusable is None else {"unusable": link.unusable})},
        )


def _kind(item: MenuItem, character: str) -> Kind:
    if character == "h" and (item.selector or b"").removeprefix(b"/").startswith(b"URL:"):
        return Kind.LINK
    return ITEM_TYPES[character].kind


class MenuReader:
    """An `EntryReader` for the menu at the URL `menu`.

    Empty lines and lines that consist of one period are skipped. A line longer than `limit` bytes becomes an
    entry without a URL.
    """

    def __init__(self, menu: GopherUrl, limit: int = LINE_LIMIT) -> None:
        self._lines = MenuLines(limit)
        self._items = MenuItems(menu)

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return self._entries(self._lines.feed(octets))

    def finish(self) -> Iterable[Entry]:
        return self._entries(self._lines.finish())

    def _entries(self, lines: Iterable[TextLine]) -> Iterator[Entry]:
        for line in lines:
            if not line.is_complete:
                yield make_overlong_entry(line)
            elif line.octets not in (b"", b"."):
                yield self._items.entry(parse_item(line.octets))


def make_overlong_entry(line: TextLine) -> Entry:
    """Return an entry without a URL for a line that exceeds the line limit."""
    item = parse_item(
        line.octets.partition(b"\t")[0]
    )  # other fields are dropped, because they may be truncated
    return Entry(
        name=display_text(item.display[:80]),
        kind=Kind.UNKNOWN,
        raw=line.octets,
        extra={**item.as_json(), "unusable": f"menu line exceeds {len(line.octets)} bytes"},
    )


# Views (`+VIEWS`, Gopher+ memo 2.5): the representations of an item (content negotiation). The requested view
# determines how the reply is parsed. A reply does not name its view, and some servers always send the default
# view. Therefore the client knows the *requested* view, but not the view that the server sent.

MENU_VIEW = "application/gopher-menu"
#: The view that consists of attribute records.
ATTRIBUTES_VIEW = "application/gopher+-menu"

#: Views whose content is a menu. The view `directory/recursive` of the University of Minnesota's server
#: contains the complete subtree of a directory.
_MENUS = frozenset({MENU_VIEW, "directory/recursive"})
_ATTRIBUTES = frozenset({ATTRIBUTES_VIEW, "directory+/recursive"})


def split_view(identity: bytes) -> tuple[str, str | None]:
    """Return the media type, as written, and the language of a view."""
    media_type, _, language = identity.strip(b" ").partition(b" ")
    return display_text(media_type), display_text(language.strip(b" ")) or None


def kind_of_view(view: bytes) -> tuple[Kind, str] | None:
    """Return the kind and the media type of a reply, with a Gopher+ header line, to a request for a view.

    Return None if the request did not have a view. Kind and media type then depend on the item type.
    """
    media_type = split_view(view)[0].lower()
    if not media_type:
        return None
    if media_type in _MENUS:
        return Kind.DIRECTORY, MENU_VIEW
    if media_type in _ATTRIBUTES:
        return Kind.DIRECTORY, ATTRIBUTES_VIEW
    return Kind.DOCUMENT, media_type
