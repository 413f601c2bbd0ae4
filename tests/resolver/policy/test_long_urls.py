"""Long hostile URLs of every grammar: each rule tells the first of each sort, in steps in proportion."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from resolver import InvalidUrl, Policy, Verdict, check, parse
from resolver.url import registry
from resolver.url.parsing import LONGEST
from tests.sampled import FULL

#: What a hostile URL may consist of, again and again: for each rule and each grammar something that it
#: looks for, or splits at.
PIECES = (
    "%00/", "%2f/", "%0d%0a", "%01/", "%09", "%1f", "%40", "%ff", "a/", "/..", "//", ";a=%00", ";type=a",
    "&a=%0a", "?%00", "@", "a:", "a@b,", "%22", "%22%5c", "|", "[", "#", "xn--a.", "1.", "%0d%0a.%0d%0a",
)  # fmt: skip

#: Where it stands; `{}` is the hostile part.
FRAMES = (
    "{scheme}:{}",
    "{scheme}:a@b?{}",
    "{scheme}://{}",
    "{scheme}://u:{}@h.example/x",
    "{scheme}:///{}",
    "{scheme}://h.example/a/b/{}",
    "{scheme}://h.example/a?{}",
    "{scheme}://h.example/1a%09%09+%091%0d%0a+-1%0d%0a{}%0d%0a.%0d%0a",
)

#: Under these, all rules that there are have something to say.
STRICT = Policy(name="untrusted", file_root="/srv")
LED_BY = ("gopher://menu.example/1", "93.184.216.34")

#: More than any URL has to be told, however long: the sorts there are, not the places.
MOST = 8
#: Steps for each character (an ftp URL of nothing but slashes takes 53), and for the shortest URL. To
#: look for each place from the beginning takes hundreds.
PER_CHARACTER, PER_URL = 80, 3_000
LENGTH = 2_000 if FULL else 1_000


def schemes() -> list[str]:
    """One name for each grammar: siblings share theirs."""
    grammars: dict[object, str] = {}
    for name in registry.SCHEMES:
        scheme = registry.find(name)
        assert scheme is not None
        grammars.setdefault(scheme.parse, name)
    return [*grammars.values(), "nfs", "x-unknown"]


def hostile(scheme: str, length: int) -> Iterator[str]:
    for frame in FRAMES:
        room = length - len(frame) - len(scheme)
        for piece in PIECES:
            yield frame.replace("{scheme}", scheme).replace("{}", piece * (room // len(piece)))


def judge(url: str) -> Verdict:
    return check(url, policy=STRICT, origin="derived", referrer=LED_BY)


def counted(call: Callable[[str], Verdict], url: str) -> tuple[Verdict, int]:
    """What a call gives, and how many lines of Python it went through, each turn of a loop again."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(url), count
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("scheme", schemes())
def test_it_is_judged_in_proportion_to_its_length(scheme: str) -> None:
    judge(f"{scheme}://h.example/")  # imports what it needs
    for url in hostile(scheme, LENGTH):
        verdict, steps = counted(judge, url)
        assert steps <= PER_CHARACTER * len(url) + PER_URL, url[:80]
        assert len(verdict.findings) <= MOST, url[:80]
        try:
            findings = parse(url).findings
        except InvalidUrl:
            continue
        assert len(findings) == len(set(findings)) <= MOST, url[:80]


@pytest.mark.parametrize("url", ["file:///{}", "ftp://h.example/{}", "prospero://h.example/a;{}"])
def test_a_thousand_places_are_told_once(url: str) -> None:
    findings = check(url.format("%00/" * ((LONGEST - 40) // 4))).findings
    assert len(findings) <= 2, "what is in it, and that it is too long"
    assert findings[0].action == "refuse"
