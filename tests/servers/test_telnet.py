"""Transcripts of a real telnetd, which waits for the answer to each of its options; and terminal sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import trio

import resolver
from resolver import Options, Policy, TelnetUrl, Transcript, Truncated, prompt
from tests.resolver.cli.command import resolve
from tests.resolver.cli.terminal import Terminal, on_terminal
from tests.servers.namespace import PASSWORD, USER

PROMPT = prompt(rb"(login: |\$ )")


def options(*send: bytes, seconds: float | None = None) -> Options:
    return Options(transcript=Transcript(prompt=PROMPT, send=send, seconds=seconds))


def policy(url: str) -> Policy:
    parsed = resolver.parse(url)
    assert isinstance(parsed, TelnetUrl)
    assert parsed.port is not None
    return Policy(allow_port={parsed.port})


@pytest.mark.parametrize("run", [trio.run, lambda main: asyncio.run(main())], ids=["trio", "asyncio"])
def test_transcript_records_session(telnetd: str, run: object) -> None:
    async def main() -> resolver.Response:
        wanted = options(b"guest", b"size", seconds=60)
        return await resolver.fetch(telnetd, options=wanted, policy=policy(telnetd))

    assert callable(run)
    response = run(main)
    assert response.content == b"login: guest\nhello guest\n$ size\n24 80\ndumb\ncaf\xc3\xa9 \xff\n$ "
    assert (response.verified, response.findings) == (("terminator",), ())


async def test_transcript_closed_by_server_is_truncated(telnetd: str) -> None:
    with pytest.raises(Truncated) as error:
        await resolver.fetch(telnetd, options=options(b"a", b"b", b"c", b"d"), policy=policy(telnetd))
    assert error.value.exit_code == 10


def test_cat_sends_lines_at_prompts(telnetd: str) -> None:
    port = telnetd.rstrip("/").rpartition(":")[2]
    done = resolve(
        *("cat", "-q", "--allow-port", port, "--until", "(login: |[$] )", "--send", "guest", telnetd)
    )
    assert (done.status, done.out) == (0, b"login: guest\nhello guest\n$ ")


# A user at a real telnetd, at a real terminal: a login, and full-screen programs.


@pytest.mark.parametrize("columns", [40, 80, 200])
async def test_open_runs_login_pager_and_editor(
    telnetd_with_screens: str, tmp_path: Path, columns: int
) -> None:
    terminal = Terminal(columns)
    before = terminal.settings
    port = telnetd_with_screens.rstrip("/").rpartition(":")[2]
    words = ("open", "-q", "--allow-port", port, telnetd_with_screens)
    async with on_terminal(terminal, tmp_path, *words, typed=True) as command:
        await terminal.until(lambda rows: rows[-1:] == ["login:"])
        terminal.type(b"guest\r")
        await terminal.until(lambda rows: rows[-1:] == ["Password:"])
        terminal.type(b"secret\r")
        await terminal.until(lambda rows: rows[-2:] == ["hello guest", "$"])
        terminal.type(b"stty size\r")
        await terminal.until(lambda rows: rows[-2:] == [f"24 {columns}", "$"])
        for other in (columns - 7, columns):
            terminal.resize(other)
            while f"24 {other}" not in terminal.rows[-2:]:  # typed input may arrive before the new size
                terminal.screen.reset()
                terminal.type(b"stty size\r")
                await terminal.until(lambda rows: rows[-1:] == ["$"] and "".join(rows[-2:]).startswith("24 "))
        terminal.screen.reset()
        terminal.type(b"less text\r")
        await terminal.until(lambda rows: rows[-2:] == ["line 23", "text"])
        terminal.type(b"G")
        await terminal.until(lambda rows: "line 100" in rows[-2:] and rows[-1] == "(END)")
        terminal.type(b"q")
        await terminal.until(lambda rows: rows[-1:] == ["$"])
        terminal.screen.reset()
        terminal.type(b"vi text\r")
        await terminal.until(lambda rows: rows[:2] == ["line 1", "line 2"] and "line 23" in rows)
        terminal.type(b":$\r")
        await terminal.until(lambda rows: "line 100" in rows)
        terminal.type(b":q!\r")
        await terminal.until(lambda rows: rows[-1:] == ["$"])
        terminal.type(b"exit\r")
        assert await command.status() == 0
        assert terminal.settings == before
    assert b"secret" not in terminal.octets
    assert b"\x1b]" not in terminal.octets  # vi asks for colors
    assert b"\x1b[>" not in terminal.octets  # and for the type of the terminal


async def test_open_uses_system_login(telnetd_with_login: str, tmp_path: Path) -> None:
    terminal = Terminal(80)
    before = terminal.settings
    port = telnetd_with_login.rstrip("/").rpartition(":")[2]
    url = telnetd_with_login.replace("//", f"//{USER}:hidden@")
    words = ("open", "--allow-port", port, "--allow-password", url)
    async with on_terminal(terminal, tmp_path, *words, typed=True) as command:
        await terminal.until(lambda rows: rows[-1:] != [] and rows[-1].endswith("login:"))
        terminal.type(USER.encode() + b"\r")
        await terminal.until(lambda rows: rows[-1:] == ["Password:"])
        terminal.type(PASSWORD.encode() + b"\r")
        await terminal.until(lambda rows: rows[-1:] == ["$"])
        terminal.type(b"echo $LOGNAME $TERM\r")
        await terminal.until(lambda rows: f"{USER} xterm" in rows)
        terminal.type(b"exit\r")
        assert await command.status() == 0
        assert terminal.settings == before
    assert all(word in terminal.octets for word in (f"login {USER};".encode(), b"password"))
    assert PASSWORD.encode() not in terminal.octets
    assert b"hidden" not in terminal.octets
