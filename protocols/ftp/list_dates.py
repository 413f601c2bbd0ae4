"""Dates as LIST writes them: to the minute or the day, by the server's own clock, often without their year.

A date without a zone is no moment. It is kept as that clock had it (`local`), and nothing is decided by it.
Servers leave the year out for what is less than half a year old, and some for all that lies ahead.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

from protocols.values import NamedTuple

_MONTHS = (b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec")
_NAME = b"(?i:" + b"|".join(_MONTHS) + b")"
_CLOCK = rb"[0-9]{1,2}:[0-9]{2}"
#: What may stand where a line of Unix has its date. Runs are bounded: a line is as long as a peer likes.
DATE = (
    rb"(?:" + _NAME + rb" {1,20}[0-9]{1,2} {1,20}(?:[0-9]{4}|" + _CLOCK + rb"(?::[0-9]{2} {1,20}[0-9]{4})?)"
    rb"|[0-9]{4}-[0-9]{2}-[0-9]{2} {1,20}" + _CLOCK + rb"(?::[0-9]{2}(?:\.[0-9]{1,9})?(?: [-+][0-9]{4})?)?)"
)
_TIME = rb"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
_MONTH_DAY = rb"(?P<name>" + _NAME + rb") +(?P<day>[0-9]{1,2}) +"
_FORMS = tuple(
    map(
        re.compile,
        (
            _MONTH_DAY + rb"(?P<year>[0-9]{4})",
            _MONTH_DAY + _TIME,
            _MONTH_DAY + _TIME + rb":(?P<second>[0-9]{2}) +(?P<year>[0-9]{4})",
            rb"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2}) +"
            + _TIME
            + rb"(?::(?P<second>[0-9]{2})(?:\.[0-9]{1,9})?(?: (?P<zone>[-+][0-9]{4}))?)?",
            rb"(?P<month>[0-9]{2})-(?P<day>[0-9]{2})-(?P<year>[0-9]{4}|[0-9]{2}) +"
            + _TIME
            + rb" ?(?P<half>[AP]M)?",  # MS-DOS
        ),
    )
)
#: MS-DOS has two digits for the years from 1970 on.
_CENTURY_TURN = 70
#: A day without a year is the one nearest: half a year and some days back, and as much ahead as a clock of
#: another zone may be.
_BACK, _AHEAD = timedelta(days=190), timedelta(hours=26)


class ListDate(NamedTuple):
    """A date as `text`; `certain` where its zone is told, else `local`, as far as it was read."""

    text: str
    certain: datetime | None = None
    local: str | None = None
    precision: str | None = None


def parse_date(octets: bytes, now: datetime | None) -> ListDate:
    """`now` is what a year that is left out is found by; None, and there is no date then."""
    text = octets.decode("utf-8", "surrogateescape")
    for form in _FORMS:
        if found := form.fullmatch(octets):
            parts = {name: value for name, value in found.groupdict().items() if value is not None}
            try:
                return _dated(text, parts, now)
            except (ValueError, OverflowError):  # no such day
                break
    return ListDate(text)


def at_second(second: int) -> datetime:
    """So many seconds after the first of 1970, UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)


def _dated(text: str, parts: dict[str, bytes], now: datetime | None) -> ListDate:
    moment = _moment(parts, _year(parts["year"])) if "year" in parts else _nearest(parts, now)
    if moment is None:
        return ListDate(text)
    if "zone" in parts:
        return ListDate(text, certain=_with_zone(moment, parts["zone"]), precision="second")
    if "hour" not in parts:
        return ListDate(text, local=f"{moment:%Y-%m-%d}", precision="day")
    if "second" in parts:
        return ListDate(text, local=f"{moment:%Y-%m-%dT%H:%M:%S}", precision="second-no-zone")
    return ListDate(text, local=f"{moment:%Y-%m-%dT%H:%M}", precision="minute")


def _year(digits: bytes) -> int:
    year = int(digits)
    if len(digits) == 4:
        return year
    return year + (1900 if year >= _CENTURY_TURN else 2000)


def _moment(parts: dict[str, bytes], year: int) -> datetime:
    month = _MONTHS.index(parts["name"].lower()) + 1 if "name" in parts else int(parts["month"])
    hour = int(parts.get("hour", b"0"))
    if "half" in parts:
        if not 1 <= hour <= 12:
            raise ValueError(hour)
        hour = hour % 12 + (12 if parts["half"] == b"PM" else 0)
    minute, second = int(parts.get("minute", b"0")), int(parts.get("second", b"0"))
    return datetime(year, month, int(parts["day"]), hour, minute, second)


def _nearest(parts: dict[str, bytes], now: datetime | None) -> datetime | None:
    if now is None:
        return None
    clock = now.astimezone(UTC).replace(tzinfo=None)
    for year in (clock.year - 1, clock.year, clock.year + 1):
        try:
            moment = _moment(parts, year)
        except ValueError:  # the 29th of February
            continue
        if clock - _BACK <= moment <= clock + _AHEAD:
            return moment
    return None


def _with_zone(moment: datetime, zone: bytes) -> datetime:
    ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:5]))
    there = timezone(-ahead if zone.startswith(b"-") else ahead)
    return moment.replace(tzinfo=there).astimezone(UTC)
