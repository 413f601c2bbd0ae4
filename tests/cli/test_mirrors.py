"""`get -r` for who keeps a mirror: what is done again, what goes, what would be done; groups as mailboxes."""

from __future__ import annotations

import mailbox
import os
from pathlib import Path

import pytest

from tests.cli.command import resolve


@pytest.fixture(name="source")
def _source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source") / "top"
    (source / "sub").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (source / name).write_bytes(name.encode())
    return source


def files(folder: Path) -> list[str]:
    return sorted(
        os.path.relpath(os.path.join(where, name), folder)
        for where, _, names in os.walk(folder)
        for name in names
    )


def test_what_the_source_has_no_more_goes_if_nobody_need_be_asked(source: Path, folder: Path) -> None:
    assert resolve("get", "-r", source.as_uri()).status == 0
    (source / "sub/c.txt").unlink()
    (source / "sub").rmdir()
    (folder / "top/.mine").write_bytes(b"x")
    done = resolve("get", "-r", "--exists", "newer", "--delete", "--yes", source.as_uri())
    assert (done.status, files(folder)) == (0, ["top/.mine", "top/a.txt", "top/b.txt"])
    assert "resolve: delete top/sub/c.txt\nresolve: delete top/sub/\n" in done.told
    assert "resolve: 2 removed\n" in done.told
    assert "0 of 2 saved, 2 kept" in done.told


def test_without_a_terminal_somebody_has_to_say_yes_before(source: Path, folder: Path) -> None:
    done = resolve("get", "-r", "--delete", source.as_uri())
    assert (done.status, files(folder)) == (2, [])
    assert "--yes" in done.told


def test_what_would_be_done_is_told(source: Path, folder: Path) -> None:
    resolve("get", "-r", source.as_uri())
    (source / "a.txt").unlink()
    (source / "new.txt").write_bytes(b"x")
    before = files(folder)
    wanted = ["get", "-r", "--exists", "newer", "--delete", "--dry-run", source.as_uri()]
    done = resolve(*wanted)
    assert (done.status, files(folder)) == (0, before)
    assert f"{source.as_uri()}/b.txt -> top/b.txt (would be kept)\n" in done.told
    assert f"{source.as_uri()}/new.txt -> top/new.txt (would be saved)\n" in done.told
    assert "delete top/a.txt\n" in done.told
    assert all(word in done.told for word in ("1 of 3 ", "2 kept"))
    records = resolve(*wanted, "--json").records
    assert {(record["path"], record["action"], record["status"]) for record in records} == {
        ("top/a.txt", "delete", "skipped"),
        ("top/b.txt", "keep", "skipped"),
        ("top/new.txt", "fetch", "skipped"),
        ("top/sub/c.txt", "keep", "skipped"),
    }
    assert len({tuple(record) for record in records}) == 1


def test_a_dry_run_makes_nothing(at: dict[str, str], folder: Path) -> None:
    done = resolve(
        "get", "--dry-run", "--json", "-d", "out", f"{at['http']}/about.txt", f"{at['ftp']}/pub/a.txt"
    )
    assert (done.status, files(folder), os.listdir(folder)) == (0, [], [])
    assert [(record["action"], record["bytes"]) for record in done.records] == [("fetch", 0)] * 2
    assert resolve("get", "-r", "--dry-run", "-q", f"{at['ftp']}/pub").status == 0
    assert os.listdir(folder) == []


def test_a_second_run_of_a_mirror_keeps_all(at: dict[str, str], folder: Path) -> None:
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
def test_what_makes_no_sense_is_said_before_anything_is_sent(words: list[str], folder: Path) -> None:
    assert resolve("get", *words, "nntp://127.0.0.1:1/comp.misc").status == 2


def test_a_group_becomes_a_mailbox(at: dict[str, str], folder: Path) -> None:
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


def test_a_group_of_a_server_that_the_url_names_is_walked_by_either_scheme(
    at: dict[str, str], folder: Path
) -> None:
    for scheme in ("news", "nntp"):
        assert resolve("get", "-r", "-q", "-d", scheme, f"{at[scheme]}/comp.misc").status == 0
    assert files(folder / "news") == files(folder / "nntp") != []
    for name in files(folder / "news"):
        assert (folder / "news" / name).read_bytes() == (folder / "nntp" / name).read_bytes()


def test_no_robots_is_told_once(at: dict[str, str], folder: Path) -> None:
    done = resolve("get", "-r", "--ignore-robots", f"{at['http']}/about.txt", f"{at['http']}/data.bin")
    assert done.told.count("--ignore-robots") == 1
