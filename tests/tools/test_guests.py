"""The suites of other libraries: their table, their counts and their budgets."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.guests.__main__ import HERE, Counts, Guest, main, read_guests, replace_text

SUITE = """
import pytest

@pytest.fixture
def broken():
    raise ValueError

@pytest.mark.parametrize("number", [1, 2])
def test_good(number): pass

def test_bad(): assert False

def test_error(broken): pass

def test_skipped(): pytest.skip("for a reason")
"""


def test_guests_are_pinned_and_give_reasons() -> None:
    guests = list(read_guests())
    names = ["requests", "httpx", "httpx2", "fsspec", "airflow", "inspector", "pywb"]
    assert [guest.name for guest in guests] == names
    for guest in guests:
        assert guest.budget > 0
        assert all(guest.not_applicable.values())
        assert len(set(guest.deselected)) == len(guest.deselected)
        if guest.source:
            assert re.fullmatch(r"[\w-]+==[\d.]+", guest.source)
            assert re.fullmatch(r"[0-9a-f]{64}", guest.sha256)
            assert (HERE / f"{guest.plugin}.py").exists()


def test_counts_are_read_from_a_report(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
    counts = Counts.read(tmp_path / "report.xml")
    assert counts == Counts(2, 1, ["test_suite.test_bad", "test_suite.test_error"])


@pytest.mark.parametrize(
    ("passed", "status", "said"),
    [(1, 1, "requests: 1 tests passed, expected "), (9_999, 0, "raise the budget from ")],
)
def test_budget_decides_the_status(
    passed: int,
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Guest, "run", lambda guest: Counts(passed, 0, ["suite.test_bad"]))
    assert main(["requests"]) == status
    captured = capsys.readouterr()
    assert said in captured.out + captured.err
    assert "    failed: suite.test_bad\n" in captured.out
    assert "not run: policy: certificates are always verified" in captured.out


def test_suite_that_cannot_be_installed_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def install(guest: Guest) -> Counts:
        raise subprocess.CalledProcessError(1, ["pip", "install"])

    monkeypatch.setattr(Guest, "run", install)
    assert main(["httpx", "pywb"]) == 1
    assert capsys.readouterr().err == "httpx: pip install failed\npywb: pip install failed\n"


def test_unknown_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nix"]) == 2
    assert "no suite nix: expected one of requests, httpx" in capsys.readouterr().err


def test_texts_of_tests_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("import a\n")
    replace_text(tmp_path, {"import a\n": "import b as a\n"})
    assert (tmp_path / "tests" / "test_a.py").read_text() == "import b as a\n"
