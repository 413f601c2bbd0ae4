"""Menus (RFC 1436 3.8): lines to entries, in order, whatever is wrong with some of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from protocols.entry import Entry
from protocols.gopher.item import MenuItem, MenuLink, display_text, link_of, parse_item
from protocols.gopher.item_types import find_type
from protocols.gopher.lines import LINE_LIMIT, MenuLines, TextLine
from protocols.gopher.url import GopherUrl
from protocols.location import JsonValue, Kind

_NO_ITEM = ("i", "3", "+", "")


class MenuItems:
    """Gives items their types, in the order of the menu: one of type `+` is another server for the
    item before it, and has that one's type. Prose in between does not count."""

    def __init__(self, menu: GopherUrl) -> None:
        self._menu = menu
        self._before = "+"

    def entry(self, item: MenuItem) -> Entry:
        """The entry of the next item."""
        character = self._before if item.character == "+" else item.character
        if character not in _NO_ITEM:
            self._before = character
        link = link_of(item, character, self._menu)
        return Entry(
            name=display_text(item.display),
            url=link.url,
            kind=_kind(item, character),
            raw=item.raw,
            extra={**item.as_json(), **_complaint(link)},
        )


def _kind(item: MenuItem, character: str) -> Kind:
    if character == "h" and (item.selector or b"").removeprefix(b"/").startswith(b"URL:"):
        return Kind.LINK
    return find_type(character).kind


def _complaint(link: MenuLink) -> dict[str, JsonValue]:
    return {} if link.unusable is None else {"unusable": link.unusable}


class MenuReader:
    """An `EntryReader` for the menu at the URL `menu`. Empty lines are skipped, and so is a lone period
    wherever it stands. A line longer than `limit` octets is an entry that leads nowhere."""

    def __init__(self, menu: GopherUrl, limit: int = LINE_LIMIT) -> None:
        self._lines = MenuLines(limit)
        self._items = MenuItems(menu)

    def feed(self, octets: bytes) -> Iterable[Entry]:
        return self._entries(self._lines.feed(octets))

    def finish(self) -> Iterable[Entry]:
        return self._entries(self._lines.finish())

    def _entries(self, lines: Iterable[TextLine]) -> Iterator[Entry]:
        for line in lines:
            if not line.whole:
                yield overlong(line)
            elif line.octets not in (b"", b"."):
                yield self._items.entry(parse_item(line.octets))


def overlong(line: TextLine) -> Entry:
    """The entry of a line that was too long to be kept: it leads nowhere."""
    item = parse_item(line.octets.partition(b"\t")[0])  # any other field may be cut
    return Entry(
        name=display_text(item.display[:80]),
        kind=Kind.UNKNOWN,
        raw=line.octets,
        extra={**item.as_json(), "unusable": f"the line is longer than {len(line.octets)} octets"},
    )
