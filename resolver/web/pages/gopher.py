"""Gopher menus, attributes and forms as pages.

The page of a menu shows the kind of each item in one word. Info lines are shown as text, searches as input
fields, and the views of an item as links. If the policy forbids an item, the page shows the rule.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from protocols.contract import Entry, Finding
from protocols.errors import InvalidUrl, UnsupportedScheme
from protocols.location import HostUrl, JsonValue, Kind
from resolver.policy.schemes import find_rules
from resolver.transfer.forms import Answer, AskForm, AskLine, AskQuestion
from resolver.transfer.response import Response
from resolver.trees.order import Numbered
from resolver.web.pages.directory import (
    Groups,
    Judge,
    arrange_entries,
    explain_forbidden,
    make_filter,
)
from resolver.web.pages.page import (
    KINDS,
    FactRow,
    PageAddressBar,
    PageQuery,
    WebPage,
    format_line,
    get_text,
    parse_number,
    refine_url,
)

_MAX_VIEWS = 100


def attributes_page(response: Response, bar: PageAddressBar) -> WebPage:
    extra = response.extra or {}
    values = {
        "heading": response.title or "Attributes of this item",
        "url": bar.url,
        "views": list(list_views(extra, response.url, bar)),
        "blocks": list(_list_blocks(extra)),
        "form": response.url if extra.get("form") else None,
        "missing": [str(name) for name in _as_list(extra.get("missing"))],
        "warnings": response.findings,
    }
    return WebPage("attributes.html", bar.url, 200, values)


def list_views(
    extra: Mapping[str, JsonValue], url: str, bar: PageAddressBar, max_views: int = _MAX_VIEWS
) -> Iterator[tuple[str, str]]:
    """Yield the views of an item that have a URL, each as a description and a link."""
    for view in _as_list(extra.get("views"))[:max_views]:
        if isinstance(view, dict):
            with suppress(InvalidUrl, UnsupportedScheme):
                yield _describe_view(view), bar.href(refine_url(url, "view", str(view.get("view"))))


def _describe_view(view: Mapping[str, JsonValue]) -> str:
    words = [str(word) for name in ("media_type", "language") if (word := view.get(name))]
    about = view.get("about")
    return " ".join(words) + (f" (about {about:,} bytes)" if isinstance(about, int) else "")


def _list_blocks(extra: Mapping[str, JsonValue]) -> Iterator[FactRow]:
    attributes = extra.get("attributes")
    for name, lines in attributes.items() if isinstance(attributes, dict) else ():
        yield FactRow(name, "\n".join(str(line) for line in _as_list(lines)))


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


#: The names of the item types by type character.
_TYPE_NAMES = {
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
_MAX_ITEM_VIEWS = 20
#: Matches adjacent spaces or drawing characters. These characters are signs of ASCII art. ASCII art is not
#: wrapped, because line wrapping would destroy it.
_DRAWN = re.compile(r"\S {3}|[|/\\_=*#+-]{3}|[|/\\] *[|/\\]")
#: Minimum number of items for a filter field; a menu with this number or fewer does not have a filter field.
_MAX_UNFILTERED = 50


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
    response: Response,
    query: PageQuery,
    bar: PageAddressBar,
    *,
    title: str | None = None,
    judge: Judge | None = None,
    search: str = "",
    words: str = "",
) -> WebPage:
    """Return the page of a menu.

    Args:
        response: The response with the menu.
        query: The query fields of the page.
        bar: The page's address bar.
        title: The heading; by default the URL.
        judge: A function that returns the policy verdict on the link of an item. Without `judge`, a link is
            checked when the user opens the link.
        search: The URL for a search with other search terms, for a menu with search results.
        words: The search terms.
    """
    query = query._replace(sort="")
    shown = arrange_entries(response.entries or (), query, bar)
    values = {
        **make_filter(response, query, bar),
        "heading": title or bar.url,
        "count": f"{shown.start + 1:,} to {shown.start + len(shown.entries):,} of {shown.matched:,}"
        if shown.paging.pages > 1
        else "",
        "search": search,
        "words": words,
        "groups": Groups(partial(_make_items, shown.entries, bar, judge), len(shown.entries)),
        "filters": shown.total > _MAX_UNFILTERED or bool(query.filter),
        "empty": "No item matches the filter." if query.filter else _explain_empty(search, words),
        "paging": shown.paging,
    }
    return WebPage("menu.html", bar.url, 200, values)


def _explain_empty(search: str, words: str) -> str:
    if not search:
        return "The menu is empty."
    return "No results found." if words else "Enter search terms."


def _make_items(entries: Iterable[Numbered], bar: PageAddressBar, judge: Judge | None) -> Iterator[MenuRow]:
    return _join_prose(_make_item(number, entry, bar, judge) for number, entry in entries)


def _join_prose(items: Iterable[MenuRow]) -> Iterator[MenuRow]:
    """Join adjacent info lines to paragraphs."""
    paragraph: MenuRow | None = None
    for item in items:
        if paragraph is not None and not item.kind:
            paragraph = paragraph._replace(prose=f"{paragraph.prose}\n{item.prose}")
            continue
        if paragraph is not None:
            yield _mark_drawing(paragraph)
        paragraph = None if item.kind else item
        if item.kind:
            yield item
    if paragraph is not None:
        yield _mark_drawing(paragraph)


def _mark_drawing(item: MenuRow) -> MenuRow:
    return item._replace(drawn=_DRAWN.search(item.prose) is not None)


def _make_item(number: int, entry: Entry, bar: PageAddressBar, judge: Judge | None) -> MenuRow:
    if entry.kind is Kind.INFO:
        return MenuRow(number, "", "", "", prose=entry.name)
    character = get_text(entry.extra, "type")
    kind = _TYPE_NAMES.get(character, "")
    if entry.kind is Kind.LINK or character == "+":
        kind = KINDS[entry.kind]
    if entry.kind is Kind.UNKNOWN:
        kind = f"type {format_line(character)}" if character else "no type"
    icon = _ICONS.get(character, entry.kind.value)
    item = MenuRow(number, kind or KINDS[entry.kind], icon, entry.name, details=tuple(_list_details(entry)))
    if entry.url is None:
        return item._replace(cannot=get_text(entry.extra, "unusable"))
    is_session = entry.kind is Kind.SERVICE  # no links to terminal sessions, even if the policy allows them
    if not is_session and (cannot := explain_forbidden(entry, judge)):
        return item._replace(cannot=cannot)
    return _make_usable(item, entry, entry.url, bar)


def _make_usable(item: MenuRow, entry: Entry, url: str, bar: PageAddressBar) -> MenuRow:
    item = item._replace(href=bar.href(url), views=_list_views(url, entry, bar))
    if entry.kind is Kind.SEARCH:
        return item._replace(search=url)
    if entry.kind is Kind.SERVICE:
        return item._replace(advice=make_command(url))
    if get_text(entry.extra, "gopherplus") == "?":
        return item._replace(form=True, kind="form", icon="form")
    return item


def make_command(url: str) -> str:
    """Return the shell command that opens a terminal session, or an empty text for other URLs."""
    is_session = find_rules(url.partition(":")[0].lower()).session
    return f"resolve open {shlex.quote(url)}" if is_session else ""


def _list_views(url: str, entry: Entry, bar: PageAddressBar) -> tuple[tuple[str, str], ...]:
    """Return the views of an item as descriptions and links, if it has more than one view."""
    views = tuple(list_views(entry.extra or {}, url, bar, _MAX_ITEM_VIEWS))
    return views if len(views) > 1 else ()


def _list_details(entry: Entry) -> Iterator[FactRow]:
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
MAX_LINES = 500


class FormField(NamedTuple):
    """A line of a form. `kind` is the type of the input field, and `name` is its name."""

    name: str
    kind: str
    prompt: str
    default: str
    choices: tuple[str, ...]


def form_page(
    form: AskForm, url: HostUrl, form_id: str, findings: Iterable[Finding] = (), complaint: str = ""
) -> WebPage:
    """Return the page with the questions of a form.

    Args:
        form: The form.
        url: The URL of the item with the form.
        form_id: The ID of the form.
        findings: Findings of the policy to show.
        complaint: The reason why the answers cannot be sent.
    """
    values = {
        "heading": "A form",
        "form_id": form_id,
        "url": url.shown,
        "text": url.text,
        "host": f"{url.host} port {url.effective_port}",
        "lines": [_make_field(number, line) for number, line in enumerate(form.lines[:MAX_LINES])],
        "warnings": tuple(findings),
        "complaint": complaint,
    }
    return WebPage("form.html", url.shown, 200, values)


def _make_field(number: int, line: AskLine) -> FormField:
    choices = tuple(choice.decode("utf-8", "replace") for choice in line.choices)
    kind = _FIELDS[line.question]
    if kind == "choice" and not choices:
        kind = "unknown"
    return FormField(f"answer{number}", kind, line.prompt or line.word, line.default or "", choices)


def answers_from(form: AskForm, pairs: Iterable[tuple[str, str]]) -> list[Answer]:
    """Return the user's answers to the questions of a form, from the form fields of a browser.

    An answer must be one of the offered choices. Local files are never uploaded.
    """
    fields = dict(pairs)
    answers: list[Answer] = []
    for number, line in enumerate(form.lines):
        if line.question.needs_answer:
            answers.append(_make_answer(line, fields.get(f"answer{number}", "")))
    return answers


def _make_answer(line: AskLine, text: str) -> Answer:
    match line.question:
        case AskQuestion.SELECT:
            return text == "1"
        case AskQuestion.ASK_LINES:
            return tuple(row.encode() for row in text.splitlines())
        case AskQuestion.CHOOSE:
            number = parse_number(text)
            return line.choices[number] if number < len(line.choices) else b""
        case AskQuestion.CHOOSE_FILE:
            return None
    return text.encode()


def sending_page(form: AskForm, answers: list[Answer], url: HostUrl, octets: str, form_id: str) -> WebPage:
    """Return the preview of a form submission: the answers and the bytes to send.

    Hidden answers are redacted. The page does not contain the answers as form fields. The confirmation of the
    user refers to the stored answers by the ID `form_id`.
    """
    previews = [
        FactRow(line.prompt, _preview_answer(line, answer))
        for line, answer in zip(form.questions, answers, strict=True)
    ]
    values = {
        "url": url.shown,
        "text": url.text,
        "host": f"{url.host} port {url.effective_port}",
        "previews": previews,
        "lines": [format_line(line) for line in octets.removesuffix("\r\n").split("\r\n")],
        "form_id": form_id,
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
    return "\n".join(row.decode("utf-8", "replace") for row in answer)
