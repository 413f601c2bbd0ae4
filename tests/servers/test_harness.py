"""The harness: servers start, answer, and are gone afterwards; a missing server is reported."""

from __future__ import annotations

import ftplib
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.servers import ftp_tree
from tests.servers.ftp_servers import FtpServer
from tests.servers.gopher_servers import GopherServer
from tests.servers.namespace import PASSWORD, USER
from tests.servers.packages import find
from tests.servers.service import LOOPBACK, activated, daemon, inetd, reserved_port

_ECHO = "import sys; print(sys.stdin.readline().upper(), end='')"
_STUBBORN = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
signal.pause()
"""
_ACTIVATED = """
import os, socket
assert os.environ["LISTEN_PID"] == str(os.getpid())
with socket.socket(fileno=3) as listener, listener.accept()[0] as connection:
    connection.sendall(connection.recv(100).upper())
"""


def _exchange_line(port: int, line: bytes) -> bytes:
    with socket.create_connection((LOOPBACK, port)) as connection, connection.makefile("rb") as answer:
        connection.sendall(line)
        return answer.read()


def test_inetd_runs_command_per_connection_until_exit(tmp_path: Path) -> None:
    with inetd([sys.executable, "-c", _ECHO], os.environ, tmp_path / "log") as port:
        assert [_exchange_line(port, b"one\n"), _exchange_line(port, b"two\n")] == [b"ONE\n", b"TWO\n"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((LOOPBACK, port))


def test_inetd_exit_ends_busy_server(tmp_path: Path) -> None:
    with inetd([sys.executable, "-c", _STUBBORN], os.environ, tmp_path / "log") as port:
        connection = socket.create_connection((LOOPBACK, port))
        answer = connection.makefile("rb")
        assert answer.readline() == b"up\n"
    with connection, answer:
        assert answer.read() == b"", "the server's end of the connection is closed"


def test_activated_server_inherits_socket(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _ACTIVATED]
    for _ in range(3):  # another process may take the port immediately
        with activated(command, os.environ, tmp_path / "log") as port:
            assert _exchange_line(port, b"one\n") == b"ONE\n"
        try:
            socket.create_connection((LOOPBACK, port)).close()
        except ConnectionRefusedError:
            return
    pytest.fail("somebody listens there still")


def test_daemon_that_fails_is_reported_with_its_output(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no configuration')"]
    with (
        pytest.raises(RuntimeError, match="no configuration"),
        daemon(command, os.environ, tmp_path / "log", ready="^up$"),
    ):
        pass


def test_reserved_port_is_bindable_only_with_reuseaddr() -> None:
    with reserved_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((LOOPBACK, port))
        with socket.create_server((LOOPBACK, port)):
            pass


@pytest.mark.parametrize(
    ("setting", "outcome"),
    [(None, pytest.skip.Exception), ("required", pytest.fail.Exception)],
)
def test_missing_server_skips_or_fails(
    setting: str | None, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RESOLVE_SERVERS_ROOT", str(tmp_path))
    monkeypatch.delenv("RESOLVE_SERVERS", raising=False)
    if setting is not None:
        monkeypatch.setenv("RESOLVE_SERVERS", setting)
    with pytest.raises(outcome, match="make servers"):
        find("nothing", "usr/sbin/no-such-server")


@pytest.mark.parametrize("name", ["gophernicus", "pygopherd"])
def test_gopher_servers_answer(name: str, request: pytest.FixtureRequest) -> None:
    server: GopherServer = request.getfixturevalue(name)
    assert b"A text of two lines." in _exchange_line(server.port, b"/about.txt\r\n")


def test_ftp_servers_accept_both_logins(ftp_server: FtpServer) -> None:
    for user, password, name, content in (
        ("anonymous", "someone@example.test", "pub/bin.dat", ftp_tree.OCTETS),
        (USER, PASSWORD, "private.txt", b"bob's private file\n"),
    ):
        received = bytearray()
        with ftplib.FTP() as client:
            client.connect(LOOPBACK, ftp_server.ports["plain"])
            client.login(user, password)
            client.retrbinary(f"RETR {name}", received.extend)
        assert received == content


def test_ftp_servers_speak_tls(ftp_server: FtpServer) -> None:
    for flavor in set(ftp_server.ports) - {"plain", "few", "ascii", "implicit"}:
        with ftplib.FTP_TLS() as client:
            client.connect(LOOPBACK, ftp_server.ports[flavor])
            assert client.auth().startswith("234")
            client.login(USER, PASSWORD)
            assert client.prot_p().startswith("2")
