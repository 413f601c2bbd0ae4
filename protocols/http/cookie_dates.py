"""Dates as cookies have them (RFC 6265bis 5.1.1): in whatever order, and whatever stands around them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_LONGEST = 1_024
_DELIMITER = re.compile(r"[\t\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
#: Before any run of this program: what an answer without a Date calls past.
_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def has_passed(expires: str, now: str) -> bool:
    """Is a date over, for an answer whose Date is `now`? One that cannot be read never is."""
    date = parse_cookie_date(expires)
    return date is not None and date <= (parse_cookie_date(now) or _LONG_AGO)


def parse_cookie_date(text: str) -> datetime | None:
    """A date as cookies have them (RFC 6265bis 5.1.1): in whatever order, and whatever stands around it."""
    time, day, month, year = None, None, None, None
    for token in _DELIMITER.split(text[:_LONGEST]):
        if time is None and (found := re.match(r"(\d{1,2}):(\d{1,2}):(\d{1,2})(?!\d)", token, re.ASCII)):
            time = (int(found[1]), int(found[2]), int(found[3]))
        elif day is None and (found := re.match(r"(\d{1,2})(?!\d)", token, re.ASCII)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := re.match(r"(\d{2,4})(?!\d)", token, re.ASCII)):
            year = _full_year(int(found[1]))
    if time is None or day is None or month is None or year is None or year < 1601:
        return None
    try:
        return datetime(year, month, day, *time, tzinfo=UTC)
    except ValueError:
        return None


def _full_year(year: int) -> int:
    return year + 1900 if 70 <= year <= 99 else year + 2000 if year <= 69 else year
