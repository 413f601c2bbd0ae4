"""Commands that are sent in one write, to servers that are known to answer them in order."""

from __future__ import annotations

import pytest

from protocols.ftp.control import FtpSessionState
from protocols.step import AwaitData, OpenData, Send
from protocols.text import in_utc
from resolver import LimitExceeded, NotFound, Options, Validators
from tests.protocols.ftp.script import Outcome, Retrieval, Script, play

TRIED = [b"220 (vsFTPd 3.0.3)\r\n", b"220 ProFTPD Server\r\n", b"220-- Welcome to Pure-FTPd\r\n220 ok\r\n"]
GREETING = TRIED[0]
FACTS = Options(keep=True, want="file")


def state_after(greeting: bytes = GREETING) -> FtpSessionState:
    """How a connection stands after one file."""
    _, outcome = play("ftp://h/d/x", Script(greeting=greeting), Options(keep=True))
    assert isinstance(outcome, Outcome)
    return outcome.state


def writes(player: Retrieval) -> list[list[bytes]]:
    """The commands of each write."""
    said = [step.lines for step in player.steps if isinstance(step, Send)]
    return [[line.octets.removesuffix(b"\r\n") for line in lines] for lines in said]


def second(
    options: Options = FACTS,
    script: Script | None = None,
    greeting: bytes = GREETING,
    url: str = "ftp://h/d/y",
) -> tuple[Retrieval, object]:
    return play(url, script or Script(greeting=greeting), options, [state_after(greeting)])


@pytest.mark.parametrize("greeting", TRIED)
def test_what_is_asked_before_a_file_is_one_write(greeting: bytes) -> None:
    player, outcome = second(greeting=greeting)
    assert writes(player) == [[b"SIZE y", b"MDTM y", b"EPSV"], [b"RETR y"]]
    assert isinstance(outcome, Outcome)
    assert (outcome.found.size, outcome.found.modified is None) == (5, False)
    assert outcome.verified == {"final-reply", "length"}


@pytest.mark.parametrize("greeting", [b"220 ready\r\n", b"220 Microsoft FTP Service\r\n"])
def test_a_server_that_nobody_tried_is_asked_one_by_one(greeting: bytes) -> None:
    assert writes(second(greeting=greeting)[0]) == [[b"SIZE y"], [b"MDTM y"], [b"EPSV"], [b"RETR y"]]


def test_the_first_file_of_a_connection_is_asked_for_one_by_one() -> None:
    """Whether EPSV works is not known yet."""
    player, _ = play("ftp://h/x", Script(greeting=GREETING), Options(keep=True))
    assert all(len(each) == 1 for each in writes(player))


def test_what_a_listing_told_is_not_asked_for() -> None:
    told = Validators(size=5, modified=in_utc((b"2001", b"09", b"09", b"01", b"46", b"40")))
    assert writes(second(Options(keep=True, want="file", listed=told))[0]) == [[b"EPSV"], [b"RETR y"]]


#: What is left unheard of a part.
NOT_WHOLE = [
    (Options(keep=True, start=2), b"226 done\r\n"),
    (Options(keep=True, stop=3), b""),
    (Options(keep=True, held=Validators(size=9)), b"226 done\r\n"),
]


@pytest.mark.parametrize(("options", "late"), NOT_WHOLE)
def test_what_may_need_no_data_or_a_part_is_asked_one_by_one(options: Options, late: bytes) -> None:
    player, _ = second(options, Script(greeting=GREETING, late=late))
    assert all(len(each) == 1 for each in writes(player))


def test_a_text_is_asked_for_one_by_one() -> None:
    assert all(len(each) == 1 for each in writes(second(url="ftp://h/d/y;type=a")[0]))


def test_an_epsv_that_is_refused_now_leads_to_pasv() -> None:
    script = Script(greeting=GREETING, replies={b"EPSV": b"500 no more\r\n"})
    player, outcome = second(script=script)
    assert writes(player) == [[b"SIZE y", b"MDTM y", b"EPSV"], [b"PASV"], [b"RETR y"]]
    assert isinstance(outcome, Outcome)
    assert outcome.state.extended is False


def test_a_port_that_is_not_reached_leads_to_pasv() -> None:
    player, outcome = second(script=Script(greeting=GREETING, unreachable=(40_001,)))
    assert writes(player)[1:] == [[b"PASV"], [b"RETR y"]]
    assert [step.port for step in player.steps if isinstance(step, OpenData)] == [40_001, 40_002]
    assert isinstance(outcome, Outcome)


def test_facts_that_are_refused_keep_nothing_back() -> None:
    script = Script(greeting=GREETING, replies={b"SIZE": b"550 no\r\n", b"MDTM": b"502 no\r\n"})
    player, outcome = second(script=script)
    assert isinstance(outcome, Outcome)
    assert (outcome.found.size, outcome.found.modified) == (None, None)
    assert player.replies[-1].code == 226


def test_a_file_that_is_missing_is_missing() -> None:
    no = b"550 no\r\n"
    script = Script(greeting=GREETING, replies={b"SIZE": no, b"MDTM": no, b"RETR": no, b"CWD y": no})
    assert isinstance(second(script=script)[1], NotFound)


def test_a_kept_connection_that_was_left_is_made_anew() -> None:
    player, outcome = second(script=Script(greeting=GREETING, left=True))
    assert isinstance(outcome, Outcome)
    assert writes(player)[:2] == [[b"SIZE y", b"MDTM y", b"EPSV"], [b"USER anonymous"]]


def test_where_the_server_says_so_before_data_comes_one_is_read_after_the_other() -> None:
    waits = [step.announced for step in second()[0].steps if isinstance(step, AwaitData)]
    assert waits == [True]
    waits = [
        step.announced for step in second(greeting=b"220 ready\r\n")[0].steps if isinstance(step, AwaitData)
    ]
    assert waits == [False]


def test_replies_to_several_have_the_bounds_of_one() -> None:
    script = Script(greeting=GREETING, replies={b"MDTM": b"213 " + b"0" * 100_000 + b"\r\n"})
    error = second(script=script)[1]
    assert isinstance(error, LimitExceeded)
