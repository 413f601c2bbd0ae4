"""All URLs of forty hosts, on a cluster of two processes: the results, and the hosts' logs."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import resolver.blocking
from resolver import Policy
from resolver.bulk import BulkSummary, run
from resolver.bulk.plan import BulkPlan
from tests.bulk import log, told
from tests.bulk.house import House

if TYPE_CHECKING:
    from distributed import Client

#: Maximum of requests per second for a host; and one host of each scheme.
RATE = 5.0
FEW = ("127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4")


def fetch(house: House, client: Client, out: Path, **more: Any) -> BulkSummary:
    return run(house.urls, client=client, out=str(out), policy=policy_for(house), **more)


def policy_for(house: House) -> Policy:
    return Policy(allow_port=house.ports, allow_address=frozenset({"127.0.0.0/8"}))


def check_summary(found: BulkSummary, house: House) -> None:
    missing = sum(whole is None for whole in house.whole.values())
    assert (found.requests, found.hosts) == (len(house.urls), 40)
    assert (found.done, found.failed) == (found.requests - missing, missing)
    assert (found.skipped, found.refused, found.exit) == (0, 0, 8)


def test_run_fetches_urls_once_within_host_limit(
    real_house: House, local_client: Client, tmp_path: Path
) -> None:
    real_house.mark("real")
    found = fetch(real_house, local_client, tmp_path, per_host=2)
    check_summary(found, real_house)
    told.check(real_house.whole, tmp_path)
    assert real_house.asked("real") == dict.fromkeys(real_house.urls, 1)
    assert max(log.at_once(real_house.lines("real")).values()) == 2


def test_run_outcomes_equal_those_of_save_all(house: House, local_client: Client, tmp_path: Path) -> None:
    """A repeated run requests no finished URL."""
    fetch(house, local_client, tmp_path, format="jsonl")
    alone = tmp_path / "alone"
    with resolver.blocking.Resolver(policy=policy_for(house)) as session:
        running = session.save_all(house.urls, directory=alone, concurrency=40, digest=True)
        became = {str(each.url): each for each in running}
    for row in told.rows(tmp_path):
        each = became[row["url"]]
        error = None if each.error is None else type(each.error).__name__
        assert (row["status"], row["exit"], row["error"]) == (each.status, each.exit, error)
        if each.status == "done":
            assert (row["bytes"], row["digest"]) == (each.bytes, each.digest)
            assert (row["media_type"], row["final_url"]) == (each.media_type, str(each.final_url))
    first = told.alike(told.rows(tmp_path))
    house.mark("again")
    fetch(house, local_client, tmp_path, format="jsonl")
    assert all(house.whole[url] is None for url in house.asked("again"))
    assert told.alike(told.rows(tmp_path)) == first


#: The module, because the package exports a function with the same name.
RUN = sys.modules["resolver.bulk.run"]


@pytest.mark.parametrize("most", [1, 3])
def test_run_keeps_per_host_limit(
    house: House, local_client: Client, tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices contain several hosts, and some hosts are in several slices.

    With a limit of three the log shows three concurrent requests, so it would show a violation of a limit of
    one.
    """
    monkeypatch.setattr(RUN, "PARTITIONS", 16)
    monkeypatch.setattr(RUN, "BulkPlan", partial(BulkPlan, box=1.0))
    house.mark(f"most-{most}")
    found = fetch(house, local_client, tmp_path, per_host=most)
    assert found.slices > 16
    assert max(log.at_once(house.lines(f"most-{most}")).values()) == most


def test_run_keeps_host_rate(
    house: House, local_client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate holds also between slices of a single request each, on any worker."""
    monkeypatch.setattr(RUN, "BulkPlan", partial(BulkPlan, box=0.5 / RATE))
    few = [url for url in house.urls if house.named(url)[0] in FEW]
    house.mark("rate")
    found = run(few, client=local_client, out=str(tmp_path), policy=policy_for(house), host_rate=RATE)
    assert (found.requests, found.slices) == (len(few), len(few))
    lines = house.lines("rate")
    assert log.sooner(lines, RATE) == []
    assert log.asked(lines).keys() == {house.named(url) for url in few}
