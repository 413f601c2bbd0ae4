"""Dates as they have been written: a table, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.news.article import parse_date

ONE = datetime(2025, 1, 6, 10, 0, 24, tzinfo=UTC)
OLD = datetime(1982, 11, 19, 21, 14, 55, tzinfo=UTC)

DATES = [
    ("Mon, 06 Jan 2025 10:00:24 +0000", ONE),
    ("6 Jan 2025 10:00:24 GMT", ONE),
    ("Mon,  6 Jan 2025 12:00:24 +0200 (EET)", ONE),
    ("Mon, 6 Jan 2025 05:00:24 EST", ONE),
    ("Mon, 6 Jan 2025 11:00:24 MEZ", ONE),
    ("06 Jan 25 10:00:24 UT", ONE),  # two digits
    ("Mon, 6 Jan 125 10:00:24 Z", ONE),  # three, as a program of 2025 that prints years since 1900
    ("Mon, 6 January 2025 10:00:24 +0000", ONE),
    ("Monday, 06-Jan-25 10:00:24 GMT", ONE),  # RFC 850
    ("Mon Jan  6 10:00:24 2025", ONE),  # the C library
    ("Mon Jan 6 05:00:24 EST 2025", ONE),
    ("mon, 6 jan 2025 10:00:24 utc", ONE),
    ("Mon, 6 Jan 2025 10:00 +0000", ONE.replace(second=0)),
    ("Mon, 6 Jan 2025 10:00:24", ONE),  # no zone
    ("Mon, 6 Jan 2025 10:00:24 XYZ", ONE),  # RFC 5322 4.3: an unknown one is UTC
    ("Mon, 6 Jan 2025 10:00:24 -0000", ONE),
    ("Mon, 6 Jan 2025 10:00:24.123 +0000", ONE),
    ("Mon (a (day)) , 6 Jan 2025 10:00:24 +0000", ONE),
    ("Fri, 19-Nov-82 16:14:55 EST", OLD),  # RFC 1036
    ("Fri, 19 Nov 82 16:14:55 EST", OLD),
    ("Sat, 31 Dec 2016 23:59:60 +0000", datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ("Mon, 6 Jan 1950 00:00:00 +0000", datetime(1950, 1, 6, tzinfo=UTC)),
    ("6 Jan 49 00:00:00", datetime(2049, 1, 6, tzinfo=UTC)),
    ("6 Jan 50 00:00:00", datetime(1950, 1, 6, tzinfo=UTC)),
]
NONE = [
    "",
    "yesterday",
    "Mon, 06 Jan 2025",
    "10:00:24",
    "32 Jan 2025 10:00:00",
    "29 Feb 2025 10:00:00",
    "6 Foo 2025 10:00:00",
    "6 Jan 2025 25:00:00",
    "6 Jan 2025 10:60:00",
    "6 Jan 0000 10:00:00",
    "1 Jan 0001 00:00:00 +2300",
    "31 Dec 9999 23:59:59 -2300",
    "6 Jan 2025 10:00:00 +9999",
    "x" * 1000 + " 6 Jan 2025 10:00:00",
]


@pytest.mark.parametrize(("text", "moment"), DATES)
def test_a_date(text: str, moment: datetime) -> None:
    assert parse_date(text) == moment


@pytest.mark.parametrize("text", NONE)
def test_no_date(text: str) -> None:
    assert parse_date(text) is None


@given(st.text(alphabet="0123456789:+-JanFebEST (),", max_size=40) | st.text(max_size=300))
def test_any_text_is_a_date_or_none(text: str) -> None:
    parse_date(text)
