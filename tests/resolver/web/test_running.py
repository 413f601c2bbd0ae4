"""The file that announces a running web UI: read by programs of the same user only."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from resolver import LocalError, NotConfigured
from resolver.web import running as windows
from resolver.web.access import LOOPBACK, MAX_START, check_program, is_listened_to_by_this_user
from resolver.web.running import RunningServer, announce_server, find_entry, find_server, request_entry
from tests.hang import HANG
from tests.resolver.web.client import Browser, running
from tests.resolver.web.test_access import checks_without

BARE = {"Sec-Fetch-Site": "", "Sec-Fetch-Mode": "", "Sec-Fetch-Dest": "", "Cookie": ""}


@pytest.fixture(name="place", autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "resolve" / "serve.json"


def announced_server(browser: Browser) -> RunningServer:
    return RunningServer(browser.server.site.port, browser.server.site.keys.start, os.getpid())


# -- the file


def test_announced_server_is_private_and_removed_at_exit(place: Path) -> None:
    with announce_server(9_401, "secret") as first:
        assert first
        assert find_server() == RunningServer(9_401, "secret", os.getpid())
        assert (place.stat().st_mode & 0o777, place.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        with announce_server(9_402, "other") as second:
            assert not second
        assert find_server() == RunningServer(9_401, "secret", os.getpid())
    assert (find_server(), place.exists()) == (None, False)


def test_announce_server_replaces_stale_file(place: Path) -> None:
    place.parent.mkdir()
    place.write_text(json.dumps({"port": 9_401, "secret": "old" * 100, "process": 1}))
    place.chmod(0o600)
    with announce_server(9_402, "new") as is_written:
        assert (is_written, find_server()) == (True, RunningServer(9_402, "new", os.getpid()))


def test_announce_server_keeps_file_of_another_process(place: Path) -> None:
    with announce_server(9_401, "secret"):
        place.unlink()
        place.write_text("of another")
    assert place.read_text() == "of another"


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o666])
def test_find_server_with_writable_or_readable_file_fails(mode: int, place: Path) -> None:
    place.parent.mkdir()
    place.write_text('{"port": 9401, "secret": "x", "process": 1}')
    place.chmod(mode)
    with pytest.raises(NotConfigured, match="chmod 600"):
        find_server()
    assert find_entry() is None
    with pytest.raises(NotConfigured), announce_server(9_402, "new"):
        raise AssertionError("announced")


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "no folder"])
def test_announce_server_at_special_file_fails(kind: str, place: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    match kind:
        case "folder":
            place.mkdir(parents=True)
        case "pipe":
            place.parent.mkdir()
            os.mkfifo(place, 0o600)
        case "link":
            place.parent.mkdir()
            place.symlink_to(target)
        case _:
            place.parent.write_text("in the way")
    with pytest.raises(LocalError), announce_server(9_402, "new"):
        raise AssertionError("announced")
    assert (find_entry(), target.read_text()) == (None, "kept")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"port": 0, "secret": "x", "process": 1}', '{"port": "1"}', "[" * 4_000],
    ids=len,
)
def test_find_server_with_invalid_file_returns_none(text: str, place: Path) -> None:
    place.parent.mkdir()
    place.write_text(text)
    place.chmod(0o600)
    assert find_server() is None


# The entry link


async def test_entry_with_secret_returns_entry_link() -> None:
    url = f"gopher://127.0.0.1/1{'%E9' * 20_000}"
    async with running() as (browser, log):
        address = await trio.to_thread.run_sync(request_entry, announced_server(browser), url)
        assert address is not None
        parts = urlsplit(address)
        assert (parts.netloc, "gopher" in address) == (browser.server.site.authority, False)
        entered = await browser.ask(f"{parts.path}?{parts.query}", BARE)
        assert entered.status == 200
        assert "/look?url=gopher%3A%2F%2F127.0.0.1%2F1%25E9" in entered.text
        assert log == []


async def test_start_without_secret_is_refused() -> None:
    async with running() as (browser, log):
        secret = browser.server.site.keys.start
        right = {**BARE, "Authorization": f"Bearer {secret}"}
        wrong = [
            {"Authorization": ""},
            {"Authorization": f"Bearer {secret[:-1]}"},
            {"Authorization": f"Basic {secret}"},
            {"Authorization": f"Bearer {browser.server.site.keys.gateway}"},
            *({name: "none"} for name in ("Sec-Fetch-Site", "Sec-Fetch-Mode", "Origin")),
            {"Authorization": "", "Cookie": browser.cookie or ""},
        ]
        for fields in wrong:
            answer = await browser.ask("/start", {**right, **fields}, method="POST", body=b"url=x")
            assert (fields, answer.status, answer.body) == (fields, 403, b"")
        assert (await browser.ask("/start", right)).status == 403, "a GET, without a cookie"
        assert (
            await browser.ask("/start", right, method="POST", body=b"url=" + b"x" * MAX_START)
        ).status == 413
        assert secret not in "".join(log)
        assert (await browser.ask("/start", right, method="POST", body=b"url=x")).status == 200


async def test_access_without_program_rule_allows_start_by_any_page() -> None:
    async with running(checks=checks_without(check_program)) as (browser, _):
        where = {"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example", "Cookie": ""}
        answer = await browser.ask("/start", where, method="POST", body=b"url=x")
        assert (answer.status, len(answer.body)) == (200, 43)


def test_find_entry_without_listener_returns_none(place: Path) -> None:
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        with announce_server(bound.getsockname()[1], "secret"):
            assert find_entry() is None


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="the system has no table of connections")
def test_is_listened_to_by_this_user_checks_the_port() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener, socket.socket() as bound:
        bound.bind(("", 0))  # Nothing listens on this port, at any address of this machine.
        assert is_listened_to_by_this_user(listener.getsockname()[1])
        assert not is_listened_to_by_this_user(bound.getsockname()[1]), "nobody listens there"


async def bytes_sent_to(listener: socket.socket) -> bytes:
    """Return the bytes that `entry` sends to this listener, after it read a stale file."""
    received = b""
    addresses: list[str | None] = []

    async def ask() -> None:
        window = RunningServer(listener.getsockname()[1], "secret", 1)
        addresses.append(await trio.to_thread.run_sync(request_entry, window, "gopher://h/"))

    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            connection, _ = await trio.to_thread.run_sync(listener.accept)
            with connection:
                while b"\r\n\r\n" not in received and (
                    octets := await trio.to_thread.run_sync(connection.recv, 65_536)
                ):
                    received += octets
    assert addresses == [None]
    return received


async def test_entry_sends_no_secret_to_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port of a stopped server may be taken by another user, to receive its secret.

    Without the check of the listener's user the secret is sent.
    """
    with socket.create_server((LOOPBACK, 0)) as listener:
        monkeypatch.setattr(windows, "is_listened_to_by_this_user", lambda port: False)
        assert await bytes_sent_to(listener) == b""
        monkeypatch.setattr(windows, "is_listened_to_by_this_user", lambda port: True)
        assert b"Bearer secret" in await bytes_sent_to(listener)


@pytest.mark.skipif(os.geteuid() != 0, reason="requires root, to become another user")
async def test_is_listened_to_by_this_user_with_another_user_returns_false() -> None:
    os.seteuid(65_534)
    try:
        listener = socket.create_server((LOOPBACK, 0))
    finally:
        os.seteuid(0)
    with listener:
        assert not is_listened_to_by_this_user(listener.getsockname()[1])
        assert await bytes_sent_to(listener) == b""
