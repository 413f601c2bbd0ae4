"""The contract as a test class: each check runs with the server of a case, in a separate event loop."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import trio

from resolver.network.connecting import unwrap_group
from resolver.testing.contract import endings, operations, peers
from resolver.testing.contract.case import Case, ContractCheck, start

CHECKS: tuple[ContractCheck, ...] = (
    *operations.CHECKS,
    *operations.PLAN_CHECKS,
    *peers.REFUSAL_CHECKS,
    *endings.CHECKS,
    *peers.CHECKS,
)


class Contract:
    """A test class that runs each check with each suitable case; `run` starts an event loop for a check."""

    cases: ClassVar[tuple[Case, ...]] = ()
    checks: ClassVar[tuple[ContractCheck, ...]] = CHECKS
    run: Callable[[Callable[[], Awaitable[None]]], None] = staticmethod(trio.run)

    @classmethod
    def rows(cls) -> list[tuple[ContractCheck, Case]]:
        """Return the pairs of check and case in which the check applies to the case."""
        return [(check, case) for check in cls.checks for case in cls.cases if check.is_for(case)]

    def test_contract(
        self, contract_row: tuple[ContractCheck, Case], contract_tls: ssl.SSLContext, tmp_path: Path
    ) -> None:
        check, case = contract_row
        self.run(partial(perform, check, case, contract_tls, tmp_path))


async def perform(check: ContractCheck, case: Case, tls: ssl.SSLContext, folder: Path) -> None:
    """Start the server of a case, and run one check with the case."""
    files, saved = folder / "tree", folder / "saved"
    saved.mkdir()
    if case.furnish is not None:
        case.furnish(files)
    problem: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            await check.function(await start(case, nursery, tls, files), saved)
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        problem = unwrap_group(group)
    if problem is not None:
        raise problem


def names(row: Any) -> str:
    """Return the displayed name of a test."""
    check, case = row
    return f"{case}: {check}"
