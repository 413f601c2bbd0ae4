"""Dates as people's programs have written them since 1982: read leniently, None if that fails.

RFC 5322 3.3 and its obsolete forms, RFC 850 (`Friday, 19-Nov-82 16:14:55 EST`), RFC 1036 and the C
library's (`Fri Nov 19 16:14:55 1982`). The day of the week says nothing new and is not looked at.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_LONGEST = 200  # octets of a date that are looked at
_COMMENT = re.compile(r"\([^()]*\)")
_DAY_FIRST = re.compile(r"\b(\d{1,2})[\s-]+([a-z]{3})[a-z]*\.?[\s-]+(\d{2,4})\b", re.IGNORECASE)
_MONTH_FIRST = re.compile(r"\b([a-z]{3})[a-z]*\.?\s+(\d{1,2})\b(?!:)", re.IGNORECASE)
_YEAR = re.compile(r"(?<![:\d+-])(\d{4})\b(?!:)")
_TIME = re.compile(r"\b(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\.\d+)?")
_ZONE = re.compile(r"([+-])(\d{2}):?(\d{2})\b|\b([a-z]{1,5})\b", re.IGNORECASE)

_MONTHS = {
    **{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6},
    **{"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12},
}
#: Hours east of Greenwich. RFC 5322 4.3 counts any other name as UTC, military letters among them.
_ZONES = {
    **{"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
    **{"ast": -4, "adt": -3, "akst": -9, "akdt": -8, "hst": -10},
    **{"wet": 0, "west": 1, "bst": 1, "met": 1, "mest": 2, "mez": 1, "mesz": 2, "cet": 1, "cest": 2},
    **{"eet": 2, "eest": 3, "msk": 3, "jst": 9, "kst": 9, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13},
}


def parse_date(text: str) -> datetime | None:
    """The moment that a Date field names, in UTC; None for what is no date."""
    text = _COMMENT.sub(" ", text[:_LONGEST])
    time = _TIME.search(text)
    day = _find_day(text)
    if time is None or day is None:
        return None
    year, month, number = day
    hour, minute, second = int(time[1]), int(time[2]), min(int(time[3] or 0), 59)  # 60: a leap second
    try:
        zone = _find_zone(text[time.end() :])
        return datetime(year, month, number, hour, minute, second, tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _find_day(text: str) -> tuple[int, int, int] | None:
    """Year, month, day."""
    for found in _DAY_FIRST.finditer(text):
        if found[2].lower() in _MONTHS:
            return _full_year(found[3]), _MONTHS[found[2].lower()], int(found[1])
    year = _YEAR.search(text)
    for found in _MONTH_FIRST.finditer(text):
        if found[1].lower() in _MONTHS and year is not None:
            return int(year[1]), _MONTHS[found[1].lower()], int(found[2])
    return None


def _full_year(digits: str) -> int:
    """RFC 5322 4.3: two digits are 1950 to 2049, three count from 1900."""
    year = int(digits)
    if len(digits) == 2:
        return year + (2000 if year < 50 else 1900)
    return year + 1900 if len(digits) == 3 else year


def _find_zone(text: str) -> timezone:
    found = _ZONE.search(text)
    if found is None:
        return UTC
    if found[4] is not None:
        return timezone(timedelta(hours=_ZONES.get(found[4].lower(), 0)))
    offset = timedelta(hours=int(found[2]), minutes=int(found[3]))
    return timezone(offset if found[1] == "+" else -offset)
