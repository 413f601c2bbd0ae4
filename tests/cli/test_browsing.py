"""`resolve open` of what a browser shows: the window that runs, and the one that is begun."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.begun import WINDOWS, Program
from tests.cli.command import resolve
from tests.fresh import environment
from tests.hang import HANG
from tests.resolver.warc.archives import WARC
from tests.resolver.window.client import OWN

URL = "gopher://me:secret@127.0.0.1/1/a%20b"
ENTRY = re.compile(r"http://127\.0\.0\.1:([0-9]+)/enter\?t=[\w-]{43}")


@pytest.fixture(name="own")
def _own(tmp_path: Path) -> dict[str, str]:
    """An environment in which no browser is found, and no window of others."""
    known = {name: text for name, text in environment().items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return {**known, "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/no/such", "TERM": "", "BROWSER": ""}


@contextmanager
def program(own: dict[str, str], *words: str) -> Iterator[Program]:
    with (
        open(os.devnull, "rb") as nothing,
        Program(
            [*words, "--config", "none"], loaded=WINDOWS, environment=own, stdin=nothing.fileno()
        ) as started,
    ):
        try:
            yield started
        finally:
            started.kill()


def entry_of(started: Program) -> re.Match[str]:
    said = started.stdout.readline().decode().strip()
    found = ENTRY.fullmatch(said)
    assert found is not None, said
    return found


def leads_to(address: str) -> str:
    with urlopen(address, timeout=HANG) as page:
        text: str = page.read().decode()
    return text


def test_what_is_opened_goes_to_the_window_that_runs(own: dict[str, str], tmp_path: Path) -> None:
    """The browser is told a way in and not the URL, which whoever sees processes would read."""
    script = tmp_path / "browser"
    script.write_text(f"#!/bin/sh\necho \"$@\" >> '{tmp_path}/shown'\n")
    script.chmod(0o755)
    with program(own, "serve") as window:
        first = entry_of(window)
        place = json.loads((tmp_path / "resolve" / "serve.json").read_text())
        assert (place["port"], place["process"]) == (int(first[1]), window.pid)
        with program({**own, "BROWSER": f"{script} %s"}, "open", URL) as opened:
            status, out, err = opened.ended()
        assert (status, out) == (0, "")
        assert (err.count("\n"), f"process {window.pid}" in err) == (1, True)
        shown = (tmp_path / "shown").read_text().strip()
        assert (ENTRY.fullmatch(shown) or [""] * 2)[1] == first[1]
        assert "/look?url=gopher%3A%2F%2Fme%3Asecret%40127.0.0.1%2F1%2Fa%2520b" in leads_to(shown)
        with program(own, "open", "-q", URL) as told:
            assert entry_of(told)[1] == first[1]
            assert told.ended() == (0, "", "")
        with program(own, "serve") as second:
            assert entry_of(second)[1] == first[1]
            assert second.ended()[0] == 0
        with program(own, "serve", "--page-size", "9") as other:
            assert entry_of(other)[1] != first[1]
        assert (tmp_path / "resolve" / "serve.json").exists()
        os.kill(window.pid, signal.SIGTERM)
        assert window.ended() == (143, "", "")
    assert not (tmp_path / "resolve" / "serve.json").exists()


@pytest.mark.parametrize("killed", [False, True])
def test_where_none_runs_one_is_begun(killed: bool, own: dict[str, str], tmp_path: Path) -> None:
    """Also where one was killed, and its file is there."""
    if killed:
        with program(own, "serve") as gone:
            entry_of(gone)
            gone.kill()
            gone.wait()
        assert (tmp_path / "resolve" / "serve.json").exists()
    with program(own, "open", URL) as opened:
        assert "/look?url=gopher%3A%2F%2Fme" in leads_to(entry_of(opened)[0])
        place = json.loads((tmp_path / "resolve" / "serve.json").read_text())
        assert place["process"] == opened.pid
        os.kill(opened.pid, signal.SIGTERM)
        status, out, err = opened.ended()
    assert (status, out) == (143, "")
    assert (err.count("\n"), "no window" in err) == (1, True)
    assert not (tmp_path / "resolve" / "serve.json").exists()


def start_page(entry: re.Match[str]) -> str:
    """What a browser that came in there sees first."""
    with urlopen(entry[0], timeout=HANG) as entered:
        cookie = entered.headers["Set-Cookie"].partition(";")[0]
    asked = Request(f"http://127.0.0.1:{entry[1]}/", headers={**OWN, "Cookie": cookie})
    with urlopen(asked, timeout=HANG) as page:
        text: str = page.read().decode()
    return text


@pytest.mark.parametrize("verb", ["open", "serve"])
def test_an_archive_has_a_window_of_its_own(verb: str, own: dict[str, str], tmp_path: Path) -> None:
    archived = ["--from-warc", str(WARC / "gopher.warc.gz"), "--at", "2026-11"]
    with program(own, "serve") as window:
        first = entry_of(window)
        assert "rchive" not in start_page(first)
        words = [verb, *(["gopher://127.0.0.1/"] if verb == "open" else []), *archived]
        with program(own, *words) as opened:
            entry = entry_of(opened)
            assert entry[1] != first[1]
            assert "2026-11-30 23:59:59 UTC" in start_page(entry)
            os.kill(opened.pid, signal.SIGTERM)
            status, _, err = opened.ended()
        assert (status, "this is one" in err) == (143, verb == "open")
        place = json.loads((tmp_path / "resolve" / "serve.json").read_text())
        assert place["process"] == window.pid  # it is not found in place of this one


def test_what_nobody_chose_is_judged_before() -> None:
    done = resolve("open", "--origin", "derived", "http://127.0.0.1/")
    assert (done.status, done.out) == (9, b"")
    assert "S08" in done.told
