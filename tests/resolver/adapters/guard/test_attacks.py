"""Each SSRF attack on each client has the outcome in the table, with the guard and without the guard."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.resolver.adapters.guard.attacks import ATTACKS, CLIENTS, measure
from tests.resolver.adapters.guard.table import BARE, GUARDED, REASONS, outcomes

TOLD = {True: outcomes(GUARDED), False: outcomes(BARE)}


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "bare"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_has_outcome_of_table(attack: str, client: str, guarded: bool, tmp_path: Path) -> None:
    told = TOLD[guarded][attack, client]
    assert measure(client, attack, guarded, tmp_path) == ("n/a" if told in REASONS else told)
