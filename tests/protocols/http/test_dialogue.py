"""The steps of a retrieval: who is asked for a password, HEAD, and a kept connection that is gone."""

from __future__ import annotations

from typing import Literal

import pytest

from protocols.conversation.rehearsal import rehearse
from protocols.http.dialogue import retrieve
from protocols.step import (
    Acquire,
    Connect,
    CopyBody,
    PlanNote,
    Receive,
    RequestCredentials,
    Send,
    StartBody,
    Step,
)
from resolver import Credentials, Disconnected, HttpUrl, NotFound, Options, parse
from resolver.testing import Player, ValueScript
from resolver.testing.player import leaving
from resolver.testing.transcript import Connection, End, TranscriptTurn
from tests.protocols.in_memory import MemoryGate
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as

HELD = Credentials(b"held", b"h")
GIVEN = Credentials(b"given", b"g")
HELD_LINE, GIVEN_LINE = b"Basic aGVsZDpo", b"Basic Z2l2ZW46Zw=="


def url_of(text: str) -> HttpUrl:
    url = parse(text)
    assert isinstance(url, HttpUrl)
    return url


class Holding(ValueScript):
    """A place for which these credentials are held."""

    def __init__(self, held: Credentials | None) -> None:
        super().__init__()
        self._held = held

    def answer(self, step: Step) -> object:
        return self._held if isinstance(step, RequestCredentials) else super().answer(step)


def head_of(text: str, options: Options, held: Credentials | None) -> tuple[list[RequestCredentials], bytes]:
    """Who was asked for, and the request head."""
    player = Player(retrieve(url_of(text), options), Holding(held))
    step = player.advance(Send)
    assert isinstance(step, Send)
    asked = [each for each in player.steps if isinstance(each, RequestCredentials)]
    return asked, step.lines[0].octets


@pytest.mark.parametrize(
    ("text", "login", "held", "asked_for", "value"),
    [
        ("http://h/", None, None, [None], None),
        ("http://h/", None, HELD, [None], HELD_LINE),
        ("http://h/", GIVEN, HELD, [], GIVEN_LINE),  # from an earlier hop to the same place
        ("http://u:p@h/", None, HELD, [], b"Basic dTpw"),
        ("http://u:p@h/", GIVEN, HELD, [], b"Basic dTpw"),
        ("http://u:@h/", None, HELD, [], b"Basic dTo="),
        ("http://u@h/", None, HELD, [b"u"], HELD_LINE),
        ("http://u@h/", None, None, [b"u"], b"Basic dTo="),  # a token stands there alone
        ("http://u@h/", GIVEN, HELD, [b"u"], HELD_LINE),
        ("http://@h/", None, None, [None], None),
        ("http://:p@h/", None, HELD, [], b"Basic OnA="),
    ],
)
def test_whose_credentials_are_sent(
    text: str,
    login: Credentials | None,
    held: Credentials | None,
    asked_for: list[bytes | None],
    value: bytes | None,
) -> None:
    asked, head = head_of(text, Options(login=login), held)
    assert [step.user for step in asked] == asked_for
    sent = [line for line in head.split(b"\r\n") if line.lower().startswith(b"authorization")]
    assert sent == ([] if value is None else [b"Authorization: " + value])


def test_the_plan_is_the_dialogue() -> None:
    steps: list[Step] = rehearse(retrieve(url_of("https://u:secret@h/a")))
    assert [type(step) for step in steps] == [Acquire, Send, Receive, PlanNote, StartBody, CopyBody]
    say = steps[1]
    assert isinstance(say, Send)
    assert b"Authorization: ****\r\n" in say.lines[0].shown
    assert b"secret" not in say.lines[0].shown
    assert steps[0] == Acquire(((b"Authorization", b"Basic dTpzZWNyZXQ="),), tls=True)


def request(method: bytes = b"GET") -> bytes:
    return (
        method + b" /x HTTP/1.1\r\nHost: h.dom\r\nUser-Agent: url-resolver\r\nAccept: */*\r\n"
        b"Accept-Encoding: identity\r\n\r\n"
    )


def script(*turns: bytes, end: End = "left") -> Connection:
    """Client and server in turns."""
    sides: tuple[Literal["C"], Literal["S"]] = ("C", "S")
    return Connection(
        tuple(TranscriptTurn(sides[index % 2], octets) for index, octets in enumerate(turns)), end
    )


LENGTH = b"Content-Length: 5\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n" + LENGTH


async def test_facts_are_asked_for_by_head() -> None:
    gate = MemoryGate([script(request(b"HEAD"), OK)], options=Options(want="facts"), logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert (reply.size, reply.modified is not None) == (5, True)
        assert [octets async for octets in reply.body] == []
    assert gate.loans[0].kept is not None
    gate.check_finished()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        (b"", None),
        (b"Content-Disposition: inline\r\n", None),
        (b'Content-Disposition: attachment; filename="../a b"\r\n', b"../a b"),
        (b"Content-Disposition: attachment\r\nContent-Disposition: attachment; filename=late\r\n", None),
    ],
)
async def test_a_name_is_suggested_as_the_server_has_it(fields: bytes, name: bytes | None) -> None:
    answer = b"HTTP/1.1 200 OK\r\n" + fields + LENGTH
    gate = MemoryGate([script(request(b"HEAD"), answer)], options=Options(want="facts"), logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert reply.suggested == name


@pytest.mark.parametrize("status", [b"405 No", b"501 No"])
async def test_a_server_without_head_is_asked_by_get_and_not_listened_to(status: bytes) -> None:
    refusal = b"HTTP/1.1 " + status + b"\r\nContent-Length: 9\r\n\r\n"
    scripts = [script(request(b"HEAD"), refusal), script(request(), OK)]
    gate = MemoryGate(scripts, options=Options(want="facts"), logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert reply.size == 5
        assert [octets async for octets in reply.body] == []
    assert gate.loans[-1].kept is None
    gate.check_finished()


async def test_a_refused_head_is_refused() -> None:
    gate = MemoryGate(
        [script(request(b"HEAD"), b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\n")],
        options=Options(want="facts"),
        logins=[None],
    )
    with pytest.raises(NotFound):
        async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate):
            pass
    assert gate.loans[0].kept is not None


async def test_what_is_kept_in_a_file_is_asked_for_uncoded() -> None:
    coded = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"
    gate = MemoryGate([script(request(), coded)], options=Options(want="file"), logins=[None])
    async with open_url(parse_as(HttpUrl, "http://h.dom/x"), gate) as reply:
        assert [octets async for octets in reply.body] == []
    assert [finding.rule for finding in reply.findings] == ["http:coded"]
    assert reply.size is None
    gate.check_finished()


def perform(used: bool, *, gone: int) -> list[type[Step]]:
    """The steps when the first `gone` heads are not to be had."""
    player = Player(retrieve(url_of("http://h/")), ValueScript(leaving(gone, used=True if used else None)))
    player.play()
    return [type(step) for step in player.steps]


ONCE = [Send, Receive]


def test_a_kept_connection_that_is_gone_is_tried_again_on_a_new_one() -> None:
    assert perform(True, gone=0) == [RequestCredentials, Acquire, *ONCE, PlanNote, StartBody, CopyBody]
    assert perform(True, gone=1) == [
        RequestCredentials,
        Acquire,
        *ONCE,
        Connect,
        *ONCE,
        PlanNote,
        StartBody,
        CopyBody,
    ]


@pytest.mark.parametrize(("used", "gone"), [(False, 1), (True, 2)])
def test_a_new_connection_is_not(used: bool, gone: int) -> None:
    with pytest.raises(Disconnected):
        perform(used, gone=gone)
