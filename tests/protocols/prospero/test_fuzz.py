"""Random messages and datagrams yield a value or a typed error, within the limits, and end.

`PROSPERO_FUZZ=100000` sets the number of rounds; the default is 800. The round number is the seed.
"""

from __future__ import annotations

import os
import random

from fixtures.prospero.transport import ReplyOptions, Transport, redirect_packet, refusal_packet, wait_packet
from protocols.contract import Line
from protocols.prospero.access_method import list_access_methods
from protocols.prospero.ardp import ArdpExchange, RetransmitTiming
from protocols.prospero.dialogue import LinkReader, list_lines
from protocols.prospero.message import Inquirer, ProsperoReply, join_packets
from protocols.prospero.objects import RequestObject, pointer_to
from protocols.prospero.resolution import (
    ResolvedDirectory,
    UnionMember,
    expand_unions,
    join_contents,
    resolve,
)
from protocols.step import DatagramReply, Dialogue, ExchangeDatagrams, OpenDatagrams, OpenedConnection, Step
from resolver import Declined, LimitExceeded, Limits, ProtocolError, Refused, ResolveError, TimedOut, parse
from resolver.testing import Player, ValueScript
from tests.protocols.prospero.captures import exchanges, names, parse_reply, reply_of

ROUNDS = int(os.environ.get("PROSPERO_FUZZ", "800"))
LIMITS = Limits(line=2_500, lines=30)
ASKED = RequestObject("h.example", 15251, b"AFTP/pub/x")
PEER = "192.0.2.1"
#: The maximum number of turns in an exchange: each turn brings a new packet or advances the clock.
MAX_TURNS = 500
REPLIES = [reply_of(packets) for name in names() for packets in exchanges(name)[:3]]
REPLIES = sorted({reply[:6000] for reply in REPLIES if reply})
PIECES = [
    *(b"'", b"''", b"\n", b"\r", b" ", b"\0", b"\xff", b"/", b"(", b")", b"(0)", b"(99999)", b"%", b"\t"),
    *(b"LINK ", b"ATTRIBUTE ", b"ATTRIBUTE> ", b"FORWARDED ", b"FAILURE ", b"NONE-FOUND\n", b"UNRESOLVED "),
    *(b"FIELD ", b"INTRINSIC ", b"SEQUENCE ", b"ACCESS-METHOD ", b"CONTENTS ", b"DATA ", b"TAGGED "),
    *(b"AFTP ", b"GOPHER ", b"WAIS ", b"TELNET ", b"LOCAL ", b"PROSPERO-CONTENTS ", b"WAIS-GW/a(1)/b/c/%z"),
    *(b"INTERNET-D ", b"EXTERNAL ", b"U ", b"I ", b"a" * 3000, b"x " * 600, b"''" * 500),
]


def mutate(chance: random.Random, octets: bytes) -> bytes:
    """Return the bytes with a random change: replaced, inserted, deleted, repeated or truncated."""
    at = chance.randrange(len(octets) + 1)
    to = min(len(octets), at + chance.randrange(40))
    match chance.randrange(8):
        case 0:
            return octets[:at] + bytes((chance.randrange(256),)) + octets[at + 1 :]
        case 1 | 2 | 3:
            return octets[:at] + chance.choice(PIECES) + octets[at:]
        case 4:
            return octets[:at] + octets[to:]
        case 5:
            return octets[:to] + octets[at:to] * chance.randrange(4) + octets[to:]
        case 6:
            return octets[:at]
        case _:
            return octets[at:]


def some_reply(chance: random.Random) -> bytes:
    text = chance.choice(REPLIES)
    for _ in range(chance.randrange(5)):
        text = mutate(chance, text)
    return text


def use(answer: ProsperoReply) -> None:
    """Use every part of a reply; each URL must parse."""
    members = [UnionMember(link, ASKED) for link in answer.links]
    body = b"".join(list_lines(members, raw=False))
    entries = list(LinkReader(members, {}).feed(body))
    assert len(entries) == len(members) == body.count(b"\n")
    for entry in entries:
        if entry.url is not None:
            assert parse(entry.url).scheme in ("prospero", "ftp", "gopher", "wais", "telnet")
    for method in list_access_methods(answer.attributes, pointer_to(ASKED), ASKED):
        assert (method.mapped_url is not None) + (method.target is not None) + bool(method.unusable) == 1
        if method.url is not None:
            parse(method.url)
    join_contents(answer.attributes)


def test_parse_reply_of_mutated_message_yields_value_or_error() -> None:
    outcomes: dict[str, int] = {}
    for number in range(ROUNDS):
        text = some_reply(random.Random(number))
        try:
            use(parse_reply(text, LIMITS))
        except ProtocolError as error:
            outcomes[type(error).__name__] = outcomes.get(type(error).__name__, 0) + 1
        else:
            outcomes["value"] = outcomes.get("value", 0) + 1
    assert set(outcomes) == {"value", "ProtocolError", "LimitExceeded"}
    assert outcomes["value"] > ROUNDS / 3


def test_resolution_with_random_replies_yields_value_or_error() -> None:
    """The test resolves objects, unions included, against a server that gives any answer to any request."""
    outcomes: dict[str, int] = {}
    for number in range(ROUNDS):
        chance = random.Random(number)
        try:
            inquiry = Inquirer(LIMITS, RetransmitTiming())
            found = _answer(resolve(inquiry, ASKED, chance.choice(("content", "content", "facts"))), chance)
            if isinstance(found, ResolvedDirectory) and found.listing is not None:
                _answer(expand_unions(inquiry, found), chance)
            outcome = type(found).__name__
        except ResolveError as error:
            outcome = type(error).__name__
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert {
        "ResolvedDocument",
        "ResolvedDirectory",
        "ResolvedAlternatives",
        "NotFound",
        "ProtocolError",
    } <= set(outcomes)


def _answer(dialogue: Dialogue[object], chance: random.Random) -> object:
    """Answer every request; the dialogue limits their number."""

    def answer(step: Step) -> object:
        assert len(player.steps) < 10_000, "the requests do not end"
        match step:
            case OpenDatagrams():
                return OpenedConnection((PEER,), 1)
            case ExchangeDatagrams():
                return DatagramReply((some_reply(chance),), PEER)
        return None

    player = Player(dialogue, ValueScript(answer))
    player.advance()
    return player.result


def some_datagrams(chance: random.Random, honest: list[bytes]) -> list[bytes]:
    """Return datagrams in place of the server's: mutated, dropped, reordered, and foreign ones."""
    arriving = [mutate(chance, each) if chance.random() < 0.3 else each for each in honest]
    arriving = [each for each in arriving if chance.random() > 0.2]
    others = [
        bytes(chance.randrange(256) for _ in range(chance.randrange(40))),
        chance.choice((refusal_packet(), wait_packet(chance.randrange(65_536)), redirect_packet(PEER, 1))),
        b"\x09\x12\x34" + bytes(chance.randrange(256) for _ in range(6)),
        b"\x0c\x12\x34" + bytes(chance.randrange(256) for _ in range(9)) + b"text",
        b"\x1f\x12\x34" + bytes(chance.randrange(256) for _ in range(28)),
    ]
    arriving += [each[:1] + b"\x12\x34" + each[3:] for each in others if chance.random() < 0.08]
    if chance.random() < 0.3:
        chance.shuffle(arriving)
    return arriving


def test_exchange_with_random_datagrams_yields_value_or_error() -> None:
    outcomes: dict[str, int] = {}
    reply = bytes(range(256)) * 60
    for number in range(ROUNDS):
        outcome = _play(random.Random(number), reply)
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    assert {"honest", "TimedOut", "Declined"} <= set(outcomes)
    assert outcomes["honest"] > ROUNDS / 20


def _play(chance: random.Random, reply: bytes) -> str:
    reply = reply[: chance.choice((0, 10, 1250, 3000, len(reply)))]
    server = Transport(lambda text: (reply, ReplyOptions()), kind_to_oldest=False)
    message = Line(b"x" * chance.choice((1, 3000)), b"")
    machine = ArdpExchange(message, 0x1234, (PEER,), patience=60.0, max_size=20_000)
    now, turns = 0.0, 0
    try:
        actions = machine.begin(now)
        while not machine.complete:
            turns += 1
            assert turns < MAX_TURNS, "the exchange does not end"
            out = [each.octets for each in actions if isinstance(each, Line)]
            actions = []
            back = [each for packet in out for each in server.receive(packet, "us")]
            for datagram in some_datagrams(chance, back):
                if not machine.complete:
                    actions += machine.take(datagram, PEER, now)
            if not machine.complete and not actions:
                now = max(now, machine.deadline)
                actions = machine.wake(now)
    except (Declined, LimitExceeded, Refused, TimedOut) as error:
        return type(error).__name__
    text = join_packets(machine.pieces)
    assert len(text) <= 20_000
    assert now <= 60.0 * (1 + len(reply) // 1250 + 4)
    return "honest" if text == reply else "other"
