"""A complete third-party scheme in a short file: it sends the planned request, and refuses line ends.

It behaves the same as an installed plug-in and as a registered scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

import resolver
from fixtures.plugins.more_schemes import finger as tidy_finger
from fixtures.ports import serve_connections
from protocols.step import Step
from resolver import Disconnected, Limits, Options, Refused, Resolver
from resolver.testing.contract.case import ListeningSockets
from tests.plugin import installed, registered
from tests.plugin.finger_server import SAID, FingerServer

WHOLE = {"finger": "fixtures.plugins.more_schemes.finger:FINGER"}


@pytest.fixture(scope="module", autouse=True, params=["plug-in", "registered"])
def _there(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    if request.param == "registered":
        with registered(tidy_finger.FINGER):
            yield
    else:
        with installed(tmp_path_factory.mktemp("site"), WHOLE):
            yield


@pytest.fixture
async def server(nursery: trio.Nursery) -> FingerServer:
    return await FingerServer.start(nursery)


def test_tidy_finger_has_at_most_45_lines() -> None:
    assert len(Path(tidy_finger.__file__).read_text(encoding="utf-8").splitlines()) <= 45


@pytest.mark.parametrize(
    ("path", "line"),
    [("", b"\r\n"), ("/", b"\r\n"), ("/joe", b"joe\r\n"), ("/%2FW%20joe", b"/W joe\r\n"), ("/a%00b", None)],
)
async def test_finger_sends_planned_request(server: FingerServer, path: str, line: bytes | None) -> None:
    url = f"finger://127.0.0.1:{server.port}{path}"
    policy = resolver.Policy(allow_port=frozenset({server.port}))
    plan = resolver.explain(url, policy=policy)
    sent = [step["octets"] for step in plan.steps if step["action"] == "send"]
    async with Resolver(policy=policy) as session:
        if line is None:
            with pytest.raises(Refused):
                await session.fetch(url)
        else:
            response = await session.fetch(url)
            assert (response.content, response.text) == (SAID, SAID.decode())
    assert server.heard == ([] if line is None else [line])
    assert sent == [line.decode() for line in server.heard]


async def test_empty_finger_answer_raises(nursery: trio.Nursery) -> None:
    port = await serve_connections(nursery, trio.SocketStream.aclose)
    async with Resolver(policy=resolver.Policy(allow_port=frozenset({port}))) as session:
        with pytest.raises(Disconnected):
            await session.fetch(f"finger://127.0.0.1:{port}/joe")


@pytest.mark.parametrize("octets", ["%0D%0A", "%0a", "a%0D", "a%00b", "a%0D%0Ab"])
async def test_line_end_in_finger_url_is_refused(octets: str) -> None:
    """The policy refuses the URL; without the policy, the encoding of the line fails before a connection."""
    with ListeningSockets() as listening:
        url = f"finger://127.0.0.1:{listening.port}/{octets}"
        policy = resolver.Policy(allow_port=frozenset({listening.port}))
        async with Resolver(policy=policy) as session:
            with pytest.raises(Refused) as refused:
                await session.fetch(url)
        assert refused.value.rule == "S02"
        assert listening.received_nothing()
    parsed = resolver.parse(url)
    assert isinstance(parsed, tidy_finger.FingerUrl)
    steps: list[Step] = []
    with pytest.raises(Refused):
        steps.extend(tidy_finger.converse(parsed, Options(), Limits()))
    assert steps == []


@pytest.mark.parametrize(
    "url", ["finger://h.example/", "finger://h.example:7979/%2FW%20a%25b", "finger://h.example/a@b"]
)
def test_build_finger_url_round_trips(url: str) -> None:
    assert resolver.build(resolver.parse(url)) == url
