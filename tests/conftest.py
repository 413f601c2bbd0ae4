"""Settings of all tests: the clock of their limits, and the profile of Hypothesis.

A test must have the same result on a busy machine:
- The event loop's clock counts idle time only (`tests.scheduled`).
- The collected tests are excluded from garbage collection, which would take longer than some limits of tests.
- Hypothesis has no deadline, and no limit for the time to generate examples.
- Waits end only when the test clearly hangs (`tests.hang`).

In the gate (`--gate`, see `tests.sets`) Hypothesis tries the same examples in every run. Otherwise it tries
other examples each time, also if `CI` is set, and prints how to reproduce a failure. Proxies in the
environment are removed, because the tests' servers are on this machine, and so is the user's configuration.
"""

from __future__ import annotations

import gc
import inspect
import os
import sys
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from fixtures.environment import forget_settings
from tests.attempts import NAME, SecondAttempts
from tests.sampled import crossed, examples
from tests.scheduled import run_scheduled
from tests.sets import is_left_out, is_test_left_out

forget_settings()
os.environ.setdefault("RESOLVE_TRACEBACK", "full")  # a failing test should show the complete traceback

#: Parameters that long tables are crossed with: how received data is split, how a cancellation arrives, which
#: proxy is used, which ftp server answers.
CROSSED = ("cutter", "arrival", "proxied", "ftp_server")

settings.register_profile(
    "resolve",
    deadline=None,
    derandomize=False,
    print_blob=True,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("resolve")
settings.register_profile("gate", parent=settings(), derandomize=True, database=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gate", action="store_true", help="run the gate alone (tests/sets.py)")


def pytest_configure(config: pytest.Config) -> None:
    """Configure bytecode, the gate's Hypothesis profile and second attempts.

    Tests start many Python processes. In a run with workers each of our files is compiled once, and not by
    each process. A run without workers keeps the caller's setting (`make mutants` changes the files).
    """
    if config.getoption("numprocesses", None):
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if config.getoption("gate"):
        settings.load_profile("gate")
        if not hasattr(config, "workerinput"):
            again = SecondAttempts(config, ["--hypothesis-profile=gate"])
            config.pluginmanager.register(again, NAME)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("gate") and is_left_out(collection_path.relative_to(config.rootpath).as_posix()):
        return True
    return None


def pytest_collection() -> None:
    """Turn off garbage collection: collected tests are never garbage."""
    gc.disable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left: list[pytest.Item] = [item for name in CROSSED for item in crossed(items, name)]
    if config.getoption("gate"):
        left += [item for item in items if "slow" in item.keywords or is_test_left_out(item.nodeid)]
    config.hook.pytest_deselected(items=left)
    not_tried = set(left)
    items[:] = [item for item in items if item not in not_tried]
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.add_marker(pytest.mark.trio(run=run_scheduled), append=False)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(5_000)  # most objects of a test are freed before there are so many
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test with its coverage context, and with fewer reports from a worker.

    If coverage is measured, each line is recorded with the tests that run it: `make mutants` selects tests by
    that. The cases of one test count as one. A worker reports only the outcome of a test: reports of its
    start, setup and teardown would take as long as many a test.
    """
    if "coverage" in sys.modules:
        from coverage import Coverage

        if (measured := Coverage.current()) is not None:
            measured.switch_context(item.nodeid.partition("[")[0])
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True
