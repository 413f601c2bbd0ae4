"""TLS against the mock server: explicit and implicit, and every way for it to fail."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trio
import trustme

from fixtures.ftp import Behaviour, Data, Order, serve
from fixtures.ftp.tree import ALL_OCTETS, TEXT
from resolver import Limits, NotFound, Options, ProtocolError, ResolveError, TlsError, Truncated
from tests.protocols.ftp.on_a_socket import retrieve

SHORT = Limits(idle=0.2)


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("order", [Order.HELD, Order.EAGER])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_tls(
    implicit: bool,
    order: Order,
    version: ssl.TLSVersion,
    authority: trustme.CA,
    cafile: Path,
    nursery: trio.Nursery,
) -> None:
    """Data connections resume the control connection's session, as servers demand."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.maximum_version = version
    behaviour = Behaviour(order=order, resumes_sessions=True)
    server = await serve(nursery, behaviour, tls=context, implicit=implicit, needs_tls=True)
    taken = await retrieve(server, "pub/a.bin", cafile=cafile, options=Options(tls="require"))
    assert taken.error is None
    assert taken.body == ALL_OCTETS
    assert taken.verified == {"final-reply", "length", "close-notify"}
    assert server.violations == []


TLS_FAILURES: list[tuple[str, Behaviour, type[ResolveError]]] = [
    ("AUTH refused", Behaviour(replies={b"AUTH": b"502 no\r\n"}), TlsError),
    ("greeted as logged in", Behaviour(greeting=b"230 in\r\n"), TlsError),
    (
        "replies behind AUTH in the clear",
        Behaviour(replies={b"AUTH": b"234 go\r\n230 in\n"}),
        ProtocolError,
    ),
    ("PROT refused", Behaviour(replies={b"PROT": b"536 no\r\n"}), TlsError),
    ("cut without close_notify", Behaviour(data=Data.CUT), Truncated),
    (
        "550 instead of a handshake",
        Behaviour(replies={b"RETR": b"550 no\r\n"}),
        NotFound,
    ),
]


@pytest.mark.parametrize(("why", "behaviour", "error"), TLS_FAILURES, ids=[row[0] for row in TLS_FAILURES])
async def test_tls_fails_closed(
    why: str,
    behaviour: Behaviour,
    error: type[ResolveError],
    server_tls: ssl.SSLContext,
    cafile: Path,
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery, behaviour, tls=server_tls)
    taken = await retrieve(server, "pub/a.bin", cafile=cafile, options=Options(tls="require"), limits=SHORT)
    assert type(taken.error) is error
    assert (b"USER anonymous" in server.commands) == (error not in (TlsError, ProtocolError))


async def test_a_server_without_tls_will_do_only_where_tls_was_to_be_tried(
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery)
    assert (await retrieve(server, "pub/a.txt", options=Options(tls="try"))).body == TEXT
    assert isinstance((await retrieve(server, "pub/a.txt", options=Options(tls="require"))).error, TlsError)
