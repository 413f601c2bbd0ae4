"""How long is waited between two tries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from protocols.errors import Disconnected, TryLater
from resolver.tries import Patience

PATIENCE = Patience(tries=5, delay=2.0)


@pytest.mark.parametrize(
    ("fruitless", "most"), [(0, 2.0), (1, 2.0), (2, 4.0), (3, 8.0), (9, 60.0), (99, 60.0)]
)
def test_the_pause_doubles_up_to_a_minute(fruitless: int, most: float) -> None:
    assert 0.75 * most <= PATIENCE.pause(fruitless, Disconnected("gone")) <= most


def test_a_peer_that_names_a_time_gets_it() -> None:
    later = TryLater("not now")
    assert PATIENCE.pause(1, later) <= 2.0
    later.after = 30.0
    assert PATIENCE.pause(1, later) == 30.0
    later.after, later.until = None, datetime.now(UTC) + timedelta(seconds=100)
    assert 0 < PATIENCE.pause(1, later) <= 100.0
    later.until = datetime(1994, 11, 6, tzinfo=UTC)
    assert PATIENCE.pause(1, later) == 0.0
