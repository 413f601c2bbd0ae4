"""Tests of the commands sent for each FTP URL, through the dialogue and as a plan."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import pytest

from fixtures.ftp_urls import ASKED, ROWS, Row
from protocols.contract import ArchivedObject
from protocols.conversation.rehearsal import rehearse
from protocols.ftp.dialogue import FtpReplayServer, retrieve
from protocols.step import Connect, PlanNote, RequestPeer, Send
from resolver import (
    Changed,
    Credentials,
    FtpUrl,
    InvalidUrl,
    Kind,
    NotFound,
    Options,
    Refused,
    ResolveError,
    TryLater,
    Validators,
    parse,
)
from tests.protocols.ftp.script import Outcome, Script, play
from tests.protocols.typed_url import parse_as

IDS = [row.number for row in ROWS]


def script_for(row: Row) -> Script:
    user = row.login[0].removeprefix(b"USER ")
    script = Script(credentials=Credentials(user, ASKED) if ASKED in row.login[1] else None)
    if row.directory is not None:
        script.replies = {
            b"SIZE " + row.directory: b"550 not a plain file\r\n",
            b"RETR " + row.directory: b"550 not a plain file\r\n",
        }
    return script


def test_url_table_has_48_rows() -> None:
    assert {int(row.number.split()[0]) for row in ROWS} == set(range(1, 49))


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_retrieve_sends_commands_of_the_table(row: Row) -> None:
    if row.number.startswith("48"):
        with pytest.raises(InvalidUrl, match="bad-escape"):
            parse(row.url)
        return
    player, outcome = play(row.url, script_for(row))
    assert player.commands == row.sent
    if row.error is None:
        assert isinstance(outcome, Outcome)
        listed = player.commands[-1].startswith(b"NLST")
        assert outcome.found.kind is (Kind.DIRECTORY if listed else Kind.DOCUMENT)
        assert player.body == b"12345"
    else:
        assert type(outcome).__name__ == row.error
    if not row.commands:
        assert player.events == []


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_strict_parse_matches_the_table(row: Row) -> None:
    accepted = row.strict and not row.number.startswith("48")
    try:
        parse(row.url, strict=True)
    except InvalidUrl:
        assert not accepted
    else:
        assert accepted


@pytest.mark.parametrize(
    "row",
    [row for row in ROWS if row.commands and row.directory is None],
    ids=lambda row: row.number,
)
def test_plan_matches_commands_sent(row: Row) -> None:
    url = parse_as(FtpUrl, row.url)
    said = [line for step in rehearse(retrieve(url)) if isinstance(step, Send) for line in step.lines]
    shown = [line.shown.removesuffix(b"\r\n") for line in said]
    if url.user is None:
        assert shown == row.sent
    else:
        assert shown == [row.sent[0], b"PASS " if url.password == b"" else b"PASS ****", *row.sent[2:]]


def test_plan_of_unsendable_url_is_a_note() -> None:
    url = parse_as(FtpUrl, "ftp://h/pub/;type=i")
    (step,) = rehearse(retrieve(url))
    assert isinstance(step, PlanNote)
    assert "nothing is sent" in step.text


def test_plan_notes_alternative_branches() -> None:
    url = parse_as(FtpUrl, "ftp://h/pub")
    notes = " ".join(
        step.text for step in rehearse(retrieve(url)) if isinstance(step, (PlanNote, RequestPeer))
    )
    assert "PASV" in notes
    assert "550" in notes
    assert "shown as 0" in notes


def test_retr_and_cwd_refused_raises_first_refusal() -> None:
    script = Script(replies={b"RETR": b"550 no such file\r\n", b"CWD": b"550 no such directory\r\n"})
    player, error = play("ftp://h/x", script)
    assert isinstance(error, NotFound)
    assert (error.code, error.text) == ("550", "no such file")
    assert player.commands[-2:] == [b"RETR x", b"CWD x"]


@pytest.mark.parametrize(
    ("refusal", "code"),
    [(b"450 busy\r\n", "450"), (b"553 not this name\r\n", "553"), (b"150 here\r\n550 no\r\n", "550")],
)
def test_retr_refused_otherwise_does_not_try_cwd(refusal: bytes, code: str) -> None:
    player, error = play("ftp://h/x", Script(replies={b"RETR": refusal}, data=b""))
    assert isinstance(error, ResolveError)
    assert getattr(error, "code", None) == code
    assert player.commands[-1] == b"RETR x"


def test_size_refused_still_retrieves() -> None:
    for refusal in (b"500 what\r\n", b"502 no\r\n", b"550 not here\r\n"):
        player, outcome = play("ftp://h/x", Script(replies={b"SIZE": refusal}))
        assert isinstance(outcome, Outcome)
        assert outcome.found.size is None
        assert player.commands[-1] == b"RETR x"


def test_empty_segment_refused_suggests_escaped_slash() -> None:
    player, error = play("ftp://h//etc/motd", Script(replies={b"CWD ": b"550 no\r\n"}))
    assert isinstance(error, NotFound)
    assert "%2F" in error.message
    assert player.commands[-1] == b"CWD "


@pytest.mark.parametrize("at", [b"USER", b"PASS", b"CWD", b"TYPE", b"SIZE", b"EPSV", b"RETR"])
def test_421_is_retried_once_on_new_connection(at: bytes) -> None:
    willing = {b"EPSV": b"229 ok (|||40001|)\r\n", b"SIZE": b"213 5\r\n", b"RETR": b"150 ok\r\n"}
    again = {b"USER": b"331 ok\r\n", b"PASS": b"230 ok\r\n", b"CWD": b"250 ok\r\n", b"TYPE": b"200 ok\r\n"}
    player, outcome = play("ftp://h/d/x", Script(replies={at: [b"421 bye\r\n", (willing | again)[at]]}))
    assert isinstance(outcome, Outcome)
    assert sum(isinstance(event, Connect) for event in player.events) == 2
    assert player.commands.count(b"USER anonymous") == 2

    player, error = play("ftp://h/d/x", Script(replies={at: b"421 bye\r\n"}))
    assert isinstance(error, TryLater)
    assert error.code == "421"
    assert sum(isinstance(event, Connect) for event in player.events) == 2


def test_421_as_greeting_is_not_retried() -> None:
    player, error = play("ftp://h/x", Script(greeting=b"421 too many\r\n"))
    assert isinstance(error, TryLater)
    assert player.commands == []
    assert sum(isinstance(event, Connect) for event in player.events) == 1


def test_421_unsolicited_is_the_reply_to_next_command() -> None:
    player, error = play("ftp://h/x", Script(greeting=b"220 ready\r\n421 idle too long\r\n"))
    assert isinstance(error, TryLater)
    assert player.commands == [b"USER anonymous", b"USER anonymous"]


@pytest.mark.parametrize("url", ["ftp://h/" + "x" * 4001, "ftp://u:" + "p" * 4001 + "@h/x"])
def test_argument_too_long_is_refused_before_connect(url: str) -> None:
    player, error = play(url)
    assert isinstance(error, Refused)
    assert error.rule == "S02"
    assert player.events == []
    play("ftp://h/" + "x" * 4000)


RESUME = [
    ("held less", 3, {}, [b"SIZE x", b"MDTM x", b"EPSV", b"REST 3", b"RETR x"], 3),
    ("held all", 5, {}, [b"SIZE x", b"MDTM x", b"EPSV", b"REST 5", b"RETR x"], 5),
    ("held more: never ask", 6, {}, [b"SIZE x", b"MDTM x", b"EPSV", b"RETR x"], 0),
    ("size unknown", 3, {b"SIZE": b"500 no\r\n"}, [b"SIZE x", b"MDTM x", b"EPSV", b"RETR x"], 0),
    ("REST refused", 3, {b"REST": b"501 no\r\n"}, [b"SIZE x", b"MDTM x", b"EPSV", b"REST 3", b"RETR x"], 0),
    (
        "REST refused late",
        3,
        {b"RETR": [b"451 no\r\n", b"150 here it comes\r\n"]},
        [b"SIZE x", b"MDTM x", b"EPSV", b"REST 3", b"RETR x", b"EPSV", b"RETR x"],
        0,
    ),
]


@pytest.mark.parametrize(("why", "held", "replies", "sent", "start"), RESUME, ids=[row[0] for row in RESUME])
def test_start_sends_rest_if_size_allows(
    why: str, held: int, replies: dict[bytes, bytes | list[bytes]], sent: list[bytes], start: int
) -> None:
    script = Script(replies=replies, data=b"12345"[start:])
    player, outcome = play("ftp://h/x;type=i", script, Options(start=held))
    assert isinstance(outcome, Outcome), outcome
    assert player.commands[3:] == sent
    assert outcome.found.start == start
    assert outcome.found.modified is not None


def test_start_refused_for_lack_of_data_port_is_not_requested_again() -> None:
    player, outcome = play("ftp://h/x;type=i", Script(replies={b"RETR": b"425 no\r\n"}), Options(start=3))
    assert isinstance(outcome, TryLater)
    assert player.commands[-2:] == [b"REST 3", b"RETR x"]


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, -1), (3, 3), (3, 2), (3, 6)])
def test_range_without_bytes_of_the_file_requests_complete_file(start: int, stop: int) -> None:
    player, outcome = play("ftp://h/x;type=i", Script(data=b"12345"), Options(start=start, stop=stop))
    assert isinstance(outcome, Outcome), outcome
    assert player.commands[3:] == [b"SIZE x", b"MDTM x", b"EPSV", b"RETR x"]
    assert (outcome.found.start, outcome.found.stop) == (0, None)


def test_start_is_ignored_for_type_a() -> None:
    player, outcome = play("ftp://h/x;type=a", options=Options(start=3))
    assert isinstance(outcome, Outcome)
    assert player.commands[2:] == [b"TYPE A", b"EPSV", b"RETR x"]


def test_first_command_on_closed_pooled_connection_reconnects() -> None:
    _, outcome = play("ftp://h/d/x")
    assert isinstance(outcome, Outcome)
    player, again = play("ftp://h/d/y", Script(left=True), kept=[outcome.state])
    assert isinstance(again, Outcome)
    assert player.commands[:2] == [b"SIZE y", b"USER anonymous"]


KEEP = Options(keep=True)
FROM_HOME = [b"CWD /home", b"PWD", b"CWD d"]


@pytest.mark.parametrize("want", ["content", "facts"])
def test_missing_name_on_pooled_connection_is_requested_from_home(want: Literal["content", "facts"]) -> None:
    """The working directory may be a directory that was removed and created again."""
    _, outcome = play("ftp://h/d/x", options=KEEP)
    assert isinstance(outcome, Outcome)
    no = [b"550 no\r\n", b"213 5\r\n"]
    replies: dict[bytes, bytes | list[bytes]] = {
        b"SIZE": no,
        b"MDTM": no,
        b"RETR": [no[0], b"150 ok\r\n"],
        b"CWD y": no[0],
    }
    player, again = play("ftp://h/d/y", Script(replies=replies), Options(want=want), kept=[outcome.state])
    assert isinstance(again, Outcome), again
    assert (again.found.kind, again.found.size) == (Kind.DOCUMENT, 5)
    first = [b"SIZE y", b"MDTM y"] if want == "facts" else [b"SIZE y", b"EPSV", b"RETR y"]
    assert player.commands[: len(first) + 4] == [*first, b"CWD y", *FROM_HOME]


def test_missing_name_on_pooled_connection_is_requested_twice_at_most() -> None:
    _, outcome = play("ftp://h/d/x", options=KEEP)
    assert isinstance(outcome, Outcome)
    no = b"550 no\r\n"
    script = Script(replies={b"SIZE": no, b"RETR": no, b"CWD y": no})
    player, error = play("ftp://h/d/y", script, kept=[outcome.state])
    assert isinstance(error, NotFound)
    assert [line for line in player.commands if line[:4] == b"RETR"] == [b"RETR y"] * 2


@pytest.mark.parametrize("data", [b"", b"a\r\n"])
def test_empty_listing_on_pooled_connection_is_requested_from_home(data: bytes) -> None:
    _, outcome = play("ftp://h/d/", options=KEEP)
    assert isinstance(outcome, Outcome)
    player, again = play("ftp://h/d/", Script(data=[b"", data]), kept=[outcome.state])
    assert isinstance(again, Outcome), again
    assert player.commands == [b"EPSV", b"NLST", *FROM_HOME, b"EPSV", b"NLST"]


TIME = datetime(2026, 11, 22, tzinfo=UTC)
LISTED = [
    ("both", Validators(5, TIME), 0, [b"EPSV", b"RETR x"]),
    ("no time, as by LIST", Validators(5), 0, [b"MDTM x", b"EPSV", b"RETR x"]),
    ("nothing", Validators(), 0, [b"SIZE x", b"MDTM x", b"EPSV", b"RETR x"]),
    ("fewer than come", Validators(4, TIME), 0, [b"EPSV", b"RETR x"]),
    ("some is held", Validators(5, TIME), 3, [b"SIZE x", b"MDTM x", b"EPSV", b"REST 3", b"RETR x"]),
]


@pytest.mark.parametrize(("why", "listed", "held", "sent"), LISTED, ids=[row[0] for row in LISTED])
def test_listed_metadata_is_requested_only_if_missing(
    why: str, listed: Validators, held: int, sent: list[bytes]
) -> None:
    """If some bytes are already held, the listing may be outdated, and the held bytes with it."""
    options = Options(want="file", listed=listed, start=held)
    player, outcome = play("ftp://h/x;type=i", Script(data=b"12345"[held:]), options)
    assert isinstance(outcome, Outcome), outcome
    assert player.commands[3:] == sent
    if listed.modified and not held:
        assert (outcome.found.size, outcome.found.modified) == (listed.size, TIME)


@pytest.mark.parametrize("data", [b"1234", b""])
def test_fewer_bytes_than_listed_raises_changed(data: bytes) -> None:
    """The cause may also be a server with inexact listings, which RFC 3659 7.5.7 permits."""
    options = Options(want="file", listed=Validators(5, TIME))
    _, error = play("ftp://h/x;type=i", Script(data=data), options)
    assert isinstance(error, Changed)
    assert error.retryable


# Metadata only, from servers that do not support every command.

SIZED = b"213 5\r\n"
TIMED = b"213 20010909014640\r\n"
NO, UNKNOWN = b"550 no\r\n", b"500 what\r\n"
DESCRIPTION_ASKED = [b"TYPE I", b"SIZE x", b"MDTM x"]

#: The replies to SIZE, MDTM and CWD, and the result: kind, size, and whether it has a time.
CASES: list[tuple[str, tuple[bytes, bytes, bytes], str, Kind | type[ResolveError], int | None, bool]] = [
    ("a file", (SIZED, TIMED, NO), "", Kind.DOCUMENT, 5, True),
    ("a size alone", (SIZED, UNKNOWN, NO), "", Kind.DOCUMENT, 5, False),
    ("no sense in the size", (b"213 five\r\n", NO, NO), "", Kind.DOCUMENT, None, False),
    ("no SIZE", (UNKNOWN, TIMED, NO), "", Kind.DOCUMENT, None, True),
    ("neither", (UNKNOWN, UNKNOWN, NO), "", Kind.UNKNOWN, None, False),
    ("a directory", (NO, NO, b"250 ok\r\n"), "", Kind.DIRECTORY, None, False),
    ("a directory with a time", (NO, TIMED, b"250 ok\r\n"), "", Kind.DIRECTORY, None, True),
    ("a file, it is said", (NO, TIMED, b"250 ok\r\n"), ";type=i", Kind.DOCUMENT, None, True),
    ("a text: who knows how long", (SIZED, TIMED, NO), ";type=a", Kind.DOCUMENT, None, True),
    ("nothing", (NO, NO, NO), "", NotFound, None, False),
    ("busy", (b"450 busy\r\n", NO, NO), "", TryLater, None, False),
]


@pytest.mark.parametrize(
    ("why", "answers", "typecode", "kind", "size", "timed"), CASES, ids=[row[0] for row in CASES]
)
def test_want_facts_combines_size_mdtm_and_cwd(
    why: str,
    answers: tuple[bytes, bytes, bytes],
    typecode: str,
    kind: Kind | type[ResolveError],
    size: int | None,
    timed: bool,
) -> None:
    replies: dict[bytes, bytes | list[bytes]] = dict(zip((b"SIZE", b"MDTM", b"CWD"), answers, strict=True))
    player, outcome = play(f"ftp://h/x{typecode}", Script(replies=replies), Options(want="facts"))
    told = not answers[0].startswith(b"213") and not typecode
    assert player.commands[2:] == ([*DESCRIPTION_ASKED, b"CWD x"] if told else DESCRIPTION_ASKED)
    if isinstance(outcome, Outcome):
        found = outcome.found
        assert (found.kind, found.size, found.modified is not None) == (kind, size, timed)
    else:
        assert type(outcome) is kind


def test_replay_server_sends_year_with_four_digits() -> None:
    kept = ArchivedObject("text/plain", (), None, datetime(5, 9, 9, 1, 46, 40, tzinfo=UTC), lambda: iter(()))
    assert [*FtpReplayServer(kept).answer(b"MDTM x\r\n")] == [b"213 00050909014640\r\n"]
