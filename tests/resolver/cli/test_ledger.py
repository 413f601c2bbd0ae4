"""`--ledger FILE`: the record of a run, its use by a later run, and the report of `resolve ledger`."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from resolver.files.atomic import LedgerFile
from tests.hang import HANG
from tests.resolver.cli import contract
from tests.resolver.cli.command import Done, hide_library, resolve

WORDS = ["get", "-d", "out", "-i", "list", "--ledger", "run"]


@pytest.fixture(name="source")
def _source(folder: Path) -> Path:
    """Create three files and a list of them, with one duplicate and one missing file."""
    source = folder / "source"
    source.mkdir()
    for name in "abc":
        (source / name).write_text(f"this is {name}\n")
    names = [*"abc", "none", "a"]
    (folder / "list").write_text("".join(f"{(source / name).as_uri()}\n" for name in names))
    return source


def statuses(done: Done) -> list[tuple[str, str | None]]:
    return sorted((record["status"], record["path"]) for record in done.records)


def ledger_report(*words: str) -> dict[str, object]:
    (record,) = resolve("ledger", "run", "--json", *words).records
    return record


def test_ledger_second_run_skips_done_and_retries_failed(source: Path) -> None:
    first = resolve(*WORDS, "--json")
    assert first.status == 8
    done = [("done", f"out/{name}") for name in ("a", "a.2", "b", "c")]
    assert statuses(first) == [*done, ("failed", None)]
    shutil.rmtree(source)  # the second run must not look at the sources
    source.mkdir()
    (source / "none").write_text("there by now\n")
    again = resolve(*WORDS, "--json")
    assert again.status == 0
    assert statuses(again) == [("done", "out/none"), *(("skipped", path) for _, path in done)]
    digests = {record["path"]: record["digest"] for record in first.records}
    skipped = [record for record in again.records if record["status"] == "skipped"]
    assert {record["path"]: record["digest"] for record in skipped} == {
        path: digests[path] for _, path in done
    }
    assert all(set(record) == set(contract.OUTCOME) for record in skipped)
    assert "0 of 5 saved, 5 kept" in resolve(*WORDS).messages


def test_ledger_file_is_private_and_leaves_no_other_files(source: Path, folder: Path) -> None:
    resolve(*WORDS)
    assert (folder / "run").stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(folder)) == ["list", "out", "run", "source"]


@pytest.mark.parametrize("harm", ["gone", "longer"])
def test_ledger_row_without_matching_file_is_fetched_again(source: Path, folder: Path, harm: str) -> None:
    resolve(*WORDS)
    file = folder / "out" / "b"
    if harm == "gone":
        file.unlink()
    else:
        file.write_text("something else that is longer\n")
    again = resolve(*WORDS, "--json", "--exists", "replace")
    assert ("done", "out/b") in statuses(again)
    assert file.read_text() == "this is b\n"
    assert sum(status == "skipped" for status, _ in statuses(again)) == 3


def test_ledger_skips_lines_of_list_from_standard_input(source: Path, folder: Path) -> None:
    octets = (folder / "list").read_bytes()
    words = ["get", "-d", "out", "-i", "-", "--ledger", "run", "--json"]
    assert len(resolve(*words, stdin=octets).records) == 5
    assert [status for status, _ in statuses(resolve(*words, stdin=octets))] == ["failed", *["skipped"] * 4]


def test_ledger_keeps_renamed_path_in_later_run(source: Path, folder: Path) -> None:
    """The row keeps the new name of `--exists rename` for later runs."""
    (folder / "out").mkdir()
    (folder / "out" / "a").write_text("somebody's\n")
    words = [*WORDS, "--json", "--exists", "rename"]
    names = {path for _, path in statuses(resolve(*words))}
    assert names == {"out/a.2", "out/a.3", "out/b", "out/c", None}
    assert statuses(resolve(*words)) == [
        ("failed", None),
        *(("skipped", name) for name in sorted(filter(None, names))),
    ]


def test_ledger_with_other_directory_fetches_again(source: Path, folder: Path) -> None:
    resolve(*WORDS)
    elsewhere = resolve("get", "-d", "other", "-i", "list", "--ledger", "run", "--json")
    assert [status for status, _ in statuses(elsewhere)] == ["done"] * 4 + ["failed"]


# -- the report


def test_ledger_report_has_counts_and_failures(source: Path, folder: Path) -> None:
    resolve(*WORDS)
    record = ledger_report()
    assert set(record) == contract.LEDGER
    assert (record["objects"], record["done"], record["failed"], record["left"]) == (5, 4, 1, 0)
    assert (record["bytes"], record["brought"], record["runs"]) == (40, 40, 1)
    assert record["failures"] == [{"error": "NotFound", "exit": 8, "objects": 1}]
    page = resolve("ledger", "run")
    assert page.status == 0
    assert b"done     4 of 5, 40 B\n" in page.out
    assert b"  1 with NotFound (exit 8)\n" in page.out
    assert resolve("ledger", "--ledger", "run").out == page.out


def test_ledger_failed_prints_list_for_next_run(source: Path, folder: Path) -> None:
    resolve(*WORDS)
    url = (source / "none").as_uri()
    assert resolve("ledger", "run", "--failed").out == f"{url}\n".encode()
    (rest,) = resolve("ledger", "run", "--failed", "--json").records
    assert set(rest) == contract.LEFT
    assert (rest["url"], rest["error"], rest["exit"], rest["attempts"]) == (url, "NotFound", 8, 1)
    assert resolve("ledger", "run", "--failed=left").out == b""
    (source / "none").write_text("there by now\n")
    again = resolve("get", "-d", "out", "-i", "left", "--ledger", "run", "--json")
    assert statuses(again) == [("done", "out/none")]
    assert resolve("ledger", "run", "--failed").out == b""


def test_ledger_failed_list_keeps_referrer(folder: Path) -> None:
    line = '{"url": "x-none://h/", "origin": "derived", "referrer": ["http://h/", "192.0.2.1"]}\n'
    (folder / "list").write_text(line)
    assert resolve(*WORDS).status == 13
    assert resolve("ledger", "run", "--failed").out == line.encode()
    assert ledger_report()["refused"] == 1


@pytest.mark.parametrize(
    ("kind", "left", "done"), [("NotFound", 1, 4), ("8", 1, 4), ("all", 1, 4), ("0", 4, 0), ("9", 0, 4)]
)
def test_ledger_again_requeues_selected_objects(source: Path, kind: str, left: int, done: int) -> None:
    resolve(*WORDS)
    record = ledger_report("--again", kind)
    assert (record["left"], record["done"]) == (left, done)


def test_ledger_again_objects_are_fetched_by_next_run(source: Path) -> None:
    resolve(*WORDS)
    (source / "b").write_text("another b\n")
    one = resolve("ledger", "run", "--again", "NotFound")
    assert one.messages == "resolve: run: 1 request is pending again\n"
    assert resolve("ledger", "run", "--again", "0").messages == "resolve: run: 4 requests are pending again\n"
    assert [status for status, _ in statuses(resolve(*WORDS, "--json", "--exists", "replace"))].count(
        "done"
    ) == 4
    assert ledger_report()["left"] == 0


def test_ledger_contains_no_password(folder: Path) -> None:
    """The ledger has no digest of the password either: a URL with another password is the same object."""
    secret = "Xq7Pr9Lm"
    (folder / "list").write_text(f"ftp://joe:{secret}@h.example/a\nftp://joe:{secret}@h.example/%00\n")
    resolve(*WORDS, "--policy", "untrusted")
    assert secret.encode() not in (folder / "run").read_bytes()
    assert ledger_report()["objects"] == 2
    rest = resolve("ledger", "run", "--failed")
    assert rest.out.count(b"ftp://joe:****@h.example/") == 2
    assert all(word in rest.messages for word in (" 2 ", "password"))
    (folder / "list").write_text("ftp://joe:other@h.example/a\n")
    resolve(*WORDS, "--policy", "untrusted")
    assert ledger_report()["objects"] == 2


def test_ledger_keeps_urls_with_invalid_utf8(folder: Path) -> None:
    (folder / "list").write_bytes(b'http://h.example/\xff\n{"url": "http://h.example/\\ud800"}\n')
    resolve(*WORDS)
    urls = [record["url"] for record in resolve("ledger", "run", "--failed", "--json").records]
    assert urls == ["http://h.example/\udcff", "http://h.example/\ud800"]


# -- faults of the file


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE mine (x)")


def _later(path: Path) -> None:
    resolve("get", "-d", "first", "-i", "list", "--ledger", str(path))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")


def _damaged(path: Path) -> None:
    resolve("get", "-d", "first", "-i", "list", "--ledger", str(path))
    octets = path.read_bytes()
    path.write_bytes(octets[:100] + b"\xff" * 4_000 + octets[4_100:])


WRONG = [
    (lambda path: path.write_bytes(b"a list of mine\n" * 9), "not a ledger"),
    (_foreign, "another program"),
    (_later, "later version"),
    (_damaged, "damaged"),
    (lambda path: path.mkdir(), "is a directory"),
    (lambda path: os.mkfifo(path, 0o600), "is not a regular file"),
    (lambda path: (path.write_bytes(b""), path.chmod(0o666)), "chmod 600"),
]


@pytest.mark.parametrize(("make", "words"), WRONG, ids=[words for _, words in WRONG])
def test_ledger_invalid_file_is_refused_and_unchanged(
    source: Path, folder: Path, make: Callable[[Path], object], words: str
) -> None:
    make(folder / "run")
    before = (folder / "run").read_bytes() if (folder / "run").is_file() else b""
    done = resolve(*WORDS)
    assert done.status == 3
    assert words in done.messages
    assert not (folder / "out").exists()
    if before:
        assert (folder / "run").read_bytes() == before


def test_ledger_locked_by_running_get_is_refused(source: Path, folder: Path) -> None:
    resolve(*WORDS)
    lock = LedgerFile("run")
    lock.acquire()
    try:
        for words in (WORDS, ["ledger", "run", "--again", "all"]):
            done = resolve(*words)
            assert done.status == 3
            assert all(word in done.messages for word in ("run'", "locked", "another run"))
        assert resolve("ledger", "run").status == 0
    finally:
        lock.close()


def test_ledger_in_missing_directory_exits_with_status_3(source: Path) -> None:
    done = resolve("get", "-i", "list", "--ledger", "nowhere/run")
    assert done.status == 3
    assert all(word in done.messages for word in ("nowhere", "no such file"))


@pytest.mark.parametrize(
    "words",
    [
        ["cat", "x:", "--ledger", "run"],
        ["get", "-O", "-", "x:", "--ledger", "run"],
        ["get", "-r", "nntp://h/g", "--format", "mbox", "--ledger", "run"],
    ],
)
def test_ledger_for_output_without_files_is_usage_error(folder: Path, words: list[str]) -> None:
    assert resolve(*words).status == 2


@pytest.mark.parametrize("words", [["ledger"], ["ledger", "a", "b"]])
def test_ledger_command_requires_exactly_one_file(folder: Path, words: list[str]) -> None:
    done = resolve(*words)
    assert (done.status, "one file" in done.messages) == (2, True)


def test_ledger_command_does_not_create_missing_file(folder: Path) -> None:
    for words in ([], ["--failed"], ["--again", "all"]):
        assert resolve("ledger", "run", *words).status == 3
    assert os.listdir(folder) == []


_LIMITED = """
import resource, signal, sys
from resolver.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
sys.exit(main(sys.argv[1:]))
"""


def test_ledger_on_full_disk_ends_run_without_loss(folder: Path) -> None:
    """A file size limit of the process has the effect of a full disk."""
    source = folder / "source"
    source.mkdir()
    for number in range(60):
        (source / str(number)).write_text(f"{number}\n")
    (folder / "list").write_text("".join(f"{(source / str(number)).as_uri()}\n" for number in range(60)))
    words = [sys.executable, "-c", _LIMITED, *WORDS, "-q"]
    ended = subprocess.run(words, capture_output=True, timeout=HANG)
    assert ended.returncode == 3, ended.stderr
    assert b"the ledger" in ended.stderr
    assert ended.stderr.count(b"\n") == 1  # one message only
    again = resolve(*WORDS, "--json")
    assert again.status == 0
    assert len(again.records) == 60
    assert all((folder / "out" / str(number)).read_text() == f"{number}\n" for number in range(60))


# `get -r --ledger FILE`: a row for each file of a tree; a later run walks the tree again.

TREE_WORDS = ["get", "-r", "-d", "out", "--ledger", "run"]


@pytest.fixture(name="tree")
def _tree(folder: Path) -> str:
    """Return the URL of a directory with two subdirectories."""
    tree = folder / "tree"
    for name in ("a", "b/c", "b/d", "e/f"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(f"this is {name}\n")
    return tree.as_uri()


DONE = [("done", f"out/tree/{name}") for name in ("a", "b/c", "b/d", "e/f")]


def test_ledger_tree_second_run_skips_done_and_finds_new(tree: str, folder: Path) -> None:
    first = resolve(*TREE_WORDS, tree, "--json")
    assert first.status == 0
    assert statuses(first) == DONE
    (folder / "tree/b/new").write_text("new\n")
    (folder / "tree/b/c").write_text("another one, which nobody looks at\n")
    again = resolve(*TREE_WORDS, tree, "--json")
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
    report = ledger_report()
    assert {name: report[name] for name in ("objects", "done", "left", "failed", "runs", "attempts")} == {
        "objects": 5,
        "done": 5,
        "left": 0,
        "failed": 0,
        "runs": 2,
        "attempts": 5,
    }
    assert "0 of 5 saved, 5 kept" in resolve(*TREE_WORDS, tree).messages


def test_ledger_tree_fetches_removed_local_file_again(tree: str, folder: Path) -> None:
    resolve(*TREE_WORDS, tree)
    (folder / "out/tree/b/c").unlink()
    assert ("done", "out/tree/b/c") in statuses(resolve(*TREE_WORDS, tree, "--json"))


def test_ledger_tree_failure_has_referrer(at: dict[str, str], folder: Path) -> None:
    assert resolve(*TREE_WORDS, f"{at['ftp']}/pub").status == 8
    report = ledger_report()
    assert [failure["error"] for failure in report["failures"]] == ["NotFound"]  # type: ignore[attr-defined]
    assert report["objects"] == report["done"] + report["failed"]  # type: ignore[operator]
    (rest,) = map(json.loads, resolve("ledger", "run", "--failed", "--json").out.splitlines())
    assert rest["url"].endswith("/pub/unreadable.txt")
    assert rest["origin"] == "derived"
    assert rest["referrer"][0].rstrip("/").endswith("/pub")


def test_ledger_tree_with_delete_removes_local_file(tree: str, folder: Path) -> None:
    resolve(*TREE_WORDS, tree)
    (folder / "tree/b/c").unlink()
    done = resolve(*TREE_WORDS, tree, "--delete", "--yes", "--json")
    assert done.status == 0
    assert not (folder / "out/tree/b/c").exists()
    assert (folder / "out/tree/b/d").exists()


def test_ledger_list_of_trees_skips_done_files(tree: str, folder: Path) -> None:
    (folder / "list").write_text(f"{tree}\n{tree}/b\n")
    first = resolve(*TREE_WORDS, "-i", "list", "--json")
    assert len(first.records) == 6
    shutil.rmtree(folder / "tree/e")
    again = resolve(*TREE_WORDS, "-i", "list", "--json")
    assert [record["status"] for record in again.records] == ["skipped"] * 5


@pytest.mark.parametrize(
    "words", [["get", "--ledger", "run", "{}/a"], ["ledger", "run"], ["get", "-r", "{}/"]]
)
def test_python_without_sqlite_is_error_with_module(
    words: list[str], source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source.parent / "run").touch()
    for package in ("resolver.ledger", "resolver.trees"):
        hide_library(monkeypatch, "sqlite3", package)
    done = resolve(*(word.format(source.as_uri()) for word in words))
    assert done.status == 2
    assert done.messages == "resolve: this build of Python lacks the module sqlite3 (use another build)\n"
