"""Fuzz tests of the FTP dialogue: each run gives a complete body or a typed error.

A truncated body is never returned as complete. `FTP_FUZZ=100000` sets the number of dialogues; the default is
a sample of 4,000. The number of a dialogue is its random seed.
"""

from __future__ import annotations

import os
import random

import pytest

from protocols.ftp.reply import parse_size, read_reply
from protocols.wire import run_reader
from resolver import Credentials, FtpUrl, Limits, Options, ResolveError, parse
from tests.protocols.ftp.script import DEFAULT_REPLIES, Retrieval, Script, Server, reset_error

DIALOGUES = int(os.environ.get("FTP_FUZZ", "4000"))
#: More commands than the retrieval of any URL needs; a dialogue that sends more does not terminate.
MAX_COMMANDS = 60

URLS = [
    parse(text)
    for text in (
        "ftp://h/x",
        "ftp://h/d/x;type=i",
        "ftp://h/x;type=a",
        "ftp://u:p@h/d;type=d",
        "ftp://h/d/e/",
        "ftps://me@h/x",
    )
]
OPTIONS = [
    Options(),
    Options(tls="require"),
    Options(tls="try", mlsd=True),
    Options(start=3),
    Options(want="facts"),
]
PIECES = [
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b"\xff",
        b"\xff\xfd\x01",
        b"\xff\xff",
        b"-",
        b" ",
        b'"',
        b"\x1b[2J",
        b"1",
        b"5",
    ),
    *(
        b"150 ",
        b"226 ",
        b"421 bye\r\n",
        b"550 no\r\n",
        b"530 no\r\n",
        b"999 x\r\n",
        b"226 a\r\n",
        b"350 a\r\n",
    ),
    *(b"(|||0|)", b"(1,2,3,4,5,6)", b"213 9\r\n", b"x" * 70_000, b"220-\r\n"),
]


def mutate(chance: random.Random, octets: bytes) -> bytes:
    """Return the bytes with one change: a byte, an insertion, a truncation, a repetition or a replacement."""
    at = chance.randrange(len(octets) + 1)
    match chance.randrange(6):
        case 0:
            return octets[:at] + bytes((chance.randrange(256),)) + octets[at + 1 :]
        case 1:
            return octets[:at] + chance.choice(PIECES) + octets[at:]
        case 2:
            return octets[:at]
        case 3:
            return octets[at:]
        case 4:
            return octets + octets
        case _:
            return chance.choice(PIECES)


def make_script(chance: random.Random) -> Script:
    """Return a script of a regular server with one to four changes."""
    script = Script(
        data=chance.choice((b"12345", b"12345", b"a\r\nb\r\n", b"", b"1")),
        close_notify=chance.random() < 0.8,
        first=chance.random() < 0.3,
        silent=chance.random() < 0.3,
        peer=chance.choice(("127.0.0.1", "::1")),
        credentials=chance.choice((None, Credentials(b"me", b"p"))),
    )
    if chance.random() < 0.1:
        script.broken, script.broken_later = reset_error(), chance.random() < 0.5
    if chance.random() < 0.1:
        script.unreachable = (40001,)
    for _ in range(chance.randrange(1, 5)):
        verb = chance.choice((*DEFAULT_REPLIES, b"greeting", b"late", b"RETR", b"NLST"))
        if verb == b"greeting":
            script.greeting = mutate(chance, script.greeting)
        elif verb == b"late":
            script.late = mutate(chance, script.late)
        else:
            script.replies[verb] = mutate(chance, DEFAULT_REPLIES[verb])
    return script


class CountingServer(Server):
    """A server that may send more than the client reads and fails after `MOST_COMMANDS` commands."""

    commands = 0

    def hear(self, octets: bytes) -> None:
        super().hear(octets)
        self.commands += 1
        assert self.commands < MAX_COMMANDS, "the dialogue does not end"


def check_complete(retrieval: Retrieval, script: Script) -> None:
    """Assert that the received data prove a complete body, independently of the dialogue's own state."""
    if retrieval.transfer is None:
        return
    assert script.broken is None
    assert retrieval.replies[-1].good
    expected = retrieval.transfer.expected
    assert expected is None or len(retrieval.body) >= expected
    assert script.close_notify or not any(getattr(event, "tls", False) for event in retrieval.events)


@pytest.mark.parametrize("part", range(4))
def test_retrieve_from_mutated_server_gives_complete_body_or_error(part: int) -> None:
    outcomes: dict[str, int] = {}
    for number in range(part, DIALOGUES, 4):
        chance = random.Random(number)
        script = make_script(chance)
        url = chance.choice(URLS)
        assert isinstance(url, FtpUrl)
        retrieval = Retrieval(url, CountingServer(script), chance.choice(OPTIONS))
        try:
            retrieval.play(surplus=None)
        except ResolveError as error:
            outcomes[type(error).__name__] = outcomes.get(type(error).__name__, 0) + 1
        else:
            check_complete(retrieval, script)
            outcomes["value"] = outcomes.get("value", 0) + 1
    assert outcomes["value"] > 0
    assert {"ProtocolError", "Disconnected", "Truncated"} <= set(outcomes)


def test_parse_size_of_mutated_reply_never_raises() -> None:
    chance = random.Random(1)
    for _ in range(2000):
        octets = mutate(chance, mutate(chance, b"213 12345\r\n"))
        try:
            reply = run_reader(read_reply(Limits()), octets, octets)
        except ResolveError:
            continue
        size = parse_size(reply)
        assert size is None or 0 <= size < 2**63
