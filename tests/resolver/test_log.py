"""The logger `resolver` has what happens where a program turned it on, and nothing that nobody may see."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import fields

import pytest
import trio

import fixtures.ftp
import resolver
from fixtures.ftp import Behaviour
from fixtures.http import ABOUT, serve
from resolver import (
    Closed,
    Connected,
    Event,
    Finished,
    HttpxTransport,
    Progress,
    Received,
    ResolveError,
    Resolver,
    Retrying,
    Sent,
    Started,
)
from resolver.network.events import LOGGER, Listener, listening
from resolver.transfer.network import Network


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The log is on."""
    with caplog.at_level(logging.DEBUG, logger="resolver"):
        yield caplog


async def test_it_is_off_unless_somebody_turns_it_on(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    server = await serve(nursery)
    await resolver.fetch(server.url("/about.txt"))
    assert [record for record in caplog.records if record.name.startswith("resolver")] == []
    assert Network().listener is None
    heard: list[Event] = []
    assert Network(on_event=heard.append).listener == heard.append


@pytest.mark.parametrize("logged", [False, True], ids=["", "log"])
async def test_no_event_is_made_of_what_nobody_hears(
    logged: bool, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """But for the log, where it is on, which hears of all but progress; and the rare ones, which are told."""
    caplog.set_level(logging.DEBUG if logged else logging.WARNING, logger="resolver")
    server = await serve(nursery)
    heard: dict[str, set[type[Event]]] = {}
    for name, kinds in (("tries", {Started, Finished}), ("progress", {Progress}), ("wire", {Sent})):
        events: list[Event] = []
        await resolver.fetch(server.url("/about.txt"), on_event=Listener(events.append, kinds))
        heard[name] = {type(event) for event in events}
    wire = {Connected, Sent, Received, Closed}
    assert heard["wire"] == {Started, Finished, *wire}
    assert heard["tries"] == {Started, Finished}
    assert heard["progress"] == {Started, Finished, Progress}
    told = {type(vars(record)["event"]) for record in caplog.records if record.name == "resolver"}
    assert told == ({Started, Finished, *wire} - {Closed} if logged else set())


async def test_each_line_says_which_url(nursery: trio.Nursery, log: pytest.LogCaptureFixture) -> None:
    server = await serve(nursery)
    url = server.url("/about.txt")
    heard: list[Event] = []
    await resolver.fetch(url, on_event=heard.append)
    assert {(record.name, record.levelname) for record in log.records} == {("resolver", "DEBUG")}
    told = [record.getMessage() for record in log.records]
    assert told[0] == f"{url}: try 1"
    assert told[1] == f"{url}: *: connected to 127.0.0.1 port {server.port}"
    assert told[2].startswith(f"{url}: C: GET /about.txt HTTP/1.1\\r\\n")
    assert told[3].startswith(f"{url}: S: HTTP/1.1 200 OK\\r\\n")
    assert told[-1] == f"{url}: *: done"
    assert ABOUT.decode() not in "".join(told)
    assert [vars(record)["event"] for record in log.records] == [
        event for event in heard if not isinstance(event, Progress | Closed)
    ]


async def test_a_resolver_made_before_it_is_turned_on_logs_too(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """And one that was, until the end of it, no longer than somebody wants it."""
    server = await serve(nursery)
    session = Resolver()
    with caplog.at_level(logging.DEBUG, logger="resolver"):
        async with session:
            await session.fetch(server.url("/about.txt"))
    assert len(caplog.records) == 5
    async with session:
        await session.fetch(server.url("/about.txt"))
    assert len(caplog.records) == 5


@pytest.mark.parametrize("where", ["in the URL", "given"])
async def test_a_password_is_in_no_line_and_no_event(
    where: str, nursery: trio.Nursery, log: pytest.LogCaptureFixture
) -> None:
    secret = "hunter-two"
    refuses = {b"RETR": f"550 {secret} has no such file\r\n".encode()}  # it repeats what it was told
    server = await fixtures.ftp.serve(nursery, Behaviour(replies=refuses))
    server.accounts = {b"me": secret.encode()}
    place = f"127.0.0.1:{server.port}/pub/a.txt"
    url = f"ftp://me:{secret}@{place}" if where == "in the URL" else f"ftp://me@{place}"
    given = {("ftp", "127.0.0.1", server.port): resolver.Credentials(b"me", secret.encode())}
    policy = resolver.Policy(allow_port=frozenset({server.port}))
    with pytest.raises(resolver.Declined):
        await resolver.fetch(url, credentials=None if where == "in the URL" else given, policy=policy)
    told = [record.getMessage() for record in log.records]
    assert any("PASS ****" in line for line in told)
    assert any("550 **** has no such file" in line for line in told)
    for record in log.records:
        event = vars(record)["event"]
        for said in (
            record.getMessage(),
            repr(event),
            *(getattr(event, each.name) for each in fields(event)),
        ):
            assert secret not in str(said)


@pytest.mark.parametrize("kind", [Finished, lambda url, error: Retrying(url, error, 1.0)])
def test_what_drives_a_terminal_is_shown(kind: type[Finished], log: pytest.LogCaptureFixture) -> None:
    """Also a line end: whoever reads the log takes one line for one event."""
    listener = listening(None)
    assert listener is not None
    listener(kind("x:y", ResolveError("a\x1b[2J\r\nDEBUG forged\u202e")))
    assert r"a\x1b[2J\x0d\x0aDEBUG forged\u202e" in log.records[0].getMessage()
    assert log.records[0].getMessage().isprintable()


async def test_a_transport_goes_on_with_the_same_log(log: pytest.LogCaptureFixture) -> None:
    transport = HttpxTransport()
    before = transport._network.listener
    await transport._network.__aenter__()
    assert transport._network.listener is before
    assert before is not None
    assert LOGGER.handlers == []
