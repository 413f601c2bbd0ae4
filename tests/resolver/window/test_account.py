"""What another server knows of what was saved: the ledger, which outlives the one that wrote it."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import trio

from resolver.ledger.report import newest, read
from tests.resolver.window.client import Browser, running
from tests.resolver.window.test_events import Slow, save, slow

#: Seconds: while somebody asks all the time, the clock of the tests hardly goes, and nothing becomes due.
LOOK_AGAIN = 0.05


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files are saved."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def place(here: Path) -> Path:
    return here.parent / "state" / "resolve" / "transfers.db"


@pytest.fixture
def ledger(place: Path) -> str:
    return str(place)


async def rows(browser: Browser) -> list[str]:
    """The states that the page has, the newest first."""
    return re.findall(r'data-state="(\w+)"', (await browser.ask("/transfers")).text)


async def until(browser: Browser, holds: Callable[[list[str]], bool]) -> None:
    while not holds(await rows(browser)):  # noqa: ASYNC110
        await trio.sleep(LOOK_AGAIN)


async def act(browser: Browser, **form: str) -> None:
    csrf = browser.server.house.keys.csrf("/transfers")
    assert (await browser.post("/transfers", {"csrf": csrf, **form})).status == 303


async def begun(browser: Browser, server: Slow, name: str) -> None:
    """Half of it is here."""
    await save(browser, server.url(name))
    await until_half_is_here(browser)


async def until_half_is_here(browser: Browser) -> None:
    while "10 of 20 octets" not in (await browser.ask("/transfers")).text:  # noqa: ASYNC110
        await trio.sleep(LOOK_AGAIN)


async def test_what_was_begun_is_gone_on_with_by_another_server(ledger: str, here: Path) -> None:
    async with slow() as server:
        async with running(ledger=ledger) as (browser, _):
            await begun(browser, server, "a.txt")
        assert read(ledger).left == 1
        asked = server.asked
        async with running(ledger=ledger) as (browser, told):
            page = (await browser.ask("/transfers")).text
            assert re.findall(r'data-state="(\w+)"', page) == ["paused"]
            assert ">go on</button>" in page
            assert server.asked == asked  # nothing leaves before somebody says so
            server.rest.set()
            await act(browser, resume="1")
            await until(browser, lambda states: states == ["done"])
            assert told == []
        assert (here / "a.txt").read_bytes() == b"x" * 20
        (row,) = newest(ledger, 9)
        assert (row.status, row.path, row.size) == ("done", str(here / "a.txt"), 20)
        async with running(ledger=ledger) as (browser, _):
            page = (await browser.ask("/transfers")).text
            assert 'data-state="done"' in page
            assert row.digest is not None
            assert row.digest in page


async def test_of_a_file_that_is_gone_it_is_not_said_that_it_is_there(ledger: str, here: Path) -> None:
    async with slow() as server:
        server.rest.set()
        async with running(ledger=ledger) as (browser, _):
            await save(browser, server.url("a.txt"))
            await until(browser, lambda states: states == ["done"])
        (here / "a.txt").unlink()
        async with running(ledger=ledger) as (browser, _):
            assert "the file is no longer there" in (await browser.ask("/transfers")).text
            await act(browser, resume="1")
            await until(browser, lambda states: states == ["done"])
        assert (here / "a.txt").read_bytes() == b"x" * 20


async def test_each_save_is_a_row_of_its_own(ledger: str) -> None:
    async with slow() as server:
        server.rest.set()
        async with running(ledger=ledger) as (browser, _):
            for count in (1, 2):
                await save(browser, server.url("a.txt"))
                await until(browser, lambda states, count=count: states == ["done"] * count)  # type: ignore[misc]
        assert [row.status for row in newest(ledger, 9)] == ["done", "done"]
        assert len({row.path for row in newest(ledger, 9)}) == 2


async def test_what_a_run_was_killed_behind_is_there_without_being_asked_for(ledger: str) -> None:
    async with slow() as server:
        server.rest.set()
        async with running(ledger=ledger) as (browser, _):
            await save(browser, server.url("a.txt"))
            await until(browser, lambda states: states == ["done"])
        with closing(sqlite3.connect(ledger)) as connection, connection:
            connection.execute("UPDATE object SET status='whole'")
        asked = server.asked
        async with running(ledger=ledger) as (browser, _):
            assert await rows(browser) == ["paused"]
            await act(browser, resume="1")
            await until(browser, lambda states: states == ["done"])
        assert server.asked == asked


async def test_a_password_is_not_in_it(ledger: str, place: Path) -> None:
    """So what needs one is not gone on with by another server, which says why."""
    async with slow() as server:
        url = server.url("a.txt").replace("http://", "http://sam:friend@")
        async with running(ledger=ledger) as (browser, _):
            looked = await browser.look(url)
            form = {"csrf": browser.server.house.keys.csrf("/save"), "url": url, "from": looked.field("from")}
            await browser.post("/save", form)
            await until_half_is_here(browser)
        assert not any(b"friend" in each.read_bytes() for each in place.parent.iterdir())
        asked = server.asked
        async with running(ledger=ledger) as (browser, _):
            await act(browser, resume="1")
            await until(browser, lambda states: states == ["failed"])
            assert "had a password" in (await browser.ask("/transfers")).text
        assert server.asked == asked


async def test_who_chose_it_is_not_forgotten(ledger: str, here: Path, tmp_path: Path) -> None:
    """A local file that a page named stays refused, whoever goes on with it."""
    (tmp_path / "secret").write_text("x")
    for run in (1, 2):
        async with running(ledger=ledger) as (browser, _):
            if run == 1:
                keys = browser.server.house.keys
                form = {
                    "csrf": keys.csrf("/save"),
                    "url": (tmp_path / "secret").as_uri(),
                    "from": "forgotten",
                }
                await browser.post("/save", form)
            else:
                await act(browser, resume="1")
            await until(browser, lambda states: states == ["failed"])
            assert "user" not in {row.asked.origin for row in newest(ledger, 9)}
    assert os.listdir(here) == []


async def test_where_another_server_has_it_files_are_saved_all_the_same(ledger: str) -> None:
    async with slow() as server, running(ledger=ledger) as (first, _):
        server.rest.set()
        await first.ask("/transfers")
        async with running(ledger=ledger) as (second, _):
            await save(second, server.url("a.txt"))
            await until(second, lambda states: states == ["done"])
            assert "Not remembered when resolve stops" in (await second.ask("/transfers")).text
            assert "another run is at work with it" in (await second.ask("/transfers")).text
        assert await rows(first) == []


@pytest.mark.parametrize("more", [None, "[]", "{}", '{"window": 1}', '{"window": [1, 2]}', "no json"])
async def test_rows_that_nobody_here_wrote_are_passed_over(more: str | None, ledger: str) -> None:
    async with slow() as server:
        server.rest.set()
        async with running(ledger=ledger) as (browser, _):
            await save(browser, server.url("a.txt"))
            await until(browser, lambda states: states == ["done"])
        with closing(sqlite3.connect(ledger)) as connection, connection:
            connection.execute("UPDATE object SET more=?", (more,))
        async with running(ledger=ledger) as (browser, _):
            page = await browser.ask("/transfers")
            assert (page.status, "data-state" in page.text) == (200, False)


async def test_it_is_for_its_owner_alone(ledger: str, place: Path) -> None:
    async with running(ledger=ledger) as (browser, _):
        assert "state" not in os.listdir(place.parents[2])
        await browser.ask("/transfers")
        modes = {each.stat().st_mode & 0o077 for each in (place, place.parent)}
        assert modes == {0}
