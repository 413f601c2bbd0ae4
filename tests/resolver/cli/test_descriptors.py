"""A run without free descriptors reduces its concurrency, warns once, and succeeds."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import fixtures.http
from fixtures.http import Page
from tests.elsewhere import served
from tests.hang import HANG
from tests.resolver.cli.command import resolve

CHECKOUT = Path(__file__).parents[3]
COUNT = 120


def resolve_with_descriptors(limit: int, *arguments: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run the command with at most `limit` file descriptors."""
    command = shlex.join([sys.executable, "-m", "resolver", *arguments])
    return subprocess.run(
        ["sh", "-c", f"ulimit -n {limit}; exec {command}"],
        cwd=folder,
        env={"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        timeout=HANG,
        check=False,
    )


@pytest.mark.parametrize("more", [["--ledger", "L"], ["--segments", "4"], ["--warc", "a.warc.gz"]])
def test_get_with_few_descriptors_fetches_all_and_warns_once(more: list[str], tmp_path: Path) -> None:
    site = {f"/{number}": Page(b"x" * 2_000) for number in range(COUNT)}
    with served(partial(fixtures.http.serve, site=site)) as server:
        (tmp_path / "list").write_text("".join(f"{server.url(path)}\n" for path in site))
        words = ["get", "-j", "16", "--per-host", "16", "-i", "list", "-d", "out", *more]
        words += ["--allow-port", str(server.port)]
        done = resolve_with_descriptors(40, *words, folder=tmp_path)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr.decode()
    assert done.stderr.count(b"descriptors are all in use") == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(map(str, range(COUNT)))


def test_ledger_without_free_descriptor_names_the_limit(tmp_path: Path) -> None:
    """With 10 descriptors, the event loop starts, but SQLite cannot open its files."""
    done = resolve_with_descriptors(10, "get", "--ledger", "L", "file:///nowhere", folder=tmp_path)
    assert done.returncode == 3
    assert b"ulimit -n" in done.stderr or b"too many open files" in done.stderr


def test_get_without_descriptor_for_loop_is_a_local_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("trio.run", refuse)
    done = resolve("get", "-q", "file:///nowhere")
    assert (done.status, "too many open files" in done.messages) == (3, True)
