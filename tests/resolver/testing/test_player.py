"""The player fails a test for steps that do not fit its script, and performs the others as a gate does."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from protocols.contract import Reply
from protocols.ftp.reply import ControlReply, read_reply
from protocols.news.session import NntpState
from protocols.step import (
    AwaitData,
    CloseData,
    Connect,
    CopyBody,
    DataExpectation,
    Dialogue,
    EmitBody,
    EndResponse,
    JoinPipeline,
    OpenData,
    OpenFile,
    ParseBuffered,
    Peek,
    Receive,
    Send,
    StartBody,
    StartTls,
)
from protocols.wire import Buffer, count_waiting, encode_line, read_line
from resolver import Disconnected, Kind, Limits, ProtocolError, TimedOut, Truncated
from resolver.testing import (
    DialogueTranscript,
    OctetScript,
    Player,
    ScriptedPeer,
    TranscriptOutcome,
    TranscriptScript,
    ValueScript,
    parse_transcript,
    recite,
)
from resolver.testing.transcript import Connection, End

# `Player[None]` is written out, because mypy takes 0.1 s to infer it from the union of steps.
HERE = Path(__file__).parents[2] / "protocols"
LINE = Receive(read_line(80), "a line", b"")


def begin() -> StartBody:
    return StartBody(Reply(kind=Kind.DOCUMENT))


def say(word: bytes) -> Send:
    return Send((encode_line(word),))


def dialogue(*steps: object) -> Dialogue[None]:
    """Yield these steps, and a `StartBody` if they contain none."""
    left = list(steps)
    while left:
        yield left.pop(0)  # type: ignore[misc]
    if not any(isinstance(step, StartBody) for step in steps):
        yield begin()


def recital(lines: str) -> TranscriptScript:
    return TranscriptScript(parse_transcript(f"# here\nU: ftp://h/\n{lines}\n", "here"))


def ended(end: End) -> TranscriptScript:
    """Return a script of one connection without any bytes."""
    return TranscriptScript(
        DialogueTranscript("here", "here", "ftp://h/", (Connection((), end),), TranscriptOutcome())
    )


ASKED = "C: a\\r\\n\nS: b\\r\\n\nE: close"

MISFITS: dict[str, tuple[tuple[object, ...], str, str]] = {
    "another word": ((Connect(), say(b"x")), ASKED, "b'x.*expected b'a"),
    "too many words": ((Connect(), say(b"a"), LINE, say(b"x")), ASKED, "unexpected bytes b'x"),
    "words in place of listening": (
        (Connect(), say(b"a"), say(b"b")),
        "C: a\\r\\n\nS: s\\r\\n\nC: b\\r\\n\nE: left",
        "b'b.*server.*b's",
    ),
    "words before the server's": (
        (Connect(), say(b"a")),
        "S: s\\r\\n\nC: a\\r\\n\nE: left",
        "b'a.*server.*b's",
    ),
    "listening in place of words": ((Connect(), LINE), ASKED, "waiting for bytes.*b'a"),
    "listening for ever": (
        (Connect(), say(b"a"), LINE, LINE),
        ASKED.replace("close", "left"),
        "never come",
    ),
    "one connection too many": ((Connect(), say(b"a"), LINE, Connect()), ASKED, "unexpected connection"),
    "no connection": ((), ASKED, "1 connections"),
    "one connection too few": ((Connect(), say(b"a"), LINE), f"{ASKED}\n{ASKED}", "1 connections"),
    "words left": ((Connect(),), ASKED, r"never sent: b'a\\r\\n'"),
    "half a word": (
        (Connect(), say(b"a")),
        "C: a\\r\\nb\\r\\n\nE: left",
        r"never sent: b'b\\r\\n'",
    ),
    "words left on a first one": (
        (Connect(), Connect(), say(b"a"), LINE),
        f"{ASKED}\n{ASKED}",
        "never sent",
    ),
    "an answer left": ((Connect(), say(b"a")), ASKED, r"never read: b'b\\r\\n'"),
    "half an answer left": (
        (Connect(), say(b"a"), LINE),
        "C: a\\r\\n\nS: b\\nmore\nE: close",
        "never read: b'more'",
    ),
    "an answer left on a first one": (
        (Connect(), say(b"a"), Connect(), say(b"a"), LINE),
        f"{ASKED}\n{ASKED}",
        "never read",
    ),
    "data left": (
        (Connect(), say(b"a"), LINE),
        "C: a\\r\\n\nD: octets\nS: b\\r\\n\nE: close",
        "never read: b'octets'",
    ),
    "two beginnings": ((begin(), begin()), "", "start only once"),
    "a body before its beginning": ((EmitBody(b"x"), begin()), "", "before"),
    "a step for others": ((OpenFile((), None),), "", "OpenFile"),  # type: ignore[arg-type]
    "another port for data": ((Connect(), OpenData(21)), "S: x\nE: left", "port 21, expected 40001"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_player_fails_when_steps_do_not_fit_transcript(name: str) -> None:
    steps, lines, words = MISFITS[name]
    with pytest.raises(AssertionError, match=words):
        Player[None](dialogue(*steps), recital(lines)).play()


def test_player_fails_for_unsent_lines_despite_an_error() -> None:
    def failing() -> Dialogue[None]:
        yield Connect()
        raise ProtocolError("no")

    with pytest.raises(AssertionError, match="never sent"):
        Player[None](failing(), recital(ASKED)).play()
    with pytest.raises(AssertionError, match="not opened"):
        Player[None](failing(), recital(f"S: x\\n\nE: left\n{ASKED}")).play()
    with pytest.raises(ProtocolError):  # the server's later bytes are unknown
        Player[None](failing(), recital("S: b\\r\\n\nE: left")).play()


def test_player_fails_without_start_body() -> None:
    def nothing() -> Dialogue[None]:
        yield Connect()

    with pytest.raises(AssertionError, match="no body"):
        Player[None](nothing(), OctetScript(b"")).play()


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((Connect(),), "Connect"),
        ((say(b"a"),), "unexpected bytes b'a"),
        ((LINE,), "never come"),
        ((OpenData(40001),), "data connection.*40001"),
    ],
)
def test_player_fails_for_step_without_scripted_answer(steps: tuple[object, ...], words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        Player[None](dialogue(*steps), ScriptedPeer()).play()


def test_octet_script_fails_for_wrong_number_of_connections() -> None:
    with pytest.raises(AssertionError, match="unexpected connection"):
        Player[None](dialogue(Connect(), Connect()), OctetScript(b"")).play()
    with pytest.raises(AssertionError, match="not opened"):
        Player[None](dialogue(Connect()), OctetScript(b"", b"")).play()
    with pytest.raises(AssertionError, match="never read"):
        Player[None](dialogue(Connect()), OctetScript(b"x")).play()
    Player[None](dialogue(Connect()), OctetScript(b"x")).play(surplus=b"x")
    with pytest.raises(AssertionError, match="never read"):
        Player[None](dialogue(Connect()), OctetScript(b"xy")).play(surplus=b"x")


# Steps that the player performs.


def test_player_records_steps_lines_and_values() -> None:
    player = Player[None](dialogue(Connect(), say(b"a"), LINE), recital(ASKED))
    player.play()
    assert [type(step) for step in player.steps] == [Connect, Send, Receive, StartBody]
    assert (player.sent, player.heard, player.body, player.over) == ([b"a\r\n"], [b"b"], b"", True)


def test_player_advance_stops_at_requested_step() -> None:
    player = Player[None](dialogue(Connect(), say(b"a"), LINE, begin(), EmitBody(b"x")), recital(ASKED))
    assert player.advance(Send) == say(b"a")
    assert player.sent == []
    assert isinstance(player.advance(StartBody, EmitBody), StartBody)
    assert (player.sent, player.begun) == ([b"a\r\n"], None)
    player.play()
    assert player.body == b"x"


def test_player_refuses_plain_text_before_tls() -> None:
    with pytest.raises(ProtocolError, match="unencrypted"):
        Player[None](dialogue(Connect(), LINE, StartTls()), OctetScript(b"a\nsmuggled\n")).play()


BODY = "C: a\\r\\n\nS: 12345"


@pytest.mark.parametrize(
    ("end", "step", "body", "error"),
    [
        ("close", CopyBody("all"), b"12345", None),
        ("close", CopyBody("counted", 5), b"12345", None),
        ("left", CopyBody("counted", 5), b"12345", None),
        ("close", CopyBody("counted", 6), b"12345", Truncated),
        ("reset", CopyBody("all"), b"12345", Truncated),
        ("quiet", CopyBody("all"), b"12345", TimedOut),
    ],
)
def test_player_copies_body_up_to_the_end_or_error(
    end: str, step: CopyBody, body: bytes, error: type[Exception] | None
) -> None:
    player = Player[None](dialogue(Connect(), say(b"a"), begin(), step), recital(f"{BODY}\nE: {end}"))
    if error is None:
        player.play()
    else:
        with pytest.raises(error):
            player.play()
    assert player.body == body


@pytest.mark.parametrize("count", [None, 5])
def test_player_end_before_first_byte_is_disconnected(count: int | None) -> None:
    steps = (Connect(), begin(), CopyBody("a body", count))
    with pytest.raises(Disconnected):
        Player[None](dialogue(*steps), ended("reset" if count is None else "close")).play()


def all_there_is(buffer: Buffer) -> Generator[None, None, int]:
    """Wait for the end without taking any bytes; return the number of buffered bytes."""
    while not buffer.is_all:
        yield
    return len(buffer)


def test_player_peek_does_not_raise_a_later_reset() -> None:
    """A reader that only peeks does not meet the error."""
    steps = (Connect(), Peek(all_there_is, 0), begin())
    Player[None](dialogue(*steps), recital("S: 123\nE: reset")).play(surplus=b"123")
    player = Player[None](dialogue(*steps, CopyBody("all")), recital("S: 123\nE: reset"))
    with pytest.raises(Truncated) as caught:
        player.play()
    assert (caught.value.received, player.body, player.heard) == (3, b"123", [3])


def test_player_parse_buffered_does_not_wait() -> None:
    player = Player[None](
        dialogue(Connect(), LINE, ParseBuffered(count_waiting), begin()), OctetScript([b"a\nb"])
    )
    player.play(surplus=b"b")
    empty = Player[None](dialogue(Connect(), ParseBuffered(read_line(9))), OctetScript([b"a"]))
    empty.play(surplus=b"a")


REPLY = read_reply(Limits())


def data_first(values: object) -> DataExpectation:
    return DataExpectation.MORE


AWAIT = AwaitData(REPLY, "the first reply, or data", ControlReply(150), data_first)


def test_player_receives_data_alongside_replies() -> None:
    steps = (
        Connect(),
        OpenData(40001),
        say(b"a"),
        AWAIT,
        begin(),
        CopyBody("data", source="data"),
        CloseData(),
    )
    lines = "C: a\\r\\n\nS: 150 now\\r\\n\nD: 12\nD: 345\nZ: close\nS: 226 done\\r\\n\nE: left"
    player = Player[None](
        dialogue(*steps, Receive(REPLY, "the last reply", ControlReply(226))), recital(lines)
    )
    player.play()
    assert player.body == b"12345"
    assert [type(value) for value in player.heard] == [ControlReply, ControlReply]


def test_player_holds_last_reply_until_data_is_closed() -> None:
    steps = (Connect(), OpenData(40001), say(b"a"), AWAIT, begin(), CopyBody("data", source="data"))
    lines = "C: a\\r\\n\nD: 12\nZ: close\nS: 226 done\\r\\n\nE: left"
    with pytest.raises(AssertionError, match="data connection"):
        Player[None](
            dialogue(*steps, Receive(REPLY, "the last reply", ControlReply(226))), recital(lines)
        ).play()


def test_player_expects_farewell_of_an_idle_pipeline() -> None:
    join = JoinPipeline("key", NntpState(Limits(), greeted=True))
    assert Player[None](dialogue(join, EndResponse()), recital("C: QUIT\\r\\n\nE: left")).play()
    with pytest.raises(AssertionError, match=r"never.*b'QUIT"):
        Player[None](dialogue(join), recital("C: QUIT\\r\\n\nE: left")).play()


def test_value_script_uses_expected_reply_by_default() -> None:
    ideal = Receive(read_line(80), "a line", b"ideal")
    other = Receive(read_line(80), "another", b"")
    player = Player[None](
        dialogue(Connect(), ideal, other), ValueScript(lambda step: b"x" if step is other else None)
    )
    player.play()
    assert player.heard == [b"ideal", b"x"]


def test_recite_outcome_includes_error() -> None:
    transcript = parse_transcript(f"# here\nU: http://h/\n{BODY}\nE: reset\n", "here")
    outcome = recite(dialogue(Connect(), say(b"a"), begin(), CopyBody("all")), transcript)
    assert (outcome.kind, outcome.body, outcome.error) == ("document", b"12345", "Truncated")


def test_dialogues_are_driven_only_by_the_player() -> None:
    """No test may send answers into a generator of steps itself: that would be another player."""
    driving = re.compile(r"(?<!await )\b(\w+)\.(?:send\((?:answer|None|step|held|used)|throw\()")
    found = {
        f"{path.relative_to(HERE)}: {match[0]}"
        for path in HERE.rglob("*.py")
        for match in driving.finditer(path.read_text(encoding="utf-8"))
        if path.name not in ("player.py", Path(__file__).name) and match[1] != "coroutine"
    }
    assert found == set()
