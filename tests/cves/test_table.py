"""The table of flaws is complete, its tests exist, and the page has its text."""

from __future__ import annotations

import re

import pytest

from tests.cves.table import CHECKOUT, COMPLETE, FLAWS, PAGE, REASONS, Flaw, page


def test_committed_page_equals_generated_page() -> None:
    """`python -m tests.cves.table` writes it."""
    assert PAGE.read_text("utf-8") == page()


def test_table_names_each_flaw_once() -> None:
    assert len({flaw.name for flaw in FLAWS}) == len(FLAWS)


def test_table_uses_every_reason() -> None:
    assert {flaw.shown for flaw in FLAWS if "::" not in flaw.shown} == REASONS.keys()


def test_table_states_completeness_of_each_project() -> None:
    assert {flaw.project for flaw in FLAWS} <= COMPLETE.keys()


@pytest.mark.parametrize("flaw", FLAWS, ids=lambda flaw: flaw.name)
def test_row_is_complete_and_its_test_exists(flaw: Flaw) -> None:
    assert re.fullmatch(r"(?:CVE-\d{4}-\d{4,}|PYSEC-\d{4}-\d+)", flaw.name)
    assert flaw.project
    assert 1 < len(flaw.words.split()) <= 20
    assert "|" not in flaw.words
    path, found, test = flaw.shown.partition("::")
    if found:
        source = (CHECKOUT / "tests" / path).read_text("utf-8")
        assert re.search(rf"^(?:async )?def {test}\(", source, re.MULTILINE)
