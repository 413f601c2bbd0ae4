"""What a reply is read as: decided by the view asked for if the server honoured Gopher+, else by the
type of the item."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from protocols.gopher.item_types import Reading, find_type, media_type_of
from protocols.gopher.request import Ask, command_in, parse_command
from protocols.gopher.url import GopherUrl
from protocols.gopher.views import ATTRIBUTES_VIEW, kind_of_view
from protocols.location import Kind

#: As many octets as tell attribute records from anything else.
RECORD_MARK_LENGTH = 6

_RECORD_MARK = re.compile(rb"\+INFO[: ]")


class Listing(enum.Enum):
    """What the lines of a listing are."""

    ITEMS = "items"
    RECORDS = "records"


@dataclass(frozen=True, slots=True)
class Shape:
    """How a reply is read and what it is called. `textual`: unframed, its lone periods are undone."""

    kind: Kind
    media_type: str | None
    listing: Listing | None
    textual: bool


_RECORDS = Shape(Kind.DIRECTORY, ATTRIBUTES_VIEW, Listing.RECORDS, True)


def shape_of_framed(url: GopherUrl, first: bytes = b"") -> Shape:
    """The shape of a framed reply whose data begin with the octets `first`."""
    command = command_in(url)
    if command.asks_records:
        return _RECORDS
    viewed = kind_of_view(command.view)
    if viewed is None:
        return shape_by_type(url, first)
    kind, media_type = viewed
    if media_type == ATTRIBUTES_VIEW:
        return _RECORDS
    return Shape(kind, media_type, Listing.ITEMS if kind is Kind.DIRECTORY else None, True)


def shape_of_unframed(url: GopherUrl, first: bytes) -> Shape:
    """The shape of a reply without a header. Minnesota's answers to a search in Gopher+ are attribute
    records without one."""
    command = parse_command(url.gopherplus)
    shape = shape_by_type(url, first)
    expected = command.asks_records or (command.ask is not Ask.PLAIN and shape.listing is not None)
    return _RECORDS if expected and _RECORD_MARK.match(first) else shape


def shape_by_type(url: GopherUrl, first: bytes) -> Shape:
    """The shape that the item type alone gives."""
    item_type = find_type(url.gophertype)
    media_type = media_type_of(item_type, first)
    if item_type.reading is not Reading.MENU:
        return Shape(Kind.DOCUMENT, media_type, None, item_type.reading is Reading.TEXT)
    to_ask = item_type.kind is Kind.SEARCH and not url.search
    return Shape(Kind.SEARCH if to_ask else Kind.DIRECTORY, media_type, Listing.ITEMS, True)
