"""Events have the number of their transfer, and report each attempt.

The logger `resolver` logs them if enabled.
"""

from __future__ import annotations

import copy
import logging
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest
import trio

import fixtures.ftp
import resolver
from fixtures.ftp import Behavior as LogBehavior
from fixtures.http import ABOUT, Behavior, HttpServer, Page, Request, moved, serve
from fixtures.http.server import encode
from protocols.text import Masked
from resolver import (
    Closed,
    Connected,
    Disconnected,
    Event,
    Finding,
    Finished,
    HttpxTransport,
    Kept,
    Progress,
    Received,
    ResolveError,
    Resolver,
    Retrying,
    RetryPolicy,
    Sent,
    Started,
    Truncated,
)
from resolver.network.events import LOGGER, Listener, combine_listeners
from resolver.transfer.network import Network
from resolver.transfer.retry import OVERLAP

OBJECT = bytes(range(250)) * 400
HALF = len(OBJECT) // 2
PAGE = Page(OBJECT, "application/octet-stream", headers=(("ETag", '"1"'),), parts=True)
CUT = Behavior(cut_at=len(encode(Request("GET", "/object"), PAGE)) - HALF, times=1)
SITE = {"/object": PAGE, "/moved": moved("/object")}

TransferEvent = Started | Progress | Retrying | Finished


class EventRecorder:
    """The events of each transfer, by its number."""

    def __init__(self) -> None:
        self.events: dict[int, list[TransferEvent]] = defaultdict(list)

    def hear(self, event: Event) -> None:
        if isinstance(event, TransferEvent):
            self.events[event.transfer].append(event)

    def session(self) -> Resolver:
        return Resolver(patience=RetryPolicy(tries=2, delay=0.0), on_event=self.hear)

    def progress(self, transfer: int) -> list[Progress]:
        return [event for event in self.events[transfer] if isinstance(event, Progress)]

    def tries(self, transfer: int) -> list[int]:
        return [event.attempt for event in self.events[transfer] if isinstance(event, Started)]

    def last(self, transfer: int) -> TransferEvent:
        return self.events[transfer][-1]


async def test_events_of_concurrent_transfers_have_distinct_numbers(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """Three concurrent transfers have the same URL, which redirects to another URL."""
    server = await serve(nursery, SITE)
    recorder = EventRecorder()
    async with recorder.session() as session, trio.open_nursery() as inner:
        for name in "abc":
            inner.start_soon(session.save, server.url("/moved"), tmp_path / name)
    assert sorted(recorder.events) == [1, 2, 3]
    for transfer in recorder.events:
        assert recorder.events[transfer][0] == Started(Masked(server.url("/moved")), 1)
        assert recorder.last(transfer) == Finished(Masked(server.url("/moved")), None)
        result = [(event.url, event.start, event.expected) for event in recorder.progress(transfer)]
        assert set(result) == {(server.url("/object"), 0, len(OBJECT))}
        assert recorder.progress(transfer)[-1].received == len(OBJECT)


async def _two(nursery: trio.Nursery, behavior: Behavior) -> list[HttpServer]:
    return [await serve(nursery, SITE, {"/object": behavior}), await serve(nursery, SITE)]


@pytest.mark.parametrize("mirrored", [False, True])
async def test_events_of_all_attempts_have_the_same_number(
    mirrored: bool, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The second attempt, at the same host or at a mirror, reports where it resumes the transfer."""
    behavior = replace(CUT, cut_at=0, times=None) if mirrored else CUT
    first, second = await _two(nursery, behavior)
    recorder = EventRecorder()
    async with recorder.session() as session:
        mirrors = [second.url("/moved")] if mirrored else []
        await session.save(first.url("/object"), tmp_path / "object", mirrors=mirrors)
    assert list(recorder.events) == [1]
    assert recorder.tries(1) == [1, 2]
    (failed,) = [event.error for event in recorder.events[1] if isinstance(event, Retrying)]
    assert isinstance(failed, Disconnected if mirrored else Truncated)
    begun = 0 if mirrored else HALF - OVERLAP
    assert {event.start for event in recorder.progress(1)} == {0, begun}
    assert (recorder.progress(1)[-1].received, recorder.progress(1)[-1].start) == (len(OBJECT), begun)


async def test_checksum_requests_have_separate_numbers(nursery: trio.Nursery, tmp_path: Path) -> None:
    """With the same number, a checksum file of a few bytes would look like a restart of the object."""
    server = await serve(nursery, {"/object": PAGE, "/object.sha256": Page(b"no digest")})
    recorder = EventRecorder()
    async with recorder.session() as session:
        await session.save(server.url("/object"), tmp_path / "object", checksum="auto")
    assert {event.url for event in recorder.events[1]} == {server.url("/object")}
    asked = {event.url: transfer for transfer in recorder.events for event in recorder.events[transfer]}
    assert len(asked) == len(recorder.events) > 2


async def test_event_equality_ignores_transfer_number() -> None:
    url = Masked("http://h.example/")
    assert Finished(url, None, transfer=1) == Finished(url, None)


#: A value for each field of an event that differs from its default.
VALUES: dict[str, object] = {
    "url": "http://h.example/",
    "attempt": 3,
    "transfer": 7,
    "finding": Finding("S04", "warn", "a port"),
    "host": "h.example",
    "addresses": ("127.0.0.1", "::1"),
    "by_peer": True,
    "address": "127.0.0.1",
    "port": 70,
    "tls": True,
    "octets": b"\r\n",
    "data": True,
    "received": 9,
    "expected": 10,
    "start": 1,
    "error": Truncated("too little", received=1, expected=9).at(Masked("http://h.example/")).tried(3),
    "delay": 0.5,
    "path": "file",
    "resumes": True,
}


@pytest.mark.parametrize("kind", get_args(Event))
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, *(lambda event, p=p: pickle.loads(pickle.dumps(event, p)) for p in range(6))],
    ids=["copy", "deepcopy", *map(str, range(6))],
)
def test_event_survives_copy_and_pickle(kind: type[Event], copied: Callable[[Event], Event]) -> None:
    values = {item.name: VALUES[item.name] for item in fields(kind)}
    if kind is Kept:
        values["octets"] = 9
    event = kind(**values)  # type: ignore[arg-type]
    other = copied(event)
    assert type(other) is kind
    for name, value in values.items():
        result = getattr(other, name)
        if isinstance(value, Exception):
            assert (type(result), vars(result), result.args) == (type(value), vars(value), value.args)
        else:
            assert result == value
    assert repr(other) == repr(event)


# The logger `resolver` logs events, but no secrets, if the caller enabled the log.


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Enable the log."""
    with caplog.at_level(logging.DEBUG, logger="resolver"):
        yield caplog


async def test_log_is_off_by_default(nursery: trio.Nursery, caplog: pytest.LogCaptureFixture) -> None:
    server = await serve(nursery)
    await resolver.fetch(server.url("/about.txt"))
    assert [record for record in caplog.records if record.name.startswith("resolver")] == []
    assert Network().listener is None
    events: list[Event] = []
    assert Network(on_event=events.append).listener == events.append


@pytest.mark.parametrize("logged", [False, True], ids=["", "log"])
async def test_events_without_listener_are_not_created(
    logged: bool, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """An enabled log gets all events except `Progress` and `Closed`."""
    caplog.set_level(logging.DEBUG if logged else logging.WARNING, logger="resolver")
    server = await serve(nursery)
    heard: dict[str, set[type[Event]]] = {}
    for name, kinds in (("tries", {Started, Finished}), ("progress", {Progress}), ("wire", {Sent})):
        events: list[Event] = []
        await resolver.fetch(server.url("/about.txt"), on_event=Listener(events.append, kinds))
        heard[name] = {type(event) for event in events}
    wire = {Connected, Sent, Received, Closed}
    assert heard["wire"] == wire
    assert heard["tries"] == {Started, Finished}
    assert heard["progress"] == {Progress}
    logged_types = {type(vars(record)["event"]) for record in caplog.records if record.name == "resolver"}
    assert logged_types == ({Started, Finished, *wire} - {Closed} if logged else set())


async def test_log_lines_name_the_url(nursery: trio.Nursery, log: pytest.LogCaptureFixture) -> None:
    server = await serve(nursery)
    url = server.url("/about.txt")
    events: list[Event] = []
    await resolver.fetch(url, on_event=events.append)
    assert {(record.name, record.levelname) for record in log.records} == {("resolver", "DEBUG")}
    lines = [record.getMessage() for record in log.records]
    assert lines[0] == f"{url}: try 1"
    assert lines[1] == f"{url}: *: connected to 127.0.0.1 port {server.port}"
    assert lines[2].startswith(f"{url}: C: GET /about.txt HTTP/1.1\\r\\n")
    assert lines[3].startswith(f"{url}: S: HTTP/1.1 200 OK\\r\\n")
    assert lines[-1] == f"{url}: *: done"
    assert ABOUT.decode() not in "".join(lines)
    assert [vars(record)["event"] for record in log.records] == [
        event for event in events if not isinstance(event, Progress | Closed)
    ]


async def test_log_enabled_after_resolver_was_made_is_used(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """A session that was made before the log is enabled logs as long as the log is enabled."""
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
async def test_password_is_in_no_log_line_and_no_event(
    where: str, nursery: trio.Nursery, log: pytest.LogCaptureFixture
) -> None:
    secret = "hunter-two"
    refuses = {b"RETR": f"550 {secret} has no such file\r\n".encode()}  # the server repeats the password
    server = await fixtures.ftp.serve(nursery, LogBehavior(replies=refuses))
    server.accounts = {b"me": secret.encode()}
    place = f"127.0.0.1:{server.port}/pub/a.txt"
    url = f"ftp://me:{secret}@{place}" if where == "in the URL" else f"ftp://me@{place}"
    given = {("ftp", "127.0.0.1", server.port): resolver.Credentials(b"me", secret.encode())}
    policy = resolver.Policy(allow_port=frozenset({server.port}))
    with pytest.raises(resolver.Declined):
        await resolver.fetch(url, credentials=None if where == "in the URL" else given, policy=policy)
    lines = [record.getMessage() for record in log.records]
    assert any("PASS ****" in line for line in lines)
    assert any("550 **** has no such file" in line for line in lines)
    for record in log.records:
        event = vars(record)["event"]
        for said in (
            record.getMessage(),
            repr(event),
            *(getattr(event, item.name) for item in fields(event)),
        ):
            assert secret not in str(said)


@pytest.mark.parametrize("kind", [Finished, lambda url, error: Retrying(url, error, 1.0)])
def test_log_escapes_control_characters(kind: type[Finished], log: pytest.LogCaptureFixture) -> None:
    """Line ends are escaped too, because each line of the log must be one event."""
    listener = combine_listeners(None)
    assert listener is not None
    listener(kind(Masked("x:y"), ResolveError("a\x1b[2J\r\nDEBUG forged\u202e")))
    assert r"a\x1b[2J\x0d\x0aDEBUG forged\u202e" in log.records[0].getMessage()
    assert log.records[0].getMessage().isprintable()


async def test_httpx_transport_reuses_its_listener(log: pytest.LogCaptureFixture) -> None:
    transport = HttpxTransport()
    before = transport._network.listener
    await transport._network.__aenter__()
    assert transport._network.listener is before
    assert before is not None
    assert LOGGER.handlers == []
