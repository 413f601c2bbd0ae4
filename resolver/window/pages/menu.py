"""A gopher menu: what each item is in a word, prose as prose, searches as fields, forms as forms, and the
forms that an item comes in as a choice. What cannot be opened says by which rule."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from protocols.contract import Entry, Finding
from protocols.location import Kind
from protocols.values import NamedTuple
from resolver.policy.schemes import rules_of
from resolver.window.pages.attributes import views_of
from resolver.window.pages.listing import Groups, Judge, Numbered, arranged, fields_of, forbidden
from resolver.window.pages.page import PageAddressBar, PageQuery, WebPage
from resolver.window.pages.words import KINDS, FactRow, line_of, text_of

#: What a menu calls an item in a word, by the character of its type.
_WORDS = {
    "0": "text",
    "1": "menu",
    "2": "phone book",
    "4": "BinHex",
    "5": "archive",
    "6": "uuencoded",
    "7": "search",
    "8": "telnet session",
    "9": "binary",
    "T": "tn3270",
    "g": "GIF image",
    "I": "image",
    ":": "bitmap",
    ";": "movie",
    "<": "sound",
    "s": "sound",
    "h": "web page",
    "M": "message",
    "p": "PNG or PDF",
    "P": "PDF",
    "r": "RTF",
    "x": "XML",
    "v": "VRML",
    "c": "calendar",
    "e": "event",
    "3": "error",
}
_ICONS = {
    **dict.fromkeys("gI:p;", "image"),
    **dict.fromkeys("<s", "sound"),
    **dict.fromkeys("459", "binary"),
    "1": "menu",
}
#: Forms of one item that are offered beside it.
_MOST_VIEWS = 20
#: Blanks side by side in a line, or strokes: what would be nothing if its lines were broken.
_DRAWN = re.compile(r"\S {3}|[|/\\_=*#+-]{3}|[|/\\] *[|/\\]")
#: Below so many items nobody looks for one by its name.
_FEW = 50


class MenuRow(NamedTuple):
    """One item, or lines of prose side by side (`prose`), which are `drawn` if
    their blanks matter. `search` is the URL that is asked for the words of
    the person; `advice` is a command to run; `cannot` says why it leads nowhere."""

    number: int
    kind: str
    icon: str
    name: str
    href: str | None = None
    prose: str = ""
    drawn: bool = False
    search: str = ""
    form: bool = False
    advice: str = ""
    cannot: str = ""
    views: tuple[tuple[str, str], ...] = ()
    details: tuple[FactRow, ...] = ()


def menu_page(
    entries: Sequence[Entry],
    query: PageQuery,
    place: PageAddressBar,
    *,
    findings: Iterable[Finding] = (),
    title: str | None = None,
    judge: Judge | None = None,
    search: str = "",
    words: str = "",
) -> WebPage:
    """The part of a menu that `query` asks for. `judge` says of an entry whether it may be followed from
    here; without it that is found out when it is. A menu that a search gave has the URL that is asked for
    other words, and the words."""
    shown = arranged(entries, query._replace(sort=""), place)
    values = {
        "heading": title or place.url,
        "count": f"{shown.start + 1:,} to {shown.start + len(shown.entries):,} of {shown.matched:,}"
        if shown.paging.pages > 1
        else "",
        "found": tuple(findings),
        "search": search,
        "words": words,
        "groups": Groups(partial(_items, shown.entries, place, judge), len(shown.entries)),
        "filters": shown.total > _FEW or bool(query.filter),
        "filter": query.filter,
        "filter_fields": fields_of(place, query, but="q"),
        "unfiltered": place.again(query._replace(filter="", page=1)) if query.filter else None,
        "empty": "No item has that." if query.filter else _empty(search, words),
        "paging": shown.paging,
    }
    return WebPage("menu.html", place.url, 200, values)


def _empty(search: str, words: str) -> str:
    if not search:
        return "The menu is empty."
    return "Nothing was found." if words else "Write what to search for."


def _items(entries: Iterable[Numbered], place: PageAddressBar, judge: Judge | None) -> Iterator[MenuRow]:
    return _joined(_item(number, entry, place, judge) for number, entry in entries)


def _joined(items: Iterable[MenuRow]) -> Iterator[MenuRow]:
    """Prose side by side is one paragraph."""
    held: MenuRow | None = None
    for item in items:
        if held is not None and not item.kind:
            held = held._replace(prose=f"{held.prose}\n{item.prose}")
            continue
        if held is not None:
            yield _seen(held)
        held = None if item.kind else item
        if item.kind:
            yield item
    if held is not None:
        yield _seen(held)


def _seen(item: MenuRow) -> MenuRow:
    return item._replace(drawn=_DRAWN.search(item.prose) is not None)


def _item(number: int, entry: Entry, place: PageAddressBar, judge: Judge | None) -> MenuRow:
    if entry.kind is Kind.INFO:
        return MenuRow(number, "", "", "", prose=entry.name)
    character = text_of(entry.extra, "type")
    what = _WORDS.get(character, "")
    if entry.kind is Kind.LINK or character == "+":
        what = KINDS[entry.kind]
    if entry.kind is Kind.UNKNOWN:
        what = f"type {line_of(character)}" if character else "no type"
    icon = _ICONS.get(character, entry.kind.value)
    item = MenuRow(number, what or KINDS[entry.kind], icon, entry.name, details=tuple(_details(entry)))
    if entry.url is None:
        return item._replace(cannot=text_of(entry.extra, "unusable"))
    advised = entry.kind is Kind.SERVICE  # nobody follows it from here, whatever it is
    if not advised and (cannot := forbidden(entry, judge)):
        return item._replace(cannot=cannot)
    return _usable(item, entry, entry.url, place)


def _usable(item: MenuRow, entry: Entry, url: str, place: PageAddressBar) -> MenuRow:
    item = item._replace(href=place.href(url), views=_views(url, entry, place))
    if entry.kind is Kind.SEARCH:
        return item._replace(search=url)
    if entry.kind is Kind.SERVICE:
        return item._replace(advice=command_of(url))
    if text_of(entry.extra, "gopherplus") == "?":
        return item._replace(form=True, kind="form", icon="form")
    return item


def command_of(url: str) -> str:
    """What opens a session, as a shell takes it; nothing where the URL is of no session."""
    is_session = rules_of(url.partition(":")[0].lower()).session
    return f"resolve open {shlex.quote(url)}" if is_session else ""


def _views(url: str, entry: Entry, place: PageAddressBar) -> tuple[tuple[str, str], ...]:
    """What else the item comes as, and where; nothing where it comes as one thing alone."""
    found = tuple(views_of(entry.extra or {}, url, place, _MOST_VIEWS))
    return found if len(found) > 1 else ()


def _details(entry: Entry) -> Iterator[FactRow]:
    """What the attributes of an item say, where a menu came with them."""
    extra = entry.extra or {}
    admin = extra.get("admin")
    for name, value in admin.items() if isinstance(admin, dict) else ():
        if isinstance(value, str | int) and value:
            yield FactRow(f"admin {name}".replace("_", " "), str(value))
    abstract = extra.get("abstract")
    if isinstance(abstract, str) and abstract:
        yield FactRow("abstract", abstract)
    attributes = extra.get("attributes")
    for name, lines in attributes.items() if isinstance(attributes, dict) else ():
        if name not in ("ADMIN", "ABSTRACT", "VIEWS", "ASK") and isinstance(lines, list) and lines:
            yield FactRow(name, "\n".join(map(str, lines)))
