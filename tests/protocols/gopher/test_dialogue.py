"""The plan is the dialogue: steps, notes, and items that nothing is sent for."""

from __future__ import annotations

import pytest

from protocols.gopher.answer import RECORDS
from protocols.gopher.dialogue import Pointer, converse, default_view, find_pointer
from protocols.gopher.framing import Ending, Header
from protocols.gopher.reading import shape_by_type
from protocols.rehearsal import rehearse
from protocols.step import (
    Begin,
    Connect,
    Give,
    Hear,
    Note,
    Pass,
    Passed,
    Peek,
    Say,
    Step,
)
from resolver import GopherUrl, Kind, Refused, explain, parse
from resolver.testing import Player, Values


def url_of(text: str) -> GopherUrl:
    url = parse(text)
    assert isinstance(url, GopherUrl)
    return url


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("gopher://h/0a", [Connect, Say, Peek, Begin, Pass]),
        ("gophers://h/0a", [Connect, Say, Peek, Begin, Pass]),
        ("gopher://h/0a%09%09+", [Connect, Say, Hear, Note, Peek, Begin, Pass]),
        ("gopher://h/0a%09!", [Connect, Say, Hear, Note, Peek, Pass, Begin, Give]),
        ("gopher://h/0a%09%09?", [Connect, Say, Hear, Note, Peek, Pass, Begin, Give, Note, Note]),
        ("gopher://h/0" + "a" * 300, [Connect, Note, Say, Peek, Begin, Pass]),
        ("gopher://h/8a", [Note, Begin]),
        ("gopher://h/hURL:http://w.dom/", [Note, Begin]),
        ("gopher://h/h/URL:http://w.dom/", [Note, Begin]),
    ],
)
def test_the_steps_with_a_willing_server(text: str, kinds: list[type]) -> None:
    steps = rehearse(converse(url_of(text)))
    assert [type(step) for step in steps] == kinds
    assert [step.tls for step in steps if isinstance(step, Connect)] == (
        [text.startswith("gophers")] if Connect in kinds else []
    )


def test_an_item_without_a_form_is_asked_for_again() -> None:
    url = url_of("gopher://h/7a%09%09?")

    def answer(step: Step) -> object:
        match step:
            case Hear():
                return Header(Ending.COUNT, 3)
            case Peek():
                again = any(isinstance(each, Pass) for each in player.steps)
                return shape_by_type(url, b"") if again else RECORDS
            case Pass():
                return Passed(3)
        return None

    player = Player(converse(url), Values(answer))
    reply = player.play()
    assert [finding.rule for finding in reply.findings] == ["gopher:no-form"]
    passed = [step.count for step in player.steps if isinstance(step, Pass)]
    assert (player.sent, passed) == ([b"a\t\t!\r\n", b"a\t\t+\r\n"], [3, 3])
    assert default_view(url_of("gopher://h/0a%09b%09?")) == url_of("gopher://h/0a%09b%09+")


POINTERS: list[tuple[str, Pointer | None]] = [
    ("gopher://h/0a", None),
    ("gopher://h/h/page", None),
    ("gopher://h/0URL:http://w.dom/", None),
    ("gopher://h/hURL:http://w.dom/%2520%3F", Pointer(Kind.LINK, "http://w.dom/%20?", {})),
    (
        "gopher://h:23/8",
        Pointer(
            Kind.SERVICE,
            "telnet://h/",
            {"service": "telnet session", "host": "h", "port": 23, "login": None},
        ),
    ),
    (
        "gopher://h:2323/Ta%20b",
        Pointer(
            Kind.SERVICE,
            "tn3270://a%20b@h:2323/",
            {"service": "tn3270 session", "host": "h", "port": 2323, "login": "a b"},
        ),
    ),
    (
        "gophers://[::1]:105/2ns",
        Pointer(
            Kind.SERVICE,
            "gophers://[::1]:105/2",
            {"service": "CSO phone book", "host": "::1", "port": 105},
        ),
    ),
]


@pytest.mark.parametrize(("text", "pointer"), POINTERS)
def test_where_an_item_leads_that_is_not_fetched(text: str, pointer: Pointer | None) -> None:
    assert find_pointer(url_of(text)) == pointer


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("gopher://h/hURL:javascript:alert(1)", "S20"),
        ("gopher://h/hURL:file:///etc/passwd", "S20"),
        ("gopher://h/hURL:mailto:a@b", "S20"),
        ("gopher://h/hURL:gophers://h/", "S20"),
        ("gopher://h/hURL:http://a%20b/", "S20"),
        ("gopher://h/hURL:http://a%E9/", "S20"),
        ("gopher://h/hURL:", "S20"),
        ("gopher://h/hURL:http://w/%0D%0AX", "S02"),
        ("gopher://h/8a%0D%0Ab", "S02"),
        ("gopher://h/2a%00b", "S02"),
        ("gopher://h/0a%09%09%0D%0A", "S03"),
    ],
)
def test_what_is_refused_before_anything_is_done(text: str, rule: str) -> None:
    with pytest.raises(Refused) as caught:
        next(converse(url_of(text)))
    assert caught.value.rule == rule


def test_the_plan_as_it_is_shown() -> None:
    plan = explain("gopher://h.dom/7find%09two%20words%09+")
    assert plan.verdict == "allow"
    assert plan.steps[0] == {
        "action": "connect",
        "host": "h.dom",
        "port": 70,
        "tls": False,
        "transport": "tcp",
    }
    assert plan.steps[1] == {"action": "send", "octets": "find\ttwo words\t+\r\n"}
    assert [step["action"] for step in plan.steps[2:]] == ["receive", "note", "receive"]
