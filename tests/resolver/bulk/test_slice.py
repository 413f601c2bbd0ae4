"""A worker's processing of a slice, here without a cluster."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from warcio.archiveiterator import ArchiveIterator

from resolver import Policy, Settings
from resolver.bulk.messages import BulkJob, RequestSlice
from resolver.bulk.plan import assign_path
from resolver.bulk.slice import close_all, fetch_slice, is_running
from resolver.bulk.store import open_store
from resolver.files.atomic import LedgerFile, OutputFiles
from tests.window.served import Sent, Site


@pytest.fixture(scope="module")
def running() -> Iterator[Site]:
    """Run a site for the module: it takes half a second to stop."""
    pages = {f"/{name}.txt": ("text/plain", name * 3) for name in "abc"}
    with Site(pages).running() as running:
        yield running


@pytest.fixture
def site(running: Site) -> Site:
    running.asked.clear()
    return running


@pytest.fixture(params=["directory", "memory"])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "directory":
        yield str(tmp_path / "out")
        return
    yield "memory://out"
    MemoryFileSystem.store.clear()


def job(out: str, *, max_seconds: float = 60.0, **more: Any) -> BulkJob:
    settings: Settings = {"policy": Policy(allow_address={"127.0.0.0/8"})}
    return BulkJob(out=out, settings=settings, format="jsonl", max_seconds=max_seconds, **more)


def slice_of(site: Site, *names: str, last: bool = True) -> RequestSlice:
    items = tuple(assign_path(f"{site.origin}/{name}").item for name in names)
    return RequestSlice(7, 0, "127.0.0.1", items, last, 1.0)


def outcome_rows(out: str) -> list[dict[str, Any]]:
    octets = open_store(out).read("outcomes/part-0007.jsonl")
    assert octets is not None
    return [json.loads(line) for line in octets.splitlines()]


def test_fetch_slice_stores_bodies_outcomes_and_ledger(site: Site, out: str) -> None:
    slice = slice_of(site, "a.txt", "b.txt", "none", "a.txt")
    report = fetch_slice(job(out), slice)
    assert dict(report.counts) == {"done": 2, "failed": 1, "skipped": 1}
    assert dict(report.exits) == {0: 2, 8: 1}
    assert (report.bytes, report.unstarted) == (6, ())
    rows = outcome_rows(out)
    assert [(row["status"], row["error"], row["bytes"]) for row in rows] == [
        ("done", None, 3),
        ("done", None, 3),
        ("failed", "NotFound", 0),
    ]
    assert open_store(out).read(f"bodies/{rows[0]['path']}") == b"aaa"
    assert rows[0]["path"] == slice.items[0].path
    assert rows[0]["media_type"] == "text/plain"

    count = len(site.asked)
    again = fetch_slice(job(out), slice_of(site, "a.txt", "b.txt"))
    assert dict(again.counts) == {"skipped": 2}
    assert len(site.asked) == count
    assert outcome_rows(out) == rows


def test_fetch_slice_returns_requests_not_begun_in_time(site: Site, out: str) -> None:
    slice = slice_of(site, "a.txt", "b.txt", "c.txt")
    report = fetch_slice(job(out, max_seconds=0.0), slice)
    assert report.unstarted == slice.items
    assert not site.asked
    assert open_store(out).read("outcomes/part-0007.jsonl") is None


def test_fetch_slice_before_the_last_writes_no_outcomes(site: Site, out: str) -> None:
    fetch_slice(job(out), slice_of(site, "a.txt", last=False))
    assert open_store(out).read("outcomes/part-0007.jsonl") is None
    fetch_slice(job(out), slice_of(site, "b.txt"))
    assert [row["url"].rpartition("/")[2] for row in outcome_rows(out)] == ["a.txt", "b.txt"]


def test_fetch_slice_keeps_pause_of_a_host(site: Site, out: str) -> None:
    slice = slice_of(site, "a.txt")
    report = fetch_slice(job(out, host_rate=0.01), slice)
    (seconds,) = report.pauses.values()
    assert 0 < seconds <= 100
    later = slice_of(site, "b.txt")._replace(pauses=dict(report.pauses))
    assert fetch_slice(job(out, max_seconds=0.0), later).unstarted == later.items


def test_fetch_slice_with_warc_writes_no_body_files(site: Site, out: str) -> None:
    report = fetch_slice(job(out, warc=True), slice_of(site, "a.txt", "b.txt"))
    assert dict(report.counts) == {"done": 2}
    assert dict(fetch_slice(job(out, warc=True), slice_of(site, "a.txt", "b.txt")).counts) == {"skipped": 2}
    close_all()
    store = open_store(out)
    assert {row["path"] for row in outcome_rows(out)} == {None}
    assert store.read(f"bodies/{slice_of(site, 'a.txt').items[0].path}") is None
    if isinstance(store, OutputFiles):
        archives = [store.place(f"warc/{name}") for name in store.names("warc") if "warc" in name]
    else:
        archives = [name for name in MemoryFileSystem.store if name.endswith(".warc.gz")]
    records = []
    for name in archives:
        octets = Path(name).read_bytes() if isinstance(store, OutputFiles) else MemoryFileSystem().cat(name)
        records += [each.rec_type for each in ArchiveIterator(io.BytesIO(octets))]
    assert records.count("response") == 2


def test_is_running_is_true_during_fetch_slice(site: Site, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an aborted run its output is not used again before its slices have ended."""
    states = []

    def answer(target: str) -> Sent:
        states.append(is_running(out))
        return result(target)

    result = site.answer
    monkeypatch.setattr(site, "answer", answer)
    fetch_slice(job(out), slice_of(site, "a.txt"))
    assert states == [True]
    assert not is_running(out)


def test_fetch_slice_returns_requests_of_locked_ledger(site: Site, tmp_path: Path) -> None:
    out, slice = str(tmp_path), slice_of(site, "a.txt")
    lock = LedgerFile(OutputFiles(out).place("ledger/0007.ledger"))
    lock.acquire()
    report = fetch_slice(job(out, max_seconds=0.0), slice)
    assert (report.is_locked, report.unstarted, dict(report.counts)) == (True, slice.items, {})
    lock.close()
    report = fetch_slice(job(out), slice)
    assert (report.is_locked, report.unstarted, dict(report.counts)) == (False, (), {"done": 1})
