"""The three forms of a date, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.http.response import parse_date

WHEN = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", WHEN),  # RFC 9110 5.6.7: all three
        ("Sunday, 06-Nov-94 08:49:37 GMT", WHEN),
        ("Sun Nov  6 08:49:37 1994", WHEN),
        ("Sun Nov 16 08:49:37 1994", WHEN.replace(day=16)),
        ("Fri, 31 Dec 1999 23:59:60 GMT", datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("Thursday, 01-Jan-70 00:00:00 GMT", datetime(1970, 1, 1, tzinfo=UTC)),
        ("Tuesday, 01-Jan-69 00:00:00 GMT", datetime(2069, 1, 1, tzinfo=UTC)),
        ("", None),
        ("0", None),
        ("Sun, 06 Nov 1994 08:49:37 +0100", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("Sun, 31 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Foo 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 24:49:37 GMT", None),
        ("Sun, 06 Nov 0000 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT ", None),
        ("Sun, ٠٦ Nov 1994 08:49:37 GMT", None),
    ],
)
def test_dates(text: str, moment: datetime | None) -> None:
    assert parse_date(text) == moment


@given(st.text() | st.from_regex(r"\A[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT\Z"))
def test_any_text_is_a_date_or_none(text: str) -> None:
    found = parse_date(text)
    assert found is None or found.tzinfo is UTC
