"""A second run of a list, unchanged or changed: finished lines are skipped in blocks of the read-ahead."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from resolver.cli import ledger as account
from resolver.cli.targets import CommandTarget, TargetNaming
from resolver.ledger import book as recall
from tests.resolver.cli import contract
from tests.resolver.cli.command import Done, resolve
from tests.resolver.cli.test_ledger import statuses

WORDS = ["get", "-d", "out", "-i", "list", "--ledger", "run", "--json"]


@pytest.fixture(autouse=True, name="few")
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_GROUP_SIZE", 3)
    monkeypatch.setattr(recall, "_RECALL_ROWS", 4)


@pytest.fixture(name="source")
def _source(folder: Path) -> Path:
    """Create files, some with the same name in several directories."""
    for directory in ("one", "two", "three"):
        (folder / directory).mkdir()
        for name in "abcd":
            (folder / directory / name).write_text(f"{directory} {name}\n")
    return folder


def write(folder: Path, *names: str) -> list[str]:
    urls = [(folder / name).as_uri() for name in names]
    (folder / "list").write_text("".join(f"{url}\n" for url in urls))
    return urls


def resolve_without_recall(monkeypatch: pytest.MonkeyPatch, *words: str) -> Done:
    """Run the command as if the ledger did not recognize any line."""
    with monkeypatch.context() as patch:
        patch.setattr(account, "_recall", lambda *_: None)
        return resolve(*words)


NAMES = [f"{directory}/{name}" for directory in ("one", "two", "three") for name in "abcd"]


def test_skipped_lines_have_same_records_as_single_lookups(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(source, *NAMES, "one/none", *NAMES[:3])
    resolve(*WORDS)
    passed = resolve(*WORDS)
    assert passed.status == 8
    alone = resolve_without_recall(monkeypatch, *WORDS)
    skipped = [record for record in passed.records if record["status"] == "skipped"]
    assert len(skipped) == 15
    assert skipped == [record for record in alone.records if record["status"] == "skipped"]
    assert all(set(record) == set(contract.OUTCOME) for record in skipped)
    assert "0 of 16 saved, 15 kept, 1 missing" in resolve(*WORDS[:-1]).messages


@pytest.mark.parametrize("seed", range(4))
def test_changed_list_fetches_only_new_lines(source: Path, seed: int) -> None:
    """Lines are removed, added and moved: each file is fetched once, and its outcome has the right path."""
    chance = random.Random(seed)
    write(source, *NAMES[: chance.randrange(12)])
    had = {record["url"]: record["path"] for record in resolve(*WORDS).records}
    names = chance.sample(NAMES, 9) if seed % 2 else [name for name in NAMES if chance.random() < 0.7]
    urls = write(source, *names)
    done = resolve(*WORDS, "--exists", "rename") if seed == 3 else resolve(*WORDS)
    by_url = {record["url"]: record for record in done.records}
    assert set(by_url) == set(urls)
    for name, url in zip(names, urls, strict=True):
        record = by_url[url]
        if record["status"] == "failed":  # another file has the name already
            assert record["exit"] == 3
            continue
        assert record["status"] == ("skipped" if had.get(url) == record["path"] else "done")
        assert (source / str(record["path"])).read_text() == f"{name.replace('/', ' ')}\n"
    paths = [record["path"] for record in done.records if record["path"] is not None]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("words", [("-d", "else"), ("--host-directories",), ("--cut-dirs", "1")])
def test_changed_path_options_fetch_again(source: Path, words: tuple[str, ...]) -> None:
    write(source, *NAMES[:4])
    resolve(*WORDS)
    done = resolve(*WORDS, *words)
    assert {status for status, _ in statuses(done)} == {"done"}
    again = resolve(*WORDS, *words)
    assert statuses(again) == [("skipped", path) for _, path in statuses(done)]


def test_ledger_without_how_column_is_accepted(source: Path) -> None:
    write(source, *NAMES[:4])
    before = resolve(*WORDS)
    with closing(sqlite3.connect(source / "run")) as database:
        database.execute("ALTER TABLE object DROP COLUMN how")
    for _ in range(2):
        again = resolve(*WORDS)
        assert statuses(again) == [("skipped", path) for _, path in statuses(before)]
    with closing(sqlite3.connect(source / "run")) as database:
        assert set(database.execute("SELECT how FROM object")) == {("",)}


def test_finished_lines_are_not_parsed_as_urls(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(source, *NAMES)
    resolve(*WORDS)
    named: list[str] = []
    name = TargetNaming.name

    def watched(naming: TargetNaming, target: CommandTarget) -> CommandTarget:
        named.append(target.url)
        return name(naming, target)

    monkeypatch.setattr(TargetNaming, "name", watched)
    done = resolve(*WORDS)
    assert len(done.records) == 12
    assert named == []
    write(source, *NAMES[:2], "one/new", *NAMES[7:])
    assert len(resolve(*WORDS).records) == 8
    assert named[0].endswith("one/new")
    assert len(named) < 8  # more lines were removed than are read ahead
    write(source, *NAMES[:2], *NAMES[3:])
    named.clear()
    resolve(*WORDS)
    assert named == []
