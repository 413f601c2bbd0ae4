"""Run the command with a ledger, and kill it (SIGKILL) after a given number of fetched files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.begun import COMMANDS, Program
from tests.fresh import environment

CHECKOUT = Path(__file__).parents[2]


def command(*words: str) -> list[str]:
    place = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); from resolver.cli import run; run()"
    return [sys.executable, "-c", place, *words]


def save_list(folder: Path, *options: str, most: int | None) -> int:
    """Fetch the URLs of `list` into `files` with `ledger`, all three in the folder; return the exit status.

    With `most`, the run is killed after `most` fetched files.
    """
    words = ["get", "-i", "list", "-d", "files", "--ledger", "ledger", "--json", "-qq", "-t", "1", *options]
    own = {**environment(), "PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}
    with Program(words, loaded=COMMANDS, environment=own, folder=folder) as process:
        brought = 0
        for line in process.stdout:
            brought += json.loads(line)["status"] == "done"
            if brought == most:
                process.kill()
                break
        return process.wait()
