"""Python processes that inherit nothing from the test run.

If coverage is measured, every started process would measure too, and import the modules for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.hang import HANG


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def run_alone(program: str, *arguments: object) -> str:
    """Run a program in a separate Python; return its output.

    Warnings are errors there, except the warning of newer Pythons about a fork in a multithreaded process.
    """
    done = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning"),
            *("-c", program, *map(str, arguments)),
        ],
        cwd=Path(__file__).parents[1],
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=HANG,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
