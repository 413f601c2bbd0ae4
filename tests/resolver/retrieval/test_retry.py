"""How long is waited between two tries."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from resolver import Disconnected, RetryPolicy, TryLater

PATIENCE = RetryPolicy(tries=5, delay=2.0)


@pytest.mark.parametrize(
    ("failures_in_a_row", "most"), [(0, 2.0), (1, 2.0), (2, 4.0), (3, 8.0), (9, 60.0), (99, 60.0)]
)
def test_the_pause_doubles_up_to_a_minute(failures_in_a_row: int, most: float) -> None:
    assert 0.75 * most <= PATIENCE.pause(failures_in_a_row, Disconnected("gone")) <= most


def test_a_peer_that_names_a_time_gets_it() -> None:
    assert PATIENCE.pause(1, TryLater("not now")) <= 2.0
    assert PATIENCE.pause(1, TryLater("not now", after=30.0)) == 30.0
    soon = TryLater("not now", until=datetime.now(UTC) + timedelta(seconds=100))
    assert 0 < PATIENCE.pause(1, soon) <= 100.0
    past = TryLater("not now", until=datetime(1994, 11, 6, tzinfo=UTC))
    assert PATIENCE.pause(1, past) == 0.0


def test_retry_policy_before_data_counts_its_own_tries() -> None:
    policy = RetryPolicy(tries=5, tries_before_data=1)
    error = TryLater("later")
    assert [policy.gives_up(1, error, has_data=has_data) for has_data in (False, True)] == [True, False]
    assert not RetryPolicy(tries=5).gives_up(1, error, has_data=False)
