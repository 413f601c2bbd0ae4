"""A test is tried once; where the browser died under it, again, and twice at most.

Chromium's own processes die now and then, once in many thousands of pages, and that says nothing of
ours. What a page of ours brings about comes each time, and fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from _pytest.runner import runtestprotocol

#: What playwright says, as a pattern, when the process that shows a page has died.
CRASHED = "(Page|Target) crashed"
_ATTEMPTS = 3


def attempts(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[pytest.TestReport]:
    """The reports of running it. Those of an attempt that another follows have the outcome `crashed`, which
    the summary counts."""
    for left in reversed(range(_ATTEMPTS)):
        again = False
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if left and report.failed and re.search(CRASHED, report.longreprtext):
                report.outcome = "crashed"  # type: ignore[assignment]  # pytest takes any word, and counts it
                again = True
            yield report
        if not again:
            return
