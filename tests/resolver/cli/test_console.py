"""The console of a telnet session, and the garbage collection of the entry point."""

from __future__ import annotations

import gc
import os
import pty
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from resolver.cli.console import Console, Mode
from tests.hang import HANG
from tests.resolver.cli.command import resolve

_TELLS = """
import gc, sys
from resolver.cli import retrieval_run, run
def tell(command):
    print(gc.isenabled(), gc.get_freeze_count() > 0, gc.get_threshold()[0])
    return 0
retrieval_run.perform = tell
sys.argv = ["resolve", "cat", "file:///"]
run()
"""


def test_main_in_host_process_freezes_no_objects(tmp_path: Path) -> None:
    """`gc.freeze` would keep the garbage that the host process has not collected yet."""
    (tmp_path / "a").write_bytes(b"octets")
    before, threshold = gc.get_freeze_count(), gc.get_threshold()
    assert resolve("cat", f"file://{tmp_path}/a").out == b"octets"
    assert gc.get_freeze_count() <= before
    assert gc.isenabled()
    assert gc.get_threshold() == threshold


def test_entry_point_freezes_imported_objects() -> None:
    done = subprocess.run([sys.executable, "-c", _TELLS], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "True True 30000\n"


@contextmanager
def _terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """Yield both ends of a pseudo-terminal, which is standard input and output of this process."""
    master, slave = pty.openpty()
    for name in ("stdin", "stdout"):
        monkeypatch.setattr(sys, name, SimpleNamespace(fileno=lambda: slave))
    yield master, slave
    os.close(master)
    os.close(slave)


def test_console_mode_change_at_prompt_waits_for_end_of_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that arrives while `^]` opens the prompt may change the mode of the session."""
    with _terminal(monkeypatch) as (_, slave):
        before = termios.tcgetattr(slave)
        with Console() as console:
            console.set_mode(Mode(by_characters=False, echo=True))
            with console.restore_terminal():
                console.set_mode(Mode(by_characters=True, echo=False))
                assert termios.tcgetattr(slave) == before
            assert not termios.tcgetattr(slave)[3] & termios.ICANON
        assert termios.tcgetattr(slave) == before


async def test_console_prompt_waits_for_output_that_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user may type `^]` while a slow terminal blocks the output of the service."""
    shown = b""
    with _terminal(monkeypatch) as (master, _), trio.fail_after(HANG), Console() as console:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(console.write, 100_000 * b"x")
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(console.write, b"telnet> ")
            while not shown.endswith(b"> "):
                await trio.lowlevel.wait_readable(master)
                shown += os.read(master, 65_536)
    assert shown == 100_000 * b"x" + b"telnet> "
