"""Garbage collection: the entry point changes its settings only in its own process."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

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
