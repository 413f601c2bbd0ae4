"""The metadata of a reply (`Facts`), which every result has: a response, a saved file, a stream."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from protocols.contract import Facts, Reply, copy_facts
from protocols.step import Dialogue, EmitBody, StartBody
from resolver import GopherUrl, Kind, Limits, Options, Resolver, Response, Saved
from tests.resolver.transfer.test_retrieval import answer_with

#: A reply with a value for each fact.
TOLD = Reply(
    kind=Kind.ARTICLE,
    media_type="text/x-told",
    charset="utf-8",
    size=3,
    modified=datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),
    etag='"tag"',
    title="A title",
    suggested=b"\xffname",
    meta=(("name", "value"),),
    target="gopher://h.example/",
    extra={"more": 1},
)


def converse(url: GopherUrl, options: Options, limits: Limits) -> Dialogue[None]:
    yield StartBody(replace(TOLD))
    yield EmitBody(b"abc")


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(converse, monkeypatch)


def test_sample_reply_sets_every_fact() -> None:
    silent = copy_facts(Reply(kind=Kind.UNKNOWN))
    assert [name for name, value in copy_facts(TOLD).items() if value == silent[name]] == []


async def test_results_have_all_facts(tmp_path: Path) -> None:
    url = "gopher://h.example/0x"
    async with Resolver() as session:
        async with session.stream(url) as streaming:
            assert copy_facts(streaming) == copy_facts(TOLD)
        response, saved = await session.fetch(url), await session.save(url, tmp_path / "x")
    assert (response.content, saved.bytes) == (b"abc", 3)
    for value in (response, saved):
        assert copy_facts(value) == copy_facts(TOLD)
        record = value.as_json()
        assert (record["title"], record["suggested"], record["extra"]) == ("A title", "\xffname", {"more": 1})
        assert copy_facts(TOLD).keys() <= record.keys()


@pytest.mark.parametrize("kind", [Reply, Response, Saved])
def test_results_declare_facts_first(kind: type[Reply | Response | Saved]) -> None:
    declared = [item.name for item in fields(kind)]
    facts = list(Facts.__annotations__)
    assert declared[: len(facts)] == list(copy_facts(TOLD)) == facts
