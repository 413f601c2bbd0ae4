"""Credentials that were asked for: remembered for their place, and not for ever."""

from __future__ import annotations

from protocols.contract import Credentials
from resolver.gate.credentials import CAPACITY, Keeper


async def test_places_without_number_are_not_all_remembered() -> None:
    asked: list[str] = []

    async def ask(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        asked.append(host)
        return Credentials(host.encode(), b"secret")

    keeper = Keeper(ask)
    for number in range(2 * CAPACITY):
        await keeper.request("ftp", f"h{number}", 21, None)
        await keeper.request("ftp", "often", 21, None)
    assert asked.count("often") == 1
    assert len(asked) == 2 * CAPACITY + 1
    found = await keeper.request("ftp", "h0", 21, None)
    assert found is not None
    assert (found.user, asked.count("h0")) == (b"h0", 2)
