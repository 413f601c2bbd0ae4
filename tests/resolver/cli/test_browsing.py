"""`resolve open` of URLs for the web UI: in a running instance, and in a new instance."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from select import select
from urllib.parse import unquote
from urllib.request import Request, urlopen

import pytest

from tests.begun import WINDOWS, Program
from tests.fresh import environment
from tests.hang import HANG
from tests.resolver.cli.command import resolve
from tests.resolver.warc.archives import WARC
from tests.resolver.web.client import SAME_ORIGIN

URL = "gopher://me:secret@127.0.0.1/1/a%20b"
ENTRY = re.compile(r"http://127\.0\.0\.1:([0-9]+)/enter\?t=[\w-]{43}")


@pytest.fixture(name="variables")
def _variables(tmp_path: Path) -> dict[str, str]:
    """Return an environment without a browser and without a running web UI."""
    variables = {
        name: text for name, text in environment().items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")
    }
    return {**variables, "XDG_RUNTIME_DIR": str(tmp_path), "PATH": "/no/such", "TERM": "", "BROWSER": ""}


@contextmanager
def program(variables: dict[str, str], *words: str) -> Iterator[Program]:
    with (
        open(os.devnull, "rb") as nothing,
        Program(
            [*words, "--config", "none"], loaded=WINDOWS, environment=variables, stdin=nothing.fileno()
        ) as started,
    ):
        try:
            yield started
        finally:
            started.kill()


def read_entry(started: Program) -> re.Match[str]:
    text = started.stdout.readline().decode().strip()
    match = ENTRY.fullmatch(text)
    assert match is not None, text
    return match


def fetch_text(address: str) -> str:
    with urlopen(address, timeout=HANG) as page:
        text: str = page.read().decode()
    return text


class ShownBrowser:
    """A browser that reports its command line and ends; `words` is the value of `BROWSER`."""

    def __init__(self, folder: Path) -> None:
        os.mkfifo(folder / "shown")
        self._fd = os.open(folder / "shown", os.O_RDWR)
        script = folder / "browser"
        script.write_text(f"#!/bin/sh\necho \"$@\" > '{folder}/shown'\n")
        script.chmod(0o755)
        self.words = f"{script} %s"

    def address(self) -> str:
        """Return the target of the redirect page, which only its owner can read."""
        assert select([self._fd], [], [], HANG)[0]
        text = os.read(self._fd, 65_536).decode().strip()
        assert (text[:8], "/enter" in text) == ("file:///", False)
        page = Path(unquote(text.removeprefix("file://")))
        assert (page.stat().st_mode & 0o777, page.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        match = ENTRY.search(page.read_text())
        assert match is not None
        return match[0]

    def close(self) -> None:
        os.close(self._fd)


@pytest.fixture(name="shown")
def _shown(tmp_path: Path) -> Iterator[ShownBrowser]:
    with closing(ShownBrowser(tmp_path)) as result:
        yield result


@pytest.mark.parametrize("words", [("serve", "--open"), ("open", URL)])
def test_browser_command_line_of_new_web_ui_has_no_token(
    words: tuple[str, ...], variables: dict[str, str], shown: ShownBrowser
) -> None:
    with program({**variables, "BROWSER": shown.words}, *words) as window:
        assert 'content="0;url=/' in fetch_text(shown.address())
        os.kill(window.pid, signal.SIGTERM)
        assert window.ended()[0] == 143


def test_browser_without_runtime_directory_is_not_started(
    variables: dict[str, str], shown: ShownBrowser, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    variables = {**variables, "XDG_RUNTIME_DIR": str(tmp_path / "file"), "BROWSER": shown.words}
    with program(variables, "open", URL) as window:
        assert "/look?url=gopher" in fetch_text(read_entry(window)[0])
        os.kill(window.pid, signal.SIGTERM)
        assert "redirect page for the browser" in window.ended()[2]


def test_open_uses_running_web_ui(variables: dict[str, str], shown: ShownBrowser, tmp_path: Path) -> None:
    """The browser's command line has an entry address and not the URL: other users can list processes."""
    with program(variables, "serve") as window:
        first = read_entry(window)
        place = json.loads((tmp_path / "resolve" / "serve.json").read_text())
        assert (place["port"], place["process"]) == (int(first[1]), window.pid)
        with program({**variables, "BROWSER": shown.words}, "open", URL) as opened:
            status, out, err = opened.ended()
        assert (status, out) == (0, "")
        assert (err.count("\n"), f"process {window.pid}" in err) == (1, True)
        address = shown.address()
        assert (ENTRY.fullmatch(address) or [""] * 2)[1] == first[1]
        assert "/look?url=gopher%3A%2F%2Fme%3Asecret%40127.0.0.1%2F1%2Fa%2520b" in fetch_text(address)
        with program(variables, "open", "-q", URL) as process:
            assert read_entry(process)[1] == first[1]
            assert process.ended() == (0, "", "")
        with program(variables, "serve") as second:
            assert read_entry(second)[1] == first[1]
            assert second.ended()[0] == 0
        with program(variables, "serve", "--page-size", "9") as other:
            assert read_entry(other)[1] != first[1]
        assert (tmp_path / "resolve" / "serve.json").exists()
        os.kill(window.pid, signal.SIGTERM)
        assert window.ended() == (143, "", "")
    assert not (tmp_path / "resolve" / "serve.json").exists()


@pytest.mark.parametrize("killed", [False, True])
def test_open_without_running_web_ui_starts_instance(
    killed: bool, variables: dict[str, str], tmp_path: Path
) -> None:
    """A killed instance leaves its serve.json behind."""
    if killed:
        with program(variables, "serve") as process:
            read_entry(process)
            process.kill()
            process.wait()
        assert (tmp_path / "resolve" / "serve.json").exists()
    with program(variables, "open", URL) as opened:
        assert "/look?url=gopher%3A%2F%2Fme" in fetch_text(read_entry(opened)[0])
        place = json.loads((tmp_path / "resolve" / "serve.json").read_text())
        assert place["process"] == opened.pid
        os.kill(opened.pid, signal.SIGTERM)
        status, out, err = opened.ended()
    assert (status, out) == (143, "")
    assert (err.count("\n"), "no server" in err) == (1, True)
    assert not (tmp_path / "resolve" / "serve.json").exists()


def start_page(entry: re.Match[str]) -> str:
    """Return the first page that a browser sees after the entry address."""
    with urlopen(entry[0], timeout=HANG) as entered:
        cookie = entered.headers["Set-Cookie"].partition(";")[0]
    request = Request(f"http://127.0.0.1:{entry[1]}/", headers={**SAME_ORIGIN, "Cookie": cookie})
    with urlopen(request, timeout=HANG) as page:
        text: str = page.read().decode()
    return text


@pytest.mark.parametrize("verb", ["open", "serve"])
def test_from_warc_starts_separate_web_ui(verb: str, variables: dict[str, str], tmp_path: Path) -> None:
    archived = ["--from-warc", str(WARC / "gopher.warc.gz"), "--at", "2026-11"]
    with program(variables, "serve") as window:
        first = read_entry(window)
        assert "rchive" not in start_page(first)
        words = [verb, *(["gopher://127.0.0.1/"] if verb == "open" else []), *archived]
        with program(variables, *words) as opened:
            entry = read_entry(opened)
            assert entry[1] != first[1]
            assert "2026-11-30 23:59:59 UTC" in start_page(entry)
            os.kill(opened.pid, signal.SIGTERM)
            status, _, err = opened.ended()
        assert (status, "serving until" in err) == (143, verb == "open")
        place = json.loads((tmp_path / "resolve" / "serve.json").read_text())
        assert place["process"] == window.pid  # the new instance has not replaced the registered instance


def test_open_derived_url_is_checked_against_policy() -> None:
    done = resolve("open", "--origin", "derived", "http://127.0.0.1/")
    assert (done.status, done.out) == (9, b"")
    assert "S08" in done.messages
