"""`resolve bulk`: the settings of the run with a stub, and runs on processes of this machine."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import resolver.bulk
from resolver import Credentials, SaveRequest, parse
from resolver.bulk import BulkProgress, BulkSummary
from resolver.cli import bulk as bulk_progress
from resolver.cli import streams as below
from resolver.cli.arguments import read
from resolver.cli.bulk import PickledSecrets, make_settings
from resolver.cli.config import HostSection
from resolver.transfer.verification import Checksum
from tests.begun import CLUSTERS, Program
from tests.fresh import environment
from tests.hang import HANG
from tests.resolver.cli import contract
from tests.resolver.cli.command import Done, hide_library, records, resolve
from tests.sampled import FULL, sampled

ENDED = BulkSummary(7, 3, 2, 4, 1, 1, 1, 2_048, 1.5, 8)


class RunStub:
    """A stub for `resolver.bulk.run` that records its arguments."""

    def __init__(self, summary: BulkSummary = ENDED, *progress: BulkProgress) -> None:
        self.requests: list[SaveRequest] = []
        self.settings: dict[str, Any] = {}
        self.addresses: list[str] = []
        self._summary = summary
        self._progress = progress

    def run(self, requests: Iterator[SaveRequest], **settings: Any) -> BulkSummary:
        self.requests = list(requests)
        self.settings = settings
        for each in self._progress:
            settings["on_progress"](each)
        return self._summary

    def client_of(self, address: str) -> Any:
        self.addresses.append(address)
        return nullcontext(f"client of {address}")


@pytest.fixture(name="stub")
def _stub(monkeypatch: pytest.MonkeyPatch) -> RunStub:
    return install_stub(RunStub(), monkeypatch)


def install_stub(stub: RunStub, monkeypatch: pytest.MonkeyPatch) -> RunStub:
    monkeypatch.setattr(resolver.bulk, "run", stub.run)
    clusters = ModuleType("resolver.cli.cluster")  # the real module imports Dask
    vars(clusters)["open_client"] = stub.client_of
    monkeypatch.setitem(sys.modules, clusters.__name__, clusters)
    return stub


def urls(stub: RunStub) -> list[str]:
    return [str(request.url) for request in stub.requests]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "bulk lists"),
        (("list",), "--out"),
        (("list", "--out", ""), "name ''"),
        (("list", "--out", "x", "--warc=a.warc.gz"), "--warc FILE"),
        (("list", "--out", "x", "--parquet", "--jsonl"), "--parquet --jsonl"),
        (("list", "--out", "x", "--cookies", "c"), "bulk --cookies"),
        (("list", "--out", "x", "--user", "me"), "bulk --user --netrc"),
        (("list", "--out", "x", "--password-file", "-"), "bulk --password-file --netrc"),
        (("list", "--out", "x", "--rate", "1M"), "bulk --rate --host-rate"),
        (("list", "--out", "x", "-j", "3"), "bulk --jobs"),
        (("list", "--out", "x", "-d", "y"), "bulk --directory --out"),
        (("list", "--out", "x", "-v"), "bulk --verbose"),
        (("list", "--out", "x", "--cut-dirs", "0"), "bulk --cut-dirs"),
        (("list", "--out", "x", "--scheduler", "here"), "--scheduler local:N"),
        (("list", "--out", "x", "--scheduler", "local:0"), "--scheduler number 1"),
        (("list", "--out", "x", "--scheduler", "local:"), "--scheduler number 1"),
    ],
)
def test_bulk_invalid_options_are_usage_errors(
    words: tuple[str, ...], reason: str, stub: RunStub, folder: Path
) -> None:
    done = resolve("bulk", *words)
    assert (done.status, done.out) == (2, b"")
    assert all(word in done.messages for word in reason.split())
    assert stub.addresses == []


def test_bulk_ignores_configured_options_of_other_commands(stub: RunStub, folder: Path) -> None:
    (folder / "mine.toml").write_text('warc = "all.warc.gz"\njobs = 9\ncookies = "jar"\nper_host = 3\n')
    assert resolve("bulk", "-", "--out", "x", "--config", "mine.toml").status == 8
    assert (stub.settings["warc"], stub.settings["per_host"]) == (False, 3)


LISTS: dict[str, tuple[bytes, list[SaveRequest]]] = {
    "lines": (b"http://h.example/a\n# b\n\nftp://h.example/c\n", [
        SaveRequest("http://h.example/a"), SaveRequest("ftp://h.example/c"),
    ]),
    "objects": (
        b'{"url": "http://h.example/a", "origin": "derived", "referrer": "http://h.example/"}\n',
        [SaveRequest("http://h.example/a", origin="derived", referrer=("http://h.example/", None))],
    ),
    "characters": ("http://h.example/é\n".encode(), [SaveRequest("http://h.example/%C3%A9")]),
    "none": (b"no-url\n", [SaveRequest("no-url")]),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTS)
def test_bulk_reads_lists_like_other_commands(name: str, stub: RunStub, folder: Path) -> None:
    octets, expected = LISTS[name]
    (folder / "list").write_bytes(octets)
    for words in (["list"], ["-i", "list"], ["-"], ["-i", "-"]):
        resolve("bulk", "--out", "x", *words, stdin=octets)
        assert stub.requests == expected, words


def test_bulk_metalink_sets_mirrors_size_and_checksum(stub: RunStub, folder: Path) -> None:
    digest = "ab" * 32
    (folder / "list").write_text(
        '<metalink xmlns="urn:ietf:params:xml:ns:metalink"><file name="x"><size>7</size>'
        f'<hash type="sha-256">{digest}</hash><url>http://h.example/a</url><url>ftp://h.example/b</url>'
        "</file></metalink>"
    )
    assert resolve("bulk", "list", "--out", "x").status == 8
    (request,) = stub.requests
    assert (request.url, request.mirrors) == ("http://h.example/a", ("ftp://h.example/b",))
    assert (request.size, request.checksum, request.path) == (7, Checksum("sha256", digest), None)


def test_bulk_fetches_list_from_url(stub: RunStub, at: dict[str, str]) -> None:
    done = resolve("bulk", f"{at['http']}/about.txt", "--out", "x")
    assert (done.status, len(stub.requests)) == (8, 2)
    assert {request.origin for request in stub.requests} == {"derived"}
    failure = resolve("bulk", f"{at['http']}/none.txt", "--out", "x")
    assert (failure.status, stub.requests) == (8, [])
    assert "404" in failure.messages


def test_bulk_passes_options_to_run(stub: RunStub, folder: Path) -> None:
    (folder / "ca.pem").write_text("")
    words = ["--per-host", "3", "--host-rate", "0.5", "--warc", "--jsonl", "--scheduler", "tls://h:8786"]
    words += ["--max-size", "9", "-t", "2", "--policy", "untrusted", "--news-server", "n.example", "-4"]
    words += ["--cacert", "ca.pem", "-H", "X-A: b", "--proxy", "none", "--out"]
    resolve("bulk", "-", *words, "x")
    assert stub.addresses == ["tls://h:8786"]
    result = stub.settings
    assert (result["client"], result["out"]) == ("client of tls://h:8786", str(folder / "x"))
    assert (result["per_host"], result["host_rate"], result["warc"], result["format"]) == (
        3,
        0.5,
        True,
        "jsonl",
    )
    assert (result["limits"].body, result["patience"].tries) == (9, 2)
    assert (result["policy"].name, result["news_server"], result["family"]) == ("untrusted", "n.example", "4")
    assert (result["cafile"], result["proxy"]) == (str(folder / "ca.pem"), "none")
    assert result["options"].headers == ((b"X-A", b"b"),)
    resolve("bulk", "-", "--out", "s3://bucket/crawl")
    assert (stub.settings["out"], stub.settings["format"]) == ("s3://bucket/crawl", "parquet")
    assert stub.addresses[-1] == "local"


@pytest.mark.parametrize("words", [(), ("--json",), ("-q",)])
def test_bulk_reports_summary(words: tuple[str, ...], stub: RunStub, folder: Path) -> None:
    done = resolve("bulk", "-", "--out", "x", *words)
    assert done.status == 8
    if words == ("--json",):
        assert [tuple(record) for record in done.records] == [contract.BULK]
        assert (done.records[0]["done"], done.err) == (4, b"")
    else:
        assert done.out == b""
        line = "4 of 7 done, 1 kept, 1 failed, 1 refused; 2.0 KiB in 1.5 s, 3 hosts, 2 slices"
        assert done.messages == ("" if words else f"resolve: {line}\n")


def test_bulk_unreadable_list_exits_with_status_3(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_stub(RunStub(ENDED._replace(exit=0)), monkeypatch)
    done = resolve("bulk", "-", "--out", "x", stdin=b'{"no": "url"}\nhttp://h.example/\n')
    assert (done.status, "line 1" in done.messages) == (3, True)
    assert resolve("bulk", "no-such-file", "--out", "x").status == 3


# ---- the settings of workers


def command_settings(*words: str, carried: PickledSecrets | None = None) -> dict[str, Any]:
    command = read(["bulk", "-", "--out", "x", "--config", "none", *words])
    assert command is not None
    return {**make_settings(command, carried or PickledSecrets({}, None))}


def test_worker_settings_can_be_pickled() -> None:
    result = command_settings("--limit", "hops=3", "--gateway", "x-foo=http://h.example/?", "--strict")
    again = pickle.loads(pickle.dumps(result))
    assert {**again, "credentials": None} == {**result, "credentials": None}


SETTINGS = {
    "h.example": HostSection("me", "secret"),
    "asks.example": HostSection("me"),
    "runs.example": HostSection("me", command=("pass", "show")),
}


async def test_pickled_logins_apply_only_to_hosts_in_list() -> None:
    carried = PickledSecrets(SETTINGS, None)
    for url in ("ftp://h.example/", "ftp://joe@asks.example/", "ftp://other.example/"):
        carried.admit(parse(url))
    assert carried.left_out_count == 2
    request = pickle.loads(pickle.dumps(command_settings(carried=carried)))["credentials"]
    assert await request("ftp", "h.example", 21, None) == Credentials(b"me", b"secret")
    assert await request("ftp", "h.example", 2121, None) is None  # a port that no URL of the list names
    assert await request("ftp", "asks.example", 21, b"joe") is None  # no prompt for a password
    assert await request("ftp", "runs.example", 21, None) is None


@pytest.mark.parametrize(
    ("scheduler", "options", "status", "message"),
    [
        ("tls://h:1", True, 8, "logins of 1 configured hosts"),
        ("local:2", True, 8, "workers cannot ask"),
        ("tcp://h:1", True, 2, "tcp://h:1"),
        ("h:1", False, 8, "logins of 2 configured hosts"),
    ],
)
def test_bulk_sends_logins_only_to_safe_schedulers(
    scheduler: str, options: bool, status: int, message: str, stub: RunStub, folder: Path
) -> None:
    for name, text in (
        ("mine.toml", '["h.example"]\nuser = "me"\npassword = "secret"\n["asks.example"]\nuser = "me"\n'),
        ("netrc", "machine n.example login me password secret\n"),
    ):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    words = ["--netrc-file", "netrc"] if options else []
    done = resolve("bulk", "-", "--out", "x", "--scheduler", scheduler, "--config", "mine.toml", *words)
    assert (done.status, message in done.messages) == (status, True), done
    if status == 8:
        assert stub.settings["credentials"].__self__.has_sources == (scheduler != "h:1")


# ---- progress


@pytest.mark.parametrize(
    ("progress", "elapsed", "columns", "line"),
    [
        (BulkProgress(0, 0, 0, {}, 0, 0, 16), 0.0, 30, "100%  0 of 0, 0 B"),
        (BulkProgress(4_000, 40, 0, {}, 0, 2, 16), 3.0, 59, "  0%  0 of 4,000, 0 B"),
        (
            BulkProgress(4_000, 40, 1_000, {"done": 990, "failed": 10}, 1 << 20, 2, 16),
            20.0,
            80,
            "[=====...............]  25%  1,000 of 4,000, 10 failed, 1.0 MiB, 1:00 left",
        ),
        (
            BulkProgress(4, 1, 4, {"done": 3, "refused": 1}, 1, 0, 16),
            20.0,
            60,
            "[====================] 100%  4 of 4, 1 refused, 1 B",
        ),
        (BulkProgress(4_000, 40, 1_000, {}, 0, 2, 16), 20.0, 8, " 25%  1,"),
        (BulkProgress(4_000, 40, 1_000, {}, 0, 1, 0), 20.0, 80, "waiting for workers: 1,000 of 4,000"),
        (BulkProgress(4_000, 40, 1_000, {}, 0, 1, 0), 20.0, 8, "waiting "),
    ],
)
def test_bulk_progress_line_fits_columns(
    progress: BulkProgress, elapsed: float, columns: int, line: str
) -> None:
    assert bulk_progress.format_line(progress, elapsed, columns) == line


HALF = BulkProgress(10, 2, 5, {"done": 5}, 1_024, 1, 16)


def test_bulk_progress_option_selects_format(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_stub(RunStub(ENDED, HALF, HALF), monkeypatch)
    assert resolve("bulk", "-q", "-", "--out", "x", "--progress", "auto").err == b""
    dots = resolve("bulk", "-q", "-", "--out", "x", "--progress", "dot").messages.splitlines()
    assert [line[:40] for line in dots] == ["[==========..........]  50%  5 of 10, 1."] * 2
    entries = records(resolve("bulk", "-q", "-", "--out", "x", "--progress", "json").err)
    assert [tuple(record) for record in entries] == [contract.BULK_PROGRESS] * 2


def test_bulk_progress_on_terminal_is_erased_at_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Sequence[str]] = []
    monkeypatch.setattr(below, "is_terminal", lambda: True)
    monkeypatch.setattr(below, "draw", drawn.append)
    install_stub(RunStub(ENDED, HALF), monkeypatch)
    resolve("bulk", "-", "--out", "x")
    assert [len(lines) for lines in drawn] == [1, 0]
    assert " 50%  5 of 10" in drawn[0][0]


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_bulk_counts_requests_while_reading_list(
    more: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Sequence[str]] = []
    monkeypatch.setattr(below, "is_terminal", lambda: True)
    monkeypatch.setattr(below, "draw", drawn.append)
    monkeypatch.setattr(bulk_progress.BulkDisplay, "_READ_INTERVAL", 0.0)
    stub = install_stub(RunStub(ENDED), monkeypatch)
    urls = b"".join(b"http://h.example/%d\n" % number for number in range(1_200))
    resolve("bulk", "-", "--out", "x", *more, stdin=urls)
    assert len(stub.requests) == (0 if more else 1_200)
    assert [lines[0] for lines in drawn if lines] == [f"{count:,} read" for count in range(1, 1_201)]
    assert drawn[-1] == ()


# ---- the plan


def test_bulk_dry_run_prints_forecast(stub: RunStub, folder: Path) -> None:
    (folder / "list").write_text("".join(f"http://h{n % 2}.example/{n}\n" for n in range(100)))
    plan = ["bulk", "list", "--dry-run", "--host-rate", "0.5"]
    done = resolve(*plan)
    assert (done.status, done.err, stub.addresses, os.listdir(folder)) == (0, b"", [], ["list"])
    lines = done.out.decode().splitlines()
    assert lines[0].startswith("100 requests to 2 hosts, in ")
    assert any(line.startswith("  16 workers ") for line in lines)
    assert any(
        line.startswith("h0.example needs ") and "with any number of workers" in line for line in lines
    )
    (record,) = resolve(*plan, "--json").records
    assert tuple(record) == contract.BULK_PLAN
    assert (record["requests"], record["hosts"], record["largest"][0]["requests"]) == (100, 2, 50)
    assert record["expected"][0].keys() == {"workers", "seconds"}


# ---- missing packages


def test_bulk_without_extra_names_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_library(monkeypatch, "distributed", "resolver.cli.cluster")
    done = resolve("bulk", "-", "--out", "x")
    needed = b"distributed 2025.1 or later (the extra bulk): pip install distributed"
    assert done == Done(13, b"", b"resolve: bulk needs " + needed + b"\n")


def test_other_commands_do_not_import_dask() -> None:
    program = """
import sys
from resolver.cli import main
main(["help", "bulk"]); main(["parse", "x:"]); main(["cat", "x:"]); main(["bulk", "--out", "x"])
print(sorted({"dask", "distributed", "fsspec", "pyarrow"} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=HANG
    )
    assert done.stdout.splitlines()[-1] == "[]"


# ---- real clusters


def start_bulk(*words: str, folder: Path) -> Program:
    variables = {**environment(), "PYTHONPATH": str(CHECKOUT)}
    return Program(
        ["bulk", "--config", "none", *words], loaded=CLUSTERS, environment=variables, folder=folder
    )


CHECKOUT = Path(__file__).parents[3]


def test_bulk_on_local_cluster_saves_files(at: dict[str, str], folder: Path) -> None:
    """`RESOLVE_TESTS=full` repeats the run with all files present (`tests.bulk`: without the command)."""
    expected = [f"{at['http']}/about.txt", f"{at['gopher']}/00/about", f"{at['http']}/none.txt"]
    (folder / "list").write_text("".join(f"{url}\n" for url in expected))
    for status, counts in ((8, (2, 0, 1)), (8, (0, 2, 1)))[: 2 if FULL else 1]:
        words = ["list", "--scheduler", "local:1", "--out", "out", "--jsonl", "--json"]
        with start_bulk(*words, folder=folder) as process:
            ended, out, err = process.ended()
        assert (ended, err) == (status, "")
        (record,) = records(out.encode())
        assert (record["done"], record["skipped"], record["failed"]) == counts
    outcomes = [
        json.loads(line)
        for path in (folder / "out/outcomes").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert {each["url"]: each["status"] for each in outcomes} == {
        expected[0]: "done",
        expected[1]: "done",
        expected[2]: "failed",
    }
    saved = {each["url"]: folder / "out/bodies" / each["path"] for each in outcomes if each["path"]}
    assert saved[expected[0]].read_bytes() == contract.ABOUT.encode()


@contextmanager
def silent_listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(HANG)
        yield listener


@pytest.mark.parametrize(
    ("stop", "status"),
    sampled(
        [
            # a terminal signals the process group
            (lambda process: os.killpg(process.pid, signal.SIGINT), 130),
            (lambda process: process.terminate(), 143),
        ],
        lambda row: None,
    ),
)
def test_bulk_signal_ends_run_with_one_message(
    stop: Callable[[Program], None], status: int, folder: Path
) -> None:
    """A worker waits for a silent peer. One line reports the signal, and the workers print nothing."""
    with silent_listener() as listener:
        port = listener.getsockname()[1]
        (folder / "list").write_text(f"http://127.0.0.1:{port}/\n")
        words = ["list", "--scheduler", "local:1", "--out", "out", "--allow-port", str(port)]
        with start_bulk(*words, folder=folder) as process:
            connection, _ = listener.accept()
            with connection:
                stop(process)
                ended, _, stderr = process.ended()
    word = "interrupted" if status == 130 else "terminated"
    assert (ended, stderr.count("\n")) == (status, 1)
    assert stderr.startswith(f"resolve: {word}: ")


def test_bulk_unreachable_scheduler_exits_with_status_4(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    words = ["-m", "resolver", "bulk", "--config", "none", "-", "--scheduler", address, "--out", "out"]
    impatient = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "0.2s"}
    done = subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=folder,
        env={**environment(), "PYTHONPATH": str(CHECKOUT), **impatient},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith(f"resolve: the scheduler at {address} ")
    assert done.stderr.count("\n") == 1
