"""A telnet session that a program holds without waiting itself."""

from __future__ import annotations

import threading

import pytest

import fixtures.telnet
from resolver import Policy, Refused, TimedOut, blocking
from tests.elsewhere import served
from tests.hang import HANG


def test_a_session_is_talked_to_from_a_thread() -> None:
    with (
        served(fixtures.telnet.serve) as server,
        blocking.Resolver(policy=Policy(allow_port={server.port})) as held,
    ):
        with held.open_terminal(server.url(), size=(100, 30)) as session:
            assert session.expect(b"login: ") == b"Welcome.\nlogin: "
            typing = threading.Thread(target=session.send_line, args=("guest",))
            typing.start()
            assert session.expect(b"$ ") == b"guest\nhello guest\n$ "
            typing.join(HANG)
            assert (session.echoing, session.secured, session.findings) == (True, False, ())
            session.resize(132, 40)
            session.send(b"size\r")
            assert session.decoded(session.expect(b"$ ")) == "size\n132 by 40\n$ "
            with pytest.raises(TimedOut):
                session.expect(b"never", timeout=0)
            session.send_line("bye")
            assert session.read() == b"bye\nbye\n"
        with pytest.raises(ValueError, match="left"):
            session.read()
    assert server.violations == []


def test_it_is_refused_what_nobody_chose() -> None:
    with (
        blocking.Resolver() as held,
        pytest.raises(Refused),
        held.open_terminal("telnet://h.example/", origin="derived"),
    ):
        pass
