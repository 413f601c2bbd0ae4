"""What stands beside a link: a size and a date, as the servers write them.

A number with a unit is not a size, and a date without a zone is no moment: both are kept as they are shown.
"""

from __future__ import annotations

import re
from datetime import datetime

from protocols.http.dates import MONTHS, parse_date
from protocols.instant import in_utc
from protocols.values import NamedTuple

_LARGEST = 2**63 - 1
_SIZE = r"-|[0-9]{1,19}(?:[.,][0-9]{1,3})?(?: ?(?:[KMGTPEkmgtpe]i?[Bb]?|B|bytes))?"
_MONTH = "|".join(MONTHS)
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"
_DATES = (
    rf"(?P<day>[0-9]{{2}})-?(?P<name>{_MONTH})-?(?P<year>[0-9]{{4}}) {_TIME}",  # nginx, mini_httpd
    rf"(?P<year>[0-9]{{4}})-(?P<month>[0-9]{{2}})-(?P<day>[0-9]{{2}}) {_TIME}",  # Apache
    rf"(?P<year>[0-9]{{4}})-(?P<name>{_MONTH})-(?P<day>[0-9]{{2}}) {_TIME}",  # lighttpd, fancyindex
)
_LOCAL = tuple(map(re.compile, _DATES))
_STAMP = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]{1,9})?Z")
_SIZE_CELL = re.compile(_SIZE)
_SIZE_BEHIND = re.compile(rf"({_SIZE})(?=\s|$)")
_EXACT = re.compile(r"([0-9]{1,19})(?: ?(?:B|bytes))?")
#: Digits right before a link, behind a time: IIS.
_SIZE_BEFORE = re.compile(r"[0-9]{1,2}:[0-9]{2} [AP]M +([0-9]{1,19}) *")


class CellTime(NamedTuple):
    """A date as `text`; `certain` where its zone is told, else `local`, as the server's clock had it."""

    text: str
    certain: datetime | None = None
    local: str | None = None


class CellSize(NamedTuple):
    """A size as `text`; `exact` in octets, where it is that."""

    text: str
    exact: int | None = None


def parse_size(text: str) -> CellSize | None:
    """A whole cell; None for what is no size. A dash is one that says nothing."""
    if not _SIZE_CELL.fullmatch(text):
        return None
    exact = _EXACT.fullmatch(text)
    octets = None if exact is None else int(exact[1])
    return CellSize(text, octets if octets is not None and octets <= _LARGEST else None)


def parse_moment(text: str) -> CellTime | None:
    """A whole cell; None for what is no date."""
    if (certain := parse_stamp(text) or parse_date(text)) is not None:
        return CellTime(text, certain)
    for form in _LOCAL:
        if found := form.fullmatch(text):
            return _local(text, found)
    return None


def parse_stamp(text: str) -> datetime | None:
    """RFC 3339 in UTC."""
    found = _STAMP.fullmatch(text)
    return None if found is None else in_utc(found.groups())


def read_behind(text: str) -> tuple[CellTime | None, CellSize | None]:
    """The text behind a link of a `pre`: a date, then a size; what follows is a description."""
    text = text.lstrip()
    moment = None
    for form in _LOCAL:
        if found := form.match(text):
            moment = _local(found[0], found)
            text = text[found.end() :].lstrip()
            break
    size = _SIZE_BEHIND.match(text)
    return moment, None if moment is None or size is None else parse_size(size[1])


def read_before(text: str) -> CellSize | None:
    """The text before a link of a `pre`, where IIS has its size."""
    found = _SIZE_BEFORE.search(text)
    return None if found is None else parse_size(found[1])


def _local(text: str, found: re.Match[str]) -> CellTime | None:
    parts = found.groupdict()
    month = MONTHS.index(parts["name"]) + 1 if "name" in parts else int(parts["month"])
    second = parts["second"]
    clock = int(parts["hour"]), int(parts["minute"]), int(second or 0)
    try:
        moment = datetime(int(parts["year"]), month, int(parts["day"]), *clock)
    except ValueError:
        return None
    return CellTime(text, None, moment.isoformat(timespec="minutes" if second is None else "seconds"))
