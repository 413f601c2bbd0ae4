"""The gate leaves out the files and tests of its table, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import sets
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[1]


def test_table_names_files_and_tests_that_exist() -> None:
    assert sets.unknown() == []


@pytest.mark.parametrize(
    ("path", "left_out"),
    [
        ("tests/window", True),
        ("tests/window/test_pages.py", True),
        ("tests/faults/cell.py", True),
        ("tests/servers", False),
        ("tests/servers/test_ftp.py", True),
        ("tests/servers/test_each_server.py", False),
        ("tests/resolver/network/test_stream.py", False),
        ("tests", False),
    ],
)
def test_gate_leaves_out_files_of_the_table(path: str, left_out: bool) -> None:
    assert sets.is_left_out(path) is left_out


def test_gate_leaves_out_tests_of_the_table_with_all_their_cases() -> None:
    name = "tests/resolver/network/test_stream.py::test_move_of_64_mib_uses_less_than_two"
    assert sets.is_test_left_out(f"{name}[ftp]")
    assert not sets.is_test_left_out(
        "tests/resolver/network/test_stream.py::test_move_to_full_disk_is_a_local_error[1]"
    )


@pytest.mark.parametrize(
    ("option", "collected"),
    [("--gate", False), pytest.param("--strict-markers", True, marks=pytest.mark.slow)],
)
def test_gate_collects_no_file_and_no_test_of_the_table(option: str, collected: bool) -> None:
    """The argument is a folder, so that pytest decides which files to collect."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--collect-only",
            "-p",
            "no:xdist",
            option,
            "tests/protocols/gopher",
        ],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("gopher/test_fuzz.py" in done.stdout) is collected
    assert ("test_dialogue.py::test_memory_does_not_grow_with_body" in done.stdout) is collected
    assert "gopher/test_menu.py" in done.stdout
