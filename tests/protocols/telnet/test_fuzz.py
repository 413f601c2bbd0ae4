"""Random option sequences: each ends, and each request gets at most one answer.

`TELNET_FUZZ=1000000` sets the number of rounds; the default is a sample. The round number is the seed.
"""

from __future__ import annotations

import os
import random

from protocols.telnet.octets import IAC, NegotiationVerb, OptionNegotiation, TelnetCommand, TelnetScanner
from protocols.telnet.terminal import NvtTerminal, OptionState, WindowSize
from tests.protocols.telnet.runs import octet_by_octet, run_terminal

ROUNDS = int(os.environ.get("TELNET_FUZZ", "1500"))

#: Bytes with a meaning; accepted, refused and unknown options; and text.
_MEANING = (
    [IAC] * 8
    + [*NegotiationVerb] * 2
    + [*TelnetCommand, 0, 1, 3, 6, 24, 31, 34, 39, 46, 85, 255, 10, 13, 65, 1, 0]
)
_OPTIONS = [0, 1, 3, 6, 24, 31, 34, 39, 46, 99, 255]
#: The maximum length in bytes of a window-size message, with each byte of the size doubled.
_SIZE = 13


def _octets(chance: random.Random) -> bytes:
    if chance.random() < 0.5:
        return bytes(chance.choices(_MEANING, k=chance.randrange(1, 60)))
    requests = (bytes((IAC, chance.choice([*NegotiationVerb]), chance.choice(_OPTIONS))) for _ in range(15))
    return b"".join(requests)


def _negotiations(octets: bytes) -> list[OptionNegotiation]:
    return [each for each in TelnetScanner().feed(octets) if isinstance(each, OptionNegotiation)]


def test_random_sequence_gets_at_most_one_answer_per_request() -> None:
    for seed in range(ROUNDS):
        chance = random.Random(seed)
        octets = _octets(chance)
        at = chance.randrange(len(octets) + 1)
        whole = run_terminal([octets])
        assert run_terminal([octets[:at], octets[at:]]) == whole, seed
        asked, said = _negotiations(octets), _negotiations(whole.answers)
        assert len(said) <= len(asked), seed
        on = sum(each.verb is NegotiationVerb.WILL and each.option == 31 for each in said)
        assert len(whole.answers) <= 4 * len(octets) + _SIZE * on, seed
        if seed % 16 == 0:
            assert run_terminal(octet_by_octet(octets)) == whole, seed


def test_random_negotiation_changes_state_at_most_once() -> None:
    for seed in range(ROUNDS // 2):
        chance = random.Random(seed)
        terminal = NvtTerminal(size=WindowSize(chance.randrange(300), chance.randrange(300)))
        for _ in range(20):
            verb, option = chance.choice([*NegotiationVerb]), chance.choice(_OPTIONS)
            side = (
                terminal.server if verb in (NegotiationVerb.WILL, NegotiationVerb.WONT) else terminal.client
            )
            before = side.state(option)
            answers = run_terminal([bytes((IAC, verb, option))], terminal).answers
            said = _negotiations(answers)
            asks = verb in (NegotiationVerb.WILL, NegotiationVerb.DO)
            assert len(said) <= 1, seed
            if side.state(option) is before:  # no state change: no answer, or a repeated refusal
                assert (said != []) == (asks and before is OptionState.NO), seed
            assert side.state(option) in (OptionState.NO, OptionState.YES), seed


def test_random_requests_of_two_ends_settle() -> None:
    for seed in range(ROUNDS // 4):
        chance = random.Random(seed)
        ends, waiting = (NvtTerminal(), NvtTerminal()), [b"", b""]
        for _ in range(chance.randrange(1, 12)):
            at, option = chance.randrange(2), chance.choice(_OPTIONS)
            verb, side = (
                (NegotiationVerb.DO, ends[at].server)
                if chance.random() < 0.5
                else (NegotiationVerb.WILL, ends[at].client)
            )
            if side.request(option):
                waiting[1 - at] += bytes((IAC, verb, option))
            if chance.random() < 0.3:  # some bytes arrive before the next request
                waiting[1 - at] += run_terminal([waiting[at]], ends[at]).answers
                waiting[at] = b""
        for _ in range(10):
            for at, end in enumerate(ends):
                said, waiting[at] = waiting[at], b""
                waiting[1 - at] += run_terminal([said], end).answers
        assert waiting == [b"", b""], seed
        for option in _OPTIONS:
            assert ends[0].server.is_on(option) == ends[1].client.is_on(option), seed
            assert ends[1].server.is_on(option) == ends[0].client.is_on(option), seed
