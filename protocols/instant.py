"""A moment as text: the one form in which records show it."""

from __future__ import annotations

from datetime import UTC, datetime


def instant(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC, to the second; a moment without a zone counts as UTC."""
    if moment is None:
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
