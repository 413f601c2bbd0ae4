"""The drawing of a plan: its content, and its width on any terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolver.bulk.plan import Forecast
from resolver.cli.forecast import ASCII, BLOCKS, draw_chart
from resolver.cli.streams import can_encode
from resolver.cli.transfers import duration

FORECAST = Forecast(
    requests=60_050,
    hosts=1_042,
    slices=1_300,
    bound=25_000.0,
    bound_by="large.example.org",
    expected={1: 100_000.0, 4: 25_100.0, 16: 25_000.0},
    largest=(("large.example.org", 50_000, 25_000.0), ("archive.of.ftp.example.org", 9_000, 4_500.0)),
    histogram=((1, 1_000), (10, 40), (100, 0), (1_000, 1), (10_000, 1)),
    request_seconds=0.5,
)


def test_chart_64_columns_draws_bars() -> None:
    assert draw_chart(FORECAST, 64, threads=2) == [
        "60,050 requests to 1,042 hosts, in 1,300 slices of at most a",
        "minute",
        "",
        "Slowest hosts",
        "  large.example.org      50,000  6 h 57 min  ███████████████████",
        "  archive.of.ftp…le.org   9,000      75 min  ███",
        "",
        "Hosts by number of requests",
        "  1 to 9            1,000  █████████████████████████████████████",
        "  10 to 99             40  █",
        "  100 to 999            0",
        "  1,000 to 9,999        1  █",
        "  10,000 to 99,999      1  █",
        "",
        "Expected time, with 2 threads per worker",
        "  1 worker    27 h 47 min  █████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░",
        "  4 workers    6 h 58 min  █████████",
        "  16 workers   6 h 57 min  █████████",
        "  at least     6 h 57 min  █████████",
        "large.example.org needs 6 h 57 min with any number of workers",
        "0.5 s per request is an estimate: no server was contacted",
    ]


def test_chart_narrow_keeps_durations_and_bars() -> None:
    assert draw_chart(FORECAST, 40, threads=1, glyphs=ASCII)[3:6] == [
        "Slowest hosts",
        "  large.exam~e.org  6 h 57 min  ========",
        "  archive.of~e.org      75 min  =",
    ]


def test_chart_without_width_for_bars_keeps_figures() -> None:
    lines = draw_chart(FORECAST, 24, threads=1)
    assert "6 h 57 min" in "".join(lines)
    assert not set("".join(lines)) & {*BLOCKS[:2]}


def test_chart_width_is_at_most_110_columns() -> None:
    assert draw_chart(FORECAST, 200, threads=1) == draw_chart(FORECAST, 110, threads=1)
    assert max(map(len, draw_chart(FORECAST, 200, threads=1))) == 110


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", None, "no such one"])
def test_chart_for_limited_encoding_uses_ascii(encoding: str | None) -> None:
    assert not can_encode("".join(BLOCKS), encoding)
    assert "\n".join(draw_chart(FORECAST, 50, threads=4, glyphs=ASCII)).isascii()


def test_chart_for_utf8_uses_blocks() -> None:
    assert can_encode("".join(BLOCKS), "utf-8")


def test_chart_of_empty_plan_has_no_bars() -> None:
    nothing = Forecast(0, 0, 0, 0.0, None, {1: 0.0}, (), ())
    assert draw_chart(nothing, 80, threads=1) == [
        "0 requests to 0 hosts, in 0 slices of at most a minute",
        "",
        "Expected time, with 1 thread per worker",
        "  1 worker  0.0 s",
        "  at least  0.0 s",
    ]


SECONDS = st.floats(0, 1e7)


@given(
    st.lists(st.tuples(st.text("a.-", min_size=1, max_size=70), st.integers(1, 10**9), SECONDS), max_size=12),
    st.lists(st.integers(0, 10**7), max_size=8).map(lambda crowds: [*crowds, 1]),
    st.lists(SECONDS, min_size=1, max_size=5),
    st.integers(30, 250),
)
def test_chart_lines_fit_terminal_width(
    largest: list[tuple[str, int, float]], crowds: list[int], expected: list[float], columns: int
) -> None:
    """The lines contain all figures, too."""
    result = FORECAST._replace(
        largest=tuple(largest),
        bound=max((seconds for *_, seconds in largest), default=0.0),
        bound_by=largest[0][0] if largest else None,
        expected={2**each: seconds for each, seconds in enumerate(expected)},
        histogram=tuple((10**each, hosts) for each, hosts in enumerate(crowds)),
    )
    lines = draw_chart(result, columns, threads=1)
    assert max(map(len, lines)) <= columns
    figures = [duration(seconds) for _, _, seconds in largest] + [f"{hosts:,}" for hosts in crowds]
    if largest:
        assert [figure for figure in figures if not any(figure in line for line in lines)] == []
    assert [each for each in expected if not any(duration(each) in line for line in lines)] == []
