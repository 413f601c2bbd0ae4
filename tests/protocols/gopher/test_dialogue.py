"""The plan is the dialogue: steps, notes, and items that nothing is sent for."""

from __future__ import annotations

import pytest

from protocols.conversation.rehearsal import rehearse
from protocols.gopher.content import DataEnding, GopherPlusHeader
from protocols.gopher.dialogue import SessionPointer, converse, default_view, find_pointer
from protocols.gopher.reply import RECORDS, shape_by_type
from protocols.step import (
    Connect,
    CopiedBody,
    CopyBody,
    EmitBody,
    Peek,
    PlanNote,
    Receive,
    Send,
    StartBody,
    Step,
)
from resolver import GopherUrl, Kind, Refused, explain, parse
from resolver.testing import Player, ValueScript


def url_of(text: str) -> GopherUrl:
    url = parse(text)
    assert isinstance(url, GopherUrl)
    return url


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("gopher://h/0a", [Connect, Send, Peek, StartBody, CopyBody]),
        ("gophers://h/0a", [Connect, Send, Peek, StartBody, CopyBody]),
        ("gopher://h/0a%09%09+", [Connect, Send, Receive, PlanNote, Peek, StartBody, CopyBody]),
        ("gopher://h/0a%09!", [Connect, Send, Receive, PlanNote, Peek, CopyBody, StartBody, EmitBody]),
        (
            "gopher://h/0a%09%09?",
            [Connect, Send, Receive, PlanNote, Peek, CopyBody, StartBody, EmitBody, PlanNote, PlanNote],
        ),
        ("gopher://h/0" + "a" * 300, [Connect, PlanNote, Send, Peek, StartBody, CopyBody]),
        ("gopher://h/8a", [PlanNote, StartBody]),
        ("gopher://h/hURL:http://w.dom/", [PlanNote, StartBody]),
        ("gopher://h/h/URL:http://w.dom/", [PlanNote, StartBody]),
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
            case Receive():
                return GopherPlusHeader(DataEnding.COUNT, 3)
            case Peek():
                again = any(isinstance(each, CopyBody) for each in player.steps)
                return shape_by_type(url, b"") if again else RECORDS
            case CopyBody():
                return CopiedBody(3)
        return None

    player = Player(converse(url), ValueScript(answer))
    reply = player.play()
    assert [finding.rule for finding in reply.findings] == ["gopher:no-form"]
    passed = [step.count for step in player.steps if isinstance(step, CopyBody)]
    assert (player.sent, passed) == ([b"a\t\t!\r\n", b"a\t\t+\r\n"], [3, 3])
    assert default_view(url_of("gopher://h/0a%09b%09?")) == url_of("gopher://h/0a%09b%09+")


POINTERS: list[tuple[str, SessionPointer | None]] = [
    ("gopher://h/0a", None),
    ("gopher://h/h/page", None),
    ("gopher://h/0URL:http://w.dom/", None),
    ("gopher://h/hURL:http://w.dom/%2520%3F", SessionPointer(Kind.LINK, "http://w.dom/%20?", {})),
    (
        "gopher://h:23/8",
        SessionPointer(
            Kind.SERVICE,
            "telnet://h/",
            {"service": "telnet session", "host": "h", "port": 23, "login": None},
        ),
    ),
    (
        "gopher://h:2323/Ta%20b",
        SessionPointer(
            Kind.SERVICE,
            "tn3270://a%20b@h:2323/",
            {"service": "tn3270 session", "host": "h", "port": 2323, "login": "a b"},
        ),
    ),
    (
        "gophers://[::1]:105/2ns",
        SessionPointer(
            Kind.SERVICE,
            "gophers://[::1]:105/2",
            {"service": "CSO phone book", "host": "::1", "port": 105},
        ),
    ),
]


@pytest.mark.parametrize(("text", "pointer"), POINTERS)
def test_where_an_item_leads_that_is_not_fetched(text: str, pointer: SessionPointer | None) -> None:
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
