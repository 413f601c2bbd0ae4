"""Moments as records show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from protocols.text import instant


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, None),
        (datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC), "2001-09-09T01:46:40Z"),
        (datetime(2001, 9, 9, 1, 46, 40), "2001-09-09T01:46:40Z"),
        (datetime(2001, 9, 9, 3, 46, 40, tzinfo=timezone(timedelta(hours=2))), "2001-09-09T01:46:40Z"),
    ],
)
def test_moments_are_utc(moment: datetime | None, text: str | None) -> None:
    assert instant(moment) == text
