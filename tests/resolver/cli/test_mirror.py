"""`get -r`: complete trees, with the messages and counts of a list of files, and deletion of local files."""

from __future__ import annotations

import json
import mailbox
import os
import signal
import sqlite3
from functools import partial
from pathlib import Path

import pytest
import trio

from fixtures.nntp import Behavior, serve
from tests.elsewhere import served
from tests.hang import HANG
from tests.resolver.cli.command import resolve
from tests.resolver.cli.terminal import Terminal, on_terminal
from tests.sampled import sampled

#: A tree of every scheme that has trees: its URL, its local top directory, and files that it must contain.
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
def test_recursive_get_saves_tree_of_every_scheme(
    url: str, top: str, some: set[str], at: dict[str, str], folder: Path
) -> None:
    """Each file has a record and exists, and a second run fetches no file again."""
    target = url.format_map(at)
    done = resolve("get", "-r", "-q", "--json", target)
    saved = {record["path"]: record for record in done.records if record["status"] == "done"}
    assert set(saved) == files(folder)
    assert saved
    top = top or target.rpartition("/")[2]
    assert {f"{top}/{name}" for name in some} <= set(saved)
    assert all(path.startswith(f"{top}/") for path in saved)
    again = resolve("get", "-r", "-q", "--json", "--exists", "skip", target)
    assert {record["path"]: record["status"] for record in again.records if record["path"]} == dict.fromkeys(
        saved, "skipped"
    )


def test_recursive_get_reports_and_counts_files(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-r", f"{at['file']}", f"{at['ftp']}/pub/names/", "-d", "out", "--depth", "1")
    assert done.status == 0
    local = Path(at["file"]).name
    assert f"{at['file']}/about.txt -> out/{local}/about.txt (16 " in done.messages
    assert f"{at['ftp']}/pub/names/README -> out/names/README (18 " in done.messages
    assert done.messages.count("warning (S04)") == 1
    count = len(files(folder))
    assert f"resolve: {count} of {count} saved; " in done.messages


def test_recursive_get_with_full_temporary_directory_is_local_error(
    at: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the disk of the temporary database was full, each query fails; one message ends the run."""

    class FullDatabase(sqlite3.Connection):
        def execute(self, statement: str, *values: object) -> sqlite3.Cursor:
            if "state = 1" in statement:
                raise sqlite3.DatabaseError("database disk image is malformed")
            return super().execute(statement, *values)  # type: ignore[arg-type]

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=FullDatabase))
    monkeypatch.setattr("resolver.trees.spool.MAX_IN_MEMORY", 1)
    done = resolve("get", "-r", at["file"], "-d", "out")
    assert done.status == 3
    assert done.messages.count("malformed (check the free space)") == 1
    assert len(files(folder)) <= 1


def test_recursive_get_of_document_saves_file(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-r", "-d", "out", f"{at['file']}/about.txt")
    assert done.status == 0
    assert files(folder) == {"out/about.txt"}


def test_recursive_get_failure_is_reported_and_listed(at: dict[str, str], folder: Path) -> None:
    """The failed list contains the tree, so that a later run of the list fetches the missing files."""
    done = resolve("get", "-r", "--failed", "left", f"{at['ftp']}/pub", f"{at['ftp']}/nowhere")
    assert done.status == 8
    assert "/pub/unreadable.txt: " in done.messages
    assert "2 missing; " in done.messages
    assert set((folder / "left").read_text().splitlines()) == {f"{at['ftp']}/pub", f"{at['ftp']}/nowhere"}


def test_recursive_get_directory_options_set_top(at: dict[str, str], folder: Path) -> None:
    url = f"{at['ftp']}/pub/names"
    for options, top in (
        (["--host-directories"], "127.0.0.1/pub/names"),
        (["--cut-dirs", "0"], "pub/names"),
        (["--host-directories", "--cut-dirs", "1"], "127.0.0.1/names"),
    ):
        assert resolve("get", "-r", "-q", "-d", "out", "--exists", "replace", *options, url).status == 0
        assert (folder / "out" / top / "README").is_file()


def test_recursive_get_numbers_trees_of_equal_name(at: dict[str, str], folder: Path) -> None:
    assert resolve("get", "-r", "-q", f"{at['ftp']}/pub/names", f"{at['ftp']}/pub/names/").status == 0
    assert files(folder / "names") == files(folder / "names.2")


def test_recursive_get_accepts_list_of_trees(at: dict[str, str], folder: Path) -> None:
    (folder / "list").write_text(json.dumps({"url": f"{at['ftp']}/pub/names"}) + "\n" + at["file"] + "\n")
    assert resolve("get", "-r", "-q", "-i", "list", "-d", "out").status == 0
    assert {name.partition("/")[0] for name in files(folder / "out")} == {"names", Path(at["file"]).name}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-r", "-O", "x"], "-r -O FILE"),
        (["-r", "-O", "-"], "-r -O FILE"),
        (["--depth", "2"], "--depth -r"),
        (["--accept", "*"], "--accept -r"),
        (["--delete"], "--delete -r"),
        (["-r", "--accept-regex", "("], "regular expression"),
        (["-r", "--depth", "0"], "--depth 1 64"),
    ],
    ids=" ".join,
)
def test_recursive_get_invalid_options_are_usage_errors(words: list[str], message: str, folder: Path) -> None:
    done = resolve("get", *words, "file:///nowhere")
    assert (done.status, all(word in done.messages for word in message.split())) == (2, True)


@pytest.mark.parametrize("verb", ["cat", "ls", "info"])
def test_recursive_option_of_other_command_is_usage_error(verb: str, folder: Path) -> None:
    done = resolve(verb, "-r", "file:///")
    assert (done.status, done.out) == (2, b"")
    assert f"-r is for get: {verb} " in done.messages


def test_recursive_get_filters_by_name_and_url(at: dict[str, str], folder: Path) -> None:
    url = f"{at['ftp']}/pub"
    assert resolve("get", "-r", "-q", url, "--accept", "*.txt", "--reject", "[au]*").status == 0
    assert files(folder)
    assert all(name.endswith(".txt") for name in files(folder))
    assert "pub/a.txt" not in files(folder)
    assert resolve("get", "-r", "-q", url, "--accept-regex", "/names/R", "-d", "out").status == 0
    assert files(folder / "out") == {"pub/names/README"}


# `get -r` of a mirror: updates, deletions, dry runs, and groups as mailboxes.


@pytest.fixture(name="source")
def _source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source") / "top"
    (source / "sub").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (source / name).write_bytes(name.encode())
    return source


def sorted_files(folder: Path) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, names in os.walk(folder)
        for name in names
    )


def test_delete_with_yes_removes_files_missing_at_source(source: Path, folder: Path) -> None:
    assert resolve("get", "-r", source.as_uri()).status == 0
    (source / "sub/c.txt").unlink()
    (source / "sub").rmdir()
    (folder / "top/.mine").write_bytes(b"x")
    done = resolve("get", "-r", "--exists", "newer", "--delete", "--yes", source.as_uri())
    assert (done.status, sorted_files(folder)) == (0, ["top/.mine", "top/a.txt", "top/b.txt"])
    assert "resolve: delete top/sub/c.txt\nresolve: delete top/sub/\n" in done.messages
    assert "resolve: 2 deleted\n" in done.messages
    assert "0 of 2 saved, 2 kept" in done.messages


def test_delete_without_terminal_requires_yes(source: Path, folder: Path) -> None:
    done = resolve("get", "-r", "--delete", source.as_uri())
    assert (done.status, sorted_files(folder)) == (2, [])
    assert "--yes" in done.messages


def test_recursive_dry_run_reports_actions(source: Path, folder: Path) -> None:
    resolve("get", "-r", source.as_uri())
    (source / "a.txt").unlink()
    (source / "new.txt").write_bytes(b"x")
    before = sorted_files(folder)
    words = ["get", "-r", "--exists", "newer", "--delete", "--dry-run", source.as_uri()]
    done = resolve(*words)
    assert (done.status, sorted_files(folder)) == (0, before)
    assert f"{source.as_uri()}/b.txt -> top/b.txt (would be kept)\n" in done.messages
    assert f"{source.as_uri()}/new.txt -> top/new.txt (would be saved)\n" in done.messages
    assert "delete top/a.txt\n" in done.messages
    assert all(word in done.messages for word in ("1 of 3 ", "2 kept"))
    records = resolve(*words, "--json").records
    assert {(record["path"], record["action"], record["status"]) for record in records} == {
        ("top/a.txt", "delete", "skipped"),
        ("top/b.txt", "keep", "skipped"),
        ("top/new.txt", "fetch", "skipped"),
        ("top/sub/c.txt", "keep", "skipped"),
    }
    assert len({tuple(record) for record in records}) == 1


def test_dry_run_creates_no_files(at: dict[str, str], folder: Path) -> None:
    done = resolve(
        "get", "--dry-run", "--json", "-d", "out", f"{at['http']}/about.txt", f"{at['ftp']}/pub/a.txt"
    )
    assert (done.status, sorted_files(folder), os.listdir(folder)) == (0, [], [])
    assert [(record["action"], record["bytes"]) for record in done.records] == [("fetch", 0)] * 2
    assert resolve("get", "-r", "--dry-run", "-q", "--warc", "a.warc", f"{at['ftp']}/pub").status == 0
    assert os.listdir(folder) == []


def test_dry_run_does_not_empty_list_of_failures(folder: Path) -> None:
    (folder / "list").write_text("http://127.0.0.1:1/a\n")
    assert resolve("get", "--dry-run", "-i", "list", "--failed", "list").status == 2
    assert (folder / "list").read_text() == "http://127.0.0.1:1/a\n"


def test_mirror_second_run_keeps_all_files(at: dict[str, str], folder: Path) -> None:
    assert resolve("get", "-r", "-q", f"{at['ftp']}/pub/names").status == 0
    again = resolve("get", "-r", "-q", "--json", "--exists", "newer", f"{at['ftp']}/pub/names")
    assert {record["action"] for record in again.records} == {"keep"}


@pytest.mark.parametrize(
    "words",
    [
        ["--format", "mbox"],
        ["-r", "--format", "mbox", "--dry-run"],
        ["-r", "--format", "mbox", "--delete", "--yes"],
        ["-O", "-", "--dry-run"],
    ],
)
def test_mailbox_invalid_options_are_usage_errors(words: list[str], folder: Path) -> None:
    assert resolve("get", *words, "nntp://127.0.0.1:1/comp.misc").status == 2


def test_newsgroup_is_saved_as_mailbox(at: dict[str, str], folder: Path) -> None:
    url = f"{at['nntp']}/comp.misc"
    done = resolve("get", "-r", "--format", "mbox", "--json", url)
    (record,) = done.records
    assert (done.status, record["path"], os.listdir(folder)) == (0, "comp.misc.mbox", ["comp.misc.mbox"])
    box = mailbox.mbox("comp.misc.mbox", create=False)
    count = len(box)
    box.close()
    (again,) = resolve("get", "-r", "--format", "mbox", "--json", url).records
    assert (again["action"], again["bytes"], again["resumed_from"]) == (
        "keep",
        record["bytes"],
        record["bytes"],
    )
    assert resolve("get", "-r", "--format", "maildir", "-q", url, "-d", "mail").status == 0
    assert (len(mailbox.Maildir("mail/comp.misc", create=False)), os.listdir("mail")) == (
        count,
        ["comp.misc"],
    )


def test_mailbox_of_busy_server_fails_and_other_urls_are_saved(at: dict[str, str], folder: Path) -> None:
    busy = {b"ARTICLE 1235": Behavior(instead=b"400 too many connections\r\n")}
    words = ["get", "-r", "--format", "mbox", "-q", "--json", "-t", "1"]
    with served(partial(serve, behaviors=busy)) as server:
        done = resolve(*words, server.url("comp.misc"), f"{at['nntp']}/comp.misc")
    errors = {record["status"]: record["error"] for record in done.records}
    assert (done.status, sorted(errors)) == (8, ["done", "failed"])
    assert errors["failed"]["code"] == "TryLater"


def test_newsgroup_tree_is_same_for_news_and_nntp(at: dict[str, str], folder: Path) -> None:
    for scheme in ("news", "nntp"):
        assert resolve("get", "-r", "-q", "-d", scheme, f"{at[scheme]}/comp.misc").status == 0
    assert sorted_files(folder / "news") == sorted_files(folder / "nntp") != []
    for name in sorted_files(folder / "news"):
        assert (folder / "news" / name).read_bytes() == (folder / "nntp" / name).read_bytes()


def test_ignore_robots_warning_is_printed_once(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-r", "--ignore-robots", f"{at['http']}/about.txt", f"{at['http']}/data.bin")
    assert done.messages.count("--ignore-robots") == 1


# `get -r --delete`: the prompt on a terminal, the need of `--yes` for HTTP pages, and ledgers in a tree.


@pytest.fixture(name="delete_source")
def _delete_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source") / "top"
    source.mkdir()
    (source / "a.txt").write_bytes(b"a")
    return source


MESSAGES = [
    (b"y\n", 0, True),
    (b"yes\n", 0, True),
    (b"n\n", 0, False),
    (b"\n", 0, False),
    (b"yesterday\n", 0, False),
    (b"\x04", 0, False),
    (b"\x03", 128 + signal.SIGINT, False),
]
#: An answer that means yes, an answer that does not, and an end.
TRIED = sampled(MESSAGES, lambda row: (row[1:], row[0][-1:] == b"\n"))


@pytest.mark.parametrize(("typed", "status", "goes"), TRIED)
async def test_delete_on_terminal_asks_before_removal(
    typed: bytes, status: int, goes: bool, delete_source: Path, folder: Path
) -> None:
    (folder / "top").mkdir()
    (folder / "top" / "gone.txt").write_bytes(b"x")
    terminal = Terminal(100)
    words = ("get", "-r", "--exists", "newer", "--delete", delete_source.as_uri())
    with trio.fail_after(HANG):
        async with on_terminal(terminal, folder, *words) as command:
            rows = await terminal.until(lambda rows: "delete these 1? [y/N]" in rows)
            assert "resolve: delete top/gone.txt" in rows
            assert (folder / "top" / "gone.txt").exists()
            os.write(terminal.master, typed)
            assert await command.status() == status
    assert (folder / "top" / "gone.txt").exists() is not goes
    assert ("resolve: 1 deleted" in terminal.rows) is goes


def test_delete_of_http_index_requires_yes(at: dict[str, str], folder: Path) -> None:
    """Servers hide names: an index does not prove a deletion, and other pages prove even less."""
    for name in ("t", "book"):
        (folder / name).mkdir()
        (folder / name / "gone.txt").write_bytes(b"x")
    urls = f"{at['lists']}/t/", f"{at['lists']}/book/"
    words = "get", "-r", "--exists", "newer", "--delete"
    assert resolve(*words, *urls, "--dry-run").messages.count("resolve: delete ") == 1
    assert sorted_files(folder) == ["book/gone.txt", "t/gone.txt"]
    done = resolve(*words, *urls, "--yes")
    assert (done.status, sorted_files(folder)) == (0, ["book/gone.txt", "book/index.html", "t/a.txt"])
    assert all(word in done.messages for word in ("1 deleted", "--yes"))


async def test_delete_of_http_index_on_terminal_keeps_files(at: dict[str, str], folder: Path) -> None:
    (folder / "t").mkdir()
    (folder / "t" / "gone.txt").write_bytes(b"x")
    terminal = Terminal(200)
    words = ("get", "-r", "--delete", "--allow-port", at["lists"].rpartition(":")[2], f"{at['lists']}/t/")
    with trio.fail_after(HANG):
        async with on_terminal(terminal, folder, *words) as command:
            assert await command.status() == 0
    message = "resolve: 1 local entries are kept: http pages no longer list them"
    assert any(row.startswith(message) for row in terminal.rows)
    assert sorted_files(folder) == ["t/a.txt", "t/gone.txt"]


def test_delete_keeps_ledger_in_tree(delete_source: Path, folder: Path) -> None:
    """SQLite's files of the ledger stay, too; a database of another program is deleted as any file."""
    (folder / "top").mkdir()
    (folder / "list").write_text(f"{delete_source.as_uri()}/a.txt\n")
    assert resolve("get", "-q", "-i", "list", "--ledger", "top/account").status == 0
    names = {"account", "account-shm", "account-wal"}
    for name in (*names - {"account"}, "x-wal", "x"):
        (folder / "top" / name).write_bytes(b"SQLite format 3\0" + bytes(90))
    assert (
        resolve("get", "-r", "-q", "--exists", "newer", "--delete", "--yes", delete_source.as_uri()).status
        == 0
    )
    assert set(os.listdir(folder / "top")) == {*names, "a.txt"}


def test_delete_keeps_archive_and_lists_in_tree(delete_source: Path, folder: Path) -> None:
    """`--warc-size` starts a file for each capture, and each file has an index."""
    (folder / "top").mkdir()
    (folder / "top" / "list").write_text(delete_source.as_uri())
    words = ("get", "-r", "-q", "--exists", "newer", "--delete", "--yes", "-i", "top/list")
    kept = {"a.txt", "list", "x.warc", "x.cdxj", "x-00001.warc", "x-00001.cdxj"}
    for _ in range(2):
        (folder / "top" / "x-ray.warc").write_bytes(b"")
        assert resolve(*words, "--warc", "top/x.warc", "--warc-size", "1").status == 0
        files = set(os.listdir(folder / "top"))
        assert (kept - files, files & {"x-ray.warc"}) == (set(), set())
        kept = files


# `get --glob`: the files of one directory that match the pattern in a URL.


def test_glob_saves_matching_files_in_directory(at: dict[str, str], folder: Path) -> None:
    done = resolve("--glob", "-q", "--json", "-d", "out", f"{at['ftp']}/pub/*.bin")
    assert done.status == 0
    assert {(record["path"], record["status"]) for record in done.records} == {
        (f"out/{name}.bin", "done") for name in ("a", "empty", "large")
    }
    assert files(folder) == {"out/a.bin", "out/empty.bin", "out/large.bin"}


def test_glob_without_directory_saves_in_current_one(at: dict[str, str], folder: Path) -> None:
    done = resolve("--glob", f"{at['ftp']}/pub/[ab].t?t")
    assert done.status == 0
    assert "/pub/a.txt -> a.txt (29 bytes)" in done.messages
    assert files(folder) == {"a.txt"}


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("{file}/ab*.txt", ["{file}/about.txt"]),
        ("{ftp}/pub/names/q%3F*", ["{ftp}/pub/names/q%3Fmark.txt"]),
        ("{http}/pub/[bs]*", ["{http}/pub/big.iso"]),  # the directory `sub` is not entered
        ("{gopher}/1/ab*", ["{gopher}/00/about%09%09+"]),
    ],
)
def test_glob_takes_every_scheme_with_directories(
    pattern: str, matches: list[str], at: dict[str, str], folder: Path
) -> None:
    done = resolve("--glob", "-q", "--json", "--dry-run", pattern.format_map(at))
    assert [record["url"] for record in done.records] == [url.format_map(at) for url in matches]


def test_glob_without_match_exits_with_status_8(at: dict[str, str], folder: Path) -> None:
    done = resolve("--glob", "-q", "--json", f"{at['ftp']}/pub/*.zip")
    assert done.status == 8
    (record,) = done.records
    assert record["error"]["code"] == "NotFound"
    assert "'*.zip'" in record["error"]["message"]
    assert files(folder) == set()


@pytest.mark.parametrize(
    "words",
    [
        ["{http}/pub/b?g.iso"],  # the question mark begins a query
        ["{ftp}/pub/"],
        ["{ftp}/pub/*.txt;type=a"],
        ["mailto:a@h.example"],
        ["-r", "{ftp}/pub/*"],
        ["-O", "x", "{ftp}/pub/*"],
        ["--delete", "{ftp}/pub/*"],
    ],
)
def test_glob_rejects_what_is_not_a_pattern(words: list[str], at: dict[str, str], folder: Path) -> None:
    assert resolve("--glob", "-q", *(word.format_map(at) for word in words)).status == 2
    assert files(folder) == set()


def test_glob_does_not_enter_links_to_directories(tmp_path: Path, folder: Path) -> None:
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    (source / "below" / "x").write_text("x")
    (source / "file").write_text("y")
    (source / "link").symlink_to("below")
    done = resolve("--glob", "-q", "-d", str(folder / "out"), f"{source.as_uri()}/*")
    assert done.status == 0
    assert files(folder / "out") == {"file"}


def test_glob_with_nlst_fails_for_directories(at: dict[str, str], folder: Path) -> None:
    done = resolve("--glob", "-q", "--nlst", "-d", "out", f"{at['ftp']}/pub/[en]*")
    assert done.status == 9
    assert files(folder) == {"out/empty.bin"}


def test_glob_with_ledger_skips_saved_files(at: dict[str, str], folder: Path) -> None:
    command = ("--glob", "-q", "--json", "--ledger", "ledger", "-d", "out", f"{at['ftp']}/pub/a*")
    assert {record["status"] for record in resolve(*command).records} == {"done"}
    assert {record["status"] for record in resolve(*command).records} == {"skipped"}


def test_glob_of_document_fails(at: dict[str, str], folder: Path) -> None:
    done = resolve("--glob", "-q", f"{at['http']}/*")
    assert done.status == 8
    assert files(folder) == set()


@pytest.mark.parametrize("name", ["*.none", "a?.none", "[ab].none"])
def test_missing_name_with_wildcard_suggests_glob(name: str, at: dict[str, str], folder: Path) -> None:
    url = f"{at['ftp']}/pub/{name}"
    for words in (["get"], ["cat"], ["-r"]):
        done = resolve(*words, "-q", url)
        assert done.status == 8
        assert f"resolve get --glob '{url}'" in done.messages
    assert "--glob" not in resolve("-q", "--origin", "derived", url).messages
    assert "--glob" not in resolve("-q", f"{at['ftp']}/pub/%2A.none").messages
    assert "--glob" not in resolve("-q", f"{at['http']}/none?*").messages
    assert "--glob" not in resolve("-q", f"{at['gopher']}/0none%09%09?").messages
