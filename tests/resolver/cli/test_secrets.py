"""Logins of a netrc file, their hosts and errors; and the prompt for the password of a certificate's key."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme

from resolver import Credentials, parse
from resolver.cli import streams
from resolver.cli.config import HostSection
from resolver.cli.secrets import CommandSecrets, Netrc, read_netrc
from resolver.cli.values import UsageError
from tests.hang import HANG
from tests.resolver.cli.command import resolve
from tests.resolver.cli.contract import ABOUT
from tests.resolver.cli.terminal import CHECKOUT, Command, Terminal, on_terminal
from tests.resolver.network.test_tls import lock


def write(path: Path, text: str | bytes, mode: int = 0o600) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return str(path)


READ: list[tuple[str, dict[str, tuple[str, str | None]]]] = [
    ("machine h login u password p", {"h": ("u", "p")}),
    ('machine h login u password "a b"', {"h": ("u", "a b")}),
    ('machine h login u password "a\\"b"', {"h": ("u", 'a"b')}),
    ("machine h login u password a#b", {"h": ("u", "a#b")}),
    ("machine h login u password #ab", {"h": ("u", "#ab")}),
    ("machine h login u password p # note", {"h": ("u", "p")}),
    ("macdef init\ncd /pub\n\nmachine h login u password p", {"h": ("u", "p")}),
    ("machine h login u password p\nmachine h login v password q", {"h": ("v", "q")}),
    ("machine H.Example login u password p", {"h.example": ("u", "p")}),
    ("machine h login u", {"h": ("u", None)}),
    ("machine h password p", {}),
    ("machine h:8080 login u password p", {}),
    ("", {}),
]


@pytest.mark.parametrize(("text", "hosts"), READ)
def test_netrc_entries_are_parsed(
    tmp_path: Path, text: str, hosts: dict[str, tuple[str, str | None]]
) -> None:
    netrc = read_netrc(write(tmp_path / "netrc", text + "\n"))
    assert {host: (section.user, section.password) for host, section in netrc.hosts.items()} == hosts
    assert bool(netrc.warnings) == (not hosts and bool(text))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("machine h login u port 21 password hush\n", 1),
        ("\nMACHINE h login u password hush\n", 2),
        ("\ufeffmachine h login u password hush\n", 1),
        ("machine h login u password hush\nmacdef init\ncd /pub\n", 4),
    ],
)
def test_invalid_netrc_error_hides_text(tmp_path: Path, text: str, line: int) -> None:
    name = write(tmp_path / "netrc", text)
    done = resolve("get", "--netrc-file", name, "file:///etc/hostname", "-O", "-")
    assert (done.status, done.out) == (2, b"")
    assert name in done.messages
    assert "hush" not in done.messages


@pytest.mark.parametrize(
    ("mode", "reason"), [(0o640, "chmod 600"), (0o604, "chmod 600"), (0o620, "chmod 600"), (0o400, None)]
)
def test_netrc_readable_by_others_is_refused(tmp_path: Path, mode: int, reason: str | None) -> None:
    name = write(tmp_path / "netrc", "machine h login u password p\n", mode)
    if reason is None:
        assert read_netrc(name).hosts
    else:
        with pytest.raises(UsageError, match=reason):
            read_netrc(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_netrc_of_another_user_is_refused(tmp_path: Path) -> None:
    name = write(tmp_path / "netrc", "machine h login u password p\n")
    os.chown(name, 65534, 65534)
    with pytest.raises(UsageError, match="another user's"):
        read_netrc(name)


def test_netrc_path_comes_from_option_variable_or_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    assert read_netrc(None) == Netrc()
    write(tmp_path / ".netrc", "machine home login u password p\n")
    assert set(read_netrc(None).hosts) == {"home"}
    monkeypatch.setenv("NETRC", write(tmp_path / "set", "machine set login u password p\n"))
    assert set(read_netrc(None).hosts) == {"set"}
    for name in ("named", "/dev/null", str(tmp_path)):
        with pytest.raises(UsageError):
            read_netrc(name)
    (tmp_path / "set").unlink()
    with pytest.raises(UsageError, match="No such file"):
        read_netrc(None)


def test_netrc_invalid_utf8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not UTF-8"):
        read_netrc(write(tmp_path / "netrc", b"machine h login u password \xff\n"))


HOSTS = {"h": HostSection("u", "p"), "s:8443": HostSection("w", "q")}
DEFAULT = HostSection("anyone", "any")


@pytest.mark.parametrize(
    ("url", "place", "user", "expected"),
    [
        ("https://h/", ("https", "h", 443), None, "u"),
        ("https://h:8443/", ("https", "h", 8443), None, "u"),
        ("https://other/", ("https", "h", 443), None, "u"),
        ("https://other/", ("https", "h", 8443), None, None),
        ("https://other/", ("https", "s", 8443), None, "w"),
        ("https://other/", ("https", "s", 443), None, None),
        ("https://other/", ("http", "s", 8443), None, None),
        ("http://h/", ("http", "h", 80), None, "u"),
        ("http://other/", ("http", "h", 80), None, None),
        ("ftp://h/", ("ftp", "h", 21), None, "u"),
        ("ftp://v@h/", ("ftp", "h", 21), "v", None),
        ("ftp://x/", ("ftp", "x", 21), None, "anyone"),
        ("http://x/", ("http", "x", 80), None, None),
        ("https://x/", ("https", "x", 443), None, None),
        ("https://other/", ("https", "x", 443), None, None),
        ("nntp://h/g", ("nntp", "h", 119), None, "u"),
        ("nntp://x/g", ("nntp", "x", 119), None, None),
    ],
)
async def test_netrc_entry_applies_to_its_host(
    url: str, place: tuple[str, str, int], user: str | None, expected: str | None
) -> None:
    secrets = CommandSecrets(None, None, HOSTS, DEFAULT)
    secrets.admit(parse(url))
    credentials = await secrets.request(*place, None if user is None else user.encode())
    assert (None if credentials is None else credentials.user.decode()) == expected


def test_command_secrets_know_whether_a_login_is_configured(tmp_path: Path) -> None:
    password = write(tmp_path / "password", "p")
    assert not CommandSecrets(None, None, {}).has_sources
    assert CommandSecrets("", None, {}).has_sources
    assert CommandSecrets(None, password, {}).has_sources
    assert CommandSecrets(None, None, HOSTS).has_sources
    assert CommandSecrets(None, None, {}, DEFAULT).has_sources


def test_netrc_login_is_sent_and_masked(folder: Path, at: dict[str, str]) -> None:
    name = write(folder / "netrc", "machine 127.0.0.1 login user password password\n")
    assert resolve("cat", f"{at['http']}/private").status == 6
    done = resolve("cat", "-v", "--netrc-file", name, f"{at['http']}/private")
    assert done.status == 0, done.messages
    assert "dXNlcjpwYXNzd29yZA" not in done.messages
    config = write(folder / "c.toml", f'netrc_file = "{name}"\n')
    assert resolve("cat", "--config", config, f"{at['http']}/private").status == 0


async def test_configuration_login_overrides_netrc(folder: Path) -> None:
    netrc = read_netrc(write(folder / "netrc", "machine h login u password p\n"))
    secrets = CommandSecrets(None, None, {**netrc.hosts, "h": HostSection("w", "q")}, netrc.default)
    secrets.admit(parse("ftp://h/"))
    assert await secrets.request("ftp", "h", 21, None) == Credentials(b"w", b"q")


# `--cert` with a key that has a password: the command asks for it only at the terminal.


@pytest.fixture
def locked(folder: Path) -> str:
    lock(trustme.CA().issue_cert("me@here.example"), folder / "ours.pem")
    return "ours.pem"


@pytest.mark.parametrize(("typed", "status"), [(b"open sesame\n", 0), (b"wr0ng\n", 2), (b"\n", 2)])
async def test_key_password_is_asked_on_terminal(
    typed: bytes, status: int, locked: str, at: dict[str, str], folder: Path
) -> None:
    """The prompt appears once, without echo; a wrong password ends the run before anything is sent."""
    terminal = Terminal(200)
    command = ("cat", "--cert", locked, "--cacert", at["cafile"], f"{at['https']}/about.txt")
    async with on_terminal(terminal, folder, *command, stdout=terminal.slave) as running:
        await terminal.until(lambda rows: any("password of the key in ours.pem:" in row for row in rows))
        os.write(terminal.master, typed)
        assert await running.status() == status
    shown = "\n".join(terminal.rows)
    assert (ABOUT.splitlines()[0] in shown) == (status == 0)
    assert ("its key has" in shown) == (status == 2)
    assert "sesame" not in shown
    assert "wr0ng" not in shown


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT])
async def test_password_prompt_restores_echo_before_signal_ends_process(
    number: signal.Signals, locked: str, at: dict[str, str], folder: Path
) -> None:
    async with _prompt(locked, at, folder) as (terminal, running, before):
        assert terminal.settings != before
        running.process.send_signal(number)
        assert await running.status() == -number
        assert terminal.settings == before


async def test_password_prompt_stop_restores_echo_until_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel does not stop a process without a shell, so the test replaces the stop."""
    async with _asked_here(monkeypatch) as (terminal, typed, before):
        silent, stopped = terminal.settings, list[object]()
        monkeypatch.setattr(signal, "raise_signal", lambda number: stopped.append(terminal.settings))
        os.kill(os.getpid(), signal.SIGTSTP)
        assert stopped == [before]
        assert terminal.settings == silent != before
        terminal.type(b"open sesame\n")
    assert typed == [b"open sesame"]


async def test_password_prompt_on_closed_terminal_is_end_of_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """With SIGHUP ignored (nohup), the command continues after its terminal is closed."""
    async with _asked_here(monkeypatch) as (terminal, typed, _):
        os.close(terminal.slave)
        os.close(terminal.master)
    assert typed == [None]


@asynccontextmanager
async def _asked_here(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[Terminal, list[bytes | None], list[object]]]:
    """Ask for a secret in this process; the list contains the secret after the block."""
    terminal, typed = Terminal(80), list[bytes | None]()
    before, descriptor = terminal.settings, os.dup(terminal.slave)
    monkeypatch.setattr(streams, "_terminal", lambda: descriptor)

    async def ask() -> None:
        typed.append(await streams.request_secret("password: "))

    with trio.fail_after(HANG):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await terminal.until(lambda rows: rows == ["password:"])
            yield terminal, typed, before


@asynccontextmanager
async def _prompt(
    locked: str, at: dict[str, str], folder: Path
) -> AsyncIterator[tuple[Terminal, Command, list[object]]]:
    """Run a command until its password prompt; yield the settings from before the run, too."""
    terminal = Terminal(200)
    before = terminal.settings
    command = ("cat", "--cert", locked, "--cacert", at["cafile"], f"{at['https']}/about.txt")
    async with on_terminal(terminal, folder, *command, stdout=terminal.slave) as running:
        await terminal.until(lambda rows: any("password of the key in ours.pem:" in row for row in rows))
        yield terminal, running, before


def test_missing_certificate_sends_nothing(at: dict[str, str], folder: Path) -> None:
    done = resolve("cat", "-v", "--cert", "none.pem", f"{at['https']}/about.txt")
    assert (done.status, done.out) == (2, b"")
    assert all(word in done.messages for word in ("--cert 'none.pem'", "No such file"))
    assert "C: " not in done.messages


def test_key_password_without_terminal_reads_and_sends_nothing(
    locked: str, at: dict[str, str], folder: Path
) -> None:
    """Standard input is for `-i -` only: it never provides this password."""
    command = [sys.executable, "-c", "from resolver.cli import run; run()", "cat", "--cert", locked]
    reading, writing = os.pipe()
    os.write(writing, b"open sesame\n")
    os.close(writing)
    done = subprocess.run(
        [*command, "--cacert", at["cafile"], "-v", f"{at['https']}/about.txt"],
        stdin=reading,
        capture_output=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        start_new_session=True,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert all(word in done.stderr for word in (b"key", b"password", b"terminal"))
    assert b"C: " not in done.stderr
    assert os.read(reading, 100) == b"open sesame\n"
    os.close(reading)
