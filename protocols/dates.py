"""Dates from the digits of protocol data, and from timestamps. `explain` does not import this module."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def in_utc(numbers: Iterable[str | bytes | int]) -> datetime | None:
    """Return the UTC time from the numbers of year to second, or None for an invalid date or time."""
    year, month, day, hour, minute, second = map(int, numbers)
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def from_timestamp(seconds: float) -> datetime | None:
    """Return the UTC time of a timestamp, or None for a time that `datetime` does not support.

    The modification time of a file may be after the year 9999 (XFS, Btrfs, tmpfs).
    """
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None
