"""The startup time of a command minus that of an empty Python process, in milliseconds: `make bench`.

The aim is at most 60 ms for commands without network access. Tests do not check the time, because the time
depends on the machine. Instead, tests/test_surface.py checks the imports, which take most of the time. The
measurement uses the bytecode cache, even if an environment variable disables the cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

RUNS = 20
AIM = 60.0

BARE = "pass"
_COMMAND = "from resolver.cli import run; import sys; sys.argv[1:] = {arguments}; run()"
_URLS = (
    "file:///a gopher://h.example/0a ftp://h.example/a http://h.example/ nntp://h.example/misc.test/1 "
    "wais://h.example/d?x prospero://h.example/a"
)
_COMMAND_LINES = (
    "--version",
    "--help",
    "parse ftp://h.example/a",
    *(f"explain {url}" for url in _URLS.split()),
)
CASES = {
    "import resolver": "import resolver",
    "resolver.parse": "import resolver; resolver.parse('gopher://h.example/1')",
    "resolver.explain": "import resolver; resolver.explain('gopher://h.example/1')",
    **{f"resolve {line}": _COMMAND.format(arguments=line.split()) for line in _COMMAND_LINES},
    "for comparison: import trio": "import trio",
    "for comparison: import trio, httpx": "import trio, httpx",
}


def fastest(code: str, environment: dict[str, str]) -> float:
    """Return the minimum duration of a new Python process that runs the code, in milliseconds.

    Of all runs, the fastest run is the least influenced by other load on the machine.
    """
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True, env=environment)
        best = min(best, time.perf_counter() - start)
    return best * 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as compiled:
        _report({**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""})


def _report(environment: dict[str, str]) -> None:
    bare = fastest(BARE, environment)
    print(f"bare Python {sys.version.split()[0]}: {bare:.1f} ms; fastest of {RUNS} runs, over bare:")
    for name, code in CASES.items():
        difference = fastest(code, environment) - bare
        mark = "  more than the aim" if difference > AIM and not name.startswith("for comparison") else ""
        print(f"{difference:8.1f} ms  {name}{mark}")


if __name__ == "__main__":
    main()
