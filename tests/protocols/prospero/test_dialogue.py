"""The plan of a prospero URL: what `explain` shows is what is sent (protocol page 9)."""

from __future__ import annotations

import pytest

import resolver
from protocols.errors import Declined
from protocols.prospero.dialogue import converse
from protocols.prospero.url import ProsperoUrl
from protocols.step import Connect, Hear, Note, Say, rehearse
from protocols.wire import run_reader
from resolver.url import parse


def url(text: str) -> ProsperoUrl:
    parsed = parse(text)
    assert isinstance(parsed, ProsperoUrl)
    return parsed


HEAD = b"VERSION 5 url-resolver\nAUTHENTICATE '' UNAUTHENTICATED anonymous\n"


def test_the_plan_is_the_two_questions_to_a_willing_server() -> None:
    steps = rehearse(converse(url("prospero://h//pub/x")))
    said = [step.lines[0].octets for step in steps if isinstance(step, Say)]
    assert said == [
        bytes.fromhex("09 0000 0001 0001 0000") + HEAD + b"GET-OBJECT-INFO " + asked + b" ASCII '/pub/x' 0\n"
        for asked in (b"ACCESS-METHOD", b"CONTENTS")
    ]
    assert sum(isinstance(step, Connect) for step in steps) == 2
    assert [step.what for step in steps if isinstance(step, Hear)] == [
        "the access methods of the object",
        "the contents of the object",
    ]
    notes = " ".join(step.text for step in steps if isinstance(step, Note))
    assert "DIRECTORY ASCII '/pub/x' 0 / LIST ATTRIBUTES COMPONENTS" in notes
    assert "4, 8, 16, 32 seconds" in notes
    assert "at random" in notes


def test_for_facts_the_contents_are_not_asked_for() -> None:
    steps = rehearse(converse(url("prospero://h//pub/x"), "facts"))
    (asked,) = (step.lines[0].octets for step in steps if isinstance(step, Say))
    assert b"GET-OBJECT-INFO ACCESS-METHOD ASCII '/pub/x' 0\n" in asked


def test_an_answer_is_read_when_it_is_whole() -> None:
    steps = rehearse(converse(url("prospero://h/x")))
    hear = next(step for step in steps if isinstance(step, Hear))
    assert run_reader(hear.reader, b"NONE-", b"FOUND\n").none_found


def test_a_long_question_is_several_packets() -> None:
    steps = rehearse(converse(url("prospero://h/" + "x" * 3000)))
    said = [step.lines[0].octets for step in steps if isinstance(step, Say)]
    assert [octets[3:7].hex() for octets in said] == ["00010003", "00020003", "00030003"] * 2


def test_a_url_that_nothing_can_be_asked_for_ends_the_plan() -> None:
    with pytest.raises(Declined):
        next(converse(url("prospero://h/x;HOST-TYPE=X")))
    (note,) = rehearse(converse(url("prospero://h/x;HOST-TYPE=X")))
    assert isinstance(note, Note)


def test_explain_shows_udp_and_sends_nothing() -> None:
    plan = resolver.explain("prospero://h.example:1525/x")
    connects = [step for step in plan.steps if step["action"] == "connect"]
    assert connects[0] == {
        "action": "connect",
        "host": "h.example",
        "port": 1525,
        "tls": False,
        "transport": "udp",
    }
    assert plan.verdict == "allow"


@pytest.mark.parametrize("name", ["a%0Db", "a%0Ab", "a%00b", "x;a%0A=1", "x;a=%0D"])
def test_octets_that_end_a_command_are_refused_before_anything_is_planned(name: str) -> None:
    plan = resolver.explain(f"prospero://h.example/{name}")
    assert (plan.verdict, plan.steps) == ("refuse", ())
    assert plan.findings[0].rule == "S02"
