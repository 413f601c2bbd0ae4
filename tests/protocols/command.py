"""The command in a process of its own, where nothing but the program itself is to be found."""

from __future__ import annotations

from pathlib import Path

from tests.begun import CHECKOUT, run_alone


async def command(*arguments: str, folder: Path | None = None) -> tuple[int, bytes, bytes]:
    """One run of the command: status, standard output, standard error."""
    environment = {"PYTHONPATH": str(CHECKOUT), "PATH": ""}
    return await run_alone(arguments, folder=folder or Path.cwd(), environment=environment)
