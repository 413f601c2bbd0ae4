"""Run the soak in this process, and print the samples: `python -m tests.soak LOOP --fetches N`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import asdict

from tests.soak.leaks import LEAKS
from tests.soak.peers import started
from tests.soak.soak import RUNS, Soak


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="Fetch many times.")
    parser.add_argument("loop", choices=RUNS, help="event loop, or threads that block")
    parser.add_argument("--fetches", type=int, default=50_000, metavar="N", help="default: 50000")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="number of samples (default: 5)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the fetches (default: 0)")
    parser.add_argument("--leak", choices=LEAKS, default="none", help="defect to plant (default: none)")
    given = parser.parse_args()
    unraisable: list[str] = []
    sys.unraisablehook = lambda found: unraisable.append(repr(found.exc_value))
    with started() as (cafile, targets), tempfile.TemporaryDirectory() as folder, LEAKS[given.leak]():
        os.environ["SSL_CERT_FILE"] = cafile
        soak = Soak(targets, folder, given.fetches, given.rounds, given.seed)
        RUNS[given.loop](soak)
    samples = [asdict(each) for each in soak.samples]
    print(json.dumps({"samples": samples, "outcomes": soak.outcomes, "unraisable": unraisable}))


if __name__ == "__main__":
    main()
