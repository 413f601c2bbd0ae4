"""The contract of every scheme, under asyncio and uvloop: the checks of `resolver.testing`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from resolver.testing.contract import Case, CaseSetting, ContractCheck, endings
from resolver.testing.contract import operations as given
from resolver.testing.contract import operations as plans
from tests.contract.cases import CASES
from tests.loops.conftest import Run
from tests.sampled import sampled


def rows() -> Iterator[tuple[Case, ContractCheck]]:
    """Yield each check with the cases it applies to; `test_cancels` covers cancellation under asyncio."""
    for check in (*given.CHECKS, *plans.PLAN_CHECKS, *endings.CHECKS):
        if not check.cancels:
            yield from ((case, check) for case in CASES if check.is_for(case))


#: Each check with some of the cases by default.
TRIED = sampled(rows(), lambda each: each[1], 5)


@pytest.mark.parametrize(("setting", "check"), TRIED, indirect=["setting"], ids=str)
def test_contract_holds_under_asyncio_and_uvloop(
    setting: CaseSetting, check: ContractCheck, either: Run, tmp_path: Path
) -> None:
    either(check.function(setting, tmp_path))


def test_contract_has_ten_checks_per_case() -> None:
    assert len(list(rows())) > 10 * len(CASES)
