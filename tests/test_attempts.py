"""A test that fails and then passes alone is flaky; a real failure always refuses the run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.attempts import REPORT, passes_alone
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[1]

CONFTEST = """\
from tests.attempts import NAME, SecondAttempts


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondAttempts(config), NAME)
"""
#: `nth(NAME)` counts its calls over all processes.
PREAMBLE = """\
import os
import pytest
from pathlib import Path


def nth(name):
    with open(Path(__file__).with_name(name), "ab") as file:
        file.write(b"x")
        file.flush()
        return os.fstat(file.fileno()).st_size

"""
PASSES = "def test_passes(): pass\n"
FLAKY = "def test_flaky(): assert nth('flaky') != 1\n"
FAILS = "def test_fails(): assert nth('fails') < 1\n"
LATE = "def test_late(): assert nth('late') == 4\n"
TOO_LATE = "def test_too_late(): assert nth('too late') == 5\n"
PARAMETRIZED = """\
@pytest.mark.parametrize("text", ["a b::c[d]/é"])
def test_odd_name(text): assert nth('odd') != 1
"""
SETUP = """\
@pytest.fixture
def broken(): assert nth('setup') != 1
def test_setup(broken): pass
"""
TEARDOWN = """\
@pytest.fixture
def untidy():
    yield
    assert nth('teardown') < 1
def test_teardown(untidy): pass
"""
SKIPPED_ALONE = """\
def test_skipped_alone():
    if nth('skipped') > 1:
        pytest.skip("not again")
    assert False
"""
MANY = "\n".join(f"def test_flaky_{number}(): assert nth('flaky {number}') != 1" for number in range(4))
THREE = "\n".join(MANY.splitlines()[:3])
DIES = "def test_dies():\n    if nth('dies') == 1: os._exit(9)\n"


def gate(folder: Path, files: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(PREAMBLE + text)
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG,
    )


#: A file of tests, the exit status, and the flaky tests; this repository's gate has the first two.
RUNS: Mapping[str, tuple[str, int, Sequence[str]]] = {
    "flaky": (PASSES + FLAKY, 0, ["flaky"]),
    "flaky and fails": (FLAKY + FAILS, 1, []),
    "skipped alone": (SKIPPED_ALONE, 1, []),
    "passes": (PASSES, 0, []),
    "late": (PASSES + LATE, 0, ["late"]),
    "too late": (PASSES + TOO_LATE, 1, []),
    "fails": (PASSES + FAILS, 1, []),
    "setup": (SETUP, 0, ["setup"]),
    "teardown": (TEARDOWN, 1, []),
    "three": (THREE, 0, ["flaky_0", "flaky_1", "flaky_2"]),
    "four": (MANY, 1, []),
}


@pytest.mark.parametrize(
    "name", [*list(RUNS)[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in list(RUNS)[2:])]
)
def test_gate_passes_only_with_flaky_tests(name: str, tmp_path: Path) -> None:
    text, status, flaky = RUNS[name]
    done = gate(tmp_path, {"it": text})
    assert done.returncode == status, done.stdout + done.stderr
    report = tmp_path / REPORT
    assert report.exists() == bool(flaky)
    for test in flaky:
        assert f"test_it.py::test_{test}" in report.read_text()
        assert f"test_it.py::test_{test}" in done.stdout.splitlines()[-1]
    if flaky:
        assert "AssertionError" in report.read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "flaky"), [(PARAMETRIZED, "test_odd_name"), (DIES, "test_it.py::test_dies")]
)
def test_gate_with_workers_names_a_flaky_test(text: str, flaky: str, tmp_path: Path) -> None:
    """Cases: a test with any name, and a test that kills its worker."""
    done = gate(tmp_path, {"it": text + PASSES}, "-p", "xdist", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert flaky in (tmp_path / REPORT).read_text()


@pytest.mark.slow
def test_gate_with_workers_refuses_a_real_failure(tmp_path: Path) -> None:
    done = gate(tmp_path, {"it": FLAKY + FAILS}, "-p", "xdist", "-n", "2")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].startswith("gate refused")
    assert "test_it.py::test_fails" in done.stdout.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [("-p", "no:xdist"), ("-p", "xdist", "-n", "2")])
def test_gate_refuses_a_file_that_is_not_collected(workers: tuple[str, ...], tmp_path: Path) -> None:
    done = gate(tmp_path, {"it": FLAKY, "broken": "import nothing_of_that_name\n"}, *workers)
    assert done.returncode not in (0, 5)
    assert not (tmp_path / REPORT).exists()


@pytest.mark.slow
def test_gate_removes_the_report_of_an_earlier_run(tmp_path: Path) -> None:
    gate(tmp_path, {"it": FLAKY})
    assert (tmp_path / REPORT).exists()
    done = gate(tmp_path, {"it": PASSES})
    assert (done.returncode, (tmp_path / REPORT).exists()) == (0, False)


def test_passes_alone_wants_the_test_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # as in `gate`: it starts in half the time
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(PREAMBLE + PASSES + FAILS)
    assert passes_alone("test_it.py::test_passes", tmp_path)
    assert not passes_alone("test_it.py::test_fails", tmp_path)
    assert not passes_alone("test_it.py::test_nothing", tmp_path)
    assert not passes_alone("test_it.py", tmp_path)
