"""TLS offered inside a session that began in the clear."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import pytest

import resolver
from protocols.step import StartTls
from protocols.telnet.dialogue import converse
from resolver import Disconnected, Options, TelnetUrl, TlsError, Transcript, parse, prompt
from resolver.testing import OctetScript, Player

URL = parse("telnet://127.0.0.1/")
WILL, DO, FOLLOWS = b"\xff\xfb\x2e", b"\xff\xfd\x2e", b"\xff\xfa\x2e\x01\xff\xf0"
ASKED, ANSWERED = b"\xff\xfb\x01\xff\xfd\x18", b"\xff\xfd\x01\xff\xfb\x18"


def player(how: Literal["try", "require"], pieces: Iterable[bytes]) -> Player[None]:
    assert isinstance(URL, TelnetUrl)
    wanted = Transcript(prompt=prompt(b"> "), send=(b"hunter2",))
    return Player(converse(URL, Options(transcript=wanted, tls=how)), OctetScript(pieces))


@pytest.mark.parametrize("how", ["try", "require"])
@pytest.mark.parametrize(
    "before",
    [[DO + FOLLOWS], [DO, FOLLOWS], [bytes((octet,)) for octet in DO + FOLLOWS]],
    ids=["whole", "in two", "octet by octet"],
)
def test_both_say_that_tls_follows_and_it_does(how: Literal["try", "require"], before: list[bytes]) -> None:
    played = player(how, [*before, ASKED + b"> ", b"> "])
    reply = played.play()
    assert b"".join(played.sent) == WILL + FOLLOWS + ANSWERED + b"hunter2\r\n"
    assert [type(step) for step in played.steps].count(StartTls) == 1
    assert (played.body, reply.findings) == (b"> > ", [])


def test_what_was_agreed_on_before_counts_for_nothing_inside() -> None:
    played = player("require", [ASKED, DO, ASKED + FOLLOWS, ASKED + b"> ", b"> "])
    played.play()
    assert b"".join(played.sent) == WILL + ANSWERED + FOLLOWS + ANSWERED + b"hunter2\r\n"


@pytest.mark.parametrize(
    "said", [[b"\xff\xfe\x2e> "], [ASKED, b"\xff\xfe\x2e", b"> "], [b"> "], [b">", b" "]]
)
def test_who_has_none_is_talked_to_in_the_clear_only_by_who_may(said: list[bytes]) -> None:
    played = player("try", [*said, b"> "])
    reply = played.play()
    assert played.body == b"> > "
    assert [finding.rule for finding in reply.findings] == ["telnet:clear"]
    played = player("require", said)
    with pytest.raises(TlsError):
        played.play()
    assert b"".join(played.sent) in (WILL, WILL + ANSWERED)


@pytest.mark.parametrize("how", ["try", "require"])
@pytest.mark.parametrize(
    "said",
    [
        [DO + FOLLOWS + b"x"],
        [DO + FOLLOWS + ASKED],
        [DO, b"text"],
        [DO + b"text"],
        [DO, b"\xff\xfe\x2e"],
        [DO + b"\xff\xfe\x2e"],
    ],
)
def test_nothing_in_the_clear_is_taken_for_what_tls_protects(
    how: Literal["try", "require"], said: list[bytes]
) -> None:
    """CVE-2021-22947; nor does who agreed go back."""
    played = player(how, said)
    with pytest.raises(TlsError) as error:
        played.play()
    assert error.value.exit_code == 5
    assert b"hunter2" not in b"".join(played.sent)


def test_a_service_that_leaves_at_the_offer() -> None:
    with pytest.raises(Disconnected):
        player("try", []).play()


def test_the_plan_shows_it() -> None:
    options = Options(transcript=Transcript(seconds=3), tls="require")
    plan = resolver.explain("telnet://h.example/", options=options)
    sent = [str(step["octets"]).encode("latin-1") for step in plan.steps if step["action"] == "send"]
    assert sent == [WILL, FOLLOWS]
    assert "TLS begins" in str(plan.steps)
