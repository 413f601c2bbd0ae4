"""One transaction (RFC 1436 2): connect, send one request, read one reply until the server closes.

Two transactions where the URL asks for a form and the item has none. None at all where the item is a
way to somewhere else: a link, a telnet session, a phone book.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from protocols.errors import InvalidUrl, Refused
from protocols.gopher.refinement import with_gopherplus
from protocols.gopher.request import (
    SAFE_REQUEST,
    Ask,
    command_in,
    encode_request,
    line_length,
    parse_command,
)
from protocols.gopher.url import GopherUrl, build
from protocols.location import JsonValue, Kind
from protocols.step import Connect, Dialogue, HandOver, Note, Say, hear

if TYPE_CHECKING:
    from protocols.gopher.framing import Header
    from protocols.wire import Reader


class Pointer(NamedTuple):
    """What an item stands for that is not fetched: the URL to go to, and its particulars."""

    kind: Kind
    target: str
    extra: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Handed(HandOver):
    """The reply, behind its header line if it has one."""

    header: Header | None = None


def converse(url: GopherUrl) -> Dialogue[Pointer | None]:
    """The dialogue. A pointer is its result, and nothing is sent; else it hands the reply over.

    Where a form was asked for, the hand-over wants to know whether there was one: False fetches the
    item in its default view. Raises `Refused` (S02, S03, S20) before anything is done.
    """
    encode_request(url)  # what may not be sent may not be pointed to either
    pointer = find_pointer(url)
    if pointer is not None:
        yield Note(f"nothing is sent: this is a {pointer.kind.value} that leads to {pointer.target}")
        return pointer
    has_form = yield from _exchange(url)
    if parse_command(url.gopherplus).ask is Ask.FORM:
        yield Note("the answers make a new URL (RFC 1738 3.4.9), which goes on a connection of its own")
        yield Note("an item without a form is fetched in its default view, on a second connection")
        if has_form is False:
            yield from _exchange(default_view(url))
    return None


def default_view(url: GopherUrl) -> GopherUrl:
    """The same item, asked for as Gopher+ without naming a view."""
    return with_gopherplus(url, b"+")


def _exchange(url: GopherUrl) -> Dialogue[object]:
    request = encode_request(url)
    yield Connect(tls=url.scheme == "gophers")
    if (length := line_length(request)) > SAFE_REQUEST:
        yield Note(f"a request of {length} octets; some servers read {SAFE_REQUEST}")
    yield Say((request,))
    if command_in(url).ask is Ask.PLAIN:
        return (yield Handed("the reply, until the server closes"))
    return (yield from _hand_over_framed(url))


def _hand_over_framed(url: GopherUrl) -> Dialogue[object]:
    """Hear the header line that a Gopher+ reply has, then hand over what it promises."""
    from protocols.gopher.framing import Ending, Header, read_header, read_promised_header  # few URLs ask so

    reader: Reader[Header | None] = read_promised_header if url.gopherplus else read_header
    willing: Header | None = Header(Ending.PERIOD)
    header = yield from hear(reader, "the header line of a Gopher+ reply", willing)
    yield Note("a reply without a header line is read as one of a server that does not know Gopher+")
    if header is None:
        return (yield Handed("the reply, until the server closes"))
    return (yield Handed(_promise(header), header.count, header))


def _promise(header: Header) -> str:
    from protocols.gopher.framing import Ending  # loaded by now

    what = "an error text" if header.refused else "the reply"
    match header.ending:
        case Ending.COUNT:
            return f"{what}, {header.count} octets"
        case Ending.PERIOD:
            return f"{what}, up to a line with a lone period, until the server closes"
        case Ending.CLOSE:
            return f"{what}, until the server closes"


def find_pointer(url: GopherUrl) -> Pointer | None:
    """Where an item leads that is not fetched; None for one that is. Raises `Refused` (S20) for a link
    of a kind that is never offered."""
    if url.gophertype == "h":
        return _find_link(url.selector)
    if url.gophertype in ("2", "8", "T"):
        return _find_service(url)
    return None


def _find_link(selector: bytes) -> Pointer | None:
    from protocols.gopher.item import check_linked, linked_url  # also below: most items are fetched

    target = linked_url(selector)
    if target is None:
        return None
    try:
        return Pointer(Kind.LINK, check_linked(target), {})
    except InvalidUrl as error:
        raise Refused("S20", error.message) from error


def _find_service(url: GopherUrl) -> Pointer:
    from protocols.gopher.item import build_session
    from protocols.gopher.item_types import find_type

    place: dict[str, JsonValue] = {
        "service": find_type(url.gophertype).what,
        "host": url.host,
        "port": url.effective_port,
    }
    if url.gophertype == "2":
        phone_book = replace(url, selector=b"", search=None, gopherplus=None, fragment=None)
        return Pointer(Kind.SERVICE, build(phone_book), place)
    session = build_session(url.gophertype, url.host, url.effective_port, url.selector)
    login = url.selector.decode("latin-1") or None
    return Pointer(Kind.SERVICE, session, {**place, "login": login})
