"""A list with a ledger, killed at any moment: what was whole is fetched once."""

from __future__ import annotations

from pathlib import Path

from tests.faults.command import told_by
from tests.faults.killed_with_ledger import CONTENT
from tests.sampled import FULL


async def test_killed_before_every_step_of_a_list(tmp_path: Path) -> None:
    """See `killed_with_ledger`. Also what had its name and was not yet written down as done is passed over by
    the next run, which asks for nothing of it."""
    every = ["1", "0"] if FULL else ["29", "0"]
    moments = await told_by("tests.faults.killed_with_ledger", str(tmp_path), *every)
    assert {moment["exists"] for moment in moments} == {"fail", "replace", "tree"}
    for moment in moments:
        assert moment["status"] == [0, "0"], moment
        assert moment["fetched_twice"] == moment["wrong"] == moment["left"] == [], moment
        assert moment["rows"] == [[name, "done"] for name in CONTENT], moment
