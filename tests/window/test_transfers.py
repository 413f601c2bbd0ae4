"""The page of transfers while files arrive, with script and without."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.hang import HANG
from tests.window.browser import Look, Viewer, overflow, violations
from tests.window.served import Opened, served
from tests.window.steps import enter, open_typed


class Slow(ThreadingHTTPServer):
    """An HTTP server: the first response is complete, later ones send half and wait for `rest`."""

    def __init__(self) -> None:
        self.rest = threading.Event()
        self.asked = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked += 1
                self.send_response(200)
                self.send_header("Content-Length", "20")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(b"x" * 10)
                self.wfile.flush()
                if server.asked > 1:
                    server.rest.wait(HANG)
                self.wfile.write(b"x" * 10)

            def log_message(self, format: str, *args: object) -> None:
                """Log nothing."""

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/a.bin"


@pytest.fixture
def slow() -> Iterator[Slow]:
    server = Slow()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.rest.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def window(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opened]:
    """Run a separate server for this test: files are saved in its working directory."""
    monkeypatch.chdir(tmp_path)
    with served() as opened:
        yield opened


def save_url(page: Page, window: Opened, slow: Slow) -> None:
    open_typed(page, window, slow.url)
    page.get_by_role("button", name="save", exact=True).click()
    page.wait_for_url("**/transfers")


def test_transfers_page_updates_without_reload(
    viewer: Viewer, window: Opened, slow: Slow, tmp_path: Path
) -> None:
    page = viewer.page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    save_url(page, window, slow)
    row = page.locator(".transfer").first
    bar = row.get_by_role("progressbar")
    expect(bar).to_have_attribute("value", "50")
    page.evaluate("window.kept = 1")
    assert violations(page) == []
    slow.rest.set()
    expect(row).to_have_attribute("data-state", "done")
    expect(row).to_contain_text("sha256:")
    expect(row.get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("button", name="Pause all")).to_have_count(0)
    expect(page.get_by_role("status")).to_have_text("a.bin: done")
    assert page.evaluate("window.kept") == 1
    assert violations(page) == []
    page.set_viewport_size({"width": 320, "height": 900})
    assert overflow(page) <= 0
    assert complaints == []
    assert (tmp_path / "a.bin").read_bytes() == b"x" * 20


def test_transfer_is_paused_and_resumed(viewer: Viewer, window: Opened, slow: Slow, tmp_path: Path) -> None:
    """The script creates these buttons."""
    page = viewer.page()
    save_url(page, window, slow)
    row = page.locator(".transfer").first
    row.get_by_role("button", name=re.compile("^pause")).click()
    expect(row).to_have_attribute("data-state", "paused")
    slow.rest.set()
    row.get_by_role("button", name=re.compile("^resume")).click()
    expect(row).to_have_attribute("data-state", "done")


def test_transfers_page_without_script_refreshes(
    viewer: Viewer, window: Opened, slow: Slow, tmp_path: Path
) -> None:
    page = viewer.page(Look(script=False))
    save_url(page, window, slow)
    row = page.locator(".transfer").first
    expect(row).to_have_attribute("data-state", "running")
    slow.rest.set()
    expect(row).to_have_attribute("data-state", "done")
    expect(page.locator("meta[http-equiv=refresh]")).to_have_count(0)


def test_transfer_started_by_one_server_is_resumed_by_the_next(
    viewer: Viewer, chromium: Browser, slow: Slow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = str(tmp_path / "state" / "transfers.db")
    page = viewer.page()
    with served(ledger=ledger) as window:
        save_url(page, window, slow)
        expect(page.get_by_role("progressbar")).to_have_attribute("value", "50")
    with served(ledger=ledger) as window:
        enter(page, window)
        page.get_by_role("link", name="transfers").click()
        row = page.locator(".transfer").first
        expect(row).to_have_attribute("data-state", "paused")
        slow.rest.set()
        row.get_by_role("button", name=re.compile("^resume")).click()
        expect(row).to_have_attribute("data-state", "done")
    assert (tmp_path / "a.bin").read_bytes() == b"x" * 20
