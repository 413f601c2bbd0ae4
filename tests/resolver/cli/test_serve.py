"""`resolve serve` as a process: the address it prints, its settings, and its end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from subprocess import PIPE
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from resolver import check
from resolver.cli.arguments import read
from resolver.cli.serve import make_serve_options, make_settings
from resolver.cli.values import UsageError
from tests.begun import WINDOWS, Program
from tests.fresh import environment
from tests.hang import HANG
from tests.resolver.cli.command import fill_pipe, hide_library, resolve

CHECKOUT = Path(__file__).parents[3]


def start(running: Path, *words: str) -> Program:
    """Start the command; `running` is the runtime directory of the user."""
    variables = {**environment(), "XDG_RUNTIME_DIR": str(running)}
    return Program(
        ["serve", "--config", "none", "--port", "0", *words], loaded=WINDOWS, environment=variables
    )


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_serve_runs_until_signal(number: int, status: int, tmp_path: Path) -> None:
    with start(tmp_path) as program:
        entry = program.stdout.readline().decode().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/enter\?t=[\w-]{43}", entry)
        with urlopen(entry, timeout=HANG) as page:
            assert b'content="0;url=/"' in page.read()
        os.kill(program.pid, number)
        assert program.ended() == (status, "", "")


@pytest.mark.parametrize("words", ["serve --port 0", "mcp --listen 127.0.0.1", "proxy"])
def test_server_with_unread_messages_answers_and_ends(words: str, tmp_path: Path) -> None:
    variables = {**environment(), "XDG_RUNTIME_DIR": str(tmp_path)}
    unread, full = os.pipe()
    fill_pipe(full)
    program = [sys.executable, "-W", "error", "-m", "resolver", *words.split(), "--config", "none"]
    with subprocess.Popen(program, cwd=CHECKOUT, env=variables, stdout=PIPE, stderr=full) as process:
        assert process.stdout is not None
        place = urlsplit(process.stdout.readline().decode().strip())
        connection = HTTPConnection(str(place.hostname), int(place.port or 0), timeout=HANG)
        connection.request("GET", "/", headers={"Host": "h.example"})
        assert connection.getresponse().status in (400, 421)
        connection.close()
        process.terminate()
        assert process.wait(HANG) == 143
    os.close(full)
    os.close(unread)


def test_serve_on_used_port_exits_with_status_3() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        done = resolve("serve", "--config", "none", "--port", str(port))
    assert (done.status, done.out) == (3, b"")
    assert done.messages.startswith("resolve: ")
    assert f" 127.0.0.1 port {port}: " in done.messages


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["proxy"]], ids=" ".join)
def test_server_without_output_is_one_error_line(words: list[str], tmp_path: Path) -> None:
    """The server is already running when its address is written."""
    variables = {**environment(), "XDG_RUNTIME_DIR": str(tmp_path)}
    program = [sys.executable, "-W", "error", "-m", "resolver", *words, "--config", "none"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            program, cwd=CHECKOUT, env=variables, stdout=full, stderr=PIPE, text=True, check=False
        )
    message = "resolve: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (3, message)
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "wb") as closed:
        done = subprocess.run(
            program, cwd=CHECKOUT, env=variables, stdout=closed, stderr=PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (141, "")


def test_serve_without_extra_names_package(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_library(monkeypatch, "jinja2", "resolver.web")
    done = resolve("serve", "--config", "none")
    assert (done.status, done.out) == (13, b"")
    assert done.messages.startswith("resolve: serve ")
    assert done.messages.endswith("serve needs jinja2 3.1.2 or later (the extra web): pip install jinja2\n")


@pytest.mark.parametrize("words", [["http://h.example/"], ["-i", "list"]])
def test_serve_with_url_is_usage_error(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"^serve .*\bURL\b"):
        read(["serve", *words])


def test_serve_uses_mirrors_of_prefixes(tmp_path: Path) -> None:
    """The button `save` of a page saves a file, as `get` does."""
    path = tmp_path / "config.toml"
    path.write_text('[[mirror]]\nprefix = "http://h.example/pub/"\nmirrors = ["ftp://m.example/pub/"]\n')
    path.chmod(0o600)
    command = read(["serve", "--config", str(path)])
    assert command is not None
    assert make_settings(command).get("mirrored") == {"http://h.example/pub/": ("ftp://m.example/pub/",)}


def test_serve_requests_detailed_listings() -> None:
    """Kinds, sizes and dates, as in `ls -l`."""
    command = read(["serve", "--config", "none"])
    assert command is not None
    options = make_settings(command).get("options")
    assert options is not None
    assert options.detailed


@pytest.mark.parametrize(
    ("home", "state"),
    [("", "/home/sam/.local/state"), ("state", "/home/sam/.local/state"), ("/state", "/state")],
)
def test_serve_ledger_is_in_state_directory(home: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/sam")
    monkeypatch.setenv("XDG_STATE_HOME", home)
    command = read(["serve", "--config", "none"])
    assert command is not None
    assert make_serve_options(command).ledger == f"{state}/resolve/transfers.db"


LISTEN = ["serve", "--config", "none", "--listen"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*LISTEN, "192.0.2.1"], "192.0.2.1 --listen-cert --insecure"),
        ([*LISTEN, "2001:db8::1"], "2001:db8::1 --listen-cert --insecure"),
        ([*LISTEN, "192.0.2.1", "--insecure", "--listen-cert", "x"], "--insecure --listen-cert combined"),
        ([*LISTEN, "192.0.2.1", "--insecure", "--policy", "default"], "--listen policy untrusted"),
        ([*LISTEN, "192.0.2.1", "--insecure", "--policy", "cautious"], "--listen policy untrusted"),
        ([*LISTEN, "192.0.2.1", "--insecure", "--file-root", "/tmp"], "--listen --file-root"),
        (["serve", "--insecure"], "--insecure --listen-cert need --listen"),
        (["serve", "--listen-cert", "x"], "--insecure --listen-cert need --listen"),
        *(
            ([*LISTEN, address, "--insecure"], "expected")
            for address in ("0.0.0.0", "::", "", "localhost", "h.example", "ff02::1", "fe80::1%eth0", "127.1")
        ),
        ([*LISTEN, "::ffff:127.0.0.1"], "address ::ffff:127.0.0.1"),
    ],
)
def test_listen_invalid_options_are_usage_errors(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(words)
    assert all(word in str(caught.value) for word in message.split())


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "::1"])
def test_listen_on_loopback_is_not_public(address: str) -> None:
    command = read([*LISTEN, address])
    assert command is not None
    wishes = make_serve_options(command)
    assert (wishes.address, wishes.is_public, command.policy) == (address, False, "default")


def test_listen_public_refuses_local_targets(tmp_path: Path) -> None:
    """The configuration does not change this."""
    (tmp_path / "config.toml").write_text('policy = "default"\n')
    words = ["serve", "--config", str(tmp_path / "config.toml"), "--listen", "192.0.2.1", "--insecure"]
    command = read(words)
    assert command is not None
    wishes = make_serve_options(command)
    assert (wishes.address, wishes.is_public) == ("192.0.2.1", True)
    for url in ("file:///etc/passwd", "http://127.0.0.1/", "http://192.168.0.1/"):
        assert check(url, policy=wishes.settings["policy"], origin="user").action == "refuse"


def test_serve_prints_new_entry_on_sigusr1(tmp_path: Path) -> None:
    """A server with `--listen` writes no file by which `open` could find it."""
    with start(tmp_path, "--listen", "127.0.0.1") as program:
        first = program.stdout.readline()
        os.kill(program.pid, signal.SIGUSR1)
        second = program.stdout.readline()
        assert first.partition(b"?")[0] == second.partition(b"?")[0]
        assert first != second
        assert list(tmp_path.iterdir()) == []
        program.terminate()
        assert program.wait() == 143
