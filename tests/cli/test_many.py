"""Lists of many: how politely they are asked for, as people are told of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import fixtures.ftp
from tests.cli.command import resolve
from tests.elsewhere import served


def test_what_a_host_turns_away_has_its_turn_later(tmp_path: Path) -> None:
    """Six at once, where two may log in."""
    with served(fixtures.ftp.serve) as server:
        server.logins = 2
        urls = [server.url("pub/a.txt")] * 12
        options = ["-j", "6", "--per-host", "6", "--retry-delay", "0.01", "--allow-port", str(server.port)]
        done = resolve("get", *options, *urls, folder=tmp_path)
    assert done.status == 0, done.told
    assert "12 of 12 saved" in done.told
    assert len(list(tmp_path.iterdir())) == 12
    turned_away = [line for line in done.told.splitlines() if "too many are logged in" in line]
    assert all("; again in " in line for line in turned_away)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--per-host", "0"),
        ("--per-host", "x"),
        ("--host-rate", "0"),
        ("--host-rate", "-1"),
        ("--host-rate", "1e3"),
    ],
)
def test_numbers_that_mean_nothing(option: str, value: str, tmp_path: Path) -> None:
    done = resolve("get", f"{option}={value}", "file:///etc/hostname", folder=tmp_path)
    assert done.status == 2
    assert option in done.told
    assert list(tmp_path.iterdir()) == []


def test_what_holds_is_told() -> None:
    done = resolve("config", "--config", "none", "--per-host", "3", "--host-rate", "0.5")
    lines = done.out.decode().splitlines()
    assert "per_host = 3  # the command line" in lines
    assert "host_rate = 0.5  # the command line" in lines
