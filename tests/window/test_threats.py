"""No threat is without a test, and no rule without one that misses it. That they are there is what is looked
at here; that they find what they should is said by those of `PLANTED`."""

from __future__ import annotations

from importlib import import_module

import pytest

from resolver.web.access import CHECKS
from tests.window.threats import PLANTED, THREATS


def is_test(name: str) -> bool:
    """Is there such a test, which pytest finds?"""
    module, _, function = name.partition(":")
    return function.startswith("test_") and callable(
        getattr(import_module(f"tests.{module}"), function, None)
    )


def test_each_threat_has_its_number() -> None:
    assert list(THREATS) == list(range(1, 30))


@pytest.mark.parametrize("number", THREATS)
def test_each_threat_is_carried_out(number: int) -> None:
    threat = THREATS[number]
    names = threat.by_octets + threat.in_chromium
    assert names
    assert [name for name in names if not is_test(name)] == []


def test_each_rule_is_taken_out_once() -> None:
    assert {check.__name__ for check in CHECKS} < PLANTED.keys()
    names = [name for tests in PLANTED.values() for name in tests]
    assert [name for name in names if not is_test(name)] == []


def test_a_test_that_is_not_there_is_missed() -> None:
    assert not is_test("window.test_threats:test_nothing")
    assert is_test("window.test_threats:test_each_threat_has_its_number")
