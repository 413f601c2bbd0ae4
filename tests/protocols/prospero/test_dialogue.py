"""The plan of a prospero URL: `explain` shows the packets that are sent (protocol page 9)."""

from __future__ import annotations

import re

import pytest

import resolver
from protocols.conversation.rehearsal import rehearse
from protocols.prospero.ardp import RetransmitTiming
from protocols.prospero.dialogue import converse
from protocols.prospero.message import Inquirer, request_links
from protocols.prospero.objects import RequestObject
from protocols.step import DatagramReply, ExchangeDatagrams, OpenDatagrams, OpenedConnection, PlanNote, Step
from resolver import Declined, Limits, Options, ProsperoUrl
from resolver.testing import Player, ValueScript
from tests.protocols.typed_url import parse_as


def url(text: str) -> ProsperoUrl:
    return parse_as(ProsperoUrl, text)


def sent_packets(steps: list[Step]) -> list[bytes]:
    return [
        packet.octets
        for step in steps
        if isinstance(step, ExchangeDatagrams)
        for packet in step.exchange.packets
    ]


HEAD = b"VERSION 5 url-resolver\nAUTHENTICATE '' UNAUTHENTICATED anonymous\n"


def test_plan_requests_attributes_and_contents() -> None:
    steps = rehearse(converse(url("prospero://h//pub/x")))
    assert sent_packets(steps) == [
        bytes.fromhex("09 0000 0001 0001 0000") + HEAD + b"GET-OBJECT-INFO " + asked + b" ASCII '/pub/x' 0\n"
        for asked in (b"ACCESS-METHOD+SIZE+LAST-MODIFIED+UNIX-MODES", b"CONTENTS")
    ]
    assert sum(isinstance(step, OpenDatagrams) for step in steps) == 2
    assert [step.what for step in steps if isinstance(step, ExchangeDatagrams)] == [
        "the access methods of the object",
        "the contents of the object",
    ]
    notes = " ".join(step.text for step in steps if isinstance(step, PlanNote))
    assert "DIRECTORY ASCII '/pub/x' 0 / LIST ATTRIBUTES COMPONENTS" in notes
    assert re.search(r" 2, 4, 4, 4 .* 60 ", notes)
    assert "is random" in notes


def test_plan_for_facts_omits_contents() -> None:
    steps = rehearse(converse(url("prospero://h//pub/x"), Options(want="facts")))
    (asked,) = sent_packets(steps)
    assert b"GET-OBJECT-INFO ACCESS-METHOD+SIZE+LAST-MODIFIED+UNIX-MODES ASCII '/pub/x' 0\n" in asked


def test_reply_split_across_packets_is_parsed() -> None:
    opened, carried = OpenedConnection(("192.0.2.1",), 7), DatagramReply((b"NONE-", b"FOUND\n"), "192.0.2.1")
    server = ValueScript(lambda step: {OpenDatagrams: opened, ExchangeDatagrams: carried}.get(type(step)))
    player = Player(
        Inquirer(Limits(), RetransmitTiming()).request(request_links(RequestObject("h", 1525, b"x"))), server
    )
    player.advance()
    assert [type(step) for step in player.steps] == [OpenDatagrams, PlanNote, ExchangeDatagrams]
    assert player.result is not None
    assert player.result.none_found


def test_long_request_is_split_into_packets() -> None:
    steps = rehearse(converse(url("prospero://h/" + "x" * 3000)))
    assert [octets[3:7].hex() for octets in sent_packets(steps)] == ["00010003", "00020003", "00030003"] * 2


def test_plan_of_unsupported_url_is_only_note() -> None:
    with pytest.raises(Declined):
        next(converse(url("prospero://h/x;HOST-TYPE=X")))
    (note,) = rehearse(converse(url("prospero://h/x;HOST-TYPE=X")))
    assert isinstance(note, PlanNote)


def test_explain_shows_udp_connection() -> None:
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
def test_explain_refuses_line_ends_in_url(name: str) -> None:
    plan = resolver.explain(f"prospero://h.example/{name}")
    assert (plan.verdict, plan.steps) == ("refuse", ())
    assert plan.findings[0].rule == "S02"
