"""The command in a process of its own, where nothing but the program itself is to be found."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

CHECKOUT = Path(__file__).parents[2]


async def command(*arguments: str, folder: Path | None = None) -> tuple[int, bytes, bytes]:
    """One run of the command: status, standard output, standard error."""
    done = await trio.run_process(
        [sys.executable, "-W", "error", "-c", "from resolver.cli import run; run()", *arguments],
        capture_stdout=True,
        capture_stderr=True,
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": ""},
    )
    return done.returncode, done.stdout, done.stderr
