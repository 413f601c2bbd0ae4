"""The page on untrusted URLs: this package behaves as shown, and the servers see connections."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.strangers import (
    CASES,
    OURS,
    THEIRS,
    Case,
    hostile_servers,
    measure,
    replace_dns,
)
from tests.resolver.adapters.guard.network import Server

PAGE = (Path(__file__).parents[1] / "docs/how-to/untrusted-urls.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line[:1] == "|"
]
HEADS = next(row for row in ROWS if "resolve" in row)
DOCUMENTED = {row[0]: dict(zip(HEADS, row, strict=True)) for row in ROWS if len(row) == len(HEADS)}


@pytest.fixture(name="server")
def _server(tmp_path: Path) -> Iterator[Server]:
    with hostile_servers(tmp_path) as server, replace_dns():
        yield server


def test_page_lists_every_case_and_client() -> None:
    assert [words for words in DOCUMENTED if words in {case.title for case in CASES}] == [
        case.title for case in CASES
    ]
    assert [head.split()[0] for head in HEADS[1:-4]] == list(THEIRS)
    assert HEADS[-4:] == list(OURS)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_our_clients_behave_as_page_shows(case: Case, server: Server) -> None:
    """Which of two rules refuses a URL first depends on the client; the guard decides the outcome."""
    expected = DOCUMENTED[case.title]
    for name, client in OURS.items():
        measured = measure(client, case, server)
        assert (measured == "reached") == (expected[name] == "reached"), name
        if name == "resolve":
            assert measured == expected[name]


@pytest.mark.parametrize("name", ["urllib", "requests", "httpx", "aiohttp"])
def test_unguarded_clients_reach_private_addresses(name: str, server: Server) -> None:
    """Otherwise the table would be meaningless."""
    plain = [case for case in CASES if case.title in ("an address inside", "a redirect inside")]
    assert [measure(THEIRS[name], case, server) for case in plain] == ["reached", "reached"]
