"""`get -r --ledger FILE`: a row for each file of a tree, which another run walks through again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli import contract
from tests.cli.command import resolve
from tests.cli.test_ledger import statuses, told

WORDS = ["get", "-r", "-d", "out", "--ledger", "run"]


@pytest.fixture(name="tree")
def _tree(folder: Path) -> str:
    """The URL of a directory with two others in it."""
    tree = folder / "tree"
    for name in ("a", "b/c", "b/d", "e/f"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(f"this is {name}\n")
    return tree.as_uri()


DONE = [("done", f"out/tree/{name}") for name in ("a", "b/c", "b/d", "e/f")]


def test_another_run_passes_over_what_is_done_and_finds_what_is_new(tree: str, folder: Path) -> None:
    first = resolve(*WORDS, tree, "--json")
    assert first.status == 0
    assert statuses(first) == DONE
    (folder / "tree/b/new").write_text("new\n")
    (folder / "tree/b/c").write_text("another one, which nobody looks at\n")
    again = resolve(*WORDS, tree, "--json")
    assert again.status == 0
    assert statuses(again) == [("done", "out/tree/b/new"), *(("skipped", path) for _, path in DONE)]
    of_first = {record["path"]: record for record in first.records}
    for record in again.records:
        assert set(record) == set(contract.OUTCOME)
        if record["status"] == "skipped":
            before = of_first[record["path"]]
            assert (record["url"], record["bytes"], record["digest"]) == (
                before["url"],
                before["bytes"],
                before["digest"],
            )
    found = told()
    assert {name: found[name] for name in ("objects", "done", "left", "failed", "runs", "attempts")} == {
        "objects": 5,
        "done": 5,
        "left": 0,
        "failed": 0,
        "runs": 2,
        "attempts": 5,
    }
    assert "0 of 5 saved, 5 kept" in resolve(*WORDS, tree).told


def test_what_is_gone_here_is_fetched_again(tree: str, folder: Path) -> None:
    resolve(*WORDS, tree)
    (folder / "out/tree/b/c").unlink()
    assert ("done", "out/tree/b/c") in statuses(resolve(*WORDS, tree, "--json"))


def test_what_fails_stands_there_with_what_led_to_it(at: dict[str, str], folder: Path) -> None:
    assert resolve(*WORDS, f"{at['ftp']}/pub").status == 8
    found = told()
    assert [failure["error"] for failure in found["failures"]] == ["NotFound"]  # type: ignore[attr-defined]
    assert found["objects"] == found["done"] + found["failed"]  # type: ignore[operator]
    (left,) = map(json.loads, resolve("ledger", "run", "--failed", "--json").out.splitlines())
    assert left["url"].endswith("/pub/unreadable.txt")
    assert left["origin"] == "derived"
    assert left["referrer"][0].rstrip("/").endswith("/pub")


def test_what_is_removed_there_goes_with_delete(tree: str, folder: Path) -> None:
    resolve(*WORDS, tree)
    (folder / "tree/b/c").unlink()
    done = resolve(*WORDS, tree, "--delete", "--yes", "--json")
    assert done.status == 0
    assert not (folder / "out/tree/b/c").exists()
    assert (folder / "out/tree/b/d").exists()


def test_a_list_of_trees(tree: str, folder: Path) -> None:
    (folder / "list").write_text(f"{tree}\n{tree}/b\n")
    first = resolve(*WORDS, "-i", "list", "--json")
    assert len(first.records) == 6
    shutil.rmtree(folder / "tree/e")
    again = resolve(*WORDS, "-i", "list", "--json")
    assert [record["status"] for record in again.records] == ["skipped"] * 5
