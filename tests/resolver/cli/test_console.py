"""The console of a telnet session, and the garbage collection of the entry point."""

from __future__ import annotations

import gc
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path
from types import SimpleNamespace

import pytest

from resolver.cli.console import Console, Mode
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


def test_console_mode_change_at_prompt_waits_for_end_of_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that arrives while `^]` opens the prompt may change the mode of the session."""
    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        for name in ("stdin", "stdout"):
            monkeypatch.setattr(sys, name, SimpleNamespace(fileno=lambda: slave))
        with Console() as console:
            console.sit(Mode(by_characters=False, echo=True))
            with console.restore_terminal():
                console.sit(Mode(by_characters=True, echo=False))
                assert termios.tcgetattr(slave) == before
            assert not termios.tcgetattr(slave)[3] & termios.ICANON
        assert termios.tcgetattr(slave) == before
    finally:
        os.close(master)
        os.close(slave)
