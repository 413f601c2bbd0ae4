"""The calls and files of a warm fetch or save: counted, not timed, so the same on any machine.

A change that needs more calls or files raises the figure here, and gives its reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.hang import HANG

CHECKOUT = Path(__file__).parents[1]

#: Maximum calls of our functions, of files that define them, and of objects in reference cycles, for a small
#: object of each kind. A fetch leaves no cycles; ten batches that save one object each leave 580. Two of the
#: files are of `resolver/loops`, which detects the running loop, and waits; one is
#: `resolver/files/faults.py`, which reserves the last descriptors.
MOST = {
    "gopher": (272, 39, 0),
    "http": (264, 43, 0),
    "ftp": (515, 47, 0),
    "nntp": (362, 42, 0),
    "saved": (637, 62, 580),
}


def test_warm_fetch_calls_are_bounded() -> None:
    script = [sys.executable, "-m", "bench.calls"]
    done = subprocess.run(script, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=HANG)
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts.keys() == MOST.keys()
    for kind, (calls, files, left) in MOST.items():
        assert counts[kind]["calls"] <= calls, done.stdout
        assert counts[kind]["files"] <= files, done.stdout
        assert counts[kind]["left"] <= left, done.stdout
