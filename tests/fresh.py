"""Pythons that have nothing of the test run's own.

Where coverage is measured, every process that is started measures too, and imports what that needs.
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
    """What a Python of its own says that runs this program; warnings are errors there, but that which newer
    ones have for a fork beside threads."""
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
