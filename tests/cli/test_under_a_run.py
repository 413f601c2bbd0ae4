"""What others do to the files of a run while it is under way, and a disk that is full."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import fixtures.http
from fixtures.http import HttpServer, Page
from fixtures.http.request import Request
from tests.cli.command import Done, resolve
from tests.elsewhere import served

COUNT = 40


class Once:
    """Before a page that does something when it is asked for; see `fixtures.http.site.Guard`."""

    def __init__(self) -> None:
        self.act: Callable[[], object] = lambda: None

    def answer(self, request: Request, page: Page) -> Page:
        self.act()
        return Page(page.content)


@pytest.fixture(name="guard")
def _guard() -> Once:
    return Once()


@pytest.fixture(name="server")
def _server(guard: Once) -> Iterator[HttpServer]:
    """The page in the middle of all is guarded."""
    site = {f"/{number}": Page(b"x" * 100) for number in range(COUNT)}
    site[f"/{COUNT // 2}"] = Page(b"y" * 100, guard=guard)
    with served(partial(fixtures.http.serve, site=site)) as server:
        yield server


def get(server: HttpServer, folder: Path, *words: str) -> Done:
    (folder / "list").write_text("".join(f"{server.url(f'/{number}')}\n" for number in range(COUNT)))
    common = ["get", "-q", "-j", "1", "-i", "list", "--allow-port", str(server.port)]
    return resolve(*common, *words, folder=folder)


@pytest.mark.parametrize("replaced", [False, True])
def test_get_whose_ledger_is_removed_fails(
    replaced: bool, server: HttpServer, guard: Once, tmp_path: Path
) -> None:
    def remove() -> None:
        (tmp_path / "L").unlink()
        if replaced:
            (tmp_path / "L").touch(0o600)

    guard.act = remove
    done = get(server, tmp_path, "--ledger", "L", "-d", "out")
    assert (done.status, done.told.count("\n")) == (3, 1), done.told
    assert "the ledger" in done.told
    assert "removed" in done.told


@pytest.mark.parametrize("last", [False, True])
def test_get_whose_directory_is_removed_fails(
    last: bool, server: HttpServer, guard: Once, tmp_path: Path
) -> None:
    guard.act = partial(shutil.rmtree, tmp_path / "out")
    words = ["-d", "out", "--failed", "left"]
    if last:
        done = resolve(
            *("get", "-q", "-j", "1", "--allow-port", str(server.port), *words),
            *(server.url(f"/{number}") for number in (0, COUNT // 2)),
            folder=tmp_path,
        )
    else:
        done = get(server, tmp_path, *words)
    assert (done.status, done.told.count("\n")) == (3, 1), done.told
    assert "the directory 'out'" in done.told


def test_full_disk_ends_a_list_with_one_line(
    server: HttpServer, guard: Once, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left to do is in --failed, and another run does it."""
    real, full = os.write, threading.Event()
    guard.act = full.set

    def write(fd: int, octets: bytes) -> int:
        if full.is_set() and b"y" * 50 in bytes(octets)[:100]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, octets)

    monkeypatch.setattr(os, "write", write)
    done = get(server, tmp_path, "-d", "out", "--failed", "left")
    monkeypatch.undo()
    assert (done.status, done.told.count("\n")) == (3, 1), done.told
    assert os.strerror(errno.ENOSPC).lower() in done.told
    left = (tmp_path / "left").read_text().splitlines()
    assert left == [server.url(f"/{number}") for number in range(COUNT // 2, COUNT)]
    again = resolve("get", "-q", "-i", "left", "-d", "out", "--allow-port", str(server.port), folder=tmp_path)
    assert (again.status, len(list((tmp_path / "out").iterdir()))) == (0, COUNT)


def test_skip_beside_another_run_says_skipped(server: HttpServer, guard: Once, tmp_path: Path) -> None:
    """The other one is done first with a file that was not there when this one began."""
    path = f"/{COUNT // 2}"
    guard.act = lambda: (tmp_path / path[1:]).write_bytes(b"theirs")
    words = ["get", "--json", "--allow-port", str(server.port), server.url(path)]
    done = resolve(*words, "--exists", "skip", folder=tmp_path)
    (record,) = done.records
    assert (done.status, record["status"], record["action"], record["bytes"]) == (0, "skipped", "keep", 6)
    assert (tmp_path / path[1:]).read_bytes() == b"theirs"
    (tmp_path / path[1:]).unlink()
    assert resolve(*words, folder=tmp_path).status == 3
