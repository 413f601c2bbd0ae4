"""Pages about the user's own data: bookmarks, transfers, settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.hang import HANG
from tests.resolver.web.client import Browser, running


async def act(browser: Browser, page: str, action: str, form: dict[str, str]) -> None:
    shown = await browser.ask(page)
    answer = await browser.post(action, {"csrf": browser.server.site.keys.make_csrf(action), **form})
    assert (shown.status, answer.status) == (200, 303)


async def test_own_pages_exist() -> None:
    async with running() as (browser, log):
        for page in ("/", "/help", "/history", "/transfers", "/settings"):
            assert (page, (await browser.ask(page)).status) == (page, 200)
        assert log == []
        assert browser.server.site.gateway in (await browser.ask("/settings")).text


async def test_bookmarks_persist_across_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    url = "gopher://h.example/1<b>"
    async with running() as (browser, _):
        await act(browser, "/bookmarks", "/bookmarks", {"url": url, "title": "A <i>menu</i>"})
        await act(browser, "/bookmarks", "/bookmarks", {"url": "ftp://h.example/", "title": ""})
    file = tmp_path / "resolve" / "bookmarks.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    async with running() as (browser, _):
        page = (await browser.ask("/bookmarks")).text
        assert "A &lt;i&gt;menu&lt;/i&gt;" in page
        await act(browser, "/bookmarks", "/bookmarks", {"remove": url})
        page = (await browser.ask("/bookmarks")).text
        assert ("ftp://h.example/" in page, "menu" in page) == (True, False)


async def test_bookmarks_skip_invalid_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "resolve").mkdir()
    file = tmp_path / "resolve" / "bookmarks.jsonl"
    file.write_bytes(b"no JSON\n\xff\n" + b"[" * 100_000 + b'\n{"url": "ftp://h.example/"}\n')
    file.chmod(0o600)
    async with running() as (browser, log):
        assert "ftp://h.example/" in (await browser.ask("/bookmarks")).text
        assert log == []


async def test_save_uses_a_free_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "source" / "a.txt").write_bytes(b"octets of a file\n")
    (tmp_path / "here" / "a.txt").write_bytes(b"another\n")
    monkeypatch.chdir(tmp_path / "here")
    url = (tmp_path / "source" / "a.txt").as_uri()
    async with running() as (browser, _):
        looked = await browser.look(url)
        form = {"url": url, "from": looked.field("from")}
        await act(browser, "/transfers", "/save", form)
        with trio.fail_after(HANG):
            while (text := (await browser.ask("/transfers")).text).find('data-state="done"') < 0:
                assert 'data-state="failed"' not in text
        assert "sha256:" in text
    saved = sorted(path.read_bytes() for path in (tmp_path / "here").iterdir())
    assert saved == [b"another\n", b"octets of a file\n"]


async def test_save_of_untrusted_file_url_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_bytes(b"secret\n")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    async with running() as (browser, _):
        for from_id in ("", "forgotten"):
            form = {"url": (tmp_path / "a.txt").as_uri(), "from": from_id}
            await act(browser, "/transfers", "/save", form)
        with trio.fail_after(HANG):
            while (text := (await browser.ask("/transfers")).text).count('data-state="failed"') < 2:
                assert 'data-state="done"' not in text
        assert "S12" in text or "S10" in text
    assert list((tmp_path / "here").iterdir()) == []
