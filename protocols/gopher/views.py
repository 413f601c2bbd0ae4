"""Views (`+VIEWS`, Gopher+ memo 2.5): the forms an item comes in, and what a view asked for means for
the reading of the reply.

A reply never says which view it holds, and some servers send the default whatever was asked. So what
is known is the view *requested*.
"""

from __future__ import annotations

import re

from protocols.gopher.item import display_text
from protocols.gopher.request import ATTRIBUTES_VIEW
from protocols.location import JsonValue, Kind
from protocols.values import dataclass

MENU_VIEW = "application/gopher-menu"

#: Views that are menus under other names: Minnesota's walks through a whole subtree.
_MENUS = frozenset({MENU_VIEW, "directory/recursive"})
_ATTRIBUTES = frozenset({ATTRIBUTES_VIEW, "directory+/recursive"})

_SIZE = re.compile(rb"<[ \t]*([0-9]{0,15}(?:\.[0-9]{0,15})?)[ \t]*([bkmg]?)[^>]*>?", re.IGNORECASE)
_UNITS = {b"": 1, b"b": 1, b"k": 1024, b"m": 1024**2, b"g": 1024**3}


@dataclass(frozen=True, slots=True)
class AlternateView:
    """One line of +VIEWS. `identity` is the part before the colon, to be sent back unchanged after a
    `+`; `language` is an opaque word. `about` is the size in octets as the server hints at it."""

    identity: bytes
    media_type: str
    language: str | None
    about: int | None

    def as_json(self) -> dict[str, JsonValue]:
        return {
            "view": self.identity.decode("latin-1"),
            "media_type": self.media_type,
            "language": self.language,
            "about": self.about,
        }


def parse_view(line: bytes) -> AlternateView:
    """Any line is a view; one without a size has none."""
    identity, _, size = line.partition(b":")
    media_type, language = split_view(identity)
    return AlternateView(identity, media_type, language, _size(size))


def split_view(identity: bytes) -> tuple[str, str | None]:
    """Media type, as written, and language of a view."""
    media_type, _, language = identity.strip(b" ").partition(b" ")
    return display_text(media_type), display_text(language.strip(b" ")) or None


def _size(text: bytes) -> int | None:
    found = _SIZE.search(text)
    if found is None or found[1] in (b"", b"."):
        return None
    return int(float(found[1]) * _UNITS[found[2].lower()])


def kind_of_view(view: bytes) -> tuple[Kind, str] | None:
    """Whether a framed reply to a request for `view` is a listing or a document, and its media type;
    None where no view was named, and the item's type decides."""
    media_type = split_view(view)[0].lower()
    if not media_type:
        return None
    if media_type in _MENUS:
        return Kind.DIRECTORY, MENU_VIEW
    if media_type in _ATTRIBUTES:
        return Kind.DIRECTORY, ATTRIBUTES_VIEW
    return Kind.DOCUMENT, media_type
