"""The `resolve` command, run in a subprocess with an empty PATH."""

from __future__ import annotations

from pathlib import Path

from tests.begun import CHECKOUT, run_alone


async def command(*arguments: str, folder: Path | None = None) -> tuple[int, bytes, bytes]:
    """Run the command and return its exit code, standard output and standard error."""
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": ""}
    return await run_alone(arguments, folder=folder or Path.cwd(), environment=environment)
