"""`docs/explanation/benchmarks.md`: its tables and pictures match the shipped figures."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import page, plots, sweeps
from bench.distance import run_short_relay
from bench.rows import ROWS
from tests.sampled import sampled

CHECKOUT = Path(__file__).parents[1]
TEXT = page.PAGE.read_text(encoding="utf-8")


def test_tables_equal_shipped_figures() -> None:
    """Run `make plots` to update them."""
    assert page.update_tables(TEXT, page.read_figures()) == TEXT


def test_page_has_every_table_once() -> None:
    assert sorted(re.findall(r"<!-- made: (\w+) -->", TEXT)) == sorted(page.TABLES)


@pytest.mark.parametrize("name", plots.PICTURES)
def test_picture_has_hash_of_shipped_figures(name: str) -> None:
    """Run `make plots` to draw it again."""
    picture = (plots.SPEED / f"{name}.svg").read_text(encoding="utf-8")
    assert f"<!-- drawn from {plots.compute_checksum(plots.DATA.read_bytes(), name)} by matplotlib" in picture
    assert f"](benchmarks/{name}.svg)" in TEXT


def test_pictures_are_drawn_reproducibly(tmp_path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        pytest.skip("matplotlib is not installed: the group `plots`")
    drawn: list[dict[str, bytes]] = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-m", "bench.plots", str(tmp_path / name)]
        subprocess.run(command, cwd=CHECKOUT, check=True)
        drawn.append({each: (tmp_path / name / f"{each}.svg").read_bytes() for each in plots.PICTURES})
    assert drawn[0] == drawn[1]
    for name, octets in drawn[0].items():
        shipped = (plots.SPEED / f"{name}.svg").read_bytes()
        if shipped.split(b"-->")[0] == octets.split(b"-->")[0]:  # drawn by the same matplotlib
            assert octets == shipped


def test_picture_shows_every_client_without_external_links() -> None:
    panels = {panel["name"]: panel for panel in json.loads(plots.DATA.read_bytes())["panels"]}
    for name, shown in plots.PICTURES.items():
        picture = (plots.SPEED / f"{name}.svg").read_text(encoding="utf-8")
        for panel in shown:
            for line in panels[panel]["lines"]:
                assert f">{line['name']}</text>" in picture
        assert "prefers-color-scheme:dark" in picture
        assert not re.search(r"(href|src|url)\s*[=(]\s*[\"']?https?:", picture)


def test_sweeps_are_all_drawn() -> None:
    assert sorted(each.name for each in sweeps.SWEEPS) == sorted(
        name for shown in plots.PICTURES.values() for name in shown
    )


def test_page_explains_bound_of_every_row() -> None:
    _, _, section = TEXT.partition("## The bottleneck of each row\n")
    prefixes = re.findall(r"^\| `([\w-]+)…?`", section.partition("\n## ")[0], re.MULTILINE)
    assert [name for name in ROWS if not any(name.startswith(prefix) for prefix in prefixes)] == []
    assert all(any(name.startswith(prefix) for name in ROWS) for prefix in prefixes)


SAMPLED_SWEEPS = sampled(sweeps.SWEEPS, lambda sweep: None)


@pytest.mark.slow
@pytest.mark.parametrize("sweep", SAMPLED_SWEEPS, ids=lambda sweep: sweep.name)
def test_sweep_runs_with_tiny_work(sweep: sweeps.Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep runs with two places and a few objects of each."""
    monkeypatch.setattr(sweeps, "run_relay", run_short_relay)
    panel = sweeps.run_sweep(sweep, 1, tiny=True)
    if "all of it" in panel["missing"]:
        pytest.skip(panel["missing"]["all of it"])
    assert not any("exit status" in reason for reason in panel["missing"].values()), panel["missing"]
    assert len(panel["places"]) == 2
    for line in panel["lines"]:
        assert all(value is not None and value > 0 for value in line["values"]), line


def panel(across: sweeps.Across, *lines: sweeps.Line) -> sweeps.Panel:
    return {
        "name": "a",
        "title": "a title",
        "across": across,
        "unit": "",
        "places": [1, 2, 4],
        "lines": list(lines),
        "missing": {},
    }


def test_winners_table_shows_ratios() -> None:
    lines = (
        sweeps.Line(name="resolver", values=[100, 200, 400]),
        sweeps.Line(name="peer", values=[300, 100, None]),
    )
    rate, time = panel("at once", *lines), panel("ms", *lines)
    assert list(page.list_comparisons({"sweeps": {"panels": [rate]}}))[2:] == [
        "| a title | peer | 1 (3.0 ×) | 2 (2.0 ×) |"
    ]
    assert list(page.list_comparisons({"sweeps": {"panels": [time]}}))[2:] == [
        "| a title | peer | 2 ms (2.0 ×) | 1 ms (3.0 ×) |"
    ]


def test_machines_table_shows_ratios_of_other_machines() -> None:
    aims = [
        {"of": "resolver", "to": "aiohttp", "value": 0.5},
        {"of": "resolve cat", "to": "", "value": 31.27},
    ]
    data = {
        "machines": {"another, before": {"http: resolver / aiohttp": 0.42}, "another, now": {}},
        "rows": {"rows": [{"name": "http", "aims": aims}]},
    }
    assert list(page.list_ratios(data)) == [
        "| ratio | above | another, before | another, now |",
        "|---|---|---|---|",
        "| http: resolver / aiohttp | 0.50 | 0.42 | – |",
    ]


def test_calls_table_shows_packages_before_and_after() -> None:
    data = {
        "before": {"calls": {"http": {"ours": {"h11": 90.0, "resolver/network": 30.4, "trio": 2.0}}}},
        "rows": {"calls": {"http": {"ours": {"h11": 80.0, "trio": 3.0}}, "nntp": "INN is not there"}},
    }
    assert list(page.list_calls(data)) == [
        "| package | http, before | http |",
        "|---|---|---|",
        "| all | **122** | **83** |",
        "| h11 | 90 | 80 |",
        "| `resolver/network` | 30 | 0 |",
        "| others | 2 | 3 |",
    ]
    assert "| nntp | not counted: INN is not there | |" in list(page.list_clients(data))
