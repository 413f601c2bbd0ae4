"""`--cookies` of the command: kept from run to run, and told where that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import resolve


def test_cookies_are_kept_from_run_to_run(at: dict[str, str], folder: Path) -> None:
    kept = folder / "cookies.txt"
    assert resolve("cat", "--cookies", str(kept), f"{at['http']}/about.txt").status == 0
    assert not kept.exists(), "nothing was set"
    for _ in range(2):
        done = resolve("cat", "-v", "--cookies", str(kept), f"{at['cookies']}/set")
        assert (done.status, kept.stat().st_mode & 0o777) == (0, 0o600)
        assert "sekret" not in done.told, "neither what we are told is shown, nor what we say"
    assert done.out == b"c=sekret"
    told = resolve("info", "-v", f"{at['cookies']}/set")
    assert b"header.set-cookie: c=****; Path=/" in told.out
    assert "sekret" not in told.told
    port = at["cookies"].rpartition(":")[2]
    assert kept.read_text().splitlines()[-1] == f"127.0.0.1:{port}\tFALSE\t/\tFALSE\t0\tc\tsekret"
    (folder / "c.toml").write_text('cookies = "cookies.txt"\n')
    (folder / "c.toml").chmod(0o600)
    assert resolve("cat", "--config", "c.toml", f"{at['cookies']}/set").out == b"c=sekret"


@pytest.mark.parametrize("wide", [True, False])
def test_a_file_that_may_not_be_trusted_is_a_usage_error_and_nothing_is_fetched(
    at: dict[str, str], folder: Path, wide: bool
) -> None:
    if wide:
        (folder / "cookies.txt").touch()
        (folder / "cookies.txt").chmod(0o644)
    name = "cookies.txt" if wide else "none/cookies.txt"
    done = resolve("get", "--cookies", name, f"{at['http']}/about.txt")
    assert done.status == 2
    assert ("chmod 600" if wide else "no such directory") in done.told
    assert not (folder / "about.txt").exists()


def test_a_bad_line_is_a_warning_with_its_number(at: dict[str, str], folder: Path) -> None:
    (folder / "cookies.txt").write_text("# mine\nsekret\n")
    (folder / "cookies.txt").chmod(0o600)
    done = resolve("cat", "--cookies", "cookies.txt", f"{at['http']}/about.txt")
    assert done.status == 0
    assert "cookies.txt: warning (cookies): line 2 " in done.told
    assert "sekret" not in done.told


def test_a_certificate_that_cannot_be_used_is_a_usage_error(at: dict[str, str], folder: Path) -> None:
    """As any other file of the person's own that is not there."""
    done = resolve("cat", "--cert", "none.pem", f"{at['http']}/about.txt")
    assert (done.status, done.out) == (2, b"")
    assert all(word in done.told for word in ("--cert 'none.pem'", "No such file"))
    assert done.told.count("\n") == 1
