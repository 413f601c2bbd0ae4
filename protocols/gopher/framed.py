"""What a reply behind a header line of Gopher+ is read as; or the error that it is (memo 2.3)."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING

from protocols.errors import Declined, NotFound, TryLater
from protocols.gopher.answer import RECORDS, GopherListing, ReplyShape
from protocols.gopher.item import line_text, link_of, parse_item
from protocols.gopher.item_types import SIGNATURE_LENGTH, find_type
from protocols.gopher.reading import ERROR_LIMIT, check_begun, first_octets, shape_by_type
from protocols.gopher.request import ATTRIBUTES_VIEW, command_in
from protocols.gopher.url import GopherUrl
from protocols.gopher.views import kind_of_view
from protocols.location import Kind
from protocols.wire import Buffer

if TYPE_CHECKING:
    from protocols.gopher.framing import GopherPlusHeader

_CODE = re.compile(rb"([0-9]{1,9})(?:[ \t]+(.*))?\Z", re.DOTALL)


def read_framed(
    url: GopherUrl, header: GopherPlusHeader, buffer: Buffer
) -> Generator[None, None, ReplyShape]:
    """The same as `reading.read_unframed` of a reply behind this header line."""
    if header.refused:
        wanted = ERROR_LIMIT if header.count is None else min(header.count, ERROR_LIMIT)
        raise parse_refusal((yield from first_octets(wanted, buffer)), url)  # it may be cut short anywhere
    wanted = SIGNATURE_LENGTH if find_type(url.gophertype).sniffed else 0
    if header.count is not None:
        wanted = min(wanted, header.count)
    shape = shape_of_framed(url, (yield from first_octets(wanted, buffer)))
    check_begun(buffer)
    return shape


def shape_of_framed(url: GopherUrl, first: bytes = b"") -> ReplyShape:
    """The shape of a framed reply whose data begin with the octets `first`."""
    command = command_in(url)
    if command.requests_records:
        return RECORDS
    viewed = kind_of_view(command.view)
    if viewed is None:
        return shape_by_type(url, first)
    kind, media_type = viewed
    if media_type == ATTRIBUTES_VIEW:
        return RECORDS
    return ReplyShape(kind, media_type, GopherListing.ITEMS if kind is Kind.DIRECTORY else None, True)


def parse_refusal(text: bytes, url: GopherUrl) -> Declined:
    """The error that a framed error text speaks of: `code SP anything`, then lines of words. The text
    may have been cut short anywhere; one without a code is an error of no known kind."""
    lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
    found = _CODE.match(lines[0])
    code, behind = (int(found[1]), found[2] or b"") if found else (None, lines[0])
    words = _words(lines[1:]) or _words([behind])
    what = f"the server declined with code {code}" if code is not None else "the server declined"
    shown = None if code is None else str(code)
    match code:
        case 1:
            return NotFound(f"{what}, item not available: {words!r}", code=shown, text=words)
        case 2:
            return TryLater(f"{what}, try later: {words!r}", code=shown, text=words)
        case 3:
            place = _new_place([behind, *lines[1:2]], url)
            return Declined(f"{what}, the item has moved to {place}", code=shown, text=words)
    return Declined(f"{what}: {words!r}", code=shown, text=words)


def _words(lines: list[bytes]) -> str:
    return "\n".join(line_text(line) for line in lines if line not in (b"", b"."))


def _new_place(candidates: list[bytes], url: GopherUrl) -> str:
    """The URL in the first of the lines that is an item with one. It is told, never followed."""
    for line in candidates:
        item = parse_item(line)
        if item.port is not None and (found := link_of(item, item.character, url).url) is not None:
            return found
    return "a place that it does not name"
