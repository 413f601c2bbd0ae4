"""The summary of a run of several URLs, and the list of unfinished URLs for another run."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from resolver.cli import retrieval_run
from resolver.files import commit as group_commit
from resolver.files.commit import sync_files
from tests.faults.command import resolve as resolve_apart
from tests.faults.command import size_of
from tests.faults.command import until as until_holds
from tests.hang import HANG
from tests.resolver.cli.command import resolve
from tests.resolver.cli.tap import open_tap
from tests.resolver.cli.test_progress import SIZE, options


def _tree(folder: Path) -> str:
    """Create files `0` to `9` of 1 KiB each, and return the URL of their directory."""
    served = folder / "served"
    served.mkdir()
    for number in range(10):
        (served / str(number)).write_bytes(bytes(1024))
    return served.as_uri()


def _last(messages: str) -> str:
    return messages.splitlines()[-1]


#: Arguments after `get`, the exit status, and the last line of standard error.
ENDS = {
    "all": (["{at}/0", "{at}/1"], 0, r"2 of 2 saved; 2\.0 KiB in [0-9.]+ s"),
    "missing": (["{at}/0", "{at}/x", "{at}/y"], 8, r"1 of 3 saved, 2 missing; 1\.0 KiB in .*"),
    "refused": (["{at}/0", "no-url:", "http://h.example:25/x"], 1, r"1 of 3 saved, 2 refused; .*"),
    "failed": (["{at}/0", "{at}/x", "{closed}/z"], 1, r"1 of 3 saved, 1 missing, 1 failed \(exit 4\); .*"),
    "kept": (["--exists", "skip", "{at}/0", "{at}/have"], 0, r"1 of 2 saved, 1 kept; 1\.0 KiB in .*"),
    "lines": (["-i", "list"], 3, r"1 of 2 saved, 1 failed \(exit 3\); .*"),
}


@pytest.mark.parametrize("end", ENDS)
def test_summary_line_counts_outcomes(end: str, places: dict[str, str], folder: Path) -> None:
    words, status, line = ENDS[end]
    at = _tree(folder)
    (folder / "have").write_bytes(b"")
    (folder / "list").write_text(f"{at}/0\n# no URL\n" + "{}\n")
    done = resolve("get", "-t", "1", *(word.format(at=at, closed=places["closed"]) for word in words))
    assert done.status == status
    assert re.fullmatch(f"resolve: {line}", _last(done.messages)), done.messages


def test_summary_line_is_omitted_if_redundant(folder: Path) -> None:
    """Cases: one URL, `-q`, records with all details, and output that the user saw."""
    at = _tree(folder)
    for words in (
        ["get", f"{at}/0"],
        ["get", "-q", f"{at}/1", f"{at}/x"],
        ["get", "--json", f"{at}/2", f"{at}/x"],
        ["cat", f"{at}/3", f"{at}/4"],
        ["explain", f"{at}/3", f"{at}/x"],
    ):
        assert not re.search(" of [0-9]+ ", resolve(*words).messages), words
    assert "1 of 2 done, 1 missing" in _last(resolve("cat", f"{at}/0", f"{at}/x").messages)


def test_failed_list_can_be_run_again(folder: Path) -> None:
    """The list can be run many times: it keeps any spelling of a URL, its origin and its referrer."""
    at = _tree(folder)
    targets = [
        {"url": f"{at}/missing", "origin": "derived", "referrer": [f"{at}/", "127.0.0.1"]},
        {"url": f"{at}/missing\nline", "origin": "user", "referrer": None},
        {"url": "# no URL", "origin": "user", "referrer": None},
        {"url": f"{at}/x y", "origin": "user", "referrer": None},
        {"url": f"{at}/\udcff", "origin": "user", "referrer": None},
    ]
    (folder / "list").write_text(
        "".join(f"{json.dumps(each)}\n" for each in targets) + f"{at}/missing\n{at}/0\n"
    )
    first = resolve("get", "-i", "list", "--failed", "left")
    rest = (folder / "left").read_bytes()
    assert first.status == 1
    assert not any(f"{at}/0".encode() == line for line in rest.split(b"\n"))
    expected = {
        line.decode("utf-8", "surrogateescape") for line in rest.splitlines() if not line.startswith(b"{")
    }
    records = [json.loads(line) for line in rest.splitlines() if line.startswith(b"{")]
    assert f"{at}/missing" in expected
    assert {record["url"] for record in records} >= {f"{at}/missing\nline", "# no URL"}
    assert [record for record in records if record["origin"] == "derived"] == targets[:1]
    again = resolve("get", "-i", "left", "--failed", "left")
    assert again.status != 0
    assert (folder / "left").read_bytes() == rest
    (folder / "served" / "missing").write_bytes(b"here")
    resolve("get", "-i", "left", "--failed", "left")
    assert f"{at}/missing\n".encode() not in (folder / "left").read_bytes()
    assert (folder / "missing").read_bytes() == b"here"


def test_failed_list_is_private_and_has_passwords(folder: Path) -> None:
    """The list has the passwords that the run needs; messages have none."""
    url = "ftp://me:s3cret@127.0.0.1:1/x"
    done = resolve("get", "-t", "1", "--failed", "left", url, f"{_tree(folder)}/0")
    assert (folder / "left").read_text() == f"{url}\n"
    assert stat.S_IMODE((folder / "left").stat().st_mode) == 0o600
    assert b"s3cret" not in done.out + done.err


def test_failed_list_is_empty_after_success(folder: Path) -> None:
    (folder / "left").write_text("http://h.example/of-an-earlier-run\n" * 9)
    assert resolve("cat", "--failed", "left", f"{_tree(folder)}/0").status == 0
    assert (folder / "left").read_bytes() == b""


@pytest.mark.parametrize(
    "unreadable",
    [b'{"url": ', b"0" * 64 + b"  name", b"x" * 2_000_000, "\ufeffftp://h/".encode("utf-16")],
    ids=["JSON", "digest", "long", "UTF-16"],
)
def test_failed_list_with_unreadable_lines_is_kept(unreadable: bytes, folder: Path) -> None:
    (folder / "left").write_bytes(unreadable + f"\n{_tree(folder)}/0\n".encode())
    before = (folder / "left").read_bytes()
    done = resolve("cat", "-i", "left", "--failed", "left")
    assert (done.status, "'left' stays unchanged" in done.messages) == (3, True)
    assert (folder / "left").read_bytes() == before
    assert resolve("cat", "-i", "left", "--failed", "other").status == 3
    assert (folder / "other").read_bytes() == b""


def test_failed_list_that_lacks_unread_urls_is_reported(folder: Path) -> None:
    """Standard input cannot be read again; the run ends before the end of the list."""
    lines = f"{_tree(folder)}/0\n".encode() * 2_000
    (folder / "list").write_bytes(lines)
    options = ("-q", "-d", "out", "--limit", "quota=1", "--failed", "left")
    for name, is_reported in (("list", False), ("-", True)):
        done = resolve("get", *options, "-i", name, stdin=lines)
        assert (done.status, "'left' lacks URLs" in done.messages) == (14, is_reported)


def test_unwritable_failed_list_is_reported_first(folder: Path) -> None:
    done = resolve("get", "--failed", str(folder), f"{_tree(folder)}/0")
    assert (done.status, os.listdir(folder)) == (3, ["served"])
    assert f"list {str(folder)!r}: " in done.messages
    full = resolve("get", "--failed", "/dev/full", f"{folder.as_uri()}/served/x")
    assert full.status == 1  # 8 and 3
    assert "list '/dev/full': No space" in full.messages


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_interrupted_run_lists_unfinished_urls(
    number: signal.Signals, nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The list has the URLs under way and the URLs not started, and no finished URL."""
    tap = await open_tap(nursery)
    urls = [tap.add(f"/{index}", SIZE) for index in range(6)]
    (tmp_path / "list").write_text("".join(f"{url}\n" for url in urls[2:]))
    tap.release("/0")
    words = ["get", *options(tap), "-j", "2", "--failed", "left", *urls[:2], "-i", "list"]
    async with resolve_apart(tmp_path, *words) as running:
        tap.release("/1", SIZE // 2)
        tap.release("/2", SIZE // 2)
        parts = [tmp_path / "1.part", tmp_path / "2.part"]
        await until_holds(lambda: all(size_of(part) == SIZE // 2 for part in parts))
        running.process.send_signal(number)
        assert await running.status() == 128 + number
    assert (tmp_path / "left").read_text().splitlines() == urls[1:]
    assert b"1 of 6 saved, 5 left; 1.0 MiB in " in running.err.splitlines()[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("words", [[], ["--json"], ["--ledger", "book"], ["--ledger", "book", "--json"]])
def test_file_in_sync_at_interrupt_is_saved(
    words: list[str], number: signal.Signals, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is also reported, counted and recorded as saved."""
    stop, stopped = retrieval_run._RetrievalRun._stop, threading.Event()

    def note(run: retrieval_run._RetrievalRun, status: int) -> None:
        stop(run, status)
        stopped.set()

    def slow(fds: Sequence[int]) -> dict[int, OSError]:
        os.kill(os.getpid(), number)
        assert stopped.wait(HANG)
        return sync_files(fds)

    monkeypatch.setattr(retrieval_run._RetrievalRun, "_stop", note)
    monkeypatch.setattr(group_commit, "sync_files", slow)
    at = _tree(folder)
    done = resolve("get", "-j", "1", *words, "--failed", "left", f"{at}/0", f"{at}/1")
    assert done.status == 128 + number
    assert ((folder / "0").exists(), (folder / "1").exists()) == (True, False)
    assert (folder / "left").read_text() == f"{at}/1\n"
    assert [(each["url"], each["status"]) for each in done.records] == (
        [(f"{at}/0", "done")] if "--json" in words else []
    )
    assert "--json" in words or re.fullmatch(
        r"resolve: 1 of 2 saved, 1 left; 1\.0 KiB in .*", _last(done.messages)
    )
    if "book" in words:
        assert resolve("ledger", "--failed", "book").out.decode() == f"{at}/1\n"
