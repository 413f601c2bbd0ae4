"""Damaged archives serve their recorded contents or raise a typed error.

Bytes are changed, removed or repeated, lengths and values are false, in files without digests and in
compressed files with digests.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import pytest
import trio

from resolver import LocalError, Policy, ResolveError, Resolver
from resolver.warc.archive import Archive
from tests.hang import HANG
from tests.resolver.warc.archives import WARC
from tests.sampled import FULL

Damage: TypeAlias = Callable[[random.Random, bytearray], None]

ROUNDS = 200 if FULL else 3
SEEDS = range(ROUNDS)
SAMPLES = sorted(path.name for path in WARC.glob("*.warc.gz"))
NUMBER = re.compile(rb"(?<![\d-])\d{1,6}(?![\d-])")
WORD = re.compile(rb'(?<=": ")[a-z]+|(?<=":")[a-z]+')
POLICY = Policy(allow_port=frozenset(range(1, 65_536)))


def change(chance: random.Random, octets: bytearray) -> None:
    for _ in range(chance.randint(1, 12)):
        octets[chance.randrange(len(octets))] = chance.randrange(256)


def cut(chance: random.Random, octets: bytearray) -> None:
    begin = chance.randrange(len(octets))
    del octets[begin : begin + chance.choice((1, 7, 300, len(octets)))]


def double(chance: random.Random, octets: bytearray) -> None:
    begin = chance.randrange(len(octets))
    piece = bytes(octets[begin : begin + chance.choice((1, 9, 500))])
    octets[begin:begin] = piece


def lie(chance: random.Random, octets: bytearray) -> None:
    """Replace numbers in heads, protocol exchanges and protocol data."""
    for match in sorted(chance.sample([*NUMBER.finditer(octets)], 3), key=lambda number: -number.start()):
        octets[match.start() : match.end()] = chance.choice(
            (b"0", b"1", b"99999999999999999999", b"-1", b"x")
        )


def swap(chance: random.Random, octets: bytearray) -> None:
    """Replace JSON strings of the protocol exchange."""
    matches = [*WORD.finditer(octets)]
    for word in sorted(chance.sample(matches, min(4, len(matches))), key=lambda word: -word.start()):
        words = (b"directory", b"udp", b"dots", b"failed", b"info", b"NotFound", b"\\ud800", b"")
        octets[word.start() : word.end()] = chance.choice(words)


async def ask_all(path: Path, urls: list[str]) -> int:
    """Return the number of successful answers."""
    try:
        archive = Archive([path])
    except LocalError:
        return 0
    count = 0
    with archive:
        async with Resolver(archive=archive, policy=POLICY) as session:
            for url in urls:
                for ask in (session.fetch, session.info):
                    with suppress(ResolveError), trio.fail_after(HANG):
                        await ask(url)
                        count += 1
    return count


def urls_of(octets: bytes) -> list[str]:
    return sorted({url.decode() for url in re.findall(rb"(?m)^WARC-Target-URI: (\S+)", octets)})


@pytest.mark.parametrize("damage", [change, cut, double, lie, swap], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", SAMPLES)
async def test_damaged_archive_serves_values_or_typed_errors(
    name: str, damage: Damage, tmp_path: Path
) -> None:
    whole = gzip.decompress((WARC / name).read_bytes())
    urls = urls_of(whole)
    plain = re.sub(rb"(?m)^WARC-(?:Block|Payload)-Digest: .*\r\n", b"", whole)
    path = tmp_path / "a.warc"
    path.write_bytes(plain)
    answered = await ask_all(path, urls)
    assert answered >= len(urls)
    for seed in SEEDS:
        chance = random.Random(f"{name} {seed}")
        octets = bytearray(plain)
        damage(chance, octets)
        path.write_bytes(octets)
        await ask_all(path, urls)


@pytest.mark.parametrize("name", SAMPLES)
async def test_damaged_gzip_archive_serves_the_rest(name: str, tmp_path: Path) -> None:
    packed = (WARC / name).read_bytes()
    urls = urls_of(gzip.decompress(packed))
    path = tmp_path / "a.warc.gz"
    path.write_bytes(packed)
    best = await ask_all(path, urls)
    for seed in SEEDS:
        octets = bytearray(packed)
        change(random.Random(f"{name} {seed}"), octets)
        path.write_bytes(octets)
        assert await ask_all(path, urls) <= best


async def test_hostile_archive_serves_values_or_typed_errors(tmp_path: Path) -> None:
    for path in sorted((WARC / "hostile").iterdir()):
        if path.suffix in (".gz", ".warc"):
            octets = path.read_bytes()
            plain = octets if path.suffix == ".warc" else b""
            await ask_all(path, [*urls_of(plain), "http://h.example/", "ftp://127.0.0.1/a.txt"])
