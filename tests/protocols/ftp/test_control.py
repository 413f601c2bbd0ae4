"""Tests of the reuse of FTP control connections and of commands sent in one write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from protocols.dates import in_utc
from protocols.ftp.control import Control, DirectoryRoute, login_key
from protocols.step import AwaitData, Connect, OpenData, Send
from resolver import (
    Declined,
    Disconnected,
    FtpUrl,
    LimitExceeded,
    NotFound,
    Options,
    Truncated,
    TryLater,
    Validators,
)
from tests.protocols.ftp.script import Outcome, Retrieval, Script, Server, play
from tests.protocols.typed_url import parse_as

LOGIN = [b"USER anonymous", b"PASS anonymous@"]


def ftp(text: str) -> FtpUrl:
    return parse_as(FtpUrl, text)


def session(
    url: str, kept: Control | None = None, script: Script | None = None
) -> tuple[list[bytes], Control]:
    """Return the commands sent and the state of the connection afterwards."""
    player, outcome = play(url, script, Options(keep=True), () if kept is None else [kept])
    assert isinstance(outcome, Outcome)
    assert (Connect() in player.events) == (kept is None)
    return player.commands, outcome.state


def test_pwd_follows_login_only_when_connection_is_pooled() -> None:
    sent, state = session("ftp://h/d/x")
    assert sent[:4] == [*LOGIN, b"PWD", b"CWD d"]
    assert state.home == b"/home"
    assert b"PWD" not in play("ftp://h/d/x")[0].commands


def test_pooled_connection_in_same_directory_skips_cwd() -> None:
    _, state = session("ftp://h/d/e/x")
    assert session("ftp://h/d/e/y", state)[0] == [b"SIZE y", b"EPSV", b"RETR y"]


def test_pooled_connection_without_directory_skips_cwd() -> None:
    _, state = session("ftp://h/x")
    sent, state = session("ftp://h/y;type=a", state)
    assert sent == [b"TYPE A", b"EPSV", b"RETR y"]
    assert session("ftp://h/z;type=a", state)[0] == [b"EPSV", b"RETR z"]


def test_pooled_connection_returns_through_login_directory() -> None:
    _, state = session("ftp://h/d/x")
    sent, state = session("ftp://h/e/f/y", state)
    assert sent[:4] == [b"CWD /home", b"PWD", b"CWD e", b"CWD f"]
    assert state.cwds == (b"e", b"f")


@pytest.mark.parametrize("dot", ["d/.", "./d", "%64/x/.."])
def test_paths_with_dots_are_not_compared(dot: str) -> None:
    _, state = session("ftp://h/d/x")
    assert session(f"ftp://h/{dot}/x", state)[0][0] == b"CWD /home"


def test_paths_are_compared_decoded() -> None:
    _, state = session("ftp://h/d/x")
    assert session("ftp://h/%64/x", state)[0][0] == b"SIZE x"


STRAYED = [
    (b"PWD", b'257 "/elsewhere"\r\n'),
    (b"PWD", b"257 /home\r\n"),
    (b"PWD", b"550 no\r\n"),
    (b"CWD /home", b"550 no\r\n"),
]


@pytest.mark.parametrize(("command", "reply"), STRAYED)
def test_login_directory_not_confirmed_opens_new_connection(command: bytes, reply: bytes) -> None:
    _, state = session("ftp://h/d/x")
    player, _ = play("ftp://h/e/y", Script(replies={command: reply}), kept=[state])
    assert player.commands[:4] == [b"CWD /home", b"PWD", *LOGIN]


@pytest.mark.parametrize("reply", [b"500 no\r\n", b"257 nowhere\r\n", b'257 "/open\r\n', b'257 ""\r\n'])
def test_route_without_login_directory_is_new_connection(reply: bytes) -> None:
    _, state = session("ftp://h/d/x", script=Script(replies={b"PWD": reply}))
    assert state.home is None
    assert state.route((b"d",)) is DirectoryRoute.STAY
    assert state.route((b"e",)) is DirectoryRoute.ANEW
    player, _ = play("ftp://h/e/y", Script(), kept=[state])
    assert player.commands[0] == b"USER anonymous"


def test_cwd_after_refused_retr_clears_directory() -> None:
    _, state = session("ftp://h/d/x", script=Script(replies={b"RETR": b"550 no\r\n"}))
    assert state.cwds is None
    assert session("ftp://h/d/y", state)[0][0] == b"CWD /home"


def test_failed_cwd_clears_directory() -> None:
    _, state = session("ftp://h/d/x")
    _, error = play("ftp://h/e/y", Script(replies={b"CWD e": b"550 no\r\n"}), kept=[state])
    assert isinstance(error, NotFound)
    assert state.cwds is None


def test_truncated_transfer_prevents_reuse() -> None:
    _, state = session("ftp://h/d/x")
    _, error = play("ftp://h/d/y", Script(late=b"426 broken\r\n", data=b"1"), kept=[state])
    assert isinstance(error, Truncated)
    assert not state.idle
    assert state.route((b"d",)) is DirectoryRoute.ANEW


def test_refused_transfer_sends_nothing_after_retr() -> None:
    player, error = play("ftp://h/x;type=i", Script(replies={b"RETR": b"550 no\r\n"}))
    assert isinstance(error, Declined)
    assert player.commands[-1] == b"RETR x"


def test_later_failure_on_pooled_connection_is_not_retried() -> None:
    _, state = session("ftp://h/d/x")
    player, error = play("ftp://h/d/y", Script(replies={b"EPSV": b""}), kept=[state])
    assert isinstance(error, Disconnected)
    assert player.commands == [b"SIZE y", b"EPSV"]


def test_421_on_pooled_connection_is_retried_once_on_new_one() -> None:
    _, state = session("ftp://h/d/x")
    script = Script(replies={b"SIZE": [b"421 idle\r\n", b"213 5\r\n"]})
    player, outcome = play("ftp://h/d/y", script, kept=[state])
    assert isinstance(outcome, Outcome)
    assert player.commands[:2] == [b"SIZE y", b"USER anonymous"]
    player, error = play("ftp://h/d/y", Script(replies={b"EPSV": b"421 idle\r\n"}), kept=[state])
    assert isinstance(error, TryLater)
    assert player.commands.count(b"USER anonymous") == 1


def test_unsuitable_pooled_connection_is_skipped_for_the_next() -> None:
    _, here = session("ftp://h/d/x", script=Script(replies={b"PWD": b"500 no\r\n"}))
    _, there = session("ftp://h/e/x", script=Script(replies={b"PWD": b"500 no\r\n"}))
    player, outcome = play("ftp://h/d/y", kept=[there, here])
    assert isinstance(outcome, Outcome)
    assert player.commands == [b"SIZE y", b"EPSV", b"RETR y"]


KEYS = [
    ("ftp://h/", "ftp://h/x", True),
    ("ftp://h/", "ftp://h:21/x", True),
    ("ftp://h/", "ftp://H/x", True),
    ("ftp://h/", "ftp://h:2121/", False),
    ("ftp://h/", "ftp://g/", False),
    ("ftp://h/", "ftps://h:21/", False),
    ("ftp://h/", "ftp://@h/", False),
    ("ftp://u@h/", "ftp://u:@h/", False),
    ("ftp://u:p@h/", "ftp://u:q@h/", False),
    ("ftp://u:p@h/", "ftp://v:p@h/", False),
    ("ftp://u:p@h/", "ftp://u:p@h/x", True),
]


@pytest.mark.parametrize(("one", "other", "same"), KEYS)
def test_login_key_differs_by_host_scheme_and_credentials(one: str, other: str, same: bool) -> None:
    keys = [login_key(ftp(url), Options()) for url in (one, other)]
    assert (keys[0] == keys[1]) is same
    assert "b'p'" not in repr(keys)
    assert "password" not in repr(keys)


def test_login_key_includes_options() -> None:
    url = ftp("ftp://h/")
    assert login_key(url, Options()) != login_key(url, Options(tls="require"))
    assert login_key(url, Options()) != login_key(url, Options(anonymous_password=b"me@here"))
    assert login_key(ftp("ftp://u:p@h/"), Options()) == login_key(
        ftp("ftp://u:p@h/"), Options(anonymous_password=b"me@here")
    )


# Pipelined commands, sent in one write only to servers known to answer them in order.

KNOWN_GREETINGS = [
    b"220 (vsFTPd 3.0.3)\r\n",
    b"220 ProFTPD Server\r\n",
    b"220-- Welcome to Pure-FTPd\r\n220 ok\r\n",
]
GREETING = KNOWN_GREETINGS[0]
FACTS = Options(keep=True, want="file")


def state_after(greeting: bytes = GREETING) -> Control:
    """Return the state of a connection after one file."""
    _, outcome = play("ftp://h/d/x", Script(greeting=greeting), Options(keep=True))
    assert isinstance(outcome, Outcome)
    return outcome.state


def writes(player: Retrieval) -> list[list[bytes]]:
    """Return the commands of each write."""
    said = [step.lines for step in player.steps if isinstance(step, Send)]
    return [[line.octets.removesuffix(b"\r\n") for line in lines] for lines in said]


def retrieve_second(
    options: Options = FACTS,
    script: Script | None = None,
    greeting: bytes = GREETING,
    url: str = "ftp://h/d/y",
) -> tuple[Retrieval, object]:
    return play(url, script or Script(greeting=greeting), options, [state_after(greeting)])


@pytest.mark.parametrize("greeting", KNOWN_GREETINGS)
def test_pipelining_sends_metadata_commands_in_one_write(greeting: bytes) -> None:
    player, outcome = retrieve_second(greeting=greeting)
    later = [[b"SIZE y", b"MDTM y", b"RETR y"], [b"EPSV"]]
    assert writes(player) == ([[*later[0], b"EPSV"]] if greeting is GREETING else later)
    assert isinstance(outcome, Outcome)
    assert (outcome.found.size, outcome.found.modified is None) == (5, False)
    assert outcome.verified == {"final-reply", "length"}
    assert outcome.state.port == 40_001


@pytest.mark.parametrize("greeting", [b"220 ready\r\n", b"220 Microsoft FTP Service\r\n"])
def test_pipelining_is_not_used_with_unknown_server(greeting: bytes) -> None:
    assert writes(retrieve_second(greeting=greeting)[0]) == [[b"SIZE y"], [b"MDTM y"], [b"EPSV"], [b"RETR y"]]


NEW = [b"PWD", b"CWD a", b"CWD b"]
LISTED = Options(keep=True, want="listing", placed=True)


@pytest.mark.parametrize("greeting", KNOWN_GREETINGS)
@pytest.mark.parametrize(
    ("url", "options", "first", "last"),
    [
        ("ftp://h/a/b/x", FACTS, [*NEW, b"TYPE I", b"SIZE x", b"MDTM x", b"EPSV"], b"RETR x"),
        ("ftp://h/x", Options(), [b"TYPE I", b"SIZE x", b"EPSV"], b"RETR x"),
        ("ftp://h/x", Options(start=2), [b"TYPE I", b"SIZE x", b"MDTM x"], b"EPSV"),
        ("ftp://h/a/b/", LISTED, [*NEW, b"TYPE A", b"PWD", b"FEAT", b"EPSV"], b"LIST"),
        ("ftp://h/a/b/", Options(), [*NEW[1:], b"TYPE A", b"EPSV"], b"NLST"),
    ],
)
def test_pipelining_sends_commands_after_login_in_one_write(
    greeting: bytes, url: str, options: Options, first: list[bytes], last: bytes
) -> None:
    script = Script(greeting=greeting, replies={b"FEAT": b"211 none\r\n"})
    player, outcome = play(url, script, options)
    assert isinstance(outcome, Outcome)
    sent = writes(player)
    assert sent[sent.index([b"PASS anonymous@"]) + 1] == first
    assert [each[0] for each in sent].index(last) == sent.index(first) + 1


def test_pipelined_directory_refused_on_new_connection_raises() -> None:
    script = Script(greeting=GREETING, replies={b"CWD a": b"550 no\r\n"})
    player, error = play("ftp://h/a/b/x", script, FACTS)
    assert isinstance(error, NotFound)
    assert writes(player)[-1] == [*NEW, b"TYPE I", b"SIZE x", b"MDTM x", b"EPSV"]


@pytest.mark.parametrize("url", ["ftp://h/x", "ftp://h/a/b/"])
def test_pipelined_epsv_refused_on_new_connection_falls_back_to_pasv(url: str) -> None:
    script = Script(greeting=GREETING, replies={b"EPSV": b"500 no\r\n", b"FEAT": b"500 no\r\n"})
    player, outcome = play(url, script, LISTED)
    assert isinstance(outcome, Outcome)
    assert [b"PASV"] in writes(player)


def test_listed_metadata_is_not_requested() -> None:
    told = Validators(size=5, modified=in_utc((b"2001", b"09", b"09", b"01", b"46", b"40")))
    assert writes(retrieve_second(Options(keep=True, want="file", listed=told))[0]) == [[b"RETR y", b"EPSV"]]


#: Partial requests, and the final reply of each.
PARTIAL = [
    (Options(keep=True, start=2), b"226 done\r\n"),
    (Options(keep=True, stop=3), b""),
    (Options(keep=True, held=Validators(size=9)), b"226 done\r\n"),
]


@pytest.mark.parametrize(("options", "late"), PARTIAL)
def test_pipelining_of_partial_request_ends_before_transfer(options: Options, late: bytes) -> None:
    player, _ = retrieve_second(options, Script(greeting=GREETING, late=late))
    assert writes(player)[0] == [b"SIZE y", b"MDTM y"][: 1 if options.held else 2]
    assert writes(player)[-1] == [b"RETR y", b"EPSV"][: 1 if options.stop else 2]


def test_pipelining_is_not_used_for_type_a() -> None:
    assert writes(retrieve_second(url="ftp://h/d/y;type=a")[0]) == [[b"TYPE A"], [b"RETR y", b"EPSV"]]


HOME = [b"CWD /home", b"PWD", b"CWD a", b"CWD b"]


@pytest.mark.parametrize(
    ("url", "options", "first"),
    [
        ("ftp://h/a/b/y", FACTS, [*HOME, b"SIZE y", b"MDTM y", b"RETR y", b"EPSV"]),
        ("ftp://h/a/b/y", Options(keep=True, start=2), [*HOME, b"SIZE y", b"MDTM y"]),
        ("ftp://h/a/b/y", Options(keep=True, want="facts"), [*HOME, b"SIZE y", b"MDTM y"]),
        ("ftp://h/a/b/y;type=a", Options(keep=True, want="facts"), [*HOME, b"SIZE y", b"MDTM y"]),
        ("ftp://h/a/b/y;type=a", FACTS, [*HOME, b"TYPE A"]),
        ("ftp://h/a/b/y;type=d", FACTS, HOME),
        ("ftp://h/a/b/", Options(keep=True), [*HOME, b"TYPE A", b"NLST", b"EPSV"]),
        ("ftp://h/a/b/", LISTED, [*HOME, b"TYPE A", b"PWD", b"FEAT"]),
        ("ftp://h/a/b/", Options(keep=True, mlsd=True), [*HOME, b"TYPE A", b"MLSD", b"EPSV"]),
        (
            "ftp://h/a/b/",
            Options(keep=True, mlsd=True, placed=True),
            [*HOME, b"TYPE A", b"PWD", b"MLSD", b"EPSV"],
        ),
    ],
)
def test_pipelining_sends_directory_change_and_its_followers_in_one_write(
    url: str, options: Options, first: list[bytes]
) -> None:
    script = Script(greeting=GREETING, replies={b"FEAT": b"211 none\r\n"})
    player, outcome = retrieve_second(options, script, url=url)
    assert isinstance(outcome, Outcome)
    assert writes(player)[0] == first
    assert writes(player)[-1][-1] == (b"MDTM y" if options.want == "facts" else b"EPSV")


@pytest.mark.parametrize(
    ("url", "options", "first"),
    [
        ("ftp://h/a/b/y", FACTS, [*HOME, b"SIZE y", b"MDTM y", b"EPSV"]),
        ("ftp://h/a/b/", Options(keep=True), [*HOME, b"TYPE A", b"EPSV"]),
        ("ftp://h/a/b/", Options(keep=True, mlsd=True, placed=True), [*HOME, b"TYPE A", b"PWD", b"EPSV"]),
        ("ftp://h/a/b/y", Options(keep=True, start=2), [*HOME, b"SIZE y", b"MDTM y"]),
    ],
)
def test_pipelining_requests_port_that_is_not_known(url: str, options: Options, first: list[bytes]) -> None:
    state = replace(state_after(), port=None)
    player, outcome = play(url, Script(greeting=GREETING), options, [state])
    assert isinstance(outcome, Outcome)
    assert writes(player)[0] == first


def test_pipelined_directory_refused_raises_and_sends_no_more() -> None:
    script = Script(greeting=GREETING, replies={b"CWD a": b"550 no\r\n"})
    player, error = retrieve_second(script=script, url="ftp://h/a/b/y")
    assert isinstance(error, NotFound)
    assert writes(player) == [[*HOME, b"SIZE y", b"MDTM y", b"RETR y", b"EPSV"]]
    assert player.body == b""


@pytest.mark.parametrize(
    "replies", [{b"CWD /home": b"550 no\r\n"}, {b"PWD": [b'257 "/other"\r\n', b'257 "/"\r\n']}]
)
def test_pipelined_return_that_fails_makes_a_new_connection(
    replies: dict[bytes, bytes | list[bytes]],
) -> None:
    server = Server(Script(greeting=GREETING, replies=replies), [state_after()])
    player = Retrieval(ftp("ftp://h/a/b/y"), server, FACTS)
    player.play(surplus=None)  # The replies to the other commands are left on the first connection.
    assert writes(player)[1] == [b"USER anonymous"]
    assert writes(player)[-1] == [b"RETR y", b"EPSV"]


def test_epsv_refused_after_transfer_falls_back_to_pasv_for_the_next() -> None:
    script = Script(greeting=GREETING, replies={b"EPSV": b"500 no more\r\n"})
    player, outcome = retrieve_second(script=script)
    assert writes(player) == [[b"SIZE y", b"MDTM y", b"RETR y", b"EPSV"]]
    assert isinstance(outcome, Outcome)
    assert outcome.state.port is None
    player, outcome = play("ftp://h/d/z", script, FACTS, [outcome.state])
    assert writes(player) == [[b"SIZE z", b"MDTM z", b"EPSV"], [b"PASV"], [b"RETR z"]]
    assert isinstance(outcome, Outcome)
    assert outcome.state.extended is False


@pytest.mark.parametrize("greeting", KNOWN_GREETINGS)
@pytest.mark.parametrize("reply", [b"", b"421 bye\r\n", b"229 none\r\n", b"229 (|||0|)\r\n", b"\0\r\n"])
def test_failure_of_epsv_after_transfer_only_prevents_reuse(greeting: bytes, reply: bytes) -> None:
    script = Script(greeting=greeting, replies={b"EPSV": reply})
    player, outcome = retrieve_second(script=script, greeting=greeting)
    assert isinstance(outcome, Outcome)
    assert outcome.verified == {"final-reply", "length"}
    assert (player.body, outcome.left) == (b"12345", None)


def test_known_port_unreachable_requests_another_port() -> None:
    state = replace(state_after(), port=40_009)
    script = Script(greeting=GREETING, unreachable=(40_009,))
    player, outcome = play("ftp://h/d/y", script, FACTS, [state])
    assert writes(player) == [[b"SIZE y", b"MDTM y", b"EPSV"], [b"RETR y", b"EPSV"]]
    assert [step.port for step in player.steps if isinstance(step, OpenData)] == [40_009, 40_001]
    assert isinstance(outcome, Outcome)


def test_pipelined_port_unreachable_falls_back_to_pasv() -> None:
    state = replace(state_after(), port=None)
    script = Script(greeting=GREETING, unreachable=(40_001,))
    player, outcome = play("ftp://h/d/y", script, FACTS, [state])
    assert writes(player) == [[b"SIZE y", b"MDTM y", b"EPSV"], [b"PASV"], [b"RETR y"]]
    assert [step.port for step in player.steps if isinstance(step, OpenData)] == [40_001, 40_002]
    assert isinstance(outcome, Outcome)


def test_listing_and_file_of_other_type_are_requested_with_type() -> None:
    script = Script(
        greeting=GREETING, replies={b"FEAT": b"211-\r\n MLSD\r\n211 \r\n"}, data=b"type=dir; a\r\n"
    )
    options = Options(keep=True, want="listing")
    _, first = retrieve_second(options, script, url="ftp://h/d/")
    assert isinstance(first, Outcome)
    player, listed = play("ftp://h/e/", script, options, [first.state])
    assert writes(player) == [[b"CWD /home", b"PWD", b"CWD e", b"MLSD", b"EPSV"]]
    assert isinstance(listed, Outcome)
    player, outcome = play("ftp://h/e/x", Script(greeting=GREETING), Options(keep=True), [listed.state])
    assert writes(player) == [[b"TYPE I", b"SIZE x", b"RETR x", b"EPSV"]]
    assert isinstance(outcome, Outcome)


@pytest.mark.parametrize("refused", [b"TYPE I", b"CWD d"])
def test_refused_command_before_transfer_discards_data(refused: bytes) -> None:
    state = replace(state_after(), type_code=b"A", cwds=(b"e",))
    script = Script(greeting=GREETING, replies={refused: b"550 no\r\n"})
    player, error = play("ftp://h/d/y", script, FACTS, [state])
    assert isinstance(error, NotFound)
    assert writes(player)[0][-2:] == [b"RETR y", b"EPSV"]
    assert player.body == b""


def test_refused_transfer_keeps_port_for_the_listing() -> None:
    script = Script(greeting=GREETING, replies={b"RETR": b"550 a directory\r\n"})
    player, outcome = retrieve_second(script=script)
    assert writes(player)[1:] == [[b"CWD y"], [b"TYPE A"], [b"NLST", b"EPSV"]]
    assert isinstance(outcome, Outcome)


def test_single_retrieval_does_not_request_another_port() -> None:
    player, _ = play("ftp://h/x", Script(greeting=GREETING))
    assert writes(player)[-2:] == [[b"TYPE I", b"SIZE x", b"EPSV"], [b"RETR x"]]


def test_pipelined_metadata_refused_still_retrieves() -> None:
    script = Script(greeting=GREETING, replies={b"SIZE": b"550 no\r\n", b"MDTM": b"502 no\r\n"})
    player, outcome = retrieve_second(script=script)
    assert isinstance(outcome, Outcome)
    assert (outcome.found.size, outcome.found.modified) == (None, None)
    assert [reply.code for reply in player.replies[-2:]] == [226, 229]


def test_pipelined_retr_refused_raises_not_found() -> None:
    no = b"550 no\r\n"
    script = Script(greeting=GREETING, replies={b"SIZE": no, b"MDTM": no, b"RETR": no, b"CWD y": no})
    assert isinstance(retrieve_second(script=script)[1], NotFound)


def test_silent_feat_on_pooled_connection_is_replaced_on_new_one() -> None:
    _, first = play("ftp://h/d/x", Script())
    assert isinstance(first, Outcome)
    script = Script(replies={b"FEAT": b""}, silent=True)
    player, outcome = play("ftp://h/d/", script, Options(want="listing"), kept=[first.state])
    assert isinstance(outcome, Outcome)
    assert player.commands[:3] == [b"TYPE A", b"FEAT", b"USER anonymous"]
    assert player.commands[-3:] == [b"TYPE A", b"PASV", b"LIST"]
    assert (outcome.state.extended, outcome.state.lists_facts) == (False, False)


def test_pipelining_on_closed_pooled_connection_reconnects() -> None:
    player, outcome = retrieve_second(script=Script(greeting=GREETING, left=True))
    assert isinstance(outcome, Outcome)
    assert writes(player)[:2] == [[b"SIZE y", b"MDTM y", b"RETR y", b"EPSV"], [b"USER anonymous"]]


def test_await_data_is_announced_for_known_server() -> None:
    waits = [step.announced for step in retrieve_second()[0].steps if isinstance(step, AwaitData)]
    assert waits == [True]
    waits = [
        step.announced
        for step in retrieve_second(greeting=b"220 ready\r\n")[0].steps
        if isinstance(step, AwaitData)
    ]
    assert waits == [False]


def test_pipelined_replies_have_the_limits_of_one_reply() -> None:
    script = Script(greeting=GREETING, replies={b"MDTM": b"213 " + b"0" * 100_000 + b"\r\n"})
    error = retrieve_second(script=script)[1]
    assert isinstance(error, LimitExceeded)
