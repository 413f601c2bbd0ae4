"""`Resolver.save_tree`: what becomes of each file of a tree, one by one, and what a ledger spares."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import trio

from fixtures.ftp import serve as serve_ftp
from fixtures.http import Page, moved
from fixtures.http import serve as serve_http
from resolver import Outcome, Resolver, RetryPolicy
from resolver.ledger.report import read
from tests.hang import HANG
from tests.resolver.tree.mirrors import contents, plant
from tests.resolver.tree.test_walk import index

TREE: dict[str, bytes | None] = {
    "a.txt": b"one\n",
    "b": None,
    "b/c.bin": bytes(range(256)),
    "b/d": None,
    "b/d/e.txt": b"",
}


@pytest.fixture(name="source")
def _source(tmp_path: Path) -> Path:
    return plant(tmp_path / "source", TREE)


async def all_of(url: str, **how: Any) -> list[Outcome]:
    with trio.fail_after(HANG):
        async with Resolver(patience=RetryPolicy()) as session:
            return [outcome async for outcome in session.save_tree(url, **how)]


def told(outcomes: list[Outcome]) -> dict[str, str]:
    return {outcome.url.rpartition("/")[2]: outcome.status for outcome in outcomes}


async def test_each_file_is_an_outcome(source: Path, tmp_path: Path) -> None:
    outcomes = await all_of(source.as_uri(), directory=tmp_path / "out", digest=True)
    assert told(outcomes) == dict.fromkeys(("a.txt", "c.bin", "e.txt"), "done")
    assert contents(tmp_path / "out" / "source") == TREE
    for outcome in outcomes:
        name = outcome.url.partition("/source/")[2]
        assert outcome.path == str(tmp_path / "out" / "source" / name)
        assert outcome.bytes == len(TREE[name] or b"")
        assert outcome.digest is not None


async def test_what_is_wanted_of_it(source: Path, tmp_path: Path) -> None:
    url = source.as_uri()
    assert told(await all_of(url, directory=tmp_path / "1", accept=["*.txt"])).keys() == {"a.txt", "e.txt"}
    assert told(await all_of(url, directory=tmp_path / "2", reject=["*.txt"])).keys() == {"c.bin"}
    assert told(await all_of(url, directory=tmp_path / "3", depth=1)).keys() == {"a.txt"}
    assert told(await all_of(url, directory=tmp_path / "4", accept_regex="/d/")).keys() == {"e.txt"}


async def test_what_fails_is_an_outcome_and_stops_nothing(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve_ftp(nursery)
    found = told(await all_of(server.url("pub"), directory=tmp_path))
    assert found["unreadable.txt"] == "failed"
    assert found["a.txt"] == "done"
    (missing,) = await all_of(server.url("nowhere"), directory=tmp_path)
    assert (missing.status, missing.exit) == ("failed", 8)
    (refused,) = await all_of("http://h.example:25/", directory=tmp_path)
    assert (refused.status, [finding.rule for finding in refused.findings]) == ("refused", ["S04"])
    (no_url,) = await all_of("no url", directory=tmp_path)
    assert (no_url.status, no_url.exit) == ("refused", 12)


@pytest.mark.parametrize("how", [{"depth": 0}, {"accept_regex": "("}, {"concurrency": 0}, {"host_rate": 0.0}])
async def test_what_means_nothing(how: dict[str, Any]) -> None:
    async with Resolver() as session:
        with pytest.raises(ValueError, match=r"1 or more|regular|above|are 1"):
            session.save_tree("file:///", **how)


async def test_a_document_is_a_tree_of_one(source: Path, tmp_path: Path) -> None:
    (outcome,) = await all_of((source / "a.txt").as_uri(), directory=tmp_path / "out")
    assert outcome.path == str(tmp_path / "out" / "a.txt")


async def test_what_a_ledger_has_is_not_asked_for_and_not_looked_at(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve_ftp(nursery)
    how = {"directory": tmp_path / "out", "ledger": tmp_path / "ledger"}
    first = await all_of(server.url("pub/names/"), **how)
    assert {outcome.status for outcome in first} == {"done"}
    before = len(server.commands)
    again = await all_of(server.url("pub/names/"), **how)
    assert sorted((each.url, each.path, each.bytes, each.digest) for each in again) == sorted(
        (each.url, each.path, each.bytes, each.digest) for each in first
    )
    assert {outcome.status for outcome in again} == {"skipped"}
    asked = server.commands[before:]
    assert any(command.startswith(b"LIST") for command in asked)
    assert not any(command.startswith(b"RETR") or b"README" in command for command in asked)
    found = read(str(tmp_path / "ledger"))
    assert (found.done, found.objects, found.runs) == (len(first), len(first), 2)


async def test_left_half_way_another_call_goes_on(source: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"directory": tmp_path / "out", "ledger": tmp_path / "ledger"}
    with trio.fail_after(HANG):
        async with (
            Resolver() as session,
            aclosing(session.save_tree(source.as_uri(), concurrency=1, **how)) as outcomes,
        ):
            first = await anext(outcomes)
    rest = await all_of(source.as_uri(), **how)
    by_url = {outcome.url: outcome.status for outcome in rest}
    assert by_url[first.url] == "skipped"
    assert len(by_url) == 3
    assert contents(tmp_path / "out" / "source") == TREE


async def test_what_was_taken_for_a_file_has_no_row(nursery: trio.Nursery, tmp_path: Path) -> None:
    """That it is a directory only asking tells: a redirect adds a slash."""
    server = await serve_http(
        nursery,
        {
            "/t/": index("x", "link"),
            "/t/x": Page(b"x"),
            "/t/link": moved("/t/link/", 301),
            "/t/link/": index("z"),
            "/t/link/z": Page(b"z"),
        },
    )
    how = {"directory": tmp_path / "out", "ledger": tmp_path / "ledger"}
    first = await all_of(server.url("/t/"), **how)
    assert told(first) == {"x": "done", "z": "done"}
    found = read(str(tmp_path / "ledger"))
    assert (found.objects, found.done, found.left) == (2, 2, 0)
    assert told(await all_of(server.url("/t/"), **how)) == {"x": "skipped", "z": "skipped"}
