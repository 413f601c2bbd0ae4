"""Checks of the attack table and its page, and a measurement of one attack on each client.

tests/resolver/adapters/guard/test_attacks.py measures all attacks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.resolver.adapters.guard.attacks import ATTACKS, CLIENTS, measure
from tests.resolver.adapters.guard.table import BARE, GUARDED, PAGE, REASONS, outcomes, page

OUTCOMES = {True: outcomes(GUARDED), False: outcomes(BARE)}


def test_committed_page_equals_generated_page() -> None:
    """`python -m tests.resolver.adapters.guard.table` writes the page."""
    assert PAGE.read_text("utf-8") == page()


@pytest.mark.parametrize("guarded", [True, False])
def test_table_has_outcome_of_each_attack_and_client(guarded: bool) -> None:
    assert list(OUTCOMES[guarded]) == [(attack, client) for attack in ATTACKS for client in CLIENTS]


def test_attacks_reach_bare_clients_only() -> None:
    assert "through" not in OUTCOMES[True].values()
    for attack in ATTACKS:
        assert "through" in [OUTCOMES[False][attack, client] for client in CLIENTS]


def test_table_uses_every_reason_with_and_without_guard() -> None:
    applied = [{pair: cell for pair, cell in told.items() if cell in REASONS} for told in OUTCOMES.values()]
    assert applied[0] == applied[1]
    assert set(applied[0].values()) == REASONS.keys()


@pytest.mark.parametrize("guarded", [True, False])
@pytest.mark.parametrize("client", [client for client in CLIENTS if client != "niquests"])
def test_client_is_rebound_without_guard_only(client: str, guarded: bool, tmp_path: Path) -> None:
    """The client niquests is tested only if the dependency group `full` is installed."""
    assert measure(client, "rebinding", guarded, tmp_path) == OUTCOMES[guarded]["rebinding", client]
