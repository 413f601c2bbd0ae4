"""Any bytes from a server yield a value or a ResolveError, within the limits, and the dialogue ends.

A seeded generator mutates recorded answers, and complete dialogues read them. `WAIS_FUZZ=100000` sets the
number of dialogues; the default is a sample.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import cast

from protocols.step import EmitBody, Send, StartBody, Step
from protocols.wais.apdu import MAX_APDU
from protocols.wais.dialogue import converse
from protocols.wais.listing import HitReader
from protocols.wais.retrieval import MAX_CHUNK
from resolver import (
    Entry,
    InvalidUrl,
    Kind,
    LimitExceeded,
    NotFound,
    Options,
    ProtocolError,
    ResolveError,
    WaisUrl,
    parse,
)
from resolver.testing import OctetScript, PeerOutput, Player
from tests.protocols.wais.captures import capture, names, parse_records

DIALOGUES = int(os.environ.get("WAIS_FUZZ", "1000"))
HEADER = 25

URLS = [
    cast(WaisUrl, parse(text))
    for text in ("wais://h/d", "wais://h/d?words", "wais://h/d/TEXT/%02%01x", "wais://h/d/WSRC/9/2=x;")
]
INIT = capture("search-hits").exchanges[0][1]
#: Answers of at most a few hundred bytes, so that each mutation changes a meaningful byte.
ANSWERS = [
    answer
    for name in names()
    for _, answer in capture(name).exchanges
    if answer[HEADER + 2 : HEADER + 3] != INIT[HEADER + 2 : HEADER + 3] and len(answer) < 1_500
]


def mutated(octets: bytes, dice: random.Random) -> bytes:
    data = bytearray(octets)
    for _ in range(dice.choice((1, 1, 1, 2, 4, 16))):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << dice.randrange(8)
            case 1 if at < len(data):
                data[at] = dice.choice(b"\x00\x01\x1c\x1d\x63\x7f\x80\x81\xff")
            case 2:
                data[at:at] = dice.randbytes(dice.randrange(1, 8))
            case 3:
                del data[at : at + dice.randrange(1, 8)]
            case 4:
                del data[at:]
            case 5:
                start = dice.randrange(len(data) + 1)
                data[at:at] = data[start : start + dice.randrange(1, 200)]
            case _:
                data[at:at] = dice.choice(
                    (b"\x81\x16", b"\x81\x19\x05", b"\x1c\x00\x03SF\x01\x1d", b"\x74\x00")
                )
    return bytes(data)


def mutated_answer(answer: bytes, dice: random.Random) -> bytes:
    """Mutate an answer; mostly the length still fits, so that the data after the header is parsed."""
    if dice.random() < 0.2:
        return mutated(answer, dice)
    body = mutated(answer[HEADER:], dice)
    return b"%010d" % len(body) + answer[10:HEADER] + body


def session(dice: random.Random) -> bytes:
    """Return the server's bytes on a connection: the answers to Init and to a few more requests."""
    answers = [INIT, *dice.choices(ANSWERS, k=dice.choice((1, 2, 3)))]
    victim = dice.choice((0, 1, 1, 2, 2))
    return b"".join(
        mutated_answer(answer, dice) if index == victim or dice.random() < 0.1 else answer
        for index, answer in enumerate(answers)
    )


def pieces(octets: bytes, dice: random.Random) -> Iterator[bytes]:
    step = dice.choice((1, 7, 300, 100_000)) if len(octets) < 500 else dice.choice((64, 300, 100_000))
    return (octets[start : start + step] for start in range(0, len(octets), step))


class Listener(Player[object]):
    """A player whose server sends given bytes; it checks the limits."""

    def __init__(self, url: WaisUrl, start: int, cut: Iterable[bytes]) -> None:
        super().__init__(converse(url, Options(start=start)), OctetScript(cut))
        self._url = url
        self.entries: list[Entry] = []
        self.received = 0

    def perform(self, step: Step) -> object:
        if isinstance(step, Send):
            assert len(self.sent) == len(self.heard), "sent a request before the answer"
        answer = super().perform(step)
        if isinstance(step, StartBody) and step.reply.records is not None:
            self._list(step.reply.records, self._url)
        if isinstance(step, EmitBody):
            self._take_octets(step.octets, self._url)
        return answer

    def receive(self) -> PeerOutput:
        assert len(self.buffer) <= MAX_APDU + HEADER + 100_000, "read on without a limit"
        return super().receive()

    def _list(self, records: bytes, url: WaisUrl) -> None:
        reader = HitReader(url)
        self.entries = [*reader.feed(records), *reader.finish()]
        assert self.reply.extra is not None
        assert len(self.entries) in (self.reply.extra.get("records", self.reply.extra.get("hits")), 0)
        for entry in self.entries:
            assert entry.url is None or entry.kind is Kind.LINK or parse(entry.url).scheme == "wais"

    def _take_octets(self, octets: bytes, url: WaisUrl) -> None:
        if self.reply.kind is Kind.DIRECTORY:
            self._list(octets, url)
            return
        assert not self.reply.verified, "bytes arrived after the end"
        assert len(octets) <= MAX_CHUNK
        self.received += len(octets)


def play(seed: int) -> str:
    """Run a dialogue; return the name of its outcome."""
    dice = random.Random(seed)
    cut = pieces(session(dice), dice)
    url, start = dice.choice(URLS), dice.choice((0, 0, 0, 1, 107))
    try:
        Listener(url, start, cut).play(surplus=None)
    except LimitExceeded:
        raise AssertionError("a limit was exceeded although the caller set no limit") from None
    except InvalidUrl:
        raise AssertionError("the server's bytes were used as a request URL") from None
    except ResolveError as error:
        return type(error).__name__
    return "value"


def test_dialogue_with_mutated_answers_yields_value_or_error() -> None:
    outcomes = [play(seed) for seed in range(DIALOGUES)]
    # Enough of each outcome shows that the mutations reach every layer.
    for outcome in ("value", ProtocolError.__name__, "Disconnected", NotFound.__name__):
        assert outcomes.count(outcome) > DIALOGUES // 100, outcome


def test_parse_records_of_random_bytes_yields_value_or_error() -> None:
    dice = random.Random("records")
    values = 0
    for _ in range(DIALOGUES):
        group = dice.randbytes(dice.randrange(60))
        with suppress(ProtocolError):
            values += bool(parse_records(group))
    assert values
