"""`run` as its caller sees it, over a cluster in this process."""

from __future__ import annotations

import gc
import json
import logging
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

import pytest

import resolver.blocking
from resolver import LocalError, NotConfigured, Policy, SaveRequest
from resolver.bulk import BulkProgress, run
from resolver.bulk.messages import BulkRequest, SliceReport
from resolver.bulk.plan import BulkPlan
from resolver.bulk.slice import create_scratch
from tests.window.served import Site

if TYPE_CHECKING:
    from distributed import Client

#: The module; the function has the same name.
RUN = sys.modules["resolver.bulk.run"]

NAMES = [f"{number}.txt" for number in range(6)]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    import dask  # takes 1 s and about 50 MB: only a pytest worker with these tests loads it
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("dask"))}),
        LocalCluster(
            n_workers=1,
            threads_per_worker=2,
            processes=False,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",  # otherwise one of all addresses
            memory_limit=0,
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with Site({f"/{name}": ("text/plain", name) for name in NAMES}).running() as running:
        yield running


POLICY = Policy(allow_address={"127.0.0.0/8"})


def generated(urls: list[str]) -> Iterator[str]:
    yield from urls


def collection(urls: list[str]) -> Any:
    from dask import bag

    return bag.from_sequence(urls, npartitions=3)


def asked(urls: list[str]) -> object:
    return collection(urls).map(SaveRequest)


def series(urls: list[str]) -> object:
    import pandas

    return pandas.Series(urls)


def column(urls: list[str]) -> object:
    import pandas
    from dask import dataframe

    return dataframe.from_pandas(pandas.DataFrame({"url": urls}), npartitions=2)["url"]


@pytest.mark.parametrize(
    "given",
    [list, generated, series, collection, asked, column],
    ids=["list", "generator", "series", "bag", "bag of requests", "column"],
)
def test_run_accepts_urls_of_any_collection(
    given: Callable[[list[str]], object], client: Client, site: Site, tmp_path: Path
) -> None:
    from pyarrow import parquet

    urls = [f"{site.origin}/{name}" for name in NAMES]
    reports: list[BulkProgress] = []
    summary = run(given(urls), client=client, out=str(tmp_path), policy=POLICY, on_progress=reports.append)
    assert (summary.requests, summary.hosts, summary.done, summary.exit) == (6, 1, 6, 0)
    assert summary.bytes == sum(map(len, NAMES))
    assert (reports[-1].ended, reports[-1].counts, reports[-1].under_way) == (6, {"done": 6}, 0)
    (table,) = (parquet.read_table(part).to_pylist() for part in (tmp_path / "outcomes").iterdir())
    assert [row["url"] for row in table] == urls
    assert {path.suffix for path in (tmp_path / "ledger").iterdir()} == {".ledger"}
    for row in table:
        assert (tmp_path / "bodies" / row["path"]).read_text() == row["url"].rpartition("/")[2]


def test_run_reports_are_picklable(client: Client, site: Site, tmp_path: Path) -> None:
    """The values survive pickling and Dask unchanged."""
    reports: list[BulkProgress] = []
    urls = [f"{site.origin}/0.txt", f"{site.origin}/none", "gopher://127.0.0.1:25/"]
    summary = run(urls, client=client, out=str(tmp_path), policy=POLICY, on_progress=reports.append)
    unstarted = (BulkRequest("http://h.example/", "h.example/a", None),)
    report = SliceReport(unstarted, {"done": 1}, {0: 1}, 3, 0.5, {})
    assert (summary.done, summary.failed, summary.refused) == (1, 1, 1)
    for value in (summary, *reports, report):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(value, protocol))
            assert (type(again), again) == (type(value), value)
        assert client.submit(lambda each: each, value, pure=False).result() == value
    assert json.loads(json.dumps(summary._asdict())) == summary._asdict()


def test_outcomes_are_usable_in_bags_and_frames(client: Client, site: Site, tmp_path: Path) -> None:
    import pandas
    from dask import bag

    urls = [f"{site.origin}/0.txt", f"{site.origin}/none", "gopher://127.0.0.1:25/", "no URL"]
    with resolver.blocking.Resolver(policy=POLICY) as session:
        outcomes = list(session.save_all(urls, directory=tmp_path, concurrency=1, digest=True))
    shown = [outcome.as_json() for outcome in outcomes]
    again = client.compute(bag.from_sequence(outcomes, npartitions=2).map(lambda each: each)).result()
    assert [each.as_json() for each in again] == shown
    assert [type(each.error) for each in again] == [type(each.error) for each in outcomes]
    frame = pandas.DataFrame(shown)
    assert dict(zip(frame["url"].str.rpartition("/")[2], frame["status"], strict=True)) == {
        "0.txt": "done",
        "none": "failed",
        "": "refused",
        "no URL": "refused",
    }


def test_create_scratch_uses_directory_of_the_worker(client: Client) -> None:
    """Dask removes that directory if the worker is killed."""

    def made() -> str:
        with create_scratch() as directory:
            return directory

    (of_worker,) = client.run(lambda dask_worker: dask_worker.local_directory).values()
    assert Path(client.submit(made, pure=False).result()).parent == Path(of_worker)
    assert Path(made()).parent == Path(gettempdir())


def test_run_waits_for_earlier_run_on_remote_store(
    client: Client, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock cannot separate them there. The workers of the run are in this process."""
    out, expected = "memory://waited-for", list[list[str]]()

    def sleep(seconds: float) -> None:
        expected.append(list(site.asked))
        under_way.clear()

    before, under_way = list(site.asked), dict[object, str]({"another's": out})
    monkeypatch.setattr("resolver.bulk.slice._running", under_way)
    monkeypatch.setattr(RUN, "sleep", sleep)
    summary = run([f"{site.origin}/{NAMES[0]}"], client=client, out=out, policy=POLICY)
    assert (summary.done, expected, under_way) == (1, [before], {})


def test_run_queues_no_slice_behind_busy_threads(client: Client, tmp_path: Path) -> None:
    """There are two threads: a slice of the slowest host never waits behind the slices of others."""
    reports: list[BulkProgress] = []
    refused = [f"gopher://127.0.0.{number}:25/" for number in range(1, 13)]
    run(refused, client=client, out=str(tmp_path), policy=POLICY, on_progress=reports.append)
    assert [each.under_way for each in reports] == [2] * 10 + [1, 0]


@pytest.mark.parametrize("version", [None, "9.9"])
def test_run_waits_for_workers(version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No worker exists at the start; the first joins after the run has reported that it waits.

    Its version may differ from that of the workers checked before.
    """
    from distributed import Client, LocalCluster

    reports: list[BulkProgress] = []

    def hear(progress: BulkProgress) -> None:
        reports.append(progress)
        if len(reports) == 1:
            if version is not None:
                monkeypatch.setattr("resolver.bulk.messages.get_version", lambda: "9.9")
            cluster.scale(1)

    with (
        LocalCluster(
            n_workers=0,
            threads_per_worker=3,
            processes=False,
            dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        refused = [f"gopher://127.0.0.{number}:25/" for number in range(1, 7)]
        if version is not None:
            with pytest.raises(NotConfigured, match=r" has 9\.9: "):
                run(refused, client=client, out=str(tmp_path), policy=POLICY, on_progress=hear)
            return
        summary = run(refused, client=client, out=str(tmp_path), policy=POLICY, on_progress=hear)
    assert summary.refused == 6
    assert (reports[0].threads, reports[0].ended, reports[0].requests) == (0, 0, 6)
    assert (reports[-1].threads, reports[-1].ended) == (3, 6)


def test_run_sends_nothing_to_cluster_of_other_version(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resolver.bulk.messages.get_version", lambda: "9.9")
    with pytest.raises(NotConfigured, match=r"^inproc://\S+ has 9\.9: "):
        run(["http://h.example/"], client=client, out=str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_run_releases_finished_requests(client: Client, tmp_path: Path) -> None:
    """Scheduler, worker and client are in this process; each keeps a thousand messages."""
    refused = [f"gopher://kept.example:25/{number}" for number in range(50)]
    run(refused, client=client, out=str(tmp_path), policy=POLICY)
    gc.collect()
    assert [each for each in gc.get_objects() if type(each) is BulkRequest and "//kept." in each.url] == []


def test_run_names_dask_tasks_by_host(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler would keep a separate name for each slice even after the slice has ended."""
    monkeypatch.setattr(RUN, "PARTITIONS", 1)
    monkeypatch.setattr(RUN, "BulkPlan", partial(BulkPlan, max_seconds=0.5))
    assert client.cluster is not None
    names = client.cluster.scheduler.task_prefixes
    before = set(names)
    refused = [
        f"gopher://h-{host}.b-c.example:25/{number}" for host in range(3) for number in range(host + 1)
    ]
    summary = run(refused, client=client, out=str(tmp_path), policy=POLICY)
    assert summary.slices > 1
    assert [name.replace("\N{NON-BREAKING HYPHEN}", "-") for name in set(names) - before] == [
        "h-2.b-c.example +2"
    ]


def test_run_reports_failures_with_other_outcomes(client: Client, site: Site, tmp_path: Path) -> None:
    requests = [
        SaveRequest(f"{site.origin}/0.txt", size=7),
        f"{site.origin}/none",
        "gopher://127.0.0.1:25/",
        "no URL",
        f"{site.origin}/1.txt",
    ]
    out = str(tmp_path / "out")
    summary = run(requests, client=client, out=out, policy=Policy.untrusted(), format="jsonl")
    assert (summary.refused, summary.failed, summary.done) == (5, 0, 0)
    summary = run(requests, client=client, out=out, policy=POLICY, format="jsonl")
    parts = sorted((tmp_path / "out" / "outcomes").iterdir())
    rows = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    assert {row["url"].rpartition("/")[2]: (row["status"], row["error"]) for row in rows} == {
        "0.txt": ("failed", "ChecksumMismatch"),
        "none": ("failed", "NotFound"),
        "": ("refused", "Refused"),
        "no URL": ("refused", "InvalidUrl"),
        "1.txt": ("done", None),
    }
    assert summary.exit == 1
    directories = [path for path in (tmp_path / "out" / "bodies").rglob("*") if path.is_dir()]
    assert len(directories) == 2  # of the host, and in it for the successful request


def test_run_uses_separate_ledger_location(client: Client, site: Site, tmp_path: Path) -> None:
    url, ledger = f"{site.origin}/0.txt", str(tmp_path / "ledgers")
    for expected in ("done", "skipped"):
        summary = run([url], client=client, out=str(tmp_path / "out"), ledger=ledger, policy=POLICY)
        assert getattr(summary, expected) == 1
    assert not (tmp_path / "out" / "ledger").exists()
    assert list((tmp_path / "ledgers").glob("*.ledger"))


@pytest.mark.parametrize(
    ("about", "error", "words"),
    [
        ('{"version": 1, "partitions": 8, "format": "jsonl"}', NotConfigured, "jsonl"),
        ('{"version": 2, "partitions": 8, "format": "parquet"}', LocalError, "another version"),
        ('{"version": 1, "partitions": 0, "format": "parquet"}', LocalError, "another version"),
        ('{"something": "else"}', LocalError, "not written by resolve"),
        ("[]", LocalError, "not written by resolve"),
        ("no JSON", LocalError, "not written by resolve"),
        pytest.param("[" * 100_000, LocalError, "not written by resolve", id="deep"),
    ],
)
def test_run_leaves_foreign_output_unchanged(
    about: str, error: type[LocalError], words: str, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "bulk.json").write_text(about)
    with pytest.raises(error, match=words):
        run(["http://h.example/"], client=client, out=str(tmp_path))
    assert [each.name for each in tmp_path.iterdir()] == ["bulk.json"]


def test_run_with_unwritable_output_is_a_local_error(client: Client, tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("in the way")
    with pytest.raises(LocalError, match="ledger"):
        run(["gopher://127.0.0.1:25/"], client=client, out=str(tmp_path), policy=POLICY)


def test_run_with_unknown_setting_raises_type_error(client: Client, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="segmants"):
        run([], client=client, out=str(tmp_path), segmants=4)  # type: ignore[call-arg]


def test_run_of_no_requests_returns_empty_summary(client: Client, tmp_path: Path) -> None:
    summary = run([], client=client, out=str(tmp_path))
    assert (summary.requests, summary.exit, summary.slices) == (0, 0, 0)
