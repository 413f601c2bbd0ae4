"""Each fuzz harness without atheris: the seed corpus, mutated seeds, and inputs that failed in the past."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from random import Random

import pytest

from tests.fuzz.found import FOUND
from tests.fuzz.harnesses import HARNESSES

#: The number of seeds and of mutated seeds for each harness: 2,000 in `make test-full`, and 40 in the gate.
ROUNDS = 2_000 if os.environ.get("RESOLVE_TESTS") == "full" else 40
TOKENS = (
    b"\r\n",
    b"\n",
    b"\0",
    b"\t",
    b" ",
    b".",
    b"-",
    b"+",
    b"0",
    b"9" * 20,
    b"\xff",
    b"\x1b",
    b"(",
    b'"',
    b"<",
    b"{",
)


def mutations(seeds: list[bytes], chance: Random) -> Iterator[bytes]:
    """Yield mutated seeds: bytes are replaced, removed, inserted, or copied from another seed."""
    while True:
        octets = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 5)):
            at = chance.randint(0, len(octets))
            match chance.randrange(4):
                case 0:
                    octets[at : at + 1] = chance.randbytes(1)
                case 1:
                    del octets[at : at + chance.randint(1, 10)]
                case 2:
                    octets[at:at] = chance.choice(TOKENS)
                case _:
                    other = chance.choice(seeds)
                    begin = chance.randint(0, len(other))
                    octets[at:at] = other[begin : begin + chance.randint(1, 40)]
        yield bytes(octets)


@pytest.mark.parametrize("name", HARNESSES)
def test_harness_accepts_seeds_and_mutations(name: str) -> None:
    harness = HARNESSES[name]
    seeds = list(harness.seeds())
    assert seeds
    chance = Random(name)
    for octets in chance.sample(seeds, min(len(seeds), ROUNDS)):
        harness.feed(octets)
    for octets in islice(mutations(seeds, chance), ROUNDS):
        harness.feed(octets)


@pytest.mark.parametrize(("name", "octets"), FOUND)
def test_harness_accepts_found_inputs(name: str, octets: bytes) -> None:
    HARNESSES[name].feed(octets)
