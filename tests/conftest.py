"""What holds for every test: the clock that its limits go by, and how Hypothesis tries.

A test says the same on a machine that is busy with other things. So the loop has a clock that goes while
there is nothing to do (`tests.scheduled`), what was collected is not searched for garbage again and again,
which takes longer than limits that tests set, Hypothesis has no deadline and does not mind how long it takes
to make examples, and what must come is waited for until nobody doubts that it hangs (`tests.hang`).
In the gate (`--gate`, see `tests.sets`) Hypothesis tries the same examples in every run; else it tries other
ones each time, also where `CI` is set, and prints how to try one again.
Proxies that the environment names are forgotten, for their places are on this machine, and so is the
configuration of who runs it.
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
os.environ.setdefault("RESOLVE_TRACEBACK", "full")  # who mends a test wants to see all the way

#: Parameters that long tables are crossed with: how what is received is cut, how a cancel comes, which
#: proxy is between, which server of FTP answers.
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
    """Tests start many a Python of their own. In a run by workers each file of ours is compiled once, and not
    by every one of them; what a run without workers was told holds (`make mutants` changes the files)."""
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
    """All that is collected stays: to search it for garbage again and again finds none of it."""
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
    gc.set_threshold(5_000)  # most of what a test makes is gone before so much of it is there
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Where coverage is measured, each line is known with the tests that run it: `make mutants` chooses by
    that. The cases of one test count as one.

    A worker tells of a test what it came to and nothing else: that it begins, that its fixtures are there and
    that they are gone would take as long as many a test does."""
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
