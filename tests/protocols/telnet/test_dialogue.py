"""Session transcripts (prompts, typed text, completeness), announced telnet URLs, and START_TLS."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import pytest
import trio

import resolver
from protocols.contract import JsonValue
from protocols.step import Receive, RequestEnd, Send, StartTimer, StartTls, Step, TimerElapsed
from protocols.telnet.dialogue import converse
from resolver import (
    Disconnected,
    Kind,
    LimitExceeded,
    Limits,
    NotConfigured,
    Options,
    Refused,
    TelnetUrl,
    TimedOut,
    TlsError,
    Transcript,
    Truncated,
    parse,
    prompt,
)
from resolver.testing import UNSCRIPTED, OctetScript, PeerOutput, Player

URL = parse("telnet://guest:secret@127.0.0.1/")
ASKED = b"\xff\xfb\x01\xff\xfd\x18"
LOGIN = [ASKED + b"Welcome\r", b"\nlogin: ", b"guest\r\n\xff\xfa\x18\x01\xff\xf0$ ", b"date\r\nMon\r\n$ "]


class Ending(OctetScript):
    """A peer that sends its chunks and then ends with the given event."""

    def __init__(self, *pieces: bytes, end: PeerOutput | TimerElapsed, proved: bool | None = None) -> None:
        super().__init__(pieces)
        self._last = end
        self._proved = proved

    def answer(self, step: Step) -> object:
        if isinstance(step, RequestEnd):
            return self._proved
        if isinstance(step, Receive) and not self._blocks and isinstance(self._last, TimerElapsed):
            raise self._last
        return UNSCRIPTED

    def speak(self) -> PeerOutput:
        if self._blocks or isinstance(self._last, TimerElapsed):
            return super().speak()
        return self._last


def player(wanted: Transcript, peer: OctetScript, limits: Limits | None = None) -> Player[None]:
    assert isinstance(URL, TelnetUrl)
    return Player(converse(URL, Options(transcript=wanted), limits), peer)


def asked(pattern: bytes, *send: bytes, seconds: float | None = None) -> Transcript:
    return Transcript(prompt=prompt(pattern), send=send, seconds=seconds)


def test_texts_are_sent_after_prompts() -> None:
    played = player(asked(rb"(login: |\$ )", b"guest", b"date"), OctetScript(LOGIN))
    reply = played.play()
    assert played.body == b"Welcome\nlogin: guest\n$ date\nMon\n$ "
    assert played.sent == [b"\xff\xfd\x01\xff\xfb\x18", b"guest\r\n", b"\xff\xfa\x18\0dumb\xff\xf0date\r\n"]
    assert reply.verified == {"terminator"}
    assert b"secret" not in b"".join(played.sent)


def test_typed_text_is_masked() -> None:
    played = player(asked(b"login: ", b"hunter2"), OctetScript([b"login: ", b"login: "]))
    played.play()
    assert played.shown == [b"****\r\n"]


def test_prompts_in_one_chunk_release_texts() -> None:
    played = player(asked(b"> ", b"a", b"b"), OctetScript([b"> > ", b"> "]))
    played.play()
    assert played.sent == [b"a\r\nb\r\n"]


def test_texts_without_prompt_follow_first_output() -> None:
    played = player(Transcript(send=(b"a", b"b")), OctetScript([ASKED, b"hello\r\n", b"bye\r\n"]))
    assert played.play().verified == set()
    assert (played.body, played.sent[1:]) == (b"hello\nbye\n", [b"a\r\nb\r\n"])


def test_transcript_without_prompt_ends_with_timer() -> None:
    played = player(Transcript(seconds=3), Ending(b"hello", end=TimerElapsed("3 s are over")))
    played.play()
    assert played.body == b"hello"
    assert StartTimer(3) in played.steps


@pytest.mark.parametrize(
    ("wanted", "end", "error"),
    [
        (asked(b"> ", seconds=3), TimerElapsed("3 s are over"), TimedOut),
        (asked(b"> "), PeerOutput(), Truncated),
        (asked(b"> "), PeerOutput(broken=Disconnected("reset")), Truncated),
        (Transcript(), PeerOutput(broken=Disconnected("reset")), Truncated),
    ],
)
def test_missing_prompt_or_broken_end_raises(
    wanted: Transcript, end: PeerOutput | TimerElapsed, error: type[Exception]
) -> None:
    played = player(wanted, Ending(b"hello", end=end))
    with pytest.raises(error):
        played.play()
    assert played.body == b"hello"


@pytest.mark.parametrize("cut", [b"\xff", b"\xff\xfd", b"\xff\xfa\x18\x01"])
def test_end_within_command_is_truncated(cut: bytes) -> None:
    with pytest.raises(Truncated, match="command"):
        player(Transcript(), OctetScript([b"hello" + cut])).play()


@pytest.mark.parametrize(("proved", "verified"), [(None, set()), (True, {"close-notify"})])
def test_tls_close_notify_verifies_end(proved: bool | None, verified: set[str]) -> None:
    assert player(Transcript(), Ending(b"hello", end=PeerOutput(), proved=proved)).play().verified == verified


def test_tls_end_without_close_notify_is_truncated() -> None:
    with pytest.raises(Truncated, match="close_notify") as error:
        player(Transcript(), Ending(b"hello", end=PeerOutput(), proved=False)).play()
    assert error.value.received == 5


def reported_events(
    wanted: Transcript, peer: OctetScript, limits: Limits | None = None
) -> list[dict[str, JsonValue]]:
    """Return the reported events, whether the exchange succeeds or fails."""
    events: list[dict[str, JsonValue]] = []
    with suppress(resolver.ResolveError):
        player(replace(wanted, tell=events.append), peer, limits).play()
    return events


def test_session_events_are_reported() -> None:
    said = [ASKED + b"\xff\xf9caf\xe9\r\n> ", b"\xff\x01\xff\xfc\x01ok\xff\xf1> "]
    events = reported_events(asked(b"> ", b"hunter2"), OctetScript(said))
    assert "IAC 01" in str(events[5].pop("detail"))
    assert events == [
        {"event": "option", "option": "ECHO", "side": "server", "on": True},
        {"event": "option", "option": "TERMINAL-TYPE", "side": "client", "on": True},
        {"event": "command", "name": "GA"},
        {"event": "data", "octets": "caf\xe9\r\n> "},
        {"event": "sent", "count": 1},
        {"event": "finding", "rule": "telnet:command", "action": "warn"},
        {"event": "option", "option": "ECHO", "side": "server", "on": False},
        {"event": "data", "octets": "ok"},
        {"event": "command", "name": "NOP"},
        {"event": "data", "octets": "> "},
        {"event": "end", "reason": "until"},
    ]


@pytest.mark.parametrize(
    ("wanted", "peer", "reason"),
    [
        (Transcript(), OctetScript([b"hello"]), "closed"),
        (asked(b"> "), OctetScript([b"hello"]), "closed"),
        (Transcript(), OctetScript([b"hello\xff"]), "cut"),
        (Transcript(), Ending(b"hello", end=PeerOutput(), proved=False), "cut"),
        (Transcript(seconds=3), Ending(b"hello", end=TimerElapsed("3 s are over")), "for"),
        (asked(b"> ", seconds=3), Ending(b"hello", end=TimerElapsed("3 s are over")), "for"),
        (Transcript(), Ending(b"hello", end=PeerOutput(broken=Disconnected("reset"))), "reset"),
        (Transcript(), Ending(end=PeerOutput(broken=Disconnected("reset"))), "reset"),
        (Transcript(), OctetScript([500 * b"\xff\xfd\x63"] * 3), "limit"),
    ],
)
def test_end_reason_is_reported(wanted: Transcript, peer: OctetScript, reason: str) -> None:
    assert reported_events(wanted, peer)[-1] == {"event": "end", "reason": reason}


def test_unsent_text_at_end_is_truncated() -> None:
    with pytest.raises(Truncated) as error:
        player(Transcript(send=(b"a",)), OctetScript([ASKED])).play()
    assert error.value.received == 0


def test_disconnect_before_first_byte_raises() -> None:
    with pytest.raises(Disconnected):
        player(Transcript(), Ending(end=PeerOutput(broken=Disconnected("reset")))).play()


def test_text_over_body_limit_raises() -> None:
    with pytest.raises(LimitExceeded) as error:
        player(Transcript(), OctetScript([b"hello"] * 3), Limits(body=9)).play()
    assert error.value.exit_code == 14


def test_text_with_line_end_is_refused() -> None:
    with pytest.raises(resolver.Refused) as refused:
        player(Transcript(send=(b"a\nb",)), OctetScript([b"hello"])).play()
    assert refused.value.rule == "S02"


def test_slow_prompt_expression_raises() -> None:
    with pytest.raises(NotConfigured, match="too long"):
        prompt(b"(a+)+$").end_in(5_000 * b"a" + b"!")


def test_invalid_prompt_expression_raises() -> None:
    with pytest.raises(NotConfigured, match="regular expression"):
        prompt(b"(a")


def test_explain_plans_masked_transcript() -> None:
    options = Options(transcript=asked(b"login: ", b"hunter2", seconds=5))
    plan = resolver.explain("telnet://h.example/", options=options)
    assert [step["action"] for step in plan.steps] == ["connect", "note", "receive", "send", "receive"]
    assert plan.steps[3]["octets"] == "****\r\n"


def test_negotiation_and_text_are_sent_in_one_write() -> None:
    played = player(asked(b"> ", b"a"), OctetScript([ASKED + b"> ", b"> "]))
    played.play()
    assert len([step for step in played.steps if isinstance(step, Send)]) == 1


# A telnet URL is announced with host, port and user. The client does not connect.


async def test_fetch_announces_service_without_connecting() -> None:
    with trio.socket.socket() as listening:
        await listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        response = await resolver.fetch(f"telnet://guest:secret@127.0.0.1:{port}/")
        with trio.move_on_after(0) as no_connection:
            await listening.accept()
    assert no_connection.cancelled_caught
    assert (response.kind, response.content) == (Kind.SERVICE, b"")
    assert response.target == f"telnet://guest@127.0.0.1:{port}/"
    assert response.extra == {"service": "telnet", "host": "127.0.0.1", "port": port, "login": "guest"}
    assert "secret" not in repr(response)


async def test_save_of_service_is_refused(tmp_path: object) -> None:
    with pytest.raises(Refused) as refused:
        await resolver.save("telnet://h.example/", f"{tmp_path}/x")
    assert (refused.value.rule, refused.value.exit_code) == ("S10", 15)


async def test_derived_telnets_url_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        await resolver.fetch(
            "telnets://h.example/", origin="derived", referrer=("gopher://h.example/", "192.0.2.1")
        )
    assert refused.value.rule == "S10"


def test_explain_of_service_is_only_note() -> None:
    plan = resolver.explain("telnet://h.example/")
    assert [step["action"] for step in plan.steps] == ["note"]
    assert plan.verdict == "allow"


# The START_TLS option within a clear-text session.

START_TLS_URL = parse("telnet://127.0.0.1/")
WILL, DO, FOLLOWS = b"\xff\xfb\x2e", b"\xff\xfd\x2e", b"\xff\xfa\x2e\x01\xff\xf0"
START_TLS_ASKED, ANSWERED = b"\xff\xfb\x01\xff\xfd\x18", b"\xff\xfd\x01\xff\xfb\x18"


def start_tls_player(how: Literal["try", "require"], pieces: Iterable[bytes]) -> Player[None]:
    assert isinstance(START_TLS_URL, TelnetUrl)
    wanted = Transcript(prompt=prompt(b"> "), send=(b"hunter2",))
    return Player(converse(START_TLS_URL, Options(transcript=wanted, tls=how)), OctetScript(pieces))


@pytest.mark.parametrize("how", ["try", "require"])
@pytest.mark.parametrize(
    "before",
    [[DO + FOLLOWS], [DO, FOLLOWS], [bytes((octet,)) for octet in DO + FOLLOWS]],
    ids=["whole", "in two", "byte by byte"],
)
def test_start_tls_secures_session(how: Literal["try", "require"], before: list[bytes]) -> None:
    played = start_tls_player(how, [*before, START_TLS_ASKED + b"> ", b"> "])
    reply = played.play()
    assert b"".join(played.sent) == WILL + FOLLOWS + ANSWERED + b"hunter2\r\n"
    assert [type(step) for step in played.steps].count(StartTls) == 1
    assert (played.body, reply.findings) == (b"> > ", [])


def test_start_tls_renegotiates_options() -> None:
    played = start_tls_player(
        "require", [START_TLS_ASKED, DO, START_TLS_ASKED + FOLLOWS, START_TLS_ASKED + b"> ", b"> "]
    )
    played.play()
    assert b"".join(played.sent) == WILL + ANSWERED + FOLLOWS + ANSWERED + b"hunter2\r\n"


@pytest.mark.parametrize(
    "said", [[b"\xff\xfe\x2e> "], [START_TLS_ASKED, b"\xff\xfe\x2e", b"> "], [b"> "], [b">", b" "]]
)
def test_server_without_start_tls_is_error_if_required(said: list[bytes]) -> None:
    played = start_tls_player("try", [*said, b"> "])
    reply = played.play()
    assert played.body == b"> > "
    assert [finding.rule for finding in reply.findings] == ["telnet:clear"]
    played = start_tls_player("require", said)
    with pytest.raises(TlsError):
        played.play()
    assert b"".join(played.sent) in (WILL, WILL + ANSWERED)


@pytest.mark.parametrize("how", ["try", "require"])
@pytest.mark.parametrize(
    "said",
    [
        [DO + FOLLOWS + b"x"],
        [DO + FOLLOWS + START_TLS_ASKED],
        [DO, b"text"],
        [DO + b"text"],
        [DO, b"\xff\xfe\x2e"],
        [DO + b"\xff\xfe\x2e"],
    ],
)
def test_clear_text_after_start_tls_raises(how: Literal["try", "require"], said: list[bytes]) -> None:
    """CVE-2021-22947. After both sides agreed to TLS, the client does not return to clear text either."""
    played = start_tls_player(how, said)
    with pytest.raises(TlsError) as error:
        played.play()
    assert error.value.exit_code == 5
    assert b"hunter2" not in b"".join(played.sent)


def test_disconnect_at_start_tls_offer_raises() -> None:
    with pytest.raises(Disconnected):
        start_tls_player("try", []).play()


def test_explain_plans_start_tls() -> None:
    options = Options(transcript=Transcript(seconds=3), tls="require")
    plan = resolver.explain("telnet://h.example/", options=options)
    sent = [str(step["octets"]).encode("latin-1") for step in plan.steps if step["action"] == "send"]
    assert sent == [WILL, FOLLOWS]
    assert "TLS begins" in str(plan.steps)
