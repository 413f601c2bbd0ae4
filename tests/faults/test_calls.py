"""Each system call of a command fails once: no failure leaves a wrong file, and the next run completes.

See `calls` and `intercept`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.calls import COMMANDS, ERRORS
from tests.faults.calls_table import Statuses, read_table, statuses_of
from tests.faults.command import CHECKOUT, json_lines_of
from tests.faults.intercept import is_permitted
from tests.sampled import FULL, SEED

#: Calls that are tried of those with the same name and the same kind of object: the first and the last, and
#: one that the seed chooses.
_MOST = 3 if FULL else 2


def page_table() -> Statuses:
    return read_table((CHECKOUT / "docs/explanation/reliability.md").read_text(encoding="utf-8"))


def test_page_has_all_errors_of_each_call() -> None:
    page = page_table()
    errors: dict[tuple[str, str], set[str]] = {}
    for call, on, error in page:
        errors.setdefault((call, on), set()).add(error)
    assert errors == {(call, on): set(ERRORS[call]) for call, on in errors}


@pytest.fixture(scope="session")
def decided() -> None:
    if not is_permitted():
        pytest.skip("no process may decide the system calls of another one here")


@pytest.mark.usefixtures("decided")
@pytest.mark.parametrize("command", COMMANDS)
async def test_failed_system_call_leaves_no_wrong_file(command: str, tmp_path: Path) -> None:
    results = await json_lines_of("tests.faults.calls", str(tmp_path), str(_MOST), str(SEED), command)
    for result in results:
        assert result["faults"] == [], result
    page = page_table()
    for place, statuses in statuses_of(results).items():
        assert statuses <= page[place], place
