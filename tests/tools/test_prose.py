"""Tests of the rules for prose, and of the counts in this repository."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tools.prose import BUDGETS, CHECKOUT, PATHS, RULES, find_all, find_in_file

BAD = {
    "P1": [
        '"""Read what the server sent."""',
        "# from whoever asks first, the answer",
        "raise E('what came is too long')",
    ],
    "P2": [
        '"""The file is no archive."""',
        "# the server knows no MLST",
        "raise E('this is not an age, it takes none')",
    ],
    "P3": ['"""That of the file."""', 'class C:\n    """One of many rows."""'],
    "P4": ['"""Stop if nobody reads the file."""', "# the transfer was cut by the server"],
    "P5": ['def f():\n    """Is the file complete."""', 'async def f():\n    """How many bytes arrived."""'],
    "P6": ['def f():\n    """Return the size\n    of the file.\n    """'],
    "P7": ["# it closes the file", "raise E('its size is wrong')"],
    "P8": ["def test_what_a_reader_gets(): ...", "async def test_it_works(): ..."],
}
GOOD = [
    '"""Return the size of a file."""',
    'def f():\n    """Return whether the file is complete.\n\n    The size decides.\n    """',
    "# The server closes the connection after 600 s (RFC 959, 3.2).",
    "raise E(f'{name}: expected a size, got {text}')",
    "def test_size_out_of_range_is_refused(): ...",
    "X = 1  # noqa: what ruff reads is no prose",
    '"""Run the example.\n\n    `what` is code.\n"""',
]


@pytest.mark.parametrize(("rule", "source"), [(rule, source) for rule in BAD for source in BAD[rule]])
def test_rule_finds_its_example(rule: str, source: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(source)
    assert rule in {finding.rule for finding in find_in_file(tmp_path / "bad.py")}


@pytest.mark.parametrize("source", GOOD)
def test_rules_accept_plain_prose(source: str, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(source)
    assert list(find_in_file(tmp_path / "good.py")) == []


def test_rules_skip_code_blocks_and_tables_of_pages(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Files\n\n```\nwhat is code\n```\n\n| what | is a table |\n\nRead what is left.\n")
    assert [(finding.rule, finding.text) for finding in find_all([tmp_path])] == [
        ("P1", "# Files Read what is left.")
    ]


def test_counts_of_the_repository_equal_their_budgets() -> None:
    counts = Counter(finding.rule for finding in find_all([CHECKOUT / path for path in PATHS]))
    assert {rule: counts[rule] for rule in RULES} == BUDGETS, (
        "more: rewrite them (python -m tools.prose --show RULE); fewer: lower BUDGETS in tools/prose.py"
    )
