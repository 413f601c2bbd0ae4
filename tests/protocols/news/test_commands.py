"""Commands as they leave, and what is no command."""

from __future__ import annotations

import pytest

from protocols.news.response import (
    COMMAND_LIMIT,
    NntpCommand,
    NntpVerb,
    encode_message_id,
    encode_number,
    encode_range,
)
from protocols.wire import Secret
from resolver import Refused

SENT = [
    (NntpCommand(NntpVerb.GROUP, b"comp.misc"), b"GROUP comp.misc\r\n"),
    (NntpCommand(NntpVerb.MODE_READER), b"MODE READER\r\n"),
    (NntpCommand(NntpVerb.ARTICLE, encode_message_id(b"a%b@c")), b"ARTICLE <a%b@c>\r\n"),
    (NntpCommand(NntpVerb.ARTICLE, encode_number(7)), b"ARTICLE 7\r\n"),
    (NntpCommand(NntpVerb.OVER, encode_range(1, 10**16 - 1)), b"OVER 1-9999999999999999\r\n"),
    (NntpCommand(NntpVerb.AUTHINFO_PASS, Secret(b"p")), b"AUTHINFO PASS p\r\n"),
]


@pytest.mark.parametrize(("command", "octets"), SENT)
def test_what_is_sent(command: NntpCommand, octets: bytes) -> None:
    assert command.line.octets == octets


def test_a_password_is_not_shown() -> None:
    command = NntpCommand(NntpVerb.AUTHINFO_PASS, Secret(b"hunter2"))
    assert "hunter2" not in f"{command} {command!r}" + repr(command.line.shown)


@pytest.mark.parametrize("octet", [b"\r", b"\n", b"\0", b"\r\nQUIT"])
@pytest.mark.parametrize("verb", NntpVerb)
def test_no_argument_ends_a_command(verb: NntpVerb, octet: bytes) -> None:
    with pytest.raises(Refused) as caught:
        NntpCommand(verb, b"a" + octet)
    assert caught.value.rule == "S02"


@pytest.mark.parametrize("verb", NntpVerb)
def test_the_longest_command(verb: NntpVerb) -> None:
    room = COMMAND_LIMIT - len(verb) - 3
    assert len(NntpCommand(verb, b"a" * room).line.octets) == 512
    with pytest.raises(Refused):
        NntpCommand(verb, b"a" * (room + 1))


def test_the_longest_names_of_a_url_fit() -> None:
    for verb in (NntpVerb.LIST_NEWSGROUPS, NntpVerb.LISTGROUP, NntpVerb.GROUP):
        NntpCommand(verb, b"g" * 494)
    NntpCommand(NntpVerb.ARTICLE, encode_message_id(b"m" * 248))


def test_nothing_that_changes_a_server_is_a_verb() -> None:
    assert not {"POST", "IHAVE", "TAKETHIS", "XGTITLE", "CHECK"} & {verb.value for verb in NntpVerb}
