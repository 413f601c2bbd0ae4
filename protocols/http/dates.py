"""Dates in fields (RFC 9110 5.6.7): the one form to write and the two old ones to read as well."""

from __future__ import annotations

import re
from datetime import UTC, datetime

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_FORMS = (
    re.compile(
        rf"[A-Z][a-z]{{2}}, (?P<day>\d\d) (?P<month>[A-Z][a-z]{{2}}) (?P<year>\d{{4}}) {_TIME} GMT", re.ASCII
    ),
    re.compile(
        rf"[A-Z][a-z]+, (?P<day>\d\d)-(?P<month>[A-Z][a-z]{{2}})-(?P<year>\d\d) {_TIME} GMT", re.ASCII
    ),
    re.compile(
        rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})", re.ASCII
    ),
)
#: RFC 850 wrote two digits, which RFC 9110 takes for the past. Nothing was on the web before 1970.
_CENTURY_TURN = 70


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def format_date(moment: datetime) -> str:
    """The form to write. A moment without a zone counts as UTC."""
    utc = moment.astimezone(UTC) if moment.tzinfo is not None else moment
    day, month = _DAYS[utc.weekday()], MONTHS[utc.month - 1]
    return f"{day}, {utc.day:02} {month} {utc.year:04} {utc:%H:%M:%S} GMT"


def parse_date(text: str) -> datetime | None:
    """The moment in UTC, or None for what is no date: a fact is lost, nothing else."""
    for form in _FORMS:
        if found := form.fullmatch(text):
            return _moment(found.groupdict())
    return None


def _moment(parts: dict[str, str]) -> datetime | None:
    year = int(parts["year"])
    if len(parts["year"]) == 2:
        year += 1900 if year >= _CENTURY_TURN else 2000
    second = int(parts["second"])
    try:
        return datetime(
            year,
            MONTHS.index(parts["month"]) + 1,
            int(parts["day"]),
            int(parts["hour"]),
            int(parts["minute"]),
            59 if second > 59 else second,  # a leap second, which datetime has no room for
            tzinfo=UTC,
        )
    except ValueError:
        return None
