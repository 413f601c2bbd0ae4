"""What a gopher URL says (RFC 1738 3.4): a type, a selector, a search, a Gopher+ string. And the URL of the
same item, asked for in another way."""

from __future__ import annotations

import re

from protocols.authority import build_login, parse_hostport
from protocols.errors import InvalidUrl
from protocols.location import HostUrl, UrlText
from protocols.syntax import (
    RESERVED,
    build_url,
    decode,
    encode,
    find,
    invalid,
    note_characters,
    position_at,
    take,
)
from protocols.values import dataclass, replace

#: The place of what a form is filled in with, where some of it was typed hidden: it is shown nowhere.
ANSWERS = "answers"
_LINE_END = re.compile(rb"[\r\n]")
_TAB = "%09"  # the one escape that is a delimiter (RFC 1738 3.4.2)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class GopherUrl(HostUrl):
    """`gophertype` is one graphic ASCII character. `search` is `b""`, not None, where a Gopher+ string
    follows an empty search.

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
    """No character is reserved here: `?` is part of the selector."""
    login, start = parse_hostport(text)
    if text.end - start < 2:
        return GopherUrl(scheme=text.scheme, **login)
    note_characters(text, start, text.end, RESERVED)
    gophertype, at = _parse_type(text, start + 1)
    first = find(text, _TAB, at)
    second = find(text, _TAB, first + 3) if first < text.end else text.end
    return GopherUrl(
        scheme=text.scheme,
        **login,
        gophertype=gophertype,
        selector=_take_line(text, "selector", at, first),
        search=None if first == text.end else _take_line(text, "search", first + 3, second),
        gopherplus=None if second == text.end else take(text, "gopherplus", second + 3, text.end),
    )


def _parse_type(text: UrlText, start: int) -> tuple[str, int]:
    end = start + (3 if text.text[start] == "%" else 1)
    octet = decode(text.cut("gophertype", start, end))
    if not b"\x21" <= octet <= b"\x7e":
        raise invalid(text.text, "bad-gophertype", "type that is no graphic character", start)
    return octet.decode("ascii"), end


def _take_line(text: UrlText, name: str, start: int, end: int) -> bytes:
    octets = take(text, name, start, end)
    if control := _LINE_END.search(octets):
        text.note("selector-control", position_at(text.text, start, control.start()))
    return octets


def build(url: GopherUrl) -> str:
    """The URL as text. Raises `InvalidUrl` for what no gopher URL can hold: a type that is not one
    graphic character, a TAB in selector or search."""
    if len(url.gophertype) != 1 or not "\x21" <= url.gophertype <= "\x7e":
        raise InvalidUrl("bad-gophertype", 0, f"bad-gophertype: {url.gophertype!r} is no gopher type")
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


def names_of(url: GopherUrl) -> tuple[bytes, ...]:
    """A selector is opaque (RFC 1436 2), but most servers make it of a path, some with the type before it.
    What stands between its slashes counts. A form leads nowhere before somebody has filled it in."""
    if url.gopherplus == b"?":
        return ()
    selector = url.selector
    if selector[:1] == url.gophertype.encode("ascii") and selector[1:2] in (b"", b"/"):
        selector = selector[1:]
    return tuple(filter(None, selector.split(b"/")))


def as_menu(url: GopherUrl) -> GopherUrl:
    """A menu is told by its type alone."""
    return url


def with_name(url: GopherUrl, *names: bytes) -> GopherUrl | None:
    """The item of the last name, in the menu of those before it, below the one that this selector seems to be
    in: most servers make it of a path. The name may be given with that path. None for an item of text: its
    line ends are whatever suits the server, so that nothing which is said of the file holds for what comes;
    and for one that is searched for, or answered to."""
    from protocols.gopher.item_types import (
        ReplyReading,
        find_type,
    )  # hardly any URL is asked for its neighbours

    gopherplus = url.gopherplus or b"+"
    asked = url.search or gopherplus[:1] != b"+" or b"\t" in gopherplus
    if asked or find_type(url.gophertype).reading is not ReplyReading.OCTETS:
        return None
    name, (menu, slash, _) = b"/".join(names), url.selector.rpartition(b"/")
    selector = name if name.startswith(menu + slash) else menu + slash + name
    return replace(url, selector=selector, search=None, gopherplus=None, text="", places=(), findings=())


def with_search(url: GopherUrl, words: str) -> GopherUrl:
    """Searched for `words`, which go as UTF-8."""
    return replace(url, search=words.encode(), text="", places=(), findings=())


def with_view(url: GopherUrl, view: str) -> GopherUrl:
    """In a view as +VIEWS lists it: a media type, or that, a blank and a language. Empty: the default."""
    return with_gopherplus(url, b"+" + view.encode())


def with_gopherplus(url: GopherUrl, gopherplus: bytes) -> GopherUrl:
    """With that Gopher+ string in place of the URL's own."""
    return replace(url, search=url.search or b"", gopherplus=gopherplus, text="", places=(), findings=())
