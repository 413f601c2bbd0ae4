"""A trial of one change: the tests for the changed location run in a copy of the checkout.

Tests run in small groups, with the tests of the same package first, because these detect most changes. If the
tests time out, the change counts as detected only if the same tests do not time out without the change.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import pytest

from tools.mutation.changes import Change

CHECKOUT = Path(__file__).parents[2]
_DIRECTORIES = ("protocols", "resolver", "fixtures", "bench", "tools", "tests", "docs")

#: The number of tests and the timeout in seconds of each group, in the order of the groups.
_GROUPS = ((12, 60.0), (60, 180.0), (400, 600.0))

#: Matches the name of the first failed test in the short summary of pytest.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)

#: The maximum memory of a process in KiB. A change may cause an infinite loop that uses all memory.
_MAX_KIB = 6_000_000


class Outcome(Enum):
    NOTICED = "noticed"
    SURVIVED = "survived"
    NOT_RUN = "run by no test"
    TOO_SLOW = "too slow to tell"


class Copy:
    """A copy of the checkout, in which modules are changed."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._options = options
        self._null_mode = os.stat(os.devnull).st_mode  # the mode before any change is tried
        self.folder = folder / "checkout"
        self._home = folder / "home"
        self._home.mkdir()
        self._log = folder / "log"
        self.folder.mkdir()
        for name in _DIRECTORIES:
            shutil.copytree(CHECKOUT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in CHECKOUT.iterdir():
            if path.is_file() and not path.name.startswith(".coverage"):
                shutil.copy(path, self.folder / path.name)

    def try_out(self, module: Path, change: Change, tests: Sequence[str]) -> tuple[Outcome, str]:
        """Try a change; return the outcome and the name of the failed test (or an empty text).

        `module` is a path relative to the checkout.
        """
        if not tests:
            return Outcome.NOT_RUN, ""
        path = self.folder / module
        source = path.read_text(encoding="utf-8")
        path.write_text(change.apply(source), encoding="utf-8")
        try:
            return self._run_tests(path, source, tests)
        finally:
            path.write_text(source, encoding="utf-8")
            # A changed module that runs as root may replace /dev/null by a file, or change its mode.
            # /dev/null would then be unusable for other users.
            if os.stat(os.devnull).st_mode != self._null_mode:
                os.chmod(os.devnull, stat.S_IMODE(self._null_mode))

    def _run_tests(self, path: Path, source: str, tests: Sequence[str]) -> tuple[Outcome, str]:
        for group, seconds in _split(tests):
            passed = self._passes(group, seconds)
            if passed is False:
                return Outcome.NOTICED, self._find_failed_test()
            if passed is None:
                changed = path.read_text(encoding="utf-8")
                path.write_text(source, encoding="utf-8")
                if self._passes(group, seconds) is None:
                    return Outcome.TOO_SLOW, ""
                path.write_text(changed, encoding="utf-8")
                return Outcome.NOTICED, ""
        return Outcome.SURVIVED, ""

    def _find_failed_test(self) -> str:
        """Return the name of the first failed test in the output of the last run, or an empty text."""
        match = _FAILED.search(self._log.read_text(encoding="utf-8", errors="replace"))
        return match[1] if match else ""

    def _passes(self, tests: Sequence[str], seconds: float) -> bool | None:
        """Return whether the tests pass; None after a timeout."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        with self._log.open("wb") as log:
            process = self._start(command, tests, log)
        try:
            return process.wait(seconds) in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(
                    process.pid, signal.SIGKILL
                )  # kills the complete process group, including orphaned child processes
            process.wait()

    def _start(self, command: Sequence[str], tests: Sequence[str], log: BinaryIO) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                "sh",
                "-c",
                f'ulimit -v {_MAX_KIB}; exec "$@"',
                "sh",
                *command,
                *self._options,
                "--hypothesis-seed=0",
                *tests,
            ],
            cwd=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": str(self.folder),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HOME": str(self._home),
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _split(tests: Sequence[str]) -> Iterator[tuple[Sequence[str], float]]:
    rest = list(tests)
    for size, seconds in _GROUPS:
        if rest:
            yield rest[:size], seconds
            rest = rest[size:]


@contextmanager
def copy_checkout(options: Sequence[str] = ()) -> Iterator[Copy]:
    with TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as folder:
        yield Copy(Path(folder), options)
