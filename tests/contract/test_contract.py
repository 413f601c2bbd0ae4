"""The contract of every scheme, case by case.

It covers results, plans, cleanup after cancellation, wrong peers, and refusals without a connection.
"""

from __future__ import annotations

import traceback
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import trio

from fixtures.ports import serve_connections
from resolver import Event, Options, Policy, Received, ResolveError, Resolver
from resolver.testing.contract import CHECKS, Contract
from resolver.testing.contract import operations as plans
from resolver.testing.contract import peers as octets
from resolver.testing.contract.case import WAYS, Case, ContractCheck
from resolver.url import registry
from tests.contract.cases import CASES, OPTION_CASES
from tests.sampled import sampled
from tests.scheduled import run_scheduled

pytest_plugins = ["resolver.testing.plugin"]


class TestContract(Contract):
    """The contract without peer checks: `test_peers` checks the error class for each peer."""

    cases = CASES
    checks = tuple(check for check in CHECKS if check not in octets.PEERS)
    run = staticmethod(run_scheduled)

    @classmethod
    def rows(cls) -> list[tuple[ContractCheck, Case]]:
        """Return in the gate one case of each protocol for each check: with TLS or without, in turn."""
        return sampled(super().rows(), lambda row: (row[0].name, row[1].scheme.rstrip("s")))


class TestOptionCases(Contract):
    """The plans of cases with options."""

    cases = OPTION_CASES
    checks = plans.PLAN_CHECKS[:1]
    run = staticmethod(run_scheduled)


def test_every_scheme_has_contract_case() -> None:
    assert {case.scheme for case in CASES} == set(registry.SCHEMES)


# Servers that repeat a password: immediately or later, in one chunk or two, in any part of a reply (S17).

SECRET = "open-sesame'\xe4"
WRITTEN = "open-sesame'%E4"
SPOKEN = SECRET.encode("latin-1")
BASIC = b64encode(b"u:" + SPOKEN)


@dataclass(frozen=True)
class Parrot:
    """A server that repeats the password in its replies.

    `answers` maps command prefixes to replies; the longest prefix counts. `|` splits a reply into two chunks.
    A line ends a command; for HTTP, an empty line does.
    """

    url: str
    greeting: bytes
    answers: Mapping[bytes, bytes]
    end: bytes = b"\r\n"

    def answer(self, command: bytes) -> bytes:
        best = max((begin for begin in self.answers if command.startswith(begin)), key=len)
        return self.answers[best]


HALF, REST = SPOKEN[:4], SPOKEN[4:]
FTP = Parrot(
    f"ftp://u:{WRITTEN}@{{at}}/pub/x",
    b"220 ready\r\n",
    {
        b"USER": b"331 password\r\n",
        b"PASS": b"230 you said " + HALF + b"|" + REST + b"\r\n",
        b"QUIT": b"221 bye " + SPOKEN + b"\r\n",
        b"CWD": b"250-" + SPOKEN + b"\r\n250 " + HALF + b"|" + REST + b"\r\n",
        b"TYPE": b"200 " + SPOKEN + b"\r\n",
        b"": b"550 who said " + SPOKEN + b"?\r\n",
    },
)
NNTP = Parrot(
    f"nntp://u:{WRITTEN}@{{at}}/a.b/1",
    b"200 ready\r\n",
    {
        b"MODE READER": b"200 posting allowed\r\n",
        b"CAPABILITIES": b"101 here\r\nVERSION 2\r\nREADER\r\nAUTHINFO USER\r\n.\r\n",
        b"AUTHINFO USER": b"381 password\r\n",
        b"AUTHINFO PASS": b"281 you said " + HALF + b"|" + REST + b"\r\n",
        b"GROUP": b"480 who said " + HALF + b"|" + REST + b"?\r\n",
        b"ARTICLE": b"480 who said " + SPOKEN + b"?\r\n",
        b"QUIT": b"205 " + SPOKEN + b"\r\n",
        b"": b"400 who said " + SPOKEN + b"?\r\n",
    },
)
HTTP = Parrot(
    f"http://u:{WRITTEN}@{{at}}/x",
    b"",
    {
        b"GET /": b"HTTP/1.1 403 "
        + HALF
        + b"|"
        + REST
        + b"\r\nX-You: "
        + BASIC
        + b"\r\nContent-Length: 0\r\n\r\n",
    },
    end=b"\r\n\r\n",
)
MOVED = Parrot(
    f"http://u:{WRITTEN}@{{at}}/x",
    b"",
    {
        b"GET /x": b"HTTP/1.1 302 Found\r\nLocation: /y?" + BASIC + b"\r\nContent-Length: 0\r\n\r\n",
        b"GET /y": b"HTTP/1.1 404 No " + BASIC + b"\r\nContent-Length: 0\r\n\r\n",
    },
    end=b"\r\n\r\n",
)
GARBAGE = Parrot(HTTP.url, b"", {b"": b"HTTP/1.1 " + SPOKEN + b"\r\n\r\n"}, end=b"\r\n\r\n")


async def attend(server: Parrot, heard: list[bytes], stream: trio.SocketStream) -> None:
    async with stream:
        await stream.send_all(server.greeting)
        buffer = b""
        while octets := await stream.receive_some():
            heard.append(octets)
            *commands, buffer = (buffer + octets).split(server.end)
            for command in commands:
                answer = server.answer(command)
                # the server has received no password yet
                if not any(SPOKEN in each or BASIC in each for each in heard):
                    answer = answer.replace(SPOKEN, b"it").replace(HALF + b"|" + REST, b"it")
                for piece in answer.split(b"|"):
                    await stream.send_all(piece)
                    await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("way", ["fetch", "save"])
@pytest.mark.parametrize(
    "server", [FTP, NNTP, HTTP, MOVED, GARBAGE], ids=["ftp", "nntp", "http", "moved", "garbage"]
)
async def test_password_repeated_by_server_is_masked(
    server: Parrot, way: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The second request of the session reuses the connection on which the password was sent."""
    heard: list[bytes] = []
    port = await serve_connections(nursery, partial(attend, server, heard))
    events: list[Event] = []
    shown: list[object] = []
    session = Resolver(policy=Policy(allow_port={port}), options=Options(keep=True), on_event=events.append)
    async with session:
        for _ in range(2):
            with pytest.raises(ResolveError) as caught:
                await WAYS[way](session, server.url.format(at=f"127.0.0.1:{port}"), tmp_path / "x")
            error = caught.value
            shown += [error, str(error), vars(error), traceback.format_exception(error)]
    assert any(SPOKEN in octets or BASIC in octets for octets in heard)
    output = "".join(map(repr, [*shown, *events]))
    for hidden in (SECRET, repr(SECRET)[1:-1], repr(SPOKEN)[2:-1], WRITTEN, BASIC.decode()):
        assert hidden not in output
    assert "****" in output
    received = b"".join(event.octets for event in events if isinstance(event, Received))
    assert SPOKEN not in received
    assert b"**" in received
