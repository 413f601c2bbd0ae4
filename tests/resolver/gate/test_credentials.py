"""Credentials that were asked for: remembered for their place, and not for ever."""

from __future__ import annotations

import trio
import trio.testing

from resolver import Credentials
from resolver.network.mask import CAPACITY, CredentialCache
from tests.hang import HANG


async def test_places_without_number_are_not_all_remembered() -> None:
    asked: list[str] = []

    async def ask(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        asked.append(host)
        return Credentials(host.encode(), b"secret")

    keeper = CredentialCache(ask)
    for number in range(2 * CAPACITY):
        await keeper.request("ftp", f"h{number}", 21, None)
        await keeper.request("ftp", "often", 21, None)
    assert asked.count("often") == 1
    assert len(asked) == 2 * CAPACITY + 1
    found = await keeper.request("ftp", "h0", 21, None)
    assert found is not None
    assert (found.user, asked.count("h0")) == (b"h0", 2)


async def test_what_is_known_waits_for_nobody_who_is_asked() -> None:
    """A person may take long to say what another place is to get."""

    async def ask(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
        if host == "slow":
            await trio.sleep_forever()
        return Credentials(host.encode(), b"secret")

    keeper = CredentialCache(ask)
    first = await keeper.request("ftp", "known", 21, None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.request, "ftp", "slow", 21, None)
        await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(HANG):
            assert await keeper.request("ftp", "known", 21, None) is first
        nursery.cancel_scope.cancel()


async def test_a_source_that_answers_otherwise_is_asked_again() -> None:
    class Source:
        round = 0

        def __call__(self, scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
            return Credentials(b"me", b"%d" % self.round) if self.round else None

    source = Source()
    keeper = CredentialCache(source)
    assert await keeper.request("ftp", "h", 21, None) is None
    source.round = 1
    for _ in range(2):
        found = await keeper.request("ftp", "h", 21, None)
        assert found is not None
        assert found.password == b"1"
