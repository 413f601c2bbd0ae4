"""The least rate of an answer: silence is no slowness, and drops are, whatever stands between them."""

from __future__ import annotations

import pytest

from resolver import TimedOut
from resolver.network.clock import AnswerPace


def heard(pace: AnswerPace, *waits: tuple[float, int]) -> float | None:
    """The seconds after which it is too slow; None where it never is. A wait of no octets is a question."""
    spent = 0.0
    for seconds, octets in waits:
        spent += seconds
        if not octets:
            pace.begin()
            continue
        if too_slow(pace, seconds, octets):
            return spent
    return None


def too_slow(pace: AnswerPace, seconds: float, octets: int) -> bool:
    try:
        pace.hear(seconds, octets)
    except TimedOut as error:
        return not error.retryable
    return False


DROPS = [(1.0, 1)] * 100
ROWS = {
    "an octet a second": (DROPS, 6.0),
    "a line a second": ([(1.0, 60)] * 100, 6.0),
    "an octet every ten seconds": ([(10.0, 1)] * 100, 40.0),
    "drops behind a long thought": ([(50.0, 30), *DROPS], 55.0),
    "fast enough": ([(1.0, 1_000)] * 100, None),
    "fast enough on average": ([(0.5, 10), (1.5, 3_000)] * 50, None),
    "thinks about each question": ([(59.0, 20), (0.0, 0)] * 50, None),
    "says that it is done after a while": ([(1.0, 30), (50.0, 24), (0.0, 0)] * 20, None),
    "says that it thinks, and thinks": ([(0.1, 25), (59.0, 65_536), (0.1, 65_536)], None),
    "has much at once behind a long pause": ([(0.0, 1), (59.0, 9_000), (59.0, 9_000), (59.0, 9_000)], None),
}


@pytest.mark.parametrize(("waits", "over"), ROWS.values(), ids=ROWS.keys())
def test_an_answer_that_has_begun_has_to_go_on(waits: list[tuple[float, int]], over: float | None) -> None:
    assert heard(AnswerPace(1_000), *waits) == over
    assert heard(AnswerPace(None), *waits) is None
