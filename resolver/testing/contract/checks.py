"""All checks of the contract."""

from __future__ import annotations

from resolver.testing.contract import endings, given, octets, plans, refusals
from resolver.testing.contract.check import ContractCheck

CHECKS: tuple[ContractCheck, ...] = (
    *given.CHECKS,
    *plans.CHECKS,
    *refusals.CHECKS,
    *endings.CHECKS,
    *octets.CHECKS,
)
