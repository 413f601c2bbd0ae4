"""`Network.admit`: a host that the user chose is checked again when a link leads to that host."""

from __future__ import annotations

import pytest

from resolver import Referrer, Refused, parse
from resolver.transfer.network import Network


async def test_network_admit_checks_referrer_despite_earlier_user_choice() -> None:
    """The address of the referrer decides, not the earlier choice of the user."""
    network = Network(environment={})
    inside, found_in = parse("http://10.0.0.1/"), Referrer("http://h.example/", "93.184.215.14")
    for _ in range(2):
        network.admit(inside)
    with pytest.raises(Refused, match="S08"):
        network.admit(inside, origin="derived", referrer=found_in)
