"""A Gopher transaction (RFC 1436 2): connect, send one request, read one reply until the connection closes.

If the URL requests the form of an item without a form, a second transaction requests the item itself. An item
that points to another resource (a link, a telnet session, a phone book) needs no transaction.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from protocols.contract import Reply
from protocols.errors import InvalidUrl, Refused
from protocols.gopher.content import DataEnding, GopherPlusHeader, read_header, read_promised_header
from protocols.gopher.menu import build_session, check_linked, linked_url
from protocols.gopher.reply import (
    OCTETS,
    RECORDS,
    GopherAnswer,
    ReplyShape,
    read_framed,
    read_unframed,
)
from protocols.gopher.request import SAFE_REQUEST, command_in, encode_request
from protocols.gopher.url import ITEM_TYPES, GopherUrl, build, with_gopherplus
from protocols.location import JsonValue, Kind
from protocols.options import Limits, Options
from protocols.step import Connect, Dialogue, Peek, PlanNote, Send, StartBody, receive

if TYPE_CHECKING:
    from protocols.wire import Reader


class SessionPointer(NamedTuple):
    """The target of an item that is never fetched: the kind, the URL and the details of the target."""

    kind: Kind
    target: str
    extra: dict[str, JsonValue]


def converse(url: GopherUrl, options: Options | None = None, limits: Limits | None = None) -> Dialogue[None]:
    """Return the dialogue that retrieves a gopher URL.

    If the item only points to another resource, the reply has the URL of this resource. No request is sent
    then.

    Raises:
        Refused: The URL breaks rule S02 (command injection), S03 (multi-line requests) or S20 (links from
            servers). No connection was made.
        Declined: The server responds with an error.
        ProtocolError: The server responds to a Gopher+ request with an empty reply.
        Truncated: The body is incomplete. Forms, and the attributes of one item, are read completely before
            the body begins.
    """
    # an unsafe URL is refused even if the item is never fetched
    request = encode_request(url)
    pointer = find_pointer(url)
    if pointer is not None:
        yield PlanNote(f"nothing is sent: the item is a {pointer.kind.value} that points to {pointer.target}")
        yield StartBody(Reply(kind=pointer.kind, target=pointer.target, extra=pointer.extra))
        return
    limits, raw, lacks_form = limits or Limits(), options is not None and options.raw, False
    while True:
        yield Connect(tls=url.scheme == "gophers")
        if (length := request.octets.index(b"\n") + 1) > SAFE_REQUEST:
            yield PlanNote(f"request of {length} bytes; some servers read only {SAFE_REQUEST}")
        yield Send((request,))
        command, ideal, header = command_in(url), OCTETS, None
        reader: Reader[ReplyShape] = partial(read_unframed, url)
        if command.requested != "plain":
            ideal = RECORDS if command.requests_records else OCTETS
            header = yield from _read_header(url)
            if header is not None:
                reader = partial(read_framed, url, header)
        shape: ReplyShape = yield Peek(reader, ideal)
        answer = GopherAnswer(url, command, length, header, shape, limits.line, raw)
        if lacks_form:
            answer.completeness.warn("gopher:no-form", "the item has no form; fetched the item itself")
        if command.requested != "form" or raw:
            break
        from protocols.gopher.records import emit_form  # Lazy import: few URLs request attributes or a form.

        lacks_form = not answer.has_records or not (yield from emit_form(answer))
        yield PlanNote(
            "the answers make a new URL (RFC 1738 3.4.9), which is fetched on a separate connection"
        )
        yield PlanNote("an item without a form is fetched in its default view, on a second connection")
        if not lacks_form:
            return
        url = with_gopherplus(url, b"+")
        request = encode_request(url)
    if answer.has_records:
        from protocols.gopher.records import emit_records

        yield from emit_records(answer)
    else:
        yield from answer.emit()


def _read_header(url: GopherUrl) -> Dialogue[GopherPlusHeader | None]:
    reader: Reader[GopherPlusHeader | None] = read_promised_header if url.gopherplus else read_header
    expected: GopherPlusHeader | None = GopherPlusHeader(DataEnding.PERIOD)
    header = yield from receive(reader, "the header line of a Gopher+ reply", expected)
    yield PlanNote("a reply without a header line is read as from a server without Gopher+")
    return header


def find_pointer(url: GopherUrl) -> SessionPointer | None:
    """Return the target of an item that is never fetched.

    The result is `None` for every other item.

    Raises:
        Refused: The item is a link whose scheme is not allowed (S20, links from servers).
    """
    if url.gophertype == "h":
        return _find_link(url.selector)
    if url.gophertype in ("2", "8", "T"):
        return _find_service(url)
    return None


def _find_link(selector: bytes) -> SessionPointer | None:
    target = linked_url(selector)
    if target is None:
        return None
    try:
        return SessionPointer(Kind.LINK, check_linked(target), {})
    except InvalidUrl as error:
        raise Refused("S20", error.message) from error


def _find_service(url: GopherUrl) -> SessionPointer:
    facts: dict[str, JsonValue] = {
        "service": ITEM_TYPES[url.gophertype].description,
        "host": url.host,
        "port": url.effective_port,
    }
    if url.gophertype == "2":
        phone_book = replace(url, selector=b"", search=None, gopherplus=None, fragment=None)
        return SessionPointer(Kind.SERVICE, build(phone_book), facts)
    session = build_session(url.gophertype, url.host, url.effective_port, url.selector)
    login = url.selector.decode("latin-1") or None
    return SessionPointer(Kind.SERVICE, session, {**facts, "login": login})
