"""Run a fuzz harness with atheris: `python -m tests.fuzz NAME [OPTIONS OF LIBFUZZER]`.

Without a name, the command lists all harnesses. The corpus is in `build/fuzz/NAME`. A failing input is
written to the current directory. If you fix the defect, add the failing input to `tests.fuzz.found`.
"""

from __future__ import annotations

import sys

if len(sys.argv) > 1:
    # atheris adds coverage counters to modules while they are imported. So `tests.fuzz.search` must be
    # imported before all parsers. Imported lazily: only the dependency group `fuzz` installs atheris.
    from tests.fuzz.search import collect_seeds, search

    name, *options = sys.argv[1:]
    search(name, *options, str(collect_seeds(name)))
else:
    from tests.fuzz.harnesses import HARNESSES

    print("\n".join(HARNESSES))
