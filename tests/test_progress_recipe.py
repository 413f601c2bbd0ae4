"""The programs of the page on progress draw an interrupted and resumed transfer, with tqdm and rich."""

from __future__ import annotations

import runpy
import sys
from functools import partial
from pathlib import Path

import pytest
import trio

import fixtures.http
import resolver
from fixtures.http import Behavior, Page
from tests.test_recipes import PROGRAM, TEXTS

PROGRAMS = dict(PROGRAM.findall(TEXTS["docs/how-to/recipes/progress.md"]))
WHOLE = Page(b"x" * 400_000, "application/octet-stream", headers=(("ETag", '"1"'),), parts=True)
#: The end of the bar: the object is complete.
DRAWN = {"bars.py": "cut: 100%|", "tasks.py": "400.0/400.0 kB"}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_progress_program_draws_resumed_transfer(
    name: str,
    nursery: trio.Nursery,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    behavior = Behavior(cut_at=200_000, times=1)
    server = await fixtures.http.serve(nursery, {"/cut": WHOLE}, behaviors={"/cut": behavior})
    quick = partial(resolver.blocking.Resolver, patience=resolver.RetryPolicy(tries=3, delay=0.001))
    monkeypatch.setattr(resolver.blocking, "Resolver", quick)
    monkeypatch.setattr(sys, "argv", [name, server.url("/cut")])
    monkeypatch.chdir(tmp_path)
    await trio.Path(name).write_text(PROGRAMS[name])
    await trio.to_thread.run_sync(runpy.run_path, name)
    said = capsys.readouterr()
    assert len(server.requests) == 2
    folder = {"bars.py": "tqdm", "tasks.py": "rich"}[name]
    assert f"done {folder}/cut" in said.out
    assert await trio.Path(folder, "cut").read_bytes() == WHOLE.content
    assert DRAWN[name] in said.out + said.err


def test_progress_page_has_both_programs() -> None:
    assert PROGRAMS.keys() == DRAWN.keys()
