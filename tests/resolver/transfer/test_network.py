"""The network state that is shared by all retrievals of a run."""

from __future__ import annotations

import trio

from protocols.text import Masked
from resolver import Event, Limits, Policy, Started, parse
from resolver.transfer.network import Network
from tests.resolver.network.peers import start


async def test_admissions_share_dns_lookups(nursery: trio.Nursery) -> None:
    port = await start(nursery, lambda stream: stream.send_all(b"x"))
    asked: list[tuple[str, int]] = []

    async def look_up(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    network = Network(policy=Policy.default(), lookup=look_up)
    for path in ("a", "b"):
        async with network.admit(parse(f"http://h.example:{port}/{path}")).connect(tls=False) as stream:
            assert await stream.receive() == b"x"
    assert asked == [("h.example", port)]


def test_network_has_default_limits_and_optional_listener() -> None:
    events: list[Event] = []
    event = Started(Masked("http://h.example/"), 1)
    Network(policy=Policy.default()).on_event(event)
    network = Network(policy=Policy.cautious(), on_event=events.append)
    network.on_event(event)
    assert events == [event]
    assert (network.limits, network.policy) == (Limits(), Policy.cautious())
