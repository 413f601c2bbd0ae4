"""A test is tried again where the browser died under it, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest

from tests import attempts

_DIED = "Error: Page.goto: Page crashed"


def report(said: str) -> pytest.TestReport:
    outcome: Literal["passed", "failed"] = "failed" if said else "passed"
    return pytest.TestReport("test_it", ("test_it.py", 1, "test_it"), {}, outcome, said, "call")


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        (["", _DIED], ["passed"]),
        ([_DIED, "", _DIED], ["crashed", "passed"]),
        ([_DIED, "assert 0", ""], ["crashed", "failed"]),
        ([_DIED, _DIED, _DIED, ""], ["crashed", "crashed", "failed"]),
        (["assert 'x' == 'y'", ""], ["failed"]),
    ],
)
def test_what_each_attempt_came_to(
    runs: list[str], expected: list[str], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: Iterator[str] = iter(runs)
    monkeypatch.setattr(attempts, "runtestprotocol", lambda *_, **__: [report(next(left))])
    assert [str(each.outcome) for each in attempts.attempts(request.node, None)] == expected
