"""Gopher menus, attributes and forms as pages.

The page of a menu shows the kind of each item in one word. Info lines are shown as text, searches as input
fields, and the views of an item as links. If the policy forbids an item, the page shows the rule.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from protocols.contract import Entry, Finding
from protocols.errors import InvalidUrl, UnsupportedScheme
from protocols.location import HostUrl, JsonValue, Kind
from resolver.policy.schemes import rules_of
from resolver.transfer.forms import Answer, AskForm, AskLine, AskQuestion
from resolver.transfer.response import Response
from resolver.web.pages.directory import (
    Groups,
    Judge,
    Numbered,
    arrange_entries,
    explain_forbidden,
    fields_of,
)
from resolver.web.pages.page import (
    KINDS,
    FactRow,
    PageAddressBar,
    PageQuery,
    WebPage,
    line_of,
    refine_url,
    text_of,
)

_MAX_VIEWS = 100


def attributes_page(response: Response, place: PageAddressBar) -> WebPage:
    extra = response.extra or {}
    values = {
        "heading": response.title or "Attributes of this item",
        "url": place.url,
        "views": list(views_of(extra, response.url, place)),
        "blocks": list(_blocks(extra)),
        "form": response.url if extra.get("form") else None,
        "missing": [str(name) for name in _list(extra.get("missing"))],
        "found": response.findings,
    }
    return WebPage("attributes.html", place.url, 200, values)


def views_of(
    extra: Mapping[str, JsonValue], url: str, place: PageAddressBar, most: int = _MAX_VIEWS
) -> Iterator[tuple[str, str]]:
    """Yield the views of an item that have a URL, each as a description and a link."""
    for view in _list(extra.get("views"))[:most]:
        if isinstance(view, dict):
            with suppress(InvalidUrl, UnsupportedScheme):
                yield _view_words(view), place.href(refine_url(url, "view", str(view.get("view"))))


def _view_words(view: Mapping[str, JsonValue]) -> str:
    words = [str(word) for name in ("media_type", "language") if (word := view.get(name))]
    about = view.get("about")
    return " ".join(words) + (f" (about {about:,} bytes)" if isinstance(about, int) else "")


def _blocks(extra: Mapping[str, JsonValue]) -> Iterator[FactRow]:
    attributes = extra.get("attributes")
    for name, lines in attributes.items() if isinstance(attributes, dict) else ():
        yield FactRow(name, "\n".join(str(line) for line in _list(lines)))


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


#: The names of the item types by type character.
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
#: Maximum number of views that are shown as links beside an item.
_MOST_VIEWS = 20
#: Matches adjacent spaces or drawing characters. These characters are signs of ASCII art. ASCII art is not
#: wrapped, because line wrapping would destroy it.
_DRAWN = re.compile(r"\S {3}|[|/\\_=*#+-]{3}|[|/\\] *[|/\\]")
#: Minimum number of items for a filter field; a menu with this number or fewer does not have a filter field.
_FEW = 50


class MenuRow(NamedTuple):
    """A menu item, or a paragraph of adjacent info lines.

    Attributes:
        prose: The info lines.
        drawn: Whether `prose` is ASCII art, so that spaces are preserved.
        search: The URL to which search terms are added.
        advice: A shell command that opens the item.
        cannot: The reason why the item has no link.
    """

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
    """Return the page of a menu.

    Args:
        entries: The items.
        query: The query fields of the page.
        place: The page's address bar.
        findings: Findings of the policy to show.
        title: The heading; by default the URL.
        judge: A function that returns the policy verdict on the link of an item. Without `judge`, a link is
            checked when the user opens the link.
        search: The URL for a search with other search terms, for a menu with search results.
        words: The search terms.
    """
    shown = arrange_entries(entries, query._replace(sort=""), place)
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
        "unfiltered": place.make_address(query._replace(filter="", page=1)) if query.filter else None,
        "empty": "No item matches the filter." if query.filter else _explain_empty(search, words),
        "paging": shown.paging,
    }
    return WebPage("menu.html", place.url, 200, values)


def _explain_empty(search: str, words: str) -> str:
    if not search:
        return "The menu is empty."
    return "No results found." if words else "Enter search terms."


def _items(entries: Iterable[Numbered], place: PageAddressBar, judge: Judge | None) -> Iterator[MenuRow]:
    return _join_prose(_item(number, entry, place, judge) for number, entry in entries)


def _join_prose(items: Iterable[MenuRow]) -> Iterator[MenuRow]:
    """Join adjacent info lines to paragraphs."""
    held: MenuRow | None = None
    for item in items:
        if held is not None and not item.kind:
            held = held._replace(prose=f"{held.prose}\n{item.prose}")
            continue
        if held is not None:
            yield _mark_seen(held)
        held = None if item.kind else item
        if item.kind:
            yield item
    if held is not None:
        yield _mark_seen(held)


def _mark_seen(item: MenuRow) -> MenuRow:
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
    advised = entry.kind is Kind.SERVICE  # no links to terminal sessions, even if the policy allows them
    if not advised and (cannot := explain_forbidden(entry, judge)):
        return item._replace(cannot=cannot)
    return _make_usable(item, entry, entry.url, place)


def _make_usable(item: MenuRow, entry: Entry, url: str, place: PageAddressBar) -> MenuRow:
    item = item._replace(href=place.href(url), views=_views(url, entry, place))
    if entry.kind is Kind.SEARCH:
        return item._replace(search=url)
    if entry.kind is Kind.SERVICE:
        return item._replace(advice=command_of(url))
    if text_of(entry.extra, "gopherplus") == "?":
        return item._replace(form=True, kind="form", icon="form")
    return item


def command_of(url: str) -> str:
    """Return the shell command that opens a terminal session, or an empty text for other URLs."""
    is_session = rules_of(url.partition(":")[0].lower()).session
    return f"resolve open {shlex.quote(url)}" if is_session else ""


def _views(url: str, entry: Entry, place: PageAddressBar) -> tuple[tuple[str, str], ...]:
    """Return the views of an item as descriptions and links, if it has more than one view."""
    found = tuple(views_of(entry.extra or {}, url, place, _MOST_VIEWS))
    return found if len(found) > 1 else ()


def _details(entry: Entry) -> Iterator[FactRow]:
    """Yield the Gopher+ attributes of an item, if the menu contains them."""
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


# The form of an item, and a preview of the submission. The user must confirm the preview before the answers
# are sent (S05).

_FIELDS = {
    AskQuestion.ASK: "line",
    AskQuestion.ASK_FILE: "line",
    AskQuestion.ASK_HIDDEN: "hidden",
    AskQuestion.ASK_LINES: "lines",
    AskQuestion.CHOOSE: "choice",
    AskQuestion.SELECT: "yes",
    AskQuestion.CHOOSE_FILE: "upload",
    AskQuestion.NOTE: "note",
    AskQuestion.UNKNOWN: "unknown",
}
#: Maximum number of lines of a form.
MOST_LINES = 500


class FormField(NamedTuple):
    """A line of a form. `kind` is the type of the input field, and `name` is its name."""

    name: str
    kind: str
    prompt: str
    default: str
    choices: tuple[str, ...]


class FormPreview(NamedTuple):
    """An answer in the preview of a form."""

    prompt: str
    answer: str


def form_page(
    form: AskForm, url: HostUrl, kept: str, findings: Iterable[Finding] = (), complaint: str = ""
) -> WebPage:
    """Return the page with the questions of a form.

    Args:
        form: The form.
        url: The URL of the item with the form.
        kept: The ID of the form.
        findings: Findings of the policy to show.
        complaint: The reason why the answers cannot be sent.
    """
    values = {
        "heading": "A form",
        "kept": kept,
        "url": url.shown,
        "text": url.text,
        "host": f"{url.host} port {url.effective_port}",
        "lines": [_make_field(number, line) for number, line in enumerate(form.lines[:MOST_LINES])],
        "found": tuple(findings),
        "complaint": complaint,
    }
    return WebPage("form.html", url.shown, 200, values)


def _make_field(number: int, line: AskLine) -> FormField:
    choices = tuple(choice.decode("utf-8", "replace") for choice in line.choices)
    kind = _FIELDS[line.question]
    if kind == "choice" and not choices:
        kind = "unknown"
    return FormField(f"answer{number}", kind, line.prompt or line.word, line.default or "", choices)


def answers_from(form: AskForm, said: Iterable[tuple[str, str]]) -> list[Answer]:
    """Return the user's answers to the questions of a form.

    The answers come from the form fields that a browser sent.

    An answer must be one of the offered choices. Local files are never uploaded.
    """
    fields = dict(said)
    answers: list[Answer] = []
    for number, line in enumerate(form.lines):
        if line.question.needs_answer:
            answers.append(_answer(line, fields.get(f"answer{number}", "")))
    return answers


def _answer(line: AskLine, text: str) -> Answer:
    match line.question:
        case AskQuestion.SELECT:
            return text == "1"
        case AskQuestion.ASK_LINES:
            return tuple(each.encode() for each in text.splitlines())
        case AskQuestion.CHOOSE:
            number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
            return line.choices[number] if number < len(line.choices) else b""
        case AskQuestion.CHOOSE_FILE:
            return None
    return text.encode()


def sending_page(form: AskForm, answers: list[Answer], url: HostUrl, octets: str, kept: str) -> WebPage:
    """Return the preview of a form submission: the answers and the bytes to send.

    Hidden answers are redacted. The page does not contain the answers as form fields. The confirmation of the
    user refers to the stored answers by the ID `kept`.
    """
    seen = [
        FormPreview(line.prompt, _preview_answer(line, answer))
        for line, answer in zip(form.questions, answers, strict=True)
    ]
    values = {
        "url": url.shown,
        "text": url.text,
        "host": f"{url.host} port {url.effective_port}",
        "seen": seen,
        "lines": [line_of(line) for line in octets.removesuffix("\r\n").split("\r\n")],
        "kept": kept,
    }
    return WebPage("sending.html", url.shown, 200, values)


def _preview_answer(line: AskLine, answer: Answer) -> str:
    if line.question is AskQuestion.ASK_HIDDEN:
        return "****"
    match answer:
        case None:
            return "no file"
        case bool():
            return "yes" if answer else "no"
        case bytes():
            return answer.decode("utf-8", "replace")
    return "\n".join(each.decode("utf-8", "replace") for each in answer)
