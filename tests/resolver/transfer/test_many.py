"""Saving many objects by one call: outcomes, names, the ledger, and a caller that stops early."""

from __future__ import annotations

import json
import math
import os
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import trio

from fixtures.http import Behavior, HttpServer, Page, serve
from resolver import (
    InvalidUrl,
    LocalError,
    NotFound,
    Outcome,
    Policy,
    Resolver,
    RetryPolicy,
    Saved,
    SaveRequest,
)
from resolver.cli.summary import make_done_record
from resolver.ledger import report
from resolver.transfer import many
from resolver.transfer.many import make_outcome
from tests.hang import HANG
from tests.resolver.transfer.test_saving import Tagged

SITE = {f"/{number}.txt": Page(str(number).encode()) for number in range(9)}
ONCE = RetryPolicy()


@pytest.fixture
async def server(nursery: trio.Nursery) -> HttpServer:
    return await serve(nursery, SITE)


async def outcomes_of(session: Resolver, requests: object, **how: object) -> list[Outcome]:
    with trio.fail_after(HANG):
        return [outcome async for outcome in session.save_all(requests, **how)]  # type: ignore[arg-type]


async def test_save_all_uses_names_of_the_command(server: HttpServer, tmp_path: Path) -> None:
    urls = [*map(server.url, SITE), server.url("/0.txt")]
    async with Resolver() as session:
        outcomes = await outcomes_of(session, urls, directory=tmp_path)
    assert {outcome.status for outcome in outcomes} == {"done"}
    assert sorted(os.listdir(tmp_path)) == sorted([*(f"{number}.txt" for number in range(9)), "0.2.txt"])
    by_path = {os.path.basename(outcome.path or ""): outcome.url for outcome in outcomes}
    assert by_path["8.txt"] == server.url("/8.txt")


async def test_save_all_of_a_single_url_raises() -> None:
    """A text is an iterable of texts: each character would be an invalid URL."""
    async with Resolver() as session:
        with pytest.raises(TypeError, match="expects an iterable of URLs, got a single URL"):
            session.save_all("http://h.example/")


async def test_save_all_reports_failure_and_continues(server: HttpServer, tmp_path: Path) -> None:
    requests = ["no url", server.url("/none"), server.url("/1.txt"), "http://h.example:25/x"]
    async with Resolver(patience=ONCE) as session:
        outcomes = await outcomes_of(session, requests, directory=tmp_path, concurrency=1)
    # outcomes arrive in another order, because hosts take turns
    by_url = {str(outcome.url): outcome for outcome in outcomes}
    ordered = [by_url[url] for url in requests]
    assert [(outcome.status, outcome.exit) for outcome in ordered] == [
        ("refused", 12),
        ("failed", 8),
        ("done", 0),
        ("refused", 9),
    ]
    assert [type(outcome.error) for outcome in ordered[:2]] == [InvalidUrl, NotFound]
    assert [finding.rule for finding in ordered[3].findings] == ["S04"]


async def test_save_all_checks_size_and_checksum_of_request(server: HttpServer, tmp_path: Path) -> None:
    requests = [
        SaveRequest(server.url("/1.txt"), "a/b", size=1),
        SaveRequest(server.url("/2.txt"), checksum="md5:" + "0" * 32),
    ]
    async with Resolver(patience=ONCE) as session:
        first, second = await outcomes_of(session, requests, directory=tmp_path, concurrency=1)
    assert first.path == str(tmp_path / "a/b")
    assert "length" in first.verified
    assert second.exit == 10


@pytest.mark.parametrize("account", [None, "ledger"])
async def test_save_all_equal_paths_fail_after_the_first(
    account: str | None, server: HttpServer, tmp_path: Path
) -> None:
    """Equal paths fail for each value of `exists`.

    Only a name that was generated is changed to a free name.
    """
    ledger = None if account is None else tmp_path / account
    given = [("/1.txt", "a"), ("/2.txt", "./d/../a"), ("/1.txt", "a"), ("/3.txt", "a/b"), ("/4.txt", "5.txt")]
    requests = [*(SaveRequest(server.url(url), path) for url, path in given), server.url("/5.txt")]
    for expected in ("done", "skipped" if account else "done"):
        async with Resolver(patience=ONCE) as session:
            how = {"directory": tmp_path / "out", "exists": "replace", "concurrency": 1, "ledger": ledger}
            outcomes = await outcomes_of(session, requests, **how)
        # objects that the ledger lists as done are reported first
        statuses = [outcome.status for outcome in outcomes]
        assert sorted(statuses) == sorted([*["failed"] * 3, *[expected] * 3])
        errors = {type(outcome.error) for outcome in outcomes if outcome.status == "failed"}
        assert errors == {LocalError}
        assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == {
            "a": b"1",
            "5.txt": b"4",
            "5.2.txt": b"5",
        }


async def test_save_all_rename_numbers_equal_paths(server: HttpServer, tmp_path: Path) -> None:
    requests = [SaveRequest(server.url(f"/{number}.txt"), "a.txt") for number in (1, 2)]
    async with Resolver() as session:
        how = {"directory": tmp_path, "exists": "rename", "concurrency": 1}
        assert [outcome.status for outcome in await outcomes_of(session, requests, **how)] == ["done"] * 2
    assert [(tmp_path / name).read_bytes() for name in ("a.txt", "a.2.txt")] == [b"1", b"2"]


async def test_outcome_is_picklable_and_equals_command_record(server: HttpServer, tmp_path: Path) -> None:
    async with Resolver(patience=ONCE) as session:
        good, bad = await outcomes_of(
            session, [server.url("/1.txt"), server.url("/none")], directory=tmp_path, concurrency=1
        )
        saved = await session.save(server.url("/2.txt"), tmp_path / "2", digest=True)
    for outcome in (good, bad):
        again = pickle.loads(pickle.dumps(outcome))
        assert again.as_json() == outcome.as_json()
        json.dumps(outcome.as_json())
    assert isinstance(saved, Saved)
    assert make_outcome(saved, "http").as_json() == make_done_record(saved, "http")
    assert good.as_json().keys() == bad.as_json().keys() == make_done_record(saved, "http").keys()
    assert bad.as_json()["error"] == {"code": "NotFound", "message": bad.error and bad.error.message}


class Read:
    """An iterable of requests that counts how many were read."""

    def __init__(self, server: HttpServer, count: int) -> None:
        self.server = server
        self.count = count
        self.read = 0

    def __iter__(self) -> Iterator[str]:
        for _ in range(self.count):
            self.read += 1
            yield self.server.url("/1.txt")

    async def one_by_one(self) -> AsyncIterator[str]:
        for url in self:
            await trio.lowlevel.checkpoint()
            yield url


@pytest.mark.parametrize("form", [lambda given: given, Read.one_by_one], ids=["iterable", "async"])
async def test_save_all_reads_requests_lazily(
    form: Callable[[Read], Iterator[str]], server: HttpServer, tmp_path: Path
) -> None:
    given = Read(server, 5_000)
    async with Resolver() as session:
        outcomes = session.save_all(form(given), directory=tmp_path, concurrency=2, exists="replace")
        with trio.fail_after(HANG):
            async for _ in outcomes:
                break
            await outcomes.aclose()
    assert given.read <= 1_003
    assert len(server.requests) <= 3


async def test_save_all_left_early_is_resumed(nursery: trio.Nursery, tmp_path: Path) -> None:
    """Leaving the session cancels the transfers and keeps the partial file, which the next run resumes."""
    large = Page(bytes(100_000), headers=(("ETag", '"1"'),), parts=True)
    server = await serve(
        nursery, {"/large": large, "/small": Page(b"s")}, {"/large": Behavior(drip=0.0, times=1)}
    )
    urls = [server.url("/small"), server.url("/large")]
    came = trio.Event()

    def watch(event: object) -> None:
        if getattr(event, "received", 0) > 1_000:
            came.set()

    with trio.fail_after(HANG):
        async with Resolver(on_event=watch) as session:
            outcome = await anext(session.save_all(urls, directory=tmp_path))
            assert outcome.path == str(tmp_path / "small")
            await came.wait()
    assert sorted(os.listdir(tmp_path)) == ["large.part", "large.part-state", "small"]
    async with Resolver() as session:
        outcomes = await outcomes_of(session, urls, directory=tmp_path, exists="skip")
    assert sorted((outcome.status, outcome.resumed_from > 0) for outcome in outcomes) == [
        ("done", True),
        ("skipped", False),
    ]


async def test_save_all_cancelled_consumer_ends_cleanly(server: HttpServer, tmp_path: Path) -> None:
    with trio.fail_after(HANG), trio.CancelScope() as scope:
        async with Resolver() as session, aclosing(session.save_all([server.url("/1.txt")] * 9)) as outcomes:
            scope.cancel()
            await anext(outcomes)
    assert scope.cancelled_caught


async def test_save_all_without_entered_session_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="not entered"):
        Resolver(policy=Policy.default()).save_all([])


@pytest.mark.parametrize(
    "how",
    [
        {"concurrency": 0},
        {"concurrency": math.nan},
        {"per_host": 0},
        {"per_host": math.nan},
        {"host_rate": 0.0},
        {"exists": "overwrite"},
        {"exists": None},
    ],
)
async def test_save_all_invalid_values_are_value_errors(how: dict[str, Any]) -> None:
    async with Resolver() as session:
        with pytest.raises(ValueError, match=next(iter(how))):
            session.save_all([], **how)


async def test_save_all_skips_files_done_in_ledger(server: HttpServer, tmp_path: Path) -> None:
    urls = list(map(server.url, SITE))
    how = {"directory": tmp_path, "ledger": tmp_path / "ledger", "concurrency": 1}
    async with Resolver() as session:
        outcomes = session.save_all(urls, **how)  # type: ignore[arg-type]
        with trio.fail_after(HANG):
            had = [await anext(outcomes) for _ in range(4)]
    asked = len(server.requests)
    async with Resolver() as session:
        again = await outcomes_of(session, urls, **how)
    skipped = {outcome.url for outcome in again if outcome.status == "skipped"}
    assert {outcome.url for outcome in had} <= skipped
    assert len(server.requests) - asked == len(urls) - len(skipped)
    assert {outcome.status for outcome in again} == {"skipped", "done"}
    assert sum(name.endswith(".txt") for name in os.listdir(tmp_path)) == 9


async def test_save_all_requeued_file_sends_entity_tag_of_ledger(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The entity tag from the ledger is sent only if the file on disk is the file that was saved."""
    server = await serve(nursery, {"/object": Page(b"octets", headers=(("ETag", '"1"'),), guard=Tagged())})
    how = {"directory": tmp_path, "ledger": tmp_path / "ledger", "exists": "newer"}

    async def again() -> str:
        report.requeue_errors(str(tmp_path / "ledger"), "0")
        async with Resolver(patience=ONCE) as session:
            (outcome,) = await outcomes_of(session, [server.url("/object")], **how)
        return outcome.status

    async with Resolver(patience=ONCE) as session:
        await outcomes_of(session, [server.url("/object")], **how)
    assert await again() == "skipped"
    assert [request.values("if-none-match") for request in server.requests] == [[], ['"1"']]
    (tmp_path / "object").write_bytes(b"others")
    os.replace(tmp_path / "object", tmp_path / "moved")
    (tmp_path / "object").write_bytes(b"octets")
    assert await again() == "done"
    assert server.requests[2].values("if-none-match") == []


async def test_save_all_reports_done_files_in_order(
    server: HttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is queried for several URLs at a time. Equal URLs have separate rows in the ledger."""
    monkeypatch.setattr(many, "_QUERY_SIZE", 4)
    urls = [*map(server.url, SITE), server.url("/0.txt")]
    how = {"directory": tmp_path, "ledger": tmp_path / "ledger", "concurrency": 3}
    async with Resolver() as session:
        first = await outcomes_of(session, urls, **how)
        assert {outcome.status for outcome in first} == {"done"}
        monkeypatch.setattr(many.SavingOne, "run", None)
        again = await outcomes_of(session, urls, **how)
    assert [(outcome.url, outcome.status) for outcome in again] == [(url, "skipped") for url in urls]
    assert {outcome.path for outcome in again} == {outcome.path for outcome in first}


async def test_save_all_invalid_ledger_is_a_local_error(server: HttpServer, tmp_path: Path) -> None:
    with open(tmp_path / "ledger", "wb") as file:  # noqa: ASYNC230
        file.write(b"no database" * 1_000)
    async with Resolver() as session:
        with pytest.raises(LocalError):
            await outcomes_of(session, [server.url("/1.txt")], directory=tmp_path, ledger=tmp_path / "ledger")
    assert server.requests == []
