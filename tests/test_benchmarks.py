"""Tests of the benchmarks: the order of runs, the computed figures, and that every row works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bench import __main__ as benchmarks
from bench import figures, per_fetch, programs
from bench.distance import run_short_relay
from bench.row import Aim, Bound, Contestant, Measure, Row, environment
from bench.rows import ROWS, cat, small, trees
from bench.running import Failed, Sample, Watcher, find_error_line, run, run_in_turn
from tests.sampled import sampled

MIB = 1_048_576


def contestant(name: str, code: str = "", *, count: int = 1, is_timed: bool = False) -> Contestant:
    return Contestant(name, [sys.executable, "-c", code], count, is_timed)


def test_contestants_run_in_rotating_order() -> None:
    ran: list[str] = []

    def note(each: Contestant) -> Sample:
        ran.append(each.name)
        return Sample(1, 1, 1)

    samples, failed = run_in_turn([contestant(name) for name in "abc"], 3, note)
    assert "".join(ran) == "abcbcacab"
    assert {name: len(runs) for name, runs in samples.items()} == {"a": 3, "b": 3, "c": 3}
    assert failed == {}


def test_rounds_with_several_runs_alternate() -> None:
    ran: list[str] = []

    def note(each: Contestant) -> Sample:
        ran.append(each.name)
        return Sample(1, 1, 1)

    run_in_turn([contestant(name) for name in "ab"], 2, note, 2)
    assert "".join(ran) == "ababbaba"


def test_rounds_stop_when_enough() -> None:
    samples, _ = run_in_turn([contestant("a")], 5, lambda each: Sample(1, 1, 1), 2, lambda: True)
    assert len(samples["a"]) == 2


def test_failed_contestant_is_dropped_and_others_continue() -> None:
    ran: list[str] = []

    def fail_second(each: Contestant) -> Sample:
        ran.append(each.name)
        if each.name == "b" and ran.count("b") == 2:
            raise Failed("exit status 7: no")
        return Sample(1, 1, 1)

    samples, failed = run_in_turn([contestant(name) for name in "ab"], 4, fail_second)
    assert ran.count("b") == 2
    assert failed == {"b": "exit status 7: no"}
    assert samples.keys() == {"a"}
    assert len(samples["a"]) == 4


def test_reported_measurements_are_used() -> None:
    code = """print('{"seconds": 2.5, "processor": 1.5, "octets": 3, "peak": 4}')"""
    assert run(contestant("a", code, is_timed=True)) == (2.5, 1.5, 4)


def test_failed_process_reports_last_error_line() -> None:
    code = "import sys; print('first\\nno such file', file=sys.stderr); sys.exit(7)"
    with pytest.raises(Failed, match=r"^exit status 7: no such file$"):
        run(contestant("a", code))


@pytest.mark.parametrize(
    ("errors", "line"),
    [
        ("", "no output"),
        ("one\ntwo\n", "two"),
        ("  | ExceptionGroup\n    | resolver.NotFound: no\n    | OSError: why\n    +-----\n", "OSError: why"),
        ("curl: (22) not found\n 85 -- 20480 0 32\n", "curl: (22) not found"),
    ],
)
def test_error_line_is_last_reported_error(errors: str, line: str) -> None:
    assert find_error_line(errors) == line


def test_run_calls_before_and_after() -> None:
    done: list[str] = []
    each = Contestant(
        "a",
        [sys.executable, "-c", ""],
        1,
        before=lambda: done.append("before"),
        after=lambda: done.append("after"),
    )
    run(each)
    assert done == ["before", "after"]


def test_watcher_measures_peak_memory_of_process() -> None:
    ours = bytearray(b"x") * (200 * MIB)
    code = "held = b'x' * (60 << 20); del held; print('there', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        watcher = Watcher(process.pid)
        process.stdout.readline()
        assert 60 * 1024 < watcher.stop() < 160 * 1024
        process.kill()
    assert len(ours) == 200 * MIB


@pytest.mark.parametrize(
    ("measure", "value"), [("rate", 20), ("seconds", 0.5), ("processor", 25.6), ("over", 50), ("peak", 2)]
)
def test_value_of_measure_is_computed_from_sample(measure: Measure, value: float) -> None:
    assert figures.compute_value(measure, 10, Sample(0.5, 0.25, 2048), 0.2) == pytest.approx(value)


def test_ratio_compares_runs_of_one_round() -> None:
    """The machine was ten times slower in the second round: the medians alone would give 1."""
    assert figures.compute_ratio([10, 100, 10], [20, 200, 10]) == 0.5


def row(measure: Measure, *aims: Aim | Bound) -> Row:
    return Row("a row", "{:,} things", measure, 1_000, 1, ROWS["gopher"].open, aims)


def test_row_figures_and_aims_are_evaluated() -> None:
    runs = {"ours": [Sample(2, 1, 0), Sample(1, 1, 0), Sample(4, 3, 0)], "peer": [Sample(1, 0.5, 0)] * 3}
    result = figures.evaluate_row(
        row("rate", Aim("ours", "peer", 0.4), Aim("ours", "peer", 0.6), Aim("ours", "gone", 1)),
        1_000,
        [contestant("ours", count=1_000), contestant("peer", count=500)],
        runs,
        {"gone": "not installed"},
    )
    ours, peer = result["contestants"]
    assert (ours["median"], ours["low"], ours["high"]) == (500, 250, 1_000)
    assert ours["processor"] == pytest.approx(1.0)
    assert peer["median"] == 500
    assert [(aim["least"], aim["value"], aim["reached"]) for aim in result["aims"]] == [
        (0.4, 1.0, True),
        (0.6, 1.0, True),
    ]
    assert list(figures.format_row(result)) == [
        "a row: 1,000 things (runs: 3)",
        "  ours       500 /s  (250 to 1,000); 1.00 ms of the processor each",
        "  peer       500 /s  (500 to 500); 1.00 ms of the processor each",
        "  gone: not measured: not installed",
        "  ours / peer: 1.00; the target (at least 0.4) is reached",
        "  ours / peer: 1.00; the target (at least 0.6) is reached",
    ]


def test_common_overhead_is_subtracted() -> None:
    runs = {
        "bare": [Sample(0, 0.01, 0), Sample(0, 0.02, 0), Sample(0, 0.09, 0)],
        "trio": [Sample(0, 0.12, 0)] * 3,
        "ours": [Sample(0, 0.22, 0)] * 3,
    }
    result = figures.evaluate_row(
        row("over", Aim("ours", "trio", maximum=1.5), Bound("ours", 250)),
        1,
        [contestant(name) for name in runs],
        runs,
        {},
    )
    assert [round(each["median"]) for each in result["contestants"]] == [0, 100, 200]
    assert [(round(aim["value"]), aim["reached"]) for aim in result["aims"]] == [(2, False), (200, True)]


def test_missing_program_is_reported_and_rest_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(small, "find_program", lambda name: None)
    output = tmp_path / "results.json"
    benchmarks.main(["gopher", "--tiny", "--json", str(output)])
    stdout = capsys.readouterr().out
    assert "curl -Z: not measured: " in stdout
    assert "\n  resolver " in stdout
    results = json.loads(output.read_text())
    assert [each["name"] for each in results["rows"]] == ["gopher"]
    assert [each["name"] for each in results["rows"][0]["contestants"]] == ["resolver", "trio, bare"]
    assert results["rows"][0]["missing"] == {"curl -Z": "curl is not installed"}
    assert results["versions"]["trio"]


def test_missing_server_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RESOLVE_SERVERS_ROOT", str(tmp_path))
    monkeypatch.delenv("RESOLVE_SERVERS", raising=False)
    if Path("/usr/sbin/nginx").exists():
        pytest.skip("nginx is installed on this machine")
    row = benchmarks.measure(ROWS["http"], 1, tmp_path, tiny=True)
    assert row["contestants"] == []
    assert "make servers" in row["missing"]["all of it"]
    assert programs.versions()["nginx"] == "not there"


def test_unknown_row_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        benchmarks.main(["nothing"])
    assert "row nothing" in capsys.readouterr().err


#: A row that fetches a fixed number of objects, and a row of another measure.
TRIED = sampled(ROWS, lambda name: ROWS[name].measure in ("rate", "seconds"))


@pytest.mark.slow
@pytest.mark.parametrize("name", TRIED)
def test_row_runs_with_tiny_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row runs with a tiny part of the work; missing programs are skipped, and no contestant fails."""
    for module in (trees, cat):
        monkeypatch.setattr(module, "run_relay", run_short_relay)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # servers drop root privileges
        result = benchmarks.measure(ROWS[name], 2, Path(folder), tiny=True)
    if "all of it" in result["missing"]:
        pytest.skip(result["missing"]["all of it"])
    assert not any("exit status" in reason for reason in result["missing"].values()), result["missing"]
    assert any(each["name"].startswith(("resolve", "Resolver")) for each in result["contestants"])
    assert all(each["samples"] for each in result["contestants"])


def test_aims_name_existing_contestants(tmp_path: Path) -> None:
    """A misspelled name would never be compared. No program is started."""
    words = "".join(path.read_text() for path in Path(small.__file__).parent.glob("*.py"))
    for each in ROWS.values():
        for aim in each.aims:
            assert f'"{aim.of}"' in words
            assert not isinstance(aim, Aim) or f'"{aim.to}"' in words or aim.to == "curl, then sync"


CHECKOUT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (f"{CHECKOUT}/resolver/network/pool.py", "resolver/network"),
        (f"{CHECKOUT}/resolver/version.py", "resolver/version"),
        (f"{CHECKOUT}/bench/clients.py", "who asks"),
        (f"{CHECKOUT}/.venv/lib/python3.11/site-packages/trio/_socket.py", "trio"),
        ("/usr/lib/python3.11/site-packages/attr.py", "attr"),
        ("/usr/lib/python3.11/urllib/parse.py", "Python"),
        ("~", "Python"),
    ],
)
def test_call_is_counted_for_its_package(path: str, name: str) -> None:
    assert per_fetch.find_package(path) == name


def test_calls_of_c_functions_count_for_caller() -> None:
    pool, trio = f"{CHECKOUT}/resolver/network/pool.py", "/x/site-packages/trio/_core.py"
    calls = per_fetch.count_by_package(
        {
            (pool, 1, "take"): (2, 2, 0.0, 0.0, {}),
            (trio, 1, "run"): (1, 3, 0.0, 0.0, {}),
            ("~", 0, "<len>"): (
                9,
                9,
                0.0,
                0.0,
                {(pool, 1, "take"): (5, 5, 0.0, 0.0), (trio, 1, "run"): (4, 4, 0.0, 0.0)},
            ),
        }
    )
    assert calls == {"resolver/network": 7, "trio": 7}


def test_fetch_calls_are_counted_by_package() -> None:
    """Calls are counted, not timed: two runs have the same count on any machine."""
    fetch = per_fetch.Fetch("file", ("ours",), per_fetch.FETCHES[1].open, at_once=1)
    with fetch.open(CHECKOUT, 1) as url:
        words = [sys.executable, "-m", "bench.per_fetch", "gopher", url, "0", "1", "1"]
        done = subprocess.run(words, cwd=CHECKOUT, env=environment(), capture_output=True, check=True)
    calls = json.loads(done.stdout)
    assert calls["trio"] > 50
    assert "resolver/network" not in calls


def test_list_file_calls_are_counted_by_package(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with per_fetch.FETCHES[1].open(tmp_path, 1) as url:
        words = [sys.executable, "-m", "bench.per_fetch", "get", url, "0", "1", "8", str(target)]
        done = subprocess.run(words, cwd=CHECKOUT, env=environment(), capture_output=True, check=True)
    calls = json.loads(done.stdout)
    assert calls["resolver/transfer"] > 10
    assert calls["resolver/files"] > 10
    assert len(list(target.iterdir())) == per_fetch.FEW


def test_versions_include_every_participant() -> None:
    found = programs.versions()
    assert found["Python"].startswith("3.")
    assert {"trio", "httpx", "aiohttp", "curl", "nginx", "vsftpd", "inn", "kernel", "OpenSSL"} <= found.keys()
