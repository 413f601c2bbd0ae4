"""`get -r --delete` asks at the terminal, and of pages of http only what `--yes` says; accounts stay."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio

from tests.cli.command import resolve
from tests.cli.terminal import Terminal, on_terminal
from tests.cli.test_mirrors import files
from tests.hang import HANG
from tests.sampled import sampled


@pytest.fixture(name="source")
def _source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source") / "top"
    source.mkdir()
    (source / "a.txt").write_bytes(b"a")
    return source


SAID = [
    (b"y\n", 0, True),
    (b"yes\n", 0, True),
    (b"n\n", 0, False),
    (b"\n", 0, False),
    (b"yesterday\n", 0, False),
    (b"\x04", 0, False),
    (b"\x03", 128 + signal.SIGINT, False),
]
#: A word that means yes, one that does not, and an end.
TRIED = sampled(SAID, lambda row: (row[1:], row[0][-1:] == b"\n"))


@pytest.mark.parametrize(("typed", "status", "goes"), TRIED)
async def test_what_goes_is_shown_and_goes_if_the_person_says_so(
    typed: bytes, status: int, goes: bool, source: Path, folder: Path
) -> None:
    (folder / "top").mkdir()
    (folder / "top" / "gone.txt").write_bytes(b"x")
    terminal = Terminal(100)
    words = ("get", "-r", "--exists", "newer", "--delete", source.as_uri())
    with trio.fail_after(HANG):
        async with on_terminal(terminal, folder, *words) as command:
            rows = await terminal.until(lambda rows: "remove these 1? [y/N]" in rows)
            assert "resolve: delete top/gone.txt" in rows
            assert (folder / "top" / "gone.txt").exists()
            os.write(terminal.master, typed)
            assert await command.status() == status
    assert (folder / "top" / "gone.txt").exists() is not goes
    assert ("resolve: 1 removed" in terminal.rows) is goes


def test_what_a_page_lists_no_more_goes_by_a_word_of_the_persons_alone(
    at: dict[str, str], folder: Path
) -> None:
    """Servers hide names, so an index proves nothing; a page that is none proves less."""
    for name in ("t", "book"):
        (folder / name).mkdir()
        (folder / name / "gone.txt").write_bytes(b"x")
    urls = f"{at['lists']}/t/", f"{at['lists']}/book/"
    words = "get", "-r", "--exists", "newer", "--delete"
    assert resolve(*words, *urls, "--dry-run").told.count("resolve: delete ") == 1
    assert files(folder) == ["book/gone.txt", "t/gone.txt"]
    done = resolve(*words, *urls, "--yes")
    assert (done.status, files(folder)) == (0, ["book/gone.txt", "book/index.html", "t/a.txt"])
    assert all(word in done.told for word in ("1 removed", "--yes"))


async def test_what_a_page_lists_no_more_is_not_asked_about(at: dict[str, str], folder: Path) -> None:
    (folder / "t").mkdir()
    (folder / "t" / "gone.txt").write_bytes(b"x")
    terminal = Terminal(200)
    words = ("get", "-r", "--delete", "--allow-port", at["lists"].rpartition(":")[2], f"{at['lists']}/t/")
    with trio.fail_after(HANG):
        async with on_terminal(terminal, folder, *words) as command:
            assert await command.status() == 0
    said = (
        "resolve: 1 that pages of http do not list any more stay, for servers hide some names: --yes removes"
    )
    assert any(row.startswith(said) for row in terminal.rows)
    assert files(folder) == ["t/a.txt", "t/gone.txt"]


def test_accounts_that_lie_in_a_tree_stay(source: Path, folder: Path) -> None:
    """With what SQLite keeps beside them; a database of another program is a file as any other."""
    (folder / "top").mkdir()
    (folder / "list").write_text(f"{source.as_uri()}/a.txt\n")
    assert resolve("get", "-q", "-i", "list", "--ledger", "top/account").status == 0
    kept = {"account", "account-shm", "account-wal"}
    for name in (*kept - {"account"}, "x-wal", "x"):
        (folder / "top" / name).write_bytes(b"SQLite format 3\0" + bytes(90))
    assert resolve("get", "-r", "-q", "--exists", "newer", "--delete", "--yes", source.as_uri()).status == 0
    assert set(os.listdir(folder / "top")) == {*kept, "a.txt"}
