"""The moment as of which an archive is asked (`--at`)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from protocols.errors import NotConfigured

_TIME = r"[T ]?([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2})(\.[0-9]{1,9})?)?)?Z?"
_AT = re.compile(rf"([0-9]{{4}})(?:-?([0-9]{{2}})(?:-?([0-9]{{2}})(?:{_TIME})?)?)?", re.ASCII)


def read_moment(text: str) -> datetime:
    """W3CDTF in UTC, or 4 to 14 digits; what is not said to its end means its end: `2026-01` is all of
    January. Raises `NotConfigured`."""
    match = _AT.fullmatch(text.strip())
    if match is None:
        raise _no_time(text)
    year, month, day, hour, minute, second, fraction = match.groups()
    try:
        begin = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            tzinfo=UTC,
        )
        return _end_of(begin, [month, day, hour, minute, second], fraction)
    except (ValueError, OverflowError) as error:
        raise _no_time(text) from error


def _end_of(begin: datetime, said: list[str | None], fraction: str | None) -> datetime:
    """The last microsecond of what was said."""
    if fraction is not None:
        return begin + timedelta(microseconds=int(fraction[1:7].ljust(6, "0")))
    spans = [None, None, timedelta(days=1), timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)]
    count = sum(each is not None for each in said)
    last = timedelta(microseconds=1)
    if count == 0:
        return begin.replace(month=12, day=31) + timedelta(days=1) - last
    if count == 1:
        following = begin.replace(day=28) + timedelta(days=4)
        return following.replace(day=1) - last
    span = spans[count]
    assert span is not None
    return begin + span - last


def _no_time(text: str) -> NotConfigured:
    return NotConfigured(f"{text!r} is no time: write 2026-11-22T10:00:00Z, 2026-11 or 20261122100000 (UTC)")
