"""Reports lost with their worker after the slice ended: the slice's report is requested until it arrives."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGKILL
from threading import Timer
from typing import TYPE_CHECKING, Any

import pytest

from resolver import LocalError, Policy
from resolver.bulk import BulkProgress, BulkSummary, run
from tests.bulk.forked import Cluster
from tests.hang import HANG

if TYPE_CHECKING:
    from distributed import Future

#: The module, because the package exports a function with the same name.
RUN = sys.modules["resolver.bulk.run"]

#: URLs that the policy refuses, of two hosts: two slices without requests.
REFUSED = ["gopher://127.0.0.1:25/", "gopher://127.0.0.2:25/"]


class Workers:
    """Workers, one at a time, and a client. `given` are all tasks submitted."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._scheduler_process, self._scheduler = cluster.start("scheduler")
        self._worker: int | None = None
        self.given: list[Future] = []
        self.start()

    def start(self) -> None:
        self._worker, _ = self._cluster.start("worker", self._scheduler)

    def kill(self) -> None:
        assert self._worker is not None
        self._cluster.kill(self._worker)
        self._worker = None

    def run(self, out: Path, on_progress: Callable[[BulkProgress], object]) -> BulkSummary:
        # then the run reports the lost scheduler
        hanging = Timer(HANG, os.kill, (self._scheduler_process, SIGKILL))
        hanging.start()
        try:
            return self._run(out, on_progress)
        finally:
            hanging.cancel()

    def _run(self, out: Path, on_progress: Callable[[BulkProgress], object]) -> BulkSummary:
        from distributed import Client

        with Client(self._scheduler) as client:
            submit = client.submit

            def submitted(*args: Any, **named: Any) -> Future:
                self.given.append(submit(*args, **named))
                return self.given[-1]

            client.submit = submitted
            return run(REFUSED, client=client, out=str(out), policy=Policy(), on_progress=on_progress)

    def close(self) -> None:
        if self._worker is not None:
            self.kill()
        self._cluster.kill(self._scheduler_process)


@pytest.fixture
def workers(forked: Cluster) -> Iterator[Workers]:
    found = Workers(forked)
    yield found
    found.close()


def test_report_lost_before_check_is_requested_again(workers: Workers, tmp_path: Path) -> None:
    """The slice is not repeated before the check: no other worker exists."""
    from distributed import CancelledError, wait

    told: list[BulkProgress] = []

    def lose(progress: BulkProgress) -> None:
        told.append(progress)
        if len(told) == 1:
            for future in workers.given:
                with suppress(CancelledError):  # the checked future is released
                    wait([future])
            workers.kill()
            while any(future.status == "finished" for future in workers.given):
                pass  # the client does not know of the kill yet
        elif len(told) == 2:
            workers.start()

    summary = workers.run(tmp_path, lose)
    assert (summary.refused, summary.slices) == (2, 2)
    assert [(each.ended, each.under_way) for each in told] == [(1, 1), (1, 1), (2, 0)]
    assert len(workers.given) == 2


def test_report_lost_during_transfer_is_requested_again(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Future

    result, killed = Future.result, list[Future]()

    def lost(future: Future, timeout: float | None = None) -> object:
        if not killed:
            killed.append(future)
            workers.kill()
        return result(future, timeout)

    def replace_it(progress: BulkProgress) -> None:
        told.append(progress)
        if len(told) == 1:
            workers.start()

    told: list[BulkProgress] = []
    monkeypatch.setattr(RUN, "_REPORT_TIMEOUT", 0.2)
    monkeypatch.setattr(Future, "result", lost)
    summary = workers.run(tmp_path, replace_it)
    assert (summary.refused, summary.slices) == (2, 2)
    assert (told[0].ended, told[0].under_way) == (0, 2)
    assert len(workers.given) == 2


def test_report_given_up_by_dask_is_planned_again(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are lost one after the other, until Dask gives up: the slice is planned again."""
    from distributed import Future, KilledWorker

    result, asked = Future.result, list[Future]()

    def lost(future: Future, timeout: float | None = None) -> object:
        asked.append(future)
        if len(asked) == 1:
            raise KilledWorker(future.key, None, 3)
        return result(future, timeout)

    monkeypatch.setattr(Future, "result", lost)
    summary = workers.run(tmp_path, lambda progress: None)
    assert (summary.refused, summary.slices) == (2, 2)
    assert len(workers.given) == 3


def test_report_with_closed_scheduler_is_a_local_error(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import Future
    from distributed.comm import CommClosedError

    def closed(future: Future, timeout: float | None = None) -> object:
        raise CommClosedError("in <TCP>")

    monkeypatch.setattr(Future, "result", closed)
    with pytest.raises(LocalError, match=r"scheduler .*was lost"):
        workers.run(tmp_path, lambda progress: None)
