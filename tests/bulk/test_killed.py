"""Runs in which a worker, the scheduler or the client is killed (SIGKILL) at random moments, and resumed.

URLs that the ledgers list as done at the kill are not requested again. Every file with its final name is
complete. The final result equals that of an undisturbed run.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.bulk import log, outcomes
from tests.bulk.elsewhere import SCHEME
from tests.bulk.forked import Cluster
from tests.bulk.hosts import Hosts
from tests.sampled import FULL, SEED, sampled

KILLS = 20 if FULL else 7  # more than twenty in the three rounds of CI
VICTIMS = ("worker", "scheduler", "client")

#: Maximum of concurrent requests to a host.
PER_HOST = 2


@dataclass
class Runs:
    """Runs over a list into one location, on a cluster of which each process may be killed."""

    hosts: Hosts
    cluster: Cluster
    folder: Path
    kept: str
    running: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in VICTIMS})
    scheduler: str = ""

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def place(self) -> str:
        return f"{SCHEME}://{self.out}" if self.kept == "elsewhere" else str(self.out)

    def prepare(self) -> None:
        more = {"per_host": PER_HOST, "format": "jsonl", "warc": self.kept == "archives"}
        listed = {"urls": self.hosts.urls, "ports": sorted(self.hosts.ports), "more": more}
        (self.folder / "list").write_text(json.dumps(listed))

    def complete(self) -> None:
        """Start the missing processes."""
        if not self.running["scheduler"]:
            self.scheduler = self._start("scheduler")
        while len(self.running["worker"]) < 2:
            self._start("worker", self.scheduler)
        if not self.running["client"]:
            self._start("client", str(self.folder / "list"), self.scheduler, self.place)

    def _start(self, role: str, *words: str) -> str:
        process, said = self.cluster.start(role, *words)
        self.running[role].append(process)
        return said

    def left(self) -> int:
        """Return the number of existing objects that are not yet fetched."""
        there = sum(whole is not None for whole in self.hosts.whole.values())
        return there - len(outcomes.done(self.out))

    def wait(self, requests: int) -> bool:
        """Wait for so many more requests, or the end of the client; return whether they began."""
        return self.hosts.wait(requests, self.running["client"][0])

    def kill(self, role: str) -> None:
        """Kill a process. With the scheduler, workers and client end soon; the next run does not wait.

        File systems other than local ones have no locks against orphaned workers, so the workers are killed
        too.
        """
        self.cluster.kill(self.running[role].pop())
        if self.kept == "elsewhere" and role != "worker":
            for process in self.running["worker"]:
                self.cluster.kill(process)
            self.running["worker"].clear()
        if role == "scheduler":
            (client,) = self.running["client"]
            # the client has finished, or reports the lost scheduler
            assert self.cluster.wait(client) in (0, 1)
            self.running["client"].clear()
            self.running["worker"].clear()

    def end(self) -> None:
        self.complete()
        assert self.cluster.wait(self.running["client"].pop()) == 0
        for role in ("worker", "scheduler"):
            for process in self.running[role]:
                self.cluster.kill(process)


def run_undisturbed(hosts: Hosts, cluster: Cluster, folder: Path, kept: str) -> list[dict[str, Any]]:
    folder.mkdir()
    runs = Runs(hosts, cluster, folder, kept)
    runs.prepare()
    runs.end()
    outcomes.check(hosts.whole, runs.out)
    return outcomes.comparable_rows(outcomes.rows(runs.out))


@pytest.mark.slow
@pytest.mark.parametrize("kept", sampled(["files", "archives", "elsewhere"], lambda kept: None))
def test_run_resumes_after_any_process_was_killed(
    kept: str, hosts: Hosts, forked: Cluster, tmp_path: Path
) -> None:
    expected = run_undisturbed(hosts, forked, tmp_path / "undisturbed", kept)
    source = random.Random(SEED)
    victims = [*VICTIMS, *source.choices(VICTIMS, k=KILLS)][:KILLS]
    source.shuffle(victims)
    runs = Runs(hosts, forked, tmp_path, kept)
    runs.prepare()
    hosts.mark(kept)
    moments: list[tuple[str, set[str]]] = []
    for kills, victim in enumerate(victims):
        runs.complete()
        runs.wait(1 + source.randrange(1 + 2 * runs.left() // (KILLS - kills + 1)))
        while kills == KILLS - 1 and not outcomes.done(runs.out) and runs.wait(10):
            pass  # at least once some URLs must be requested again
        runs.kill(victim)
        done = outcomes.done(runs.out)
        hosts.mark(f"{kept}-{kills}")
        moments.append((f"{kept}-{kills}", done))
        outcomes.check_names(hosts, runs.out)
    runs.end()
    for mark, done in moments:
        assert not done & hosts.asked(mark).keys(), (mark, victims)
    assert any(done for _, done in moments)
    outcomes.check(hosts.whole, runs.out)
    assert outcomes.comparable_rows(outcomes.rows(runs.out)) == expected
    assert max(log.max_concurrent(hosts.lines(kept)).values()) <= PER_HOST
