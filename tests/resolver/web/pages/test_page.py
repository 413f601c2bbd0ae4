"""Templates: untrusted text in any field leaves the elements and attributes of a page unchanged."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

import resolver.web
from resolver.web.pages.page import static_file
from tests.resolver.web.pages.facts import PAGES
from tests.resolver.web.pages.skeleton import HOSTILE, rendered, skeleton
from tests.sampled import sampled

#: Files that open without this program and contain their stylesheet; their policy names its digest.
STANDING_ALONE = {"exchange_page.html", "exchange.svg"}

TEMPLATES = Path(resolver.web.__file__).parent / "templates"


ATTACKS = sampled(product(PAGES, HOSTILE), lambda row: row[0], 3)


@pytest.mark.parametrize(("name", "hostile"), ATTACKS)
def test_page_with_hostile_field_has_no_new_markup(name: str, hostile: str) -> None:
    plain, attacked = (skeleton(rendered(PAGES[name](text), text)) for text in ("x", hostile))
    assert attacked.elements == plain.elements
    assert attacked.ids == plain.ids


@pytest.mark.parametrize("name", PAGES)
def test_page_shows_control_characters_escaped(name: str) -> None:
    markup = rendered(PAGES[name]("a\u202e\x1b\u200b\x9b\u2028\ud800z"), "a\u202e\x1b\u200b\x9b\u2028\ud800z")
    assert "a\\u202e\\x1b\\u200b\\x9b\\u2028\\ud800z" in markup
    markup.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ufeff]", markup)


@pytest.mark.parametrize("name", PAGES)
def test_page_has_accessible_structure(name: str) -> None:
    """The page has one h1, a label for each field, unique ids, and a link that skips repeated content."""
    parsed = skeleton(rendered(PAGES[name]("x")))
    tags = [tag for tag, _ in parsed.elements]
    assert tags.count("h1") == tags.count("main") == tags.count("title") == 1
    assert len(parsed.ids) == len(set(parsed.ids))
    first = next(
        element for element in parsed.elements[tags.index("body") :] if element[0] in ("a", "input", "button")
    )
    assert first == ("a", ("class", "href"))
    fields = [
        names
        for tag, names in parsed.elements
        if tag in ("input", "select", "textarea") and "id" not in names and "aria-label" not in names
    ]
    assert all(names[:2] == ("type", "name") for names in fields)  # Hidden fields.


def test_templates_do_not_disable_escaping() -> None:
    """The templates disable no escaping, and have no unquoted attribute, style or event handler."""
    for path in TEMPLATES.iterdir():
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*(?:safe|urlencode)|autoescape|Markup", source), path
        assert not re.search(r"\s[\w-]+\s*=\s*\{[{%]", source), path
        assert not re.search(r"<[^>]*\s(?:style|on\w+)=", source), path
        assert not re.search(r"<script(?! src=\"/static/window\.js\" defer>)", source), path
        assert "<style" not in source or path.name in STANDING_ALONE, path


def test_stylesheet_is_complete_and_loads_no_url() -> None:
    sheet = static_file("window.css")
    assert sheet.count("{") == sheet.count("}") > 100
    assert not re.search(r"@import|url\(|expression|http", sheet)
    assert ".exchange" in sheet
    used = {name for path in TEMPLATES.glob("*.html") for name in _classes(path)}
    assert {"row", "kind", "verdict", "scroll"} <= used
    assert {name for name in used if f".{name}" not in sheet} <= UNSTYLED


#: Classes without a style, for clients that read pages by class name, such as tests.
UNSTYLED = {
    "exchange-page",
    "file",
    "proofs",
    "buttons",
    "count",
    "rate",
    "state",
    "quote-1",
    "kept",
    "plain",
    "ask",
    "empty",
}


def _classes(path: Path) -> list[str]:
    names = re.findall(r'class="([^"]*)"', path.read_text(encoding="utf-8"))
    return [
        word
        for name in names
        for word in re.sub(r"\{[{%].*?[%}]\}|\S*\{\{.*?\}\}", " ", name).split()
        if word.isascii() and "{" not in word
    ]
