"""`--cert` of a key that has a password: it is asked for at the terminal, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

from tests.cli.command import resolve
from tests.cli.contract import ABOUT
from tests.cli.terminal import CHECKOUT, Terminal, on_terminal
from tests.resolver.gate.test_trust import lock


@pytest.fixture
def locked(folder: Path) -> str:
    lock(trustme.CA().issue_cert("me@here.example"), folder / "ours.pem")
    return "ours.pem"


@pytest.mark.parametrize(("typed", "status"), [(b"open sesame\n", 0), (b"wr0ng\n", 2), (b"\n", 2)])
async def test_it_is_asked_for(
    typed: bytes, status: int, locked: str, at: dict[str, str], folder: Path
) -> None:
    """Once, and it is not shown; what is wrong ends it before anything is sent."""
    terminal = Terminal(200)
    command = ("cat", "--cert", locked, "--cacert", at["cafile"], f"{at['https']}/about.txt")
    async with on_terminal(terminal, folder, *command, stdout=terminal.slave) as running:
        await terminal.until(lambda rows: any("password of the key in ours.pem:" in row for row in rows))
        os.write(terminal.master, typed)
        assert await running.status() == status
    shown = "\n".join(terminal.rows)
    assert (ABOUT.splitlines()[0] in shown) == (status == 0)
    assert ("its key has" in shown) == (status == 2)
    assert "sesame" not in shown
    assert "wr0ng" not in shown


def test_one_that_cannot_be_used_ends_it(at: dict[str, str], folder: Path) -> None:
    done = resolve("cat", "-v", "--cert", "none.pem", f"{at['https']}/about.txt")
    assert (done.status, done.out) == (2, b"")
    assert all(word in done.told for word in ("--cert 'none.pem'", "No such file"))
    assert "C: " not in done.told


def test_where_there_is_no_terminal_nothing_is_read_or_sent(
    locked: str, at: dict[str, str], folder: Path
) -> None:
    """What comes on standard input is for `-i -`, or for nobody: it is no password."""
    command = [sys.executable, "-c", "from resolver.cli import run; run()", "cat", "--cert", locked]
    reading, writing = os.pipe()
    os.write(writing, b"open sesame\n")
    os.close(writing)
    done = subprocess.run(
        [*command, "--cacert", at["cafile"], "-v", f"{at['https']}/about.txt"],
        stdin=reading,
        capture_output=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        start_new_session=True,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert all(word in done.stderr for word in (b"key", b"password", b"terminal"))
    assert b"C: " not in done.stderr
    assert os.read(reading, 100) == b"open sesame\n"
    os.close(reading)
