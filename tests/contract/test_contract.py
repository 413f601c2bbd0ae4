"""The contract that every scheme keeps, row by row: what is given, what a plan says, what is left open, what
a cancel leaves, what comes of a peer that is something else, and that a refusal connects to nothing."""

from __future__ import annotations

from resolver.testing.contract import CHECKS, Contract
from resolver.testing.contract import operations as plans
from resolver.testing.contract import peers as octets
from resolver.url import registry
from tests.contract.cases import CASES, WISHES
from tests.scheduled import run_scheduled

pytest_plugins = ["resolver.testing.plugin"]


class TestOurs(Contract):
    """`test_peers` has what comes of each peer, to the class of the error."""

    cases = CASES
    checks = tuple(check for check in CHECKS if check not in octets.PEERS)
    run = staticmethod(run_scheduled)


class TestWishes(Contract):
    """A plan shows what is wished for beyond the URL as well."""

    cases = WISHES
    checks = plans.PLANS_CHECKS[:1]
    run = staticmethod(run_scheduled)


def test_every_scheme_has_a_row() -> None:
    assert {case.scheme for case in CASES} == set(registry.SCHEMES)
