"""Run a harness with atheris: `python -m tests.fuzz NAME [OPTIONS OF LIBFUZZER]`; without a name, list all.

The inputs are collected in `build/fuzz/NAME`. An input that fails is written to the current directory. After
the correction, it belongs in `tests.fuzz.found`.
"""

from __future__ import annotations

import sys

if len(sys.argv) > 1:
    # This import must be the first of the sources, because atheris instruments modules when they are
    # imported. Only the dependency group `fuzz` has atheris.
    from tests.fuzz.search import collect_seeds, search

    name, *options = sys.argv[1:]
    search(name, *options, str(collect_seeds(name)))
else:
    from tests.fuzz.harnesses import HARNESSES

    print("\n".join(HARNESSES))
