"""A list with a ledger, killed again and again: what nginx was asked for, by its own log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.sampled import FULL
from tests.servers.http_servers import DATA, HttpServer

CHECKOUT = Path(__file__).parents[2]
FILES = 200 if FULL else 40
KILLS = 20 if FULL else 4


def test_nothing_that_is_whole_is_asked_for_again(nginx: HttpServer, tmp_path: Path) -> None:
    """Each run is killed (SIGKILL) behind so many outcomes, with others under way; the cookie of its requests
    tells which run it was."""
    urls = [nginx.url(f"/data.bin?{number}") for number in range(FILES)]
    missing = nginx.url("/missing")
    (tmp_path / "list").write_text("".join(f"{url}\n" for url in (*urls[:5], missing, *urls[5:])))
    whole: list[set[str]] = []
    for run in range(KILLS):
        whole.append(whole_in(tmp_path))
        work(tmp_path, nginx, run, most=FILES // (KILLS + 1))
    whole.append(whole_in(tmp_path))
    assert 0 < len(whole[-1]) < FILES
    assert work(tmp_path, nginx, KILLS, most=None) == 8
    assert whole_in(tmp_path) == {f"/data.bin?{number}" for number in range(FILES)}
    asked = nginx.requests()
    for run, had in enumerate(whole):
        paths = [words.split()[1] for _, words, _, _, cookie in asked if cookie == f"run={run}"]
        assert not had & set(paths), run
        assert len(paths) == len(set(paths)), run
    counted = subprocess.run(
        [*command("ledger", "ledger"), "--json"], cwd=tmp_path, capture_output=True, check=True
    )
    found = json.loads(counted.stdout)
    assert (found["done"], found["failed"], found["left"], found["runs"]) == (FILES, 1, 0, KILLS + 1)


def command(*words: str) -> list[str]:
    place = f"import sys; sys.path.insert(0, {str(CHECKOUT)!r}); from resolver.cli import run; run()"
    return [sys.executable, "-c", place, *words]


def work(folder: Path, nginx: HttpServer, run: int, most: int | None) -> int:
    """One run over the list, killed behind `most` files that it brought. Its exit status."""
    words = ["get", "-i", "list", "-d", "files", "--ledger", "ledger", "--json", "-qq", "-t", "1"]
    process = subprocess.Popen(
        [*command(*words), "--allow-port", str(nginx.port), "-H", f"Cookie: run={run}"],
        cwd=folder,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    with process.stdout:
        brought = 0
        for line in process.stdout:
            brought += json.loads(line)["status"] == "done"
            if brought == most:
                process.kill()
                break
    return process.wait()


def whole_in(folder: Path) -> set[str]:
    """The requests for files that have their name."""
    names = os.listdir(folder / "files") if (folder / "files").exists() else []
    found = [name for name in names if ".part" not in name]
    assert all((folder / "files" / name).read_bytes() == DATA for name in found)
    return {f"/{name.replace('_', '?')}" for name in found}
