"""Transfers in progress, from events and a fake clock, and their lines at every width."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from protocols.text import Masked
from resolver import Finished, Progress, Retrying, Started
from resolver.cli import transfers as amounts
from resolver.cli.bars import Bars
from resolver.cli.transfers import TransferTracker, shown_name
from tests.resolver.cli.terminal import unsafe_bytes

URL = Masked("http://h.example/object")
MIB = 1_048_576


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def _running_transfer(clock: Clock, *, expected: int | None = 10 * MIB) -> TransferTracker:
    """Return a transfer that received 1 MiB/s for three seconds, after 4 MiB of an earlier run."""
    transfers = TransferTracker(clock)
    transfers.process(Started(URL, 1, transfer=1))
    clock.now += 5.0  # the time of connecting is not part of the rate
    for second in range(4):
        transfers.process(Progress(URL, (4 + second) * MIB, expected, 4 * MIB, transfer=1))
        clock.now += 1.0
    clock.now -= 1.0
    return transfers


def test_tracker_estimates_rate_and_remaining_time() -> None:
    clock = Clock()
    (transfer,) = _running_transfer(clock).under_way()
    assert (transfer.start, transfer.received, transfer.brought) == (4 * MIB, 7 * MIB, 3 * MIB)
    assert transfer.rate(clock.now) == pytest.approx(MIB)
    assert transfer.estimate_remaining(clock.now) == pytest.approx(3.0)
    clock.now += 57.0
    rate = transfer.rate(clock.now)
    assert rate is not None
    assert rate < MIB / 10  # the transfer has stalled
    (endless,) = _running_transfer(clock, expected=None).under_way()
    assert endless.rate(clock.now)
    assert endless.estimate_remaining(clock.now) is None


def test_tracker_keeps_transfer_during_retry() -> None:
    clock = Clock()
    transfers = _running_transfer(clock)
    error = OSError("cut")
    transfers.process(Finished(URL, error, transfer=1))
    transfers.process(Retrying(URL, error, 3.0, transfer=1))
    (transfer,) = transfers.under_way()
    assert (transfer.state, transfer.until - clock.now, transfer.rate(clock.now)) == ("waiting", 3.0, None)
    transfers.process(Started(URL, 2, transfer=1))
    transfers.process(Progress(URL, 8 * MIB, 10 * MIB, 7 * MIB, transfer=1))
    assert (transfer.state, transfer.start, transfer.brought) == ("receiving", 4 * MIB, 4 * MIB)
    transfers.process(Finished(URL, None, transfer=1))
    assert (transfers.under_way(), transfers.done, transfers.failed) == ([], 1, 0)
    assert transfers.brought == 4 * MIB


def test_tracker_restart_resets_received_bytes() -> None:
    clock = Clock()
    transfers = _running_transfer(clock)
    transfers.process(Finished(URL, OSError("changed"), transfer=1))
    transfers.process(Started(URL, 2, transfer=1))
    transfers.process(Progress(URL, 1 * MIB, 10 * MIB, 0, transfer=1))
    (transfer,) = transfers.under_way()
    assert (transfer.start, transfer.received, transfer.brought) == (0, MIB, 4 * MIB)


NAMES = [
    "a",
    "x" * 300,
    "文" * 50,
    "a\u0301" * 40,
    "\x1b]0;x\x07\t\u202e\u200b",
    "[red]not markup[/red]",
    "👩‍👩‍👧" * 9,
]


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("columns", [1, 2, 5, 10, 20, 39, 40, 60, 80, 132, 200, 400])
def test_bar_lines_fit_columns(columns: int, encoding: str) -> None:
    clock = Clock()
    transfers = TransferTracker(clock)
    for number, name in enumerate(NAMES):
        url = f"gopher://h.example/9{''.join(f'%{octet:02x}' for octet in name.encode())}"
        transfers.process(Started(Masked(url), 1, transfer=number))
        transfers.process(
            Progress(Masked(url), 5 * MIB, None if number % 3 else 9 * MIB, MIB, transfer=number)
        )
    clock.now += 1.0
    lines = Bars(encoding).lines(transfers, (columns, 24), clock.now)
    assert len(lines) == len(NAMES) + 1
    for line in lines:
        assert unsafe_bytes(line.encode()) == b""
        assert "\n" not in line
        assert cell_len(re.sub(r"\x1b\[[0-9;]*m", "", line)) <= max(1, columns - 1)
    assert len(Bars(encoding).lines(transfers, (columns, 4), clock.now)) == 3


def test_bars_for_ascii_stream_are_ascii() -> None:
    clock = Clock()
    transfers = _running_transfer(clock)
    (line,) = Bars("ascii").lines(transfers, (80, 24), clock.now)
    assert line.isascii()
    assert re.sub(r"\x1b\[[0-9;]*m", "", line).split()[1].strip("+").strip("=").strip(".") == ""
    assert "▒" in Bars("utf-8").lines(transfers, (80, 24), clock.now)[0]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://h.example/pub/a.iso?x=1", "a.iso"),
        ("ftp://h.example/pub/a%20b;type=i", "a b"),
        ("gopher://h.example/00/about", "about"),
        ("http://h.example/", "http://h.example/"),
        ("http://u:****@h.example/%E4%B8%AD", "中"),
        ("file:///tmp/a%0D%0A%1B%5B31m", "a\\x0d\\x0a\\x1b[31m"),
        ("file:///tmp/%FF%09%E2%80%AE", "\\xff\\t\\u202e"),
        ("no url at all", "no url at all"),
    ],
)
def test_shown_name_is_last_part_escaped(url: str, shown: str) -> None:
    assert shown_name(url) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (102_399, "99.9 KiB"),
        (MIB - 1, "1023 KiB"),
        (2**70, "1024 EiB"),
    ],
)
def test_amount_of_bytes_has_unit(count: int, shown: str) -> None:
    assert amounts.octets(count) == shown
    assert len(amounts.format_sizes(count, count)) <= 13 + (count == 2**70)


@pytest.mark.parametrize(
    ("seconds", "countdown", "duration"),
    [
        (0.04, "0:01", "0.0 s"),
        (59.0, "0:59", "59 s"),
        (59.01, "1:00", "59 s"),
        (200.0, "3:20", "3 min"),
        (3723.0, "1:02:03", "62 min"),
        (9000.0, "2:30:00", "2 h 30 min"),
        (1e9, "days", "277777 h 47 min"),
    ],
)
def test_countdown_and_duration_formats(seconds: float, countdown: str, duration: str) -> None:
    assert (amounts.countdown(seconds), amounts.duration(seconds)) == (countdown, duration)
    assert len(amounts.countdown(seconds)) <= 8
