"""The number of calls and files of a warm fetch: counted, not timed, so it is the same on any machine.

A change that needs more calls or files raises the figure here, and gives its reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.hang import HANG

CHECKOUT = Path(__file__).parents[1]

#: Maximum calls of our functions, and of files that define them, for a small object of each kind. Two of the
#: files are of `resolver/loops`, which detects the running loop, and waits; one is
#: `resolver/files/faults.py`, which reserves the last descriptors.
MOST = {"gopher": (287, 39), "http": (307, 43), "ftp": (629, 47), "nntp": (455, 42)}


def test_warm_fetch_calls_are_bounded() -> None:
    script = [sys.executable, "-m", "bench.calls"]
    done = subprocess.run(script, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=HANG)
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts.keys() == MOST.keys()
    for kind, (calls, files) in MOST.items():
        assert counts[kind]["calls"] <= calls, done.stdout
        assert counts[kind]["files"] <= files, done.stdout
        assert counts[kind]["left"] == 0, done.stdout
