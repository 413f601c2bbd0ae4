"""Each system call of a command fails once: no failure leaves a wrong file, and the next run completes.

See `calls`. The failures are made by strace, which a container may forbid.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.calls import COMMANDS
from tests.faults.calls_table import read_table, statuses_of
from tests.faults.command import CHECKOUT, json_lines_of
from tests.sampled import SEED

#: Calls that are tried of those with the same name and the same kind of object: the first and the last.
_MOST = 2


@pytest.fixture(scope="session")
def strace() -> None:
    try:
        done = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("strace is missing, so no system call can fail")
    if done.returncode:
        pytest.skip(f"strace may not trace a process here: {done.stderr.decode().strip()}")


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("command", COMMANDS)
async def test_failed_system_call_leaves_no_wrong_file(command: str, tmp_path: Path) -> None:
    results = await json_lines_of("tests.faults.calls", str(tmp_path), str(_MOST), str(SEED), command)
    for result in results:
        assert result["faults"] == [], result
    missed = Counter((result["call"], result["on"]) for result in results if result["status"] is None)
    assert missed.total() <= len(results) // 10, missed
    page = read_table((CHECKOUT / "docs/explanation/reliability.md").read_text(encoding="utf-8"))
    for place, statuses in statuses_of(results).items():
        assert statuses <= page[place], place
