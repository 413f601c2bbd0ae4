"""Run a harness with atheris: `python -m tests.fuzz NAME [OPTIONS OF LIBFUZZER]`; without a name, list all.

The inputs are collected in `build/fuzz/NAME`. An input that fails is written to the current directory. After
the correction, it belongs in `tests.fuzz.found`.
"""

from __future__ import annotations

import sys

from tests.fuzz.harnesses import HARNESSES

if len(sys.argv) > 1:
    from tests.fuzz.search import collect_seeds, search  # atheris is in the dependency group fuzz alone

    name, *options = sys.argv[1:]
    search(name, *options, str(collect_seeds(name)))
else:
    print("\n".join(HARNESSES))
