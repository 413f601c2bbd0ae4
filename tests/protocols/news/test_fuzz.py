"""Any bytes from a server yield a value or a ResolveError, and the exchange ends."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures.transcript import transcripts
from protocols import errors
from protocols.contract import Line, PipelineState
from resolver import Credentials, Disconnected, Limits, Options, ResolveError, parse
from resolver.testing.player import resolve
from tests.protocols.in_memory import MemoryGate, MemoryStream
from tests.protocols.news.captures import FOLDER, bytes_of_side
from tests.protocols.news.memory import MemorySlot
from tests.protocols.opening import open_url
from tests.sampled import examples

#: An upper limit for writes, and for reads after the end of the data; no exchange needs as many.
MAX_TURNS = 600

URLS = (
    "nntp://u:p@h/a.b/7",
    "nntp://h/a.b",
    "news://h/x@y",
    "news://u:p@h/a.*",
    "news://h/*",
    "nntps://h/a.b/1",
)
OPTIONS = (
    Options(),
    Options(want="facts"),
    Options(tls="try", entries=3),
    Options(entries=0, login_in_clear=True),
)


class Babble(MemoryStream):
    """A stream that sends fixed bytes regardless of its input, then ends with or without an error."""

    def __init__(self, octets: bytes, size: int, error: Disconnected | None) -> None:
        self._waiting = [octets[start : start + size] for start in range(0, len(octets), size)]
        self._error = error
        self._events = 0
        self.received = 0
        self.secured = False
        self.closed = False
        self.peer = "127.0.0.1"
        self.agreed = None

    async def send(self, *lines: Line) -> None:
        self._count()
        octets = b"".join(line.octets for line in lines)
        assert octets.endswith(b"\r\n")
        assert all(len(line) <= 510 and line.isascii() and line for line in octets.split(b"\r\n")[:-1])

    async def receive(self) -> bytes:
        if self._waiting:
            return self._waiting.pop(0)
        self._count()
        if self._error is not None:
            raise self._error
        return b""

    def _count(self) -> None:
        self._events += 1
        assert self._events < MAX_TURNS, "the exchange does not end"


class BabbleGate(MemoryGate):
    def __init__(self, octets: bytes, size: int, options: Options, error: Disconnected | None = None) -> None:
        super().__init__((), limits=Limits(line=2_000, lines=50), options=options)
        self._octets = octets
        self._size = size
        self._error = error

    @asynccontextmanager
    async def join(
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AsyncIterator[MemorySlot]:
        yield MemorySlot(Babble(self._octets, self._size, self._error), state)

    def random(self, count: int) -> bytes:
        raise AssertionError("no test needs random bytes")

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        return None if user is None else Credentials(user, b"p")


async def survive(octets: bytes, size: int, url: str, options: Options, error: Disconnected | None) -> None:
    outcome = await resolve(open_url, parse(url), BabbleGate(octets, size, options, error))
    if outcome.error is not None:
        assert issubclass(getattr(errors, outcome.error), ResolveError)


SEEDS = [
    *(transcript.connections[0].said_by("S") for transcript in transcripts("nntp")),
    *(bytes_of_side(path.stem, "server") for path in sorted(FOLDER.iterdir())),
]
WORDS = (
    b"\r\n",
    b".\r\n",
    b"\n.\n",
    b"\0",
    b"480 x\r\n",
    b"401 MODE-READER\r\n",
    b"200 x\r\n",
    b"999999999999999999",
    b"=?",
)


def spoil(octets: bytes, chance: random.Random) -> bytes:
    """Return the bytes with a few random changes."""
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(octets) + 1)
        match chance.randrange(5):
            case 0:
                octets = octets[:at] + chance.choice(WORDS) + octets[at:]
            case 1:
                octets = octets[:at] + bytes((chance.randrange(256),)) + octets[at + 1 :]
            case 2:
                octets = octets[:at] + octets[at + chance.randrange(40) :]
            case 3:
                octets = octets[:at] + octets[max(0, at - 60) :]
            case _:
                octets = octets[:at]
    return octets


@pytest.mark.parametrize("seed", range(8))
async def test_dialogue_survives_mutated_captures(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(250):
        octets = spoil(chance.choice(SEEDS)[:4_000], chance)
        error = Disconnected("reset") if chance.randrange(4) == 0 else None
        size = chance.choice((1, 2, 3, 7, 100, 65_536))
        await survive(octets, size, chance.choice(URLS), chance.choice(OPTIONS), error)


PIECES = st.sampled_from(
    [
        *WORDS,
        *(b"200 ready\r\n", b"211 3 1 3 a.b\r\n", b"211 0 0 0\r\n", b"220 1 <x@y>\r\n", b"221 1 <x@y>\r\n"),
        *(
            b"215 list\r\n",
            b"224 overview\r\n",
            b"281 in\r\n",
            b"381 more\r\n",
            b"382 go\r\n",
            b"483 tls\r\n",
        ),
        *(b"101 list\r\nREADER\r\nAUTHINFO USER\r\n.\r\n", b"101 list\r\nMODE-READER\r\nSTARTTLS\r\n.\r\n"),
        *(b"400 bye\r\n", b"411 no\r\n", b"423 no\r\n", b"430 no\r\n", b"481 no\r\n", b"482 no\r\n"),
        *(b"500 what\r\n", b"502 no\r\n", b"503 no\r\n", b"580 no\r\n", b"211 numbers\r\n1\r\n2\r\n.\r\n"),
        *(b"A: b\r\n\r\n", b"1\ts\tf\td\t<x@y>\t\t1\t1\r\n", b"a.b 3 1 y\r\n", b"a.b\tabout\r\n"),
    ]
)


@given(
    pieces=st.lists(PIECES | st.binary(max_size=30), max_size=25),
    url=st.sampled_from(URLS),
    options=st.sampled_from(OPTIONS),
    size=st.sampled_from((1, 3, 1_000)),
)
@settings(max_examples=examples(400))
@pytest.mark.slow
def test_dialogue_survives_random_answers(pieces: list[bytes], url: str, options: Options, size: int) -> None:
    trio.run(survive, b"".join(pieces), size, url, options, None)
