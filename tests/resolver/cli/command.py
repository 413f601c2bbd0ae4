"""Runs of the command in this process, with their exit status and captured output."""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from contextlib import chdir, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from resolver.cli import main


class Done(NamedTuple):
    """The exit status and the output of one run."""

    status: int
    out: bytes
    err: bytes

    @property
    def records(self) -> list[dict[str, Any]]:
        """Return the JSON objects of standard output, one per line."""
        return records(self.out)

    @property
    def messages(self) -> str:
        return self.err.decode()


def records(octets: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in octets.decode("ascii").split("\n")[:-1]]


def fill_pipe(fd: int) -> None:
    """Write to a pipe until it is full, so that the next write waits for the reader."""
    os.set_blocking(fd, False)
    with suppress(BlockingIOError):
        while os.write(fd, bytes(4_096)):
            pass
    os.set_blocking(fd, True)


def resolve(*argv: str, stdin: bytes = b"", folder: Path | None = None) -> Done:
    """Run the command in `folder`; `stdin` is the content of standard input."""
    before = sys.stdin, sys.stdout, sys.stderr
    with tempfile.TemporaryFile() as stdin_file, tempfile.TemporaryFile() as out:
        stdin_file.write(stdin)
        stdin_file.seek(0)
        err = io.BytesIO()
        sys.stdin = io.TextIOWrapper(io.FileIO(stdin_file.fileno(), closefd=False))
        sys.stdout = io.TextIOWrapper(io.FileIO(out.fileno(), "w", closefd=False), "utf-8")
        sys.stderr = io.TextIOWrapper(err, "utf-8", errors="backslashreplace")
        try:
            with nullcontext() if folder is None else chdir(folder):
                status = main(list(argv))
            out.seek(0)
            return Done(status, out.read(), err.getvalue())
        finally:
            sys.stdin, sys.stdout, sys.stderr = before


def hide_library(monkeypatch: pytest.MonkeyPatch, library: str, package: str) -> None:
    """Make the import of a library fail, and forget `package`: its modules import the library.

    After the test, the attribute of the parent package is restored too. Otherwise, it would be another module
    than the one in `sys.modules`.
    """
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delattr(package, raising=False)
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
