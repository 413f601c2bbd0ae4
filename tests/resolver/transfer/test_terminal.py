"""Telnet sessions that a program controls. The test scripts the bytes that the service sends."""

from __future__ import annotations

import re
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
import trio
import trio.testing

import resolver
from fixtures.__main__ import server_tls
from fixtures.telnet.board import FIRST_PAGE
from resolver import (
    Disconnected,
    Event,
    LimitExceeded,
    Limits,
    NotConfigured,
    Options,
    Policy,
    Refused,
    Sent,
    TerminalSession,
    TimedOut,
    TlsError,
    Truncated,
    Warned,
)
from resolver.transfer.terminal import Expected
from tests.hang import HANG

ASKED = b"\xff\xfb\x01\xff\xfd\x1f\xff\xfd\x18"
ANSWERED = b"\xff\xfd\x01\xff\xfb\x1f\xff\xfa\x1f\0\x50\0\x18\xff\xf0\xff\xfb\x18"


@asynccontextmanager
async def talking(
    limits: Limits | None = None, events: list[Event] | None = None, charset: str | None = None
) -> AsyncIterator[tuple[TerminalSession, trio.SocketStream]]:
    """Yield a session and the service that the session is connected to."""
    with trio.fail_after(HANG):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        on_event = None if events is None else events.append
        network = resolver.Resolver(policy=Policy(allow_port={port}), limits=limits, on_event=on_event)
        async with listener, network as session:
            url = f"telnet://guest:pw@127.0.0.1:{port}/"
            terminal = session.open_terminal(url, charset=charset)
            async with terminal as held, await listener.accept() as service:
                yield held, service


async def said(service: trio.SocketStream, count: int) -> bytes:
    octets = b""
    while len(octets) < count:
        octets += await service.receive_some(count - len(octets))
    return octets


async def test_terminal_expects_and_sends_lines() -> None:
    async with talking() as (session, service):
        await service.send_all(ASKED + b"login: ")
        assert await session.expect(b"login: ") == b"login: "
        assert session.echoing
        await session.send_line("guest")
        assert await said(service, len(ANSWERED) + 7) == ANSWERED + b"guest\r\n"
        await service.send_all(b"guest\r\nPassword: more\r")
        assert await session.expect(re.compile(rb"P\w+: ")) == b"guest\nPassword: "
        await service.send_all(b"\n")
        await service.send_eof()
        assert await session.read() == b"more\n"


async def test_terminal_events_mask_input() -> None:
    events: list[Event] = []
    async with talking(events=events) as (session, service):
        await session.send_line("hunter2")
        await session.send(b"hunter3\r")
        assert await said(service, 18) == b"hunter2\r\nhunter3\r\0"
    assert b"".join(event.octets for event in events if isinstance(event, Sent)) == b"****\r\n****"
    assert "S06" in {event.finding.rule for event in events if isinstance(event, Warned)}


async def test_terminal_sends_commands_and_sizes() -> None:
    async with talking() as (session, service):
        await session.send_command("ayt")
        assert await said(service, 2) == b"\xff\xf6"
        await session.resize(132, 40)
        await service.send_all(b"\xff\xfd\x1f$ ")
        await session.expect(b"$ ")
        assert await said(service, 12) == b"\xff\xfb\x1f\xff\xfa\x1f\0\x84\0\x28\xff\xf0"
        with pytest.raises(NotConfigured):
            await session.send_command("eof")
        with pytest.raises(Refused):
            await session.send_line("a\r\nb")


async def test_urgent_byte_keeps_its_position() -> None:
    async with talking() as (session, service):
        await service.socket.send(b"before")
        await service.socket.send(b"\xff", socket.MSG_OOB)
        await service.socket.send(b"\xf2after")
        assert await session.expect(b"after") == b"beforeafter"


async def test_expect_timeout_loses_no_data() -> None:
    async with talking() as (session, service):
        await service.send_all(b"the half of ")
        assert await session.expect(b"the ") == b"the "
        with pytest.raises(TimedOut):
            await session.expect(b"it", timeout=0)
        await service.send_all(b"it\r\n")
        assert await session.expect(b"it") == b"half of it"


async def test_expect_at_end_is_truncated() -> None:
    async with talking() as (session, service):
        await service.send_all(b"hello\xff")
        await service.send_eof()
        with pytest.raises(Truncated) as error:
            await session.expect(b"login: ")
        assert error.value.received == 5


async def test_read_after_reset_is_disconnected() -> None:
    async with talking() as (session, service):
        service.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await service.aclose()
        with pytest.raises(Disconnected):
            await session.read()


async def test_unread_text_is_limited() -> None:
    async with talking(Limits(body=10)) as (session, service):
        await service.send_all(b"0123456789a")
        with pytest.raises(LimitExceeded):
            await session.expect(b"$")


async def test_expect_in_long_text_takes_linear_time() -> None:
    """Each doubled byte 255 is parsed separately. A copy of the text for each of them would take 20 s."""
    async with talking() as (session, service), trio.open_nursery() as nursery:
        nursery.start_soon(service.send_all, b"a" * 8_000_000 + b"\xff\xff" * 20_000 + b"$ ")
        began = time.process_time()
        assert len(await session.expect(b"$ ")) == 8_020_002
        assert time.process_time() - began < 4


@pytest.mark.parametrize("pattern", [b"ogin: ", re.compile(rb"o\w+: "), resolver.prompt(b"ogin: ")])
async def test_expect_finds_pattern_across_reads(pattern: Expected) -> None:
    async with talking() as (session, service), trio.open_nursery() as nursery:
        nursery.start_soon(session.expect, pattern)
        for octet in b"login: ":
            await trio.testing.wait_all_tasks_blocked()
            await service.send_all(bytes((octet,)))


async def test_terminal_decodes_charset_of_service() -> None:
    async with talking(charset="cp437") as (session, service):
        await service.send_all(FIRST_PAGE)
        page = session.decoded(await session.expect(b"Handle: "))
        assert "\u2551\x1b[33m \u2591\u2592\u2593\u2588 B\u00dc \x1b[36m\u2551\n" in page
        assert "NEW\u00a0MAIL" in page
        await session.send_line("J\u00fcrgen")
        answers = b"\xff\xfd\x01\xff\xfd\x03\xff\xfb\x1f\xff\xfa\x1f\0\x50\0\x18\xff\xf0"
        assert await said(service, len(answers) + 8) == answers + b"J\x81rgen\r\n"


async def begin_tls(
    listener: trio.SocketListener, context: ssl.SSLContext, *, whole: bool, agrees: bool = True
) -> None:
    """Run a service with START_TLS that closes the connection with or without close_notify."""
    stream = await listener.accept()
    assert await said(stream, 3) == b"\xff\xfb\x2e"
    if not agrees:
        await stream.send_all(b"\xff\xfe\x2ein the clear")
        await stream.aclose()
        return
    await stream.send_all(b"\xff\xfd\x2e\xff\xfa\x2e\x01\xff\xf0")
    assert await said(stream, 6) == b"\xff\xfa\x2e\x01\xff\xf0"
    secure = trio.SSLStream(stream, context, server_side=True)
    await secure.send_all(b"> bye")
    await (secure if whole else stream).aclose()


@pytest.mark.parametrize("whole", [True, False])
async def test_terminal_start_tls_and_close_notify(tmp_path: Path, whole: bool) -> None:
    context, cafile = server_tls(tmp_path)
    with trio.fail_after(HANG):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        url = f"telnet://127.0.0.1:{listener.socket.getsockname()[1]}/"
        network = resolver.Resolver(cafile=str(cafile), options=Options(tls="require"))
        async with listener, network as held, trio.open_nursery() as nursery:
            nursery.start_soon(partial(begin_tls, listener, context, whole=whole))
            async with held.open_terminal(url) as session:
                assert session.secured
                assert await session.expect(b"> ") == b"> "
                if whole:
                    assert await session.read() == b"bye"
                else:
                    with pytest.raises(Truncated, match="close_notify"):
                        await session.read()


@pytest.mark.parametrize("tls", ["try", "require"])
async def test_terminal_start_tls_refused_by_service(tmp_path: Path, tls: Literal["try", "require"]) -> None:
    context, _ = server_tls(tmp_path)
    with trio.fail_after(HANG):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        url = f"telnet://127.0.0.1:{listener.socket.getsockname()[1]}/"
        network = resolver.Resolver(options=Options(tls=tls))
        async with listener, network as held, trio.open_nursery() as nursery:
            nursery.start_soon(partial(begin_tls, listener, context, whole=True, agrees=False))
            if tls == "require":
                with pytest.raises(TlsError):
                    async with held.open_terminal(url):
                        pass
                return
            async with held.open_terminal(url) as session:
                assert await session.read() == b"in the clear"
                assert [finding.rule for finding in session.findings] == ["telnet:clear"]


async def test_open_terminal_of_derived_url_is_refused() -> None:
    async with resolver.Resolver() as session:
        with pytest.raises(Refused):
            async with session.open_terminal("telnet://h.example/", origin="derived"):
                pass


async def test_open_terminal_of_other_scheme_is_unsupported() -> None:
    async with resolver.Resolver() as session:
        with pytest.raises(resolver.UnsupportedScheme):
            async with session.open_terminal("gopher://h.example/"):
                pass
