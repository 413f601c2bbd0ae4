"""Every status means one thing. The transcripts have most of them; here is the rest."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from protocols.contract import Moved
from protocols.http.response import ResponseHead, check_status
from resolver import Declined, ProtocolError, TryLater


def head(status: int, *locations: str, reason: str = "Because") -> ResponseHead:
    return ResponseHead(status, reason, tuple(("location", location) for location in locations))


@pytest.mark.parametrize("status", [200, 201, 202, 203, 205, 207, 226, 299])
def test_here_it_is(status: int) -> None:
    assert check_status(head(status, "/ignored")) is None


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
def test_it_is_elsewhere(status: int) -> None:
    assert check_status(head(status, "/there")) == Moved("/there", str(status))
    assert check_status(head(status, "/there", "/there")) == Moved("/there", str(status))


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("locations", [(), ("",), ("/a", "/b")])
def test_it_is_nowhere(status: int, locations: tuple[str, ...]) -> None:
    with pytest.raises(ProtocolError):
        check_status(head(status, *locations))


@pytest.mark.parametrize("status", [206, 304, 305, 306, 309, 399])
def test_what_answers_no_question_of_ours(status: int) -> None:
    with pytest.raises(ProtocolError):
        check_status(head(status, "/there"))


def test_a_refusal_has_the_words_of_the_server() -> None:
    with pytest.raises(TryLater) as caught:
        check_status(head(503, reason="Back at noon"))
    error = caught.value
    assert (error.code, error.text) == ("503", "Back at noon")
    assert "503 Back at noon" in error.message


NOW = ("date", "Sun, 06 Nov 1994 08:49:37 GMT")


@pytest.mark.parametrize(
    ("fields", "after"),
    [
        ((), None),
        ((("retry-after", "120"),), 120.0),
        ((("retry-after", "0"),), 0.0),
        ((("retry-after", "9" * 400),), 86_400.0),
        ((("retry-after", "-1"),), None),
        ((("retry-after", "soon"),), None),
        ((("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"), NOW), 30.0),
        ((("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"), NOW), 0.0),
        ((("retry-after", "Sun, 06 Nov 2094 08:50:07 GMT"), NOW), 86_400.0),
        ((("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),), None),
    ],
)
def test_how_long_the_server_asks_to_wait(fields: tuple[tuple[str, str], ...], after: float | None) -> None:
    with pytest.raises(TryLater) as caught:
        check_status(ResponseHead(503, "", fields))
    assert caught.value.after == after
    assert caught.value.until is None or len(fields) == 1


def test_a_moment_from_a_server_that_does_not_say_what_time_it_has() -> None:
    with pytest.raises(TryLater) as caught:
        check_status(ResponseHead(503, "", (("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),)))
    assert caught.value.until == datetime(1994, 11, 6, 8, 50, 7, tzinfo=UTC)


def test_no_other_status_is_an_answer() -> None:
    for status in range(400, 1000):
        with pytest.raises(Declined) as caught:
            check_status(head(status, "/there"))
        assert caught.value.code == str(status)
