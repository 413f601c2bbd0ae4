"""In a notebook cell, the loop already runs: both awaited and blocking calls work."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import fixtures.gopher
from fixtures.gopher import Behavior
from tests.elsewhere import Elsewhere
from tests.fresh import environment
from tests.hang import HANG

CHECKOUT = Path(__file__).parents[2]

SAID = """awaited 39
waited 39
the same entries True
a session 39
a file 39
connected
KeyboardInterrupt
and again 39
"""


def test_notebook_cells_await_and_block(elsewhere: Elsewhere, tmp_path: Path) -> None:
    behaviors = {b"/silent": Behavior(silent=True, stays=True)}
    server = elsewhere.run(partial(fixtures.gopher.serve, behaviors=behaviors), elsewhere.nursery)
    folders = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.loops.notebook", str(server.port)],
        cwd=CHECKOUT,
        env={**environment(), **folders, "IPYTHONDIR": str(tmp_path), "JUPYTER_PLATFORM_DIRS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=4 * HANG,
    )
    assert (done.returncode, done.stdout) == (0, SAID), done.stderr
