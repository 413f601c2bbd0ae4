"""Transfers of the web UI: event streams, their access and end, and the ledger that later servers read."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import trio
from starlette.routing import Router

from protocols.text import Masked
from resolver import Resolver
from resolver.ledger.report import list_newest, read
from resolver.web.access import LOOPBACK, MAX_REQUESTS
from resolver.web.answers import PageAnswers
from resolver.web.headers import SessionKeys
from resolver.web.pages.own import SavedTransfer
from resolver.web.session import UrlOrigin
from resolver.web.transfers import MAX_STREAMS, TransferEvents, TransferQueue, _make_row, update_transfer
from tests.hang import HANG
from tests.resolver.web.client import SAME_ORIGIN, Browser, running
from tests.resolver.web.pages.skeleton import place
from tests.resolver.web.peers import serving

_SIZE = 20
_BY_SCRIPT = {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}


class SlowServer:
    """An HTTP server that sends half of a file, and the rest once `rest` is set."""

    def __init__(self) -> None:
        self.port = 0
        self.rest = trio.Event()
        self.request_count = 0

    def url(self, name: str) -> str:
        return f"http://{LOOPBACK}:{self.port}/{name}"

    async def answer(self, stream: trio.SocketStream) -> None:
        self.request_count += 1
        await stream.receive_some()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {_SIZE}\r\nConnection: close\r\n\r\n"
        try:
            await stream.send_all(head.encode() + b"x" * (_SIZE // 2))
            await self.rest.wait()
            await stream.send_all(b"x" * (_SIZE // 2))
        except trio.BrokenResourceError:
            pass
        finally:
            await stream.aclose()


def slow_server() -> AbstractAsyncContextManager[SlowServer]:
    return serving(SlowServer())


async def save(browser: Browser, url: str) -> None:
    looked = await browser.look(url)
    form = {"csrf": browser.server.site.keys.make_csrf("/save"), "url": url, "from": looked.field("from")}
    assert (await browser.post("/save", form)).status == 303


class EventStream:
    """An event stream as a browser reads it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._rest = b""
        self.head = b""
        self.change = 0
        self.octets = b""

    async def begin(self, browser: Browser) -> None:
        fields = {"Host": browser.server.site.authority, **SAME_ORIGIN, "Cookie": browser.cookie}
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        await self._stream.send_all(f"GET /transfers/events?since=0 HTTP/1.1\r\n{lines}\r\n".encode())
        self.head = await self._until(b"\r\n\r\n")

    async def _until(self, end: bytes) -> bytes:
        while end not in self._rest:
            if not (data := await self._stream.receive_some()):
                raise EOFError
            self._rest += data
        text, _, self._rest = self._rest.partition(end)
        self.octets += text + end
        return text

    async def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the next message."""
        while True:
            text = (await self._until(b"\n\n")).decode()
            lines = [line.strip("\r") for line in text.split("\n")]
            fields = dict(line.split(": ", 1) for line in lines if line.startswith(("id: ", "data: ")))
            if fields:
                self.change = int(fields["id"])
                rows: list[dict[str, Any]] = json.loads(fields["data"])
                return rows

    async def until(self, state: str) -> dict[str, Any]:
        """Return the first row in this state."""
        while True:
            for row in await self.rows():
                if row["state"] == state:
                    return row

    async def end(self) -> None:
        """Read to the end of the response: a chunk of length 0 (RFC 9112 section 7.1)."""
        await self._until(b"\r\n0\r\n\r\n")


@asynccontextmanager
async def open_events(browser: Browser) -> AsyncIterator[EventStream]:
    async with await trio.open_tcp_stream(LOOPBACK, browser.server.site.port) as stream:
        events = EventStream(stream)
        await events.begin(browser)
        yield events


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_event_stream_sends_progress_of_transfer(working_directory: Path) -> None:
    async with slow_server() as server, running() as (browser, log):
        await save(browser, server.url("a.txt"))
        async with open_events(browser) as events:
            assert b"HTTP/1.1 200" in events.head
            assert b"content-type: text/event-stream" in events.head.lower()
            assert b"cache-control: no-store" in events.head.lower()
            while (row := await events.until("running"))["percent"] is None:
                pass
            assert (row["percent"], row["amount"]) == (50, "10 of 20 bytes")
            assert row["buttons"] == [["pause", "pause"], ["stop", "stop"]]
            server.rest.set()
            row = await events.until("done")
            assert (row["name"], row["error"], row["buttons"]) == ("a.txt", "", [])
            assert "length" in row["proofs"]
            await events.end()
        assert (working_directory / "a.txt").read_bytes() == b"x" * _SIZE
        again = await browser.ask("/transfers/events", {"Last-Event-ID": str(events.change)})
        assert (again.status, again.body) == (204, b"")
        told_anew = await browser.ask("/transfers/events")
        assert (told_anew.status, b'"done"' in told_anew.body) == (200, True)
        assert log == []


async def test_event_stream_without_transfers_is_empty() -> None:
    async with running() as (browser, _):
        for target in (
            "/transfers/events",
            "/transfers/events?since=-1",
            "/transfers/events?since=" + "9" * 99,
        ):
            assert (await browser.ask(target)).status == 204
        assert "data-events" not in (await browser.ask("/transfers")).text


async def test_transfers_page_names_event_stream_and_refresh(working_directory: Path) -> None:
    """Without script the page refreshes while a transfer is running."""
    async with slow_server() as server, running() as (browser, _):
        await save(browser, server.url("a.txt"))
        page = (await browser.ask("/transfers")).text
        assert 'data-events="/transfers/events"' in page
        assert '<noscript><meta http-equiv="refresh" content="3"></noscript>' in page


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-site", **_BY_SCRIPT}, 403),
        ({"Sec-Fetch-Site": "cross-site", **_BY_SCRIPT}, 403),
        ({"Cookie": ""}, 403),
        ({"Host": "evil.example"}, 421),
    ],
)
async def test_event_stream_for_another_origin_is_refused(
    headers: dict[str, str], status: int, working_directory: Path
) -> None:
    async with slow_server() as server, running() as (browser, log):
        await save(browser, server.url("a.txt"))
        answer = await browser.ask("/transfers/events", headers)
        assert (answer.status, b"a.txt" in answer.body) == (status, False)
        assert answer.header("access-control-allow-origin") is None
        assert "/transfers/events" in log[-1]
        form = {"csrf": browser.server.site.keys.make_csrf("/transfers/events")}
        assert (await browser.post("/transfers/events", form)).status == 405


async def test_event_stream_has_no_secret(working_directory: Path) -> None:
    async with slow_server() as server, running() as (browser, log):
        url = server.url("a.txt").replace("http://", "http://sam:friend@")
        looked = await browser.look(url)
        assert looked.status == 200
        keys = browser.server.site.keys
        form = {"csrf": keys.make_csrf("/save"), "url": url, "from": looked.field("from")}
        await browser.post("/save", form)
        async with open_events(browser) as events:
            server.rest.set()
            await events.until("done")
            await events.end()
            page = (await browser.ask("/transfers")).text
            for text in (events.octets.decode(), page, *log):
                assert "friend" not in text
                assert all(
                    secret not in text for secret in (keys.gateway, keys.cookie.split("=")[1].split(";")[0])
                )


async def test_event_row_escapes_untrusted_name() -> None:
    row = _make_row(
        SavedTransfer(1, "a\u202egpj\u2028\x1b.exe", Masked("http://h/"), "failed", 0, error="\u202e\n"),
        place(""),
    )
    assert row["name"] == "a\\u202egpj\\u2028\\x1b.exe"
    assert "\u202e" not in str(row["error"])


async def test_event_stream_over_the_limit_ends_the_oldest(working_directory: Path) -> None:
    """Otherwise they would hold all connections of a browser to the server."""
    async with slow_server() as server, running() as (browser, _):
        await save(browser, server.url("a.txt"))
        async with AsyncExitStack() as stack:
            streams = [await stack.enter_async_context(open_events(browser)) for _ in range(MAX_STREAMS + 2)]
            for events in streams[:2]:
                await events.end()
            server.rest.set()
            for events in streams[2:]:
                await events.until("done")
                await events.end()


async def test_event_during_send_is_sent_afterwards(working_directory: Path) -> None:
    """The last event of a transfer is sent as well."""
    sent = b""
    async with (
        slow_server() as server,
        Resolver(on_event=update_transfer) as resolver,
        trio.open_nursery() as nursery,
    ):
        transfers = TransferQueue(resolver, nursery)
        events = Router(TransferEvents(transfers, PageAnswers(SessionKeys(1, trio.current_time))).routes)
        transfers.begin(server.url("a.txt"), "a.txt", UrlOrigin("user"))

        async def send(message: MutableMapping[str, Any]) -> None:
            nonlocal sent
            sent += message.get("body", b"")
            if b"running" in sent:
                server.rest.set()
                while transfers.are_active:
                    await transfers.next_change.wait()

        async def receive() -> dict[str, Any]:
            await trio.sleep_forever()
            raise AssertionError

        scope = {"type": "http", "method": "GET", "headers": [], "query_string": b""}
        await events({**scope, "path": "/transfers/events"}, receive, send)
    assert b'"done"' in sent


async def test_event_stream_closed_by_client_frees_its_slot(working_directory: Path) -> None:
    async with slow_server() as server, running() as (browser, _):
        await save(browser, server.url("a.txt"))
        for _ in range(MAX_REQUESTS + 1):
            async with open_events(browser):
                pass
        with trio.fail_after(HANG):
            while (await browser.ask("/")).status != 200:
                pass


async def test_event_stream_ends_with_the_server(working_directory: Path) -> None:
    async with slow_server() as server, await trio.open_tcp_stream(LOOPBACK, server.port) as _:
        async with running() as (browser, log):
            await save(browser, server.url("a.txt"))
            stream = await trio.open_tcp_stream(LOOPBACK, browser.server.site.port)
            events = EventStream(stream)
            await events.begin(browser)
            await events.until("running")
        await events.end()
        await stream.aclose()
        assert log == []


# The ledger outlives the server that wrote it; the next server shows its transfers.

#: Seconds. Under continuous requests the tests' clock hardly advances, and no timer expires.
LOOK_AGAIN = 0.05


@pytest.fixture
def save_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the directory that files are saved to."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def ledger_path(save_directory: Path) -> Path:
    return save_directory.parent / "state" / "resolve" / "transfers.db"


@pytest.fixture
def ledger(ledger_path: Path) -> str:
    return str(ledger_path)


async def rows(browser: Browser) -> list[str]:
    """Return the states on the page, the newest transfer first."""
    return re.findall(r'data-state="(\w+)"', (await browser.ask("/transfers")).text)


async def until(browser: Browser, holds: Callable[[list[str]], bool]) -> None:
    while not holds(await rows(browser)):  # noqa: ASYNC110
        await trio.sleep(LOOK_AGAIN)


async def act(browser: Browser, **form: str) -> None:
    csrf = browser.server.site.keys.make_csrf("/transfers")
    assert (await browser.post("/transfers", {"csrf": csrf, **form})).status == 303


async def start_half(browser: Browser, server: SlowServer, name: str) -> None:
    """Start a transfer and wait until half of it arrived."""
    await save(browser, server.url(name))
    await wait_for_half(browser)


async def wait_for_half(browser: Browser) -> None:
    while "10 of 20 bytes" not in (await browser.ask("/transfers")).text:  # noqa: ASYNC110
        await trio.sleep(LOOK_AGAIN)


async def test_transfer_is_resumed_by_another_server(ledger: str, save_directory: Path) -> None:
    async with slow_server() as server:
        async with running(ledger=ledger) as (browser, _):
            await start_half(browser, server, "a.txt")
        assert read(ledger).left == 1
        count = server.request_count
        async with running(ledger=ledger) as (browser, log):
            page = (await browser.ask("/transfers")).text
            assert re.findall(r'data-state="(\w+)"', page) == ["paused"]
            assert ">resume</button>" in page
            assert server.request_count == count  # The user has not resumed the transfer yet.
            server.rest.set()
            await act(browser, resume="1")
            await until(browser, lambda states: states == ["done"])
            assert log == []
        assert (save_directory / "a.txt").read_bytes() == b"x" * 20
        (row,) = list_newest(ledger, 9)
        assert (row.status, row.path, row.size) == ("done", str(save_directory / "a.txt"), 20)
        async with running(ledger=ledger) as (browser, _):
            page = (await browser.ask("/transfers")).text
            assert 'data-state="done"' in page
            assert row.digest is not None
            assert row.digest in page


async def test_transfer_whose_file_was_deleted_can_be_resumed(ledger: str, save_directory: Path) -> None:
    async with slow_server() as server:
        server.rest.set()
        async with running(ledger=ledger) as (browser, _):
            await save(browser, server.url("a.txt"))
            await until(browser, lambda states: states == ["done"])
        (save_directory / "a.txt").unlink()
        async with running(ledger=ledger) as (browser, _):
            assert "the file was moved, deleted or changed" in (await browser.ask("/transfers")).text
            await act(browser, resume="1")
            await until(browser, lambda states: states == ["done"])
        assert (save_directory / "a.txt").read_bytes() == b"x" * 20


async def test_save_twice_records_two_rows(ledger: str) -> None:
    async with slow_server() as server:
        server.rest.set()
        async with running(ledger=ledger) as (browser, _):
            for count in (1, 2):
                await save(browser, server.url("a.txt"))
                await until(browser, lambda states, count=count: states == ["done"] * count)  # type: ignore[misc]
        assert [row.status for row in list_newest(ledger, 9)] == ["done", "done"]
        assert len({row.path for row in list_newest(ledger, 9)}) == 2


async def test_transfer_complete_before_kill_is_not_requested_again(ledger: str) -> None:
    async with slow_server() as server:
        server.rest.set()
        async with running(ledger=ledger) as (browser, _):
            await save(browser, server.url("a.txt"))
            await until(browser, lambda states: states == ["done"])
        with closing(sqlite3.connect(ledger)) as connection, connection:
            connection.execute("UPDATE object SET status='whole'")
        count = server.request_count
        async with running(ledger=ledger) as (browser, _):
            assert await rows(browser) == ["paused"]
            await act(browser, resume="1")
            await until(browser, lambda states: states == ["done"])
        assert server.request_count == count


async def test_ledger_does_not_store_password(ledger: str, ledger_path: Path) -> None:
    """A transfer that needs the password is not resumed by another server, which reports the reason."""
    async with slow_server() as server:
        url = server.url("a.txt").replace("http://", "http://sam:friend@")
        async with running(ledger=ledger) as (browser, _):
            looked = await browser.look(url)
            form = {
                "csrf": browser.server.site.keys.make_csrf("/save"),
                "url": url,
                "from": looked.field("from"),
            }
            await browser.post("/save", form)
            await wait_for_half(browser)
        assert not any(b"friend" in file.read_bytes() for file in ledger_path.parent.iterdir())
        count = server.request_count
        async with running(ledger=ledger) as (browser, _):
            await act(browser, resume="1")
            await until(browser, lambda states: states == ["failed"])
            assert "the password in the URL was not stored" in (await browser.ask("/transfers")).text
        assert server.request_count == count


async def test_ledger_keeps_origin_of_url(ledger: str, save_directory: Path, tmp_path: Path) -> None:
    """A local file that a page named stays refused when another server resumes the transfer."""
    (tmp_path / "secret").write_text("x")
    for run in (1, 2):
        async with running(ledger=ledger) as (browser, _):
            if run == 1:
                keys = browser.server.site.keys
                form = {
                    "csrf": keys.make_csrf("/save"),
                    "url": (tmp_path / "secret").as_uri(),
                    "from": "forgotten",
                }
                await browser.post("/save", form)
            else:
                await act(browser, resume="1")
            await until(browser, lambda states: states == ["failed"])
            assert "user" not in {row.request.origin for row in list_newest(ledger, 9)}
    assert os.listdir(save_directory) == []


async def test_save_with_locked_ledger_is_not_recorded(ledger: str) -> None:
    async with slow_server() as server, running(ledger=ledger) as (first, _):
        server.rest.set()
        await first.ask("/transfers")
        async with running(ledger=ledger) as (second, _):
            await save(second, server.url("a.txt"))
            await until(second, lambda states: states == ["done"])
            assert "Not recorded for later runs" in (await second.ask("/transfers")).text
            assert "is locked by another run" in (await second.ask("/transfers")).text
        assert await rows(first) == []


@pytest.mark.parametrize("more", [None, "[]", "{}", '{"window": 1}', '{"window": [1, 2]}', "no json"])
async def test_ledger_rows_of_other_programs_are_skipped(more: str | None, ledger: str) -> None:
    async with slow_server() as server:
        server.rest.set()
        async with running(ledger=ledger) as (browser, _):
            await save(browser, server.url("a.txt"))
            await until(browser, lambda states: states == ["done"])
        with closing(sqlite3.connect(ledger)) as connection, connection:
            connection.execute("UPDATE object SET more=?", (more,))
        async with running(ledger=ledger) as (browser, _):
            page = await browser.ask("/transfers")
            assert (page.status, "data-state" in page.text) == (200, False)


async def test_ledger_is_private_to_its_owner(ledger: str, ledger_path: Path) -> None:
    async with running(ledger=ledger) as (browser, _):
        assert "state" not in os.listdir(ledger_path.parents[2])
        await browser.ask("/transfers")
        modes = {file.stat().st_mode & 0o077 for file in (ledger_path, ledger_path.parent)}
        assert modes == {0}
