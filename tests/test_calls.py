"""How far a warm fetch goes through the house: counted and not timed, so that it is the same on any machine.

Whoever needs more calls or files sees it here, and says why where the figure is raised.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.hang import HANG

CHECKOUT = Path(__file__).parents[1]

#: At most so many calls of functions of ours, and files that they stand in, for one small thing of each kind.
#: Two of the files are of `resolver/loops`, which tells under which loop we are, and waits; one is
#: `resolver/files/faults.py`, which keeps the last descriptors free of sockets.
MOST = {"gopher": (285, 39), "http": (306, 43), "ftp": (626, 47), "nntp": (454, 42)}


def test_a_warm_fetch_makes_no_more_calls_in_no_more_files_and_no_circles() -> None:
    script = [sys.executable, "-m", "bench.calls"]
    done = subprocess.run(script, cwd=CHECKOUT, capture_output=True, text=True, check=True, timeout=HANG)
    counts = json.loads(done.stdout.splitlines()[-1])
    assert counts.keys() == MOST.keys()
    for kind, (calls, files) in MOST.items():
        assert counts[kind]["calls"] <= calls, done.stdout
        assert counts[kind]["files"] <= files, done.stdout
        assert counts[kind]["left"] == 0, done.stdout
