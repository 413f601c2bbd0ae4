"""A moment as text: the one form in which records show it; and out of the digits of a text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime


def instant(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC, to the second; a moment without a zone counts as UTC."""
    if moment is None:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def in_utc(digits: Iterable[str | bytes]) -> datetime | None:
    """Year, month, day, hour, minute and second; None for what no calendar or clock has."""
    year, month, day, hour, minute, second = map(int, digits)
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
