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
from tests.bulk import log, outcomes
from tests.bulk.hosts import Hosts

if TYPE_CHECKING:
    from distributed import Client

#: Maximum of requests per second for a host; and one host of each scheme.
RATE = 5.0
FEW = ("127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4")


def fetch(hosts: Hosts, client: Client, out: Path, **more: Any) -> BulkSummary:
    return run(hosts.urls, client=client, out=str(out), policy=policy_for(hosts), **more)


def policy_for(hosts: Hosts) -> Policy:
    return Policy(allow_port=hosts.ports, allow_address=frozenset({"127.0.0.0/8"}))


def check_summary(found: BulkSummary, hosts: Hosts) -> None:
    missing = sum(whole is None for whole in hosts.whole.values())
    assert (found.requests, found.hosts) == (len(hosts.urls), 40)
    assert (found.done, found.failed) == (found.requests - missing, missing)
    assert (found.skipped, found.refused, found.exit) == (0, 0, 8)


def test_run_fetches_urls_once_within_host_limit(
    real_hosts: Hosts, local_client: Client, tmp_path: Path
) -> None:
    real_hosts.mark("real")
    found = fetch(real_hosts, local_client, tmp_path, per_host=2)
    check_summary(found, real_hosts)
    outcomes.check(real_hosts.whole, tmp_path)
    # For a missing file, a reused connection of ftp follows the path again from the login directory.
    missing = {url for url in real_hosts.urls if url.startswith("ftp:") and real_hosts.whole[url] is None}
    asked = real_hosts.asked("real")
    assert asked == {url: min(asked[url], 2) if url in missing else 1 for url in real_hosts.urls}
    assert max(log.max_concurrent(real_hosts.lines("real")).values()) == 2


def test_run_outcomes_equal_those_of_save_all(hosts: Hosts, local_client: Client, tmp_path: Path) -> None:
    """A repeated run requests no finished URL."""
    fetch(hosts, local_client, tmp_path, format="jsonl")
    alone = tmp_path / "alone"
    with resolver.blocking.Resolver(policy=policy_for(hosts)) as session:
        running = session.save_all(hosts.urls, directory=alone, concurrency=40, digest=True)
        became = {str(each.url): each for each in running}
    for row in outcomes.rows(tmp_path):
        each = became[row["url"]]
        error = None if each.error is None else type(each.error).__name__
        assert (row["status"], row["exit"], row["error"]) == (each.status, each.exit, error)
        if each.status == "done":
            assert (row["bytes"], row["digest"]) == (each.bytes, each.digest)
            assert (row["media_type"], row["final_url"]) == (each.media_type, str(each.final_url))
    first = outcomes.comparable_rows(outcomes.rows(tmp_path))
    hosts.mark("again")
    fetch(hosts, local_client, tmp_path, format="jsonl")
    assert all(hosts.whole[url] is None for url in hosts.asked("again"))
    assert outcomes.comparable_rows(outcomes.rows(tmp_path)) == first


#: The module, because the package exports a function with the same name.
RUN = sys.modules["resolver.bulk.run"]


@pytest.mark.parametrize("most", [1, 3])
def test_run_keeps_per_host_limit(
    hosts: Hosts, local_client: Client, tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slices contain several hosts, and some hosts are in several slices.

    With a limit of three the log shows three concurrent requests, so it would show a violation of a limit of
    one.
    """
    monkeypatch.setattr(RUN, "PARTITIONS", 16)
    monkeypatch.setattr(RUN, "BulkPlan", partial(BulkPlan, max_seconds=1.0))
    hosts.mark(f"most-{most}")
    found = fetch(hosts, local_client, tmp_path, per_host=most)
    assert found.slices > 16
    assert max(log.max_concurrent(hosts.lines(f"most-{most}")).values()) == most


def test_run_keeps_host_rate(
    hosts: Hosts, local_client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate holds also between slices of a single request each, on any worker."""
    monkeypatch.setattr(RUN, "BulkPlan", partial(BulkPlan, max_seconds=0.5 / RATE))
    few = [url for url in hosts.urls if hosts.named(url)[0] in FEW]
    hosts.mark("rate")
    found = run(few, client=local_client, out=str(tmp_path), policy=policy_for(hosts), host_rate=RATE)
    assert (found.requests, found.slices) == (len(few), len(few))
    lines = hosts.lines("rate")
    assert log.requests_above_rate(lines, RATE) == []
    assert log.asked(lines).keys() == {hosts.named(url) for url in few}
