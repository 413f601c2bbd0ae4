"""A list with a ledger, killed again and again: what nginx was asked for, by its own log."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.sampled import FULL
from tests.servers.http_servers import DATA, HttpServer
from tests.servers.killed import command, save_list

FILES = 200 if FULL else 40
KILLS = 20 if FULL else 2


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
    assert whole[-1]
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


def work(folder: Path, nginx: HttpServer, run: int, most: int | None) -> int:
    """One run over the list; its exit status."""
    return save_list(folder, "--allow-port", str(nginx.port), "-H", f"Cookie: run={run}", most=most)


def whole_in(folder: Path) -> set[str]:
    """The requests for files that have their name."""
    names = os.listdir(folder / "files") if (folder / "files").exists() else []
    found = [name for name in names if ".part" not in name]
    assert all((folder / "files" / name).read_bytes() == DATA for name in found)
    return {f"/{name.replace('_', '?')}" for name in found}
