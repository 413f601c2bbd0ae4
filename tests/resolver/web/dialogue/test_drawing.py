"""Drawings of exchanges: diagram, table and JSON agree, are well formed, and load no other file."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256

import pytest
from lxml import etree

import resolver
from protocols.text import Masked
from resolver import (
    Closed,
    Connected,
    Event,
    Finding,
    Finished,
    LookedUp,
    NotFound,
    Received,
    Sent,
    Started,
    TlsBegun,
    Warned,
)
from resolver.web.dialogue.drawing import draw, encode_json, make_rows, render_page, render_panel, render_svg
from resolver.web.dialogue.exchange import RecordedExchange, make_planned_exchange
from tests.resolver.web.dialogue.spoken import URL, record
from tests.resolver.web.dialogue.test_recording import TRANSFER
from tests.resolver.web.pages.skeleton import HOSTILE, skeleton

PLANS = ("ftp://h.example/a", "https://h.example/a", "gopher://h:25/1x%0D%0A", "mailto:a@b.example")


def hostile_events(text: str) -> list[Event]:
    """Return the events of an exchange in which each untrusted text is this text."""
    octets, shown = text.encode("utf-8", "surrogatepass"), Masked(text)
    return [
        Started(shown, 1),
        Warned(shown, Finding(text, "warn", text)),
        LookedUp(shown, text, (text,)),
        Connected(shown, text, 21, True),
        Received(shown, b"220 " + octets + b"\r\n"),
        Sent(shown, octets),
        Connected(shown, text, 4000, False, data=True),
        Received(shown, octets, data=True),
        Finished(shown, NotFound(text)),
    ]


def render(exchange: RecordedExchange) -> str:
    return render_page([(exchange, make_planned_exchange(resolver.explain(PLANS[0])))], "What was said")


@pytest.mark.parametrize(
    "exchange", [record(TRANSFER), *(make_planned_exchange(resolver.explain(url)) for url in PLANS)]
)
def test_diagram_table_and_json_have_the_same_messages(exchange: RecordedExchange) -> None:
    """Compare the three forms of an exchange.

    Each line of the table is in the diagram, in the same order, with its time. All three forms have the same
    messages.
    """
    drawn = [shape.text for shape in draw(exchange).shapes if shape.tag == "text"]
    joined = " ".join(drawn)
    at = 0
    for row in make_rows(exchange):
        for line in row.lines:
            for word in line.split(" "):
                at = joined.index(word, at)
        if row.at != "–":
            assert row.at in drawn
    data = json.loads(encode_json(exchange))
    assert len(data["messages"]) == len(exchange.messages) == len(make_rows(exchange))
    assert [message["lines"] for message in data["messages"]] == [
        list(message.lines) for message in exchange.messages
    ]


def test_json_has_the_documented_members() -> None:
    data = json.loads(encode_json(record(TRANSFER)))
    assert set(data) == {
        *("format", "version", "url", "title", "kind", "lanes", "messages", "left_out", "outcome", "elapsed"),
    }
    assert (data["format"], data["version"], data["kind"]) == ("resolve-dialogue", 1, "dialogue")
    assert set(data["messages"][0]) == {"at", "kind", "from", "to", "lines", "octets", "secured"}
    assert data["lanes"][0] == ["client", "this machine"]


@pytest.mark.parametrize("hostile", [*HOSTILE, "\ufffe\uffff\x0b", "x" * 100_000, "漢" * 500])
def test_diagram_of_hostile_text_is_well_formed(hostile: str) -> None:
    exchange = record(hostile_events(hostile))
    tree = etree.fromstring(render_svg(exchange).encode())
    plain = etree.fromstring(render_svg(record(hostile_events("x"))).encode())
    assert {node.tag for node in tree.iter()} == {node.tag for node in plain.iter()}
    allowed = {name for node in plain.iter() for name in node.attrib}
    assert {name for node in tree.iter() for name in node.attrib} <= allowed
    json.loads(encode_json(exchange))


@pytest.mark.parametrize("hostile", HOSTILE)
def test_exchange_page_of_hostile_text_has_no_new_markup(hostile: str) -> None:
    names = {
        name
        for element in skeleton(render(record(hostile_events("x")))).elements
        for name in (element[0], *element[1])
    }
    parsed = skeleton(render(record(hostile_events(hostile))))
    assert {name for element in parsed.elements for name in (element[0], *element[1])} <= names
    assert len(parsed.ids) == len(set(parsed.ids))


def test_exchange_page_loads_no_other_file() -> None:
    markup = render(record(TRANSFER))
    sheet = re.search(r"<style>(.*?)</style>", markup, re.DOTALL)
    assert sheet is not None
    digest = b64encode(sha256(sheet[1].encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'\"" in markup
    parsed = skeleton(markup)
    names = {name for _, attributes in parsed.elements for name in attributes}
    assert not names & {"style", "src", "href", "action", "srcset", "data"}
    assert not [name for name in names if name.startswith("on")]
    assert not {tag for tag, _ in parsed.elements} & {
        "script",
        "link",
        "iframe",
        "object",
        "img",
        "form",
        "base",
    }
    assert "url(" not in sheet[1]
    assert "@import" not in sheet[1]


def test_svg_download_contains_its_stylesheet() -> None:
    root = etree.fromstring(render_svg(record(TRANSFER)).encode())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    sheet = root.find("{*}style")
    assert sheet is not None
    assert ".exchange .say" in (sheet.text or "")
    assert not root.xpath("//*[@style or @href or local-name()='script' or local-name()='image']")


def test_diagram_has_accessible_title_and_summary() -> None:
    root = etree.fromstring(render_svg(record(TRANSFER)).encode())
    assert root.get("role") == "img"
    names = {node.get("id"): node for node in root.iter() if node.get("id") is not None}
    title, summary = (names[name] for name in (root.get("aria-labelledby") or "").split())
    assert [etree.QName(node).localname for node in (title, summary)] == ["title", "desc"]
    assert title.text == f"Protocol exchange: {URL}"
    assert "18 messages" in (summary.text or "")
    assert "ended: done" in (summary.text or "")


def test_diagram_shapes_are_within_its_bounds() -> None:
    drawing = draw(record(hostile_events("W" * 300)))
    for shape in drawing.shapes:
        attributes = dict(shape.attributes)
        for name in ("x", "x1", "x2"):
            assert 0 <= float(attributes.get(name, 0)) <= drawing.width
        for name in ("y", "y1", "y2"):
            assert 0 <= float(attributes.get(name, 0)) <= drawing.height
        if shape.tag == "text" and attributes.get("text-anchor") != "middle":
            assert len(shape.text) <= 60 or attributes["class"] == "veil words"


def test_diagram_of_tls_has_a_bracket_per_connection() -> None:
    drawing = draw(record([*TRANSFER, Closed(URL, False)]))
    brackets = [shape for shape in drawing.shapes if shape.tag == "path"]
    assert len(brackets) == 2  # One for each connection.
    plain = draw(record([event for event in TRANSFER if not isinstance(event, TlsBegun)]))
    assert not [shape for shape in plain.shapes if shape.tag == "path"]


def test_diagram_of_many_messages_is_bounded() -> None:
    events: list[Event] = [Connected(URL, "192.0.2.1", 21, False)]
    events += [Sent(URL, b"x" * 5000 + b"\r\n") for _ in range(1_000)]
    assert len(render_panel(record(events))) < 400_000


def test_exchange_page_has_a_section_per_url() -> None:
    exchanges = [record(TRANSFER), record(hostile_events("b"))]
    parsed = skeleton(render_page([(exchange,) for exchange in exchanges], "What was said", left_out=3))
    assert [tag for tag, _ in parsed.elements].count("section") == 2
    assert len(parsed.ids) == len(set(parsed.ids))
    assert "5 URLs, of which 3 in the middle are omitted" in "".join(parsed.text)
