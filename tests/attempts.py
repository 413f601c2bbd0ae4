"""Second attempts of the gate: a failed test runs again alone, at most three times, in fresh processes.

In a gate of 20,000 tests, a rate of one spurious failure in 100,000 executions would refuse one change in
five. So a failure counts only if it occurs in every attempt. A test that passes at least once alone is
*flaky*: the summary and build/flaky.txt name it, with its traceback, and the gate passes with at most three
of these. A flaky test is a defect of its own: fix it, or move it to `make test-full` (tests/sets.py).

All other failures refuse the run: an error of collection, a failure that belongs to no test, a fourth failed
test, and a test that alone is skipped, deselected or not found.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.hang import HANG

#: Number of runs of a failed test alone, and the maximum of flaky tests.
ATTEMPTS = 3
MAX_FLAKY = 3

#: The name under which the plugin is registered.
NAME = "second-attempts"

#: The report of flaky tests, relative to the root of the run.
REPORT = Path("build/flaky.txt")


class SecondAttempts:
    """A plugin for the process that summarizes a run: it has no workers or is their controller.

    `options` are passed to each attempt in addition to the name of the test.
    """

    def __init__(self, config: pytest.Config, options: Sequence[str] = ()) -> None:
        self._root = config.rootpath
        self._options = options
        self._tracebacks: dict[str, str] = {}
        self._failures = 0
        self._verdict = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failures += 1
            self._tracebacks.setdefault(report.nodeid, report.longreprtext)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        report = self._root / REPORT
        report.unlink(missing_ok=True)
        if exitstatus != pytest.ExitCode.TESTS_FAILED:
            return
        names = sorted(self._tracebacks)
        if session.testsfailed != self._failures:
            self._verdict = "refused: something failed that is no test"
        elif len(names) > MAX_FLAKY:
            self._verdict = f"refused: {len(names)} tests failed, and at most {MAX_FLAKY} may be flaky"
        elif real := [name for name in names if not self._passes_once(name)]:
            self._verdict = f"refused: failed in each of {ATTEMPTS} attempts alone: {', '.join(real)}"
        else:
            self._verdict = f"passed, with flaky tests (see {REPORT}): {', '.join(names)}"
            report.parent.mkdir(exist_ok=True)
            texts = [f"{name} (Python {sys.version})\n\n{self._tracebacks[name]}\n" for name in names]
            report.write_text("\n\n".join(texts), encoding="utf-8")
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the outcome of the failures; their tracebacks are above."""
        if self._verdict:
            terminalreporter.section("second attempts")
            terminalreporter.line(self._verdict)

    def pytest_unconfigure(self) -> None:
        """Print the verdict last: the counts before it are those of the first attempt."""
        if self._verdict:
            print(f"gate {self._verdict}")

    def _passes_once(self, name: str) -> bool:
        return any(passes_alone(name, self._root, self._options) for _ in range(ATTEMPTS))


def passes_alone(name: str, root: Path, options: Sequence[str] = ()) -> bool:
    """Return whether a test passes in a separate process: this one test runs, and is not skipped.

    Args:
        name: The node id of the test.
        root: The folder of the run, which node ids are relative to.
        options: More options of pytest.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.xml"
        without = (NAME, "xdist", "cacheprovider")  # a second attempt must not start further attempts
        alone = ["-q", *(word for name in without for word in ("-p", f"no:{name}")), f"--junit-xml={counts}"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", f"--rootdir={root}", *alone, *options, name],
                cwd=root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                timeout=HANG,
            )
        except subprocess.TimeoutExpired:
            return False
        if done.returncode != 0:
            return False
        suite = ElementTree.parse(counts).getroot().find("testsuite")
    expected = {"tests": "1", "failures": "0", "errors": "0", "skipped": "0"}
    return suite is not None and {key: suite.get(key) for key in expected} == expected
