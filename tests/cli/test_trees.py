"""`get -r`: whole trees, said and counted as a list of files is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.command import resolve

#: Trees of every scheme that has them: the top of each here, and files that have to be in it.
TREES = [
    ("{ftp}/pub", "pub", {"a.txt", "names/README", "large.bin"}),
    ("{ftp}/", "127.0.0.1", {"pub/a.txt"}),
    ("{gopher}/", "127.0.0.1", {"about", "data", "pixel"}),
    ("{nntp}/comp.misc", "comp.misc", {"1234"}),
    ("{prospero}//example", "example", set()),
    ("{file}", "", {"about.txt"}),
]


def files(folder: Path) -> set[str]:
    return {
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, names in os.walk(folder)
        for name in names
    }


@pytest.mark.parametrize(("url", "top", "some"), TREES, ids=[row[0] for row in TREES])
def test_a_tree_of_every_scheme(url: str, top: str, some: set[str], at: dict[str, str], folder: Path) -> None:
    """Each file has a record; what was saved is there, and a second run fetches nothing of it."""
    given = url.format_map(at)
    done = resolve("get", "-r", "-q", "--json", given)
    saved = {record["path"]: record for record in done.records if record["status"] == "done"}
    assert set(saved) == files(folder)
    assert saved
    top = top or given.rpartition("/")[2]
    assert {f"{top}/{name}" for name in some} <= set(saved)
    assert all(path.startswith(f"{top}/") for path in saved)
    again = resolve("get", "-r", "-q", "--json", "--exists", "skip", given)
    assert {record["path"]: record["status"] for record in again.records if record["path"]} == dict.fromkeys(
        saved, "skipped"
    )


def test_files_are_told_and_counted(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-r", f"{at['file']}", f"{at['ftp']}/pub/names/", "-d", "out", "--depth", "1")
    assert done.status == 0
    local = Path(at["file"]).name
    assert f"{at['file']}/about.txt -> out/{local}/about.txt (16 " in done.told
    assert f"{at['ftp']}/pub/names/README -> out/names/README (18 " in done.told
    assert done.told.count("warning (S04)") == 1
    count = len(files(folder))
    assert f"resolve: {count} of {count} saved; " in done.told


def test_a_document_goes_into_the_directory_for_files(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-r", "-d", "out", f"{at['file']}/about.txt")
    assert done.status == 0
    assert files(folder) == {"out/about.txt"}


def test_what_fails_is_told_and_listed(at: dict[str, str], folder: Path) -> None:
    """The list of what is left has the tree, so that another run of it fetches what is missing."""
    done = resolve("get", "-r", "--failed", "left", f"{at['ftp']}/pub", f"{at['ftp']}/nowhere")
    assert done.status == 8
    assert "/pub/unreadable.txt: " in done.told
    assert "2 missing; " in done.told
    assert set((folder / "left").read_text().splitlines()) == {f"{at['ftp']}/pub", f"{at['ftp']}/nowhere"}


def test_a_tree_has_its_host_and_directories_where_these_are_wanted(at: dict[str, str], folder: Path) -> None:
    url = f"{at['ftp']}/pub/names"
    for options, top in (
        (["--host-directories"], "127.0.0.1/pub/names"),
        (["--cut-dirs", "0"], "pub/names"),
        (["--host-directories", "--cut-dirs", "1"], "127.0.0.1/names"),
    ):
        assert resolve("get", "-r", "-q", "-d", "out", "--exists", "replace", *options, url).status == 0
        assert (folder / "out" / top / "README").is_file()


def test_two_trees_of_one_name_are_two(at: dict[str, str], folder: Path) -> None:
    assert resolve("get", "-r", "-q", f"{at['ftp']}/pub/names", f"{at['ftp']}/pub/names/").status == 0
    assert files(folder / "names") == files(folder / "names.2")


def test_a_list_may_name_trees(at: dict[str, str], folder: Path) -> None:
    (folder / "list").write_text(json.dumps({"url": f"{at['ftp']}/pub/names"}) + "\n" + at["file"] + "\n")
    assert resolve("get", "-r", "-q", "-i", "list", "-d", "out").status == 0
    assert {name.partition("/")[0] for name in files(folder / "out")} == {"names", Path(at["file"]).name}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-r", "-O", "x"], "-r -O FILE"),
        (["-r", "-O", "-"], "-r -O FILE"),
        (["--depth", "2"], "--depth -r"),
        (["--accept", "*"], "--accept -r"),
        (["-r", "--accept-regex", "("], "regular expression"),
        (["-r", "--depth", "0"], "--depth 1 64"),
    ],
    ids=" ".join,
)
def test_words_that_go_with_no_tree(words: list[str], said: str, folder: Path) -> None:
    done = resolve("get", *words, "file:///nowhere")
    assert (done.status, all(word in done.told for word in said.split())) == (2, True)


def test_files_are_chosen_by_name_and_url(at: dict[str, str], folder: Path) -> None:
    url = f"{at['ftp']}/pub"
    assert resolve("get", "-r", "-q", url, "--accept", "*.txt", "--reject", "[au]*").status == 0
    assert files(folder)
    assert all(name.endswith(".txt") for name in files(folder))
    assert "pub/a.txt" not in files(folder)
    assert resolve("get", "-r", "-q", url, "--accept-regex", "/names/R", "-d", "out").status == 0
    assert files(folder / "out") == {"pub/names/README"}
