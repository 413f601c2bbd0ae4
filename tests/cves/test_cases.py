"""Flaws of other clients that no other test covers; `tests/cves/table.py` names the tests of all others."""

from __future__ import annotations

import gzip
import ssl
import tracemalloc
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import trio
import trustme
from cryptography.x509.oid import ExtendedKeyUsageOID

import resolver
from fixtures.http import ABOUT, moved, serve
from fixtures.http.digest import Guard
from fixtures.http.site import Page
from fixtures.proxy import HttpProxy, serve_http_proxy
from protocols.http.http1 import Http1Exchange
from protocols.http.request import prepare
from protocols.wire import run_reader
from resolver import (
    Credentials,
    Disconnected,
    HttpUrl,
    InvalidUrl,
    Limits,
    Policy,
    ProtocolError,
    Resolver,
    TlsError,
)
from resolver.policy.settings import Host

ALICE = Credentials(b"alice", b"wonder land")


async def test_digest_login_is_not_sent_to_another_origin(nursery: trio.Nursery) -> None:
    other = await serve(nursery, {"/": Page(ABOUT, guard=(asking := Guard()))})
    page = replace(moved(other.url("/")), guard=Guard())
    first = await serve(nursery, {"/": page})
    given = {("http", "127.0.0.1", first.port): ALICE}
    async with Resolver(credentials=given) as session:
        with pytest.raises(resolver.LoginRequired):
            await session.fetch(first.url("/"))
    said = ["".join(request.values("authorization")).partition(" ")[0] for request in first.requests]
    assert said[-1] == "Digest"
    assert [request.values("authorization") for request in other.requests] == [[]]
    assert asking.refused == []


async def test_digest_login_of_a_proxy_is_not_sent_to_the_next(nursery: trio.Nursery) -> None:
    other = await serve(nursery)
    first = await serve(nursery, {"/": moved(other.url("/about.txt"))})
    one = await serve_http_proxy(nursery, HttpProxy(guard=Guard()))
    two = await serve_http_proxy(nursery)
    hosts = {
        f"127.0.0.1:{first.port}": Host(proxy=one.url("alice:wonder%20land@")),
        f"127.0.0.1:{other.port}": Host(proxy=two.url()),
    }
    policy = Policy(allow_port=frozenset({first.port, other.port}), allow_password=True)
    async with Resolver(hosts=hosts, policy=policy, environment={}) as session:
        await session.fetch(first.url("/"))
    assert "proxy-authorization" in one.requests[-1].fields
    assert [asked.target for asked in two.requests] == [other.url("/about.txt")]
    assert "proxy-authorization" not in two.requests[0].fields


async def test_body_of_a_redirect_is_not_decoded(nursery: trio.Nursery) -> None:
    bomb = moved("/about.txt")
    bomb = replace(
        bomb,
        content=gzip.compress(bytes(64 << 20), 9, mtime=0),
        headers=(*bomb.headers, ("Content-Encoding", "gzip")),
    )
    server = await serve(nursery, {"/": bomb, "/about.txt": Page(ABOUT)})
    async with Resolver() as session:
        await session.fetch(server.url("/about.txt"))  # the first request imports all modules
        tracemalloc.start()
        try:
            response = await session.fetch(server.url("/"))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert response.content == ABOUT
    assert [request.target for request in server.requests] == ["/about.txt", "/", "/about.txt"]
    assert peak < 8 << 20


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("http://a;b@h.example/", b"h.example"),
        ("http://a;b:c;d@h.example/", b"h.example"),
        ("http://h.example;e.example@i.example/", b"i.example"),
    ],
)
def test_semicolon_of_a_user_name_does_not_end_it(text: str, host: bytes) -> None:
    url = resolver.parse(text)
    assert isinstance(url, HttpUrl)
    assert url.host == host.decode()


@pytest.mark.parametrize("text", ["http:me@h.example", "ftp:h.example/p", "https:h.example:443/p"])
def test_url_without_slashes_is_invalid(text: str) -> None:
    with pytest.raises(InvalidUrl):
        resolver.parse(text)


@pytest.mark.parametrize("value", [b"a\0b", b"a\rb", b"a\x0bb"])
def test_control_character_in_a_response_field_raises(value: bytes) -> None:
    exchange = Http1Exchange(prepare(b"GET", b"/", [(b"Host", b"h")]), Limits())
    exchange.encode_piece(b"")
    with pytest.raises(ProtocolError):
        run_reader(exchange.read_head, b"HTTP/1.1 200 OK\r\nA: " + value + b"\r\nContent-Length: 0\r\n\r\n")


@pytest.mark.parametrize(
    "field",
    [
        "Transfer-Encoding: chun\u212aed".encode(),  # lowercase of the Kelvin sign is k
        b"Content-Length: +1",
        b"Content-Length: 1_0",
        "Content-Length: \u0661".encode(),
        b"Content-Length : 1",
        b"Content-Length\xe9: 1",
    ],
)
def test_malformed_framing_field_raises(field: bytes) -> None:
    exchange = Http1Exchange(prepare(b"GET", b"/", [(b"Host", b"h")]), Limits())
    exchange.encode_piece(b"")
    with pytest.raises(ProtocolError):
        run_reader(exchange.read_head, b"HTTP/1.1 200 OK\r\n" + field + b"\r\n\r\n")


@pytest.mark.parametrize("method", [b"GET / HTTP/1.1\r\nA: b\r\n\r\nGET", b"GET\r\nA:", b"G T"])
def test_method_with_other_characters_is_refused(method: bytes) -> None:
    with pytest.raises(resolver.Refused):
        Http1Exchange(prepare(method, b"/", [(b"Host", b"h")]), Limits())


async def fail_handshake(nursery: trio.Nursery, context: ssl.SSLContext, session: Resolver) -> str:
    """Return the message of a failed TLS handshake; assert that the server receives no request."""
    send, receive = trio.open_memory_channel[bytes](1)

    async def serve(stream: trio.SocketStream) -> None:
        wrapped = trio.SSLStream(stream, context, server_side=True)
        try:
            octets = bytes(await wrapped.receive_some())
        except trio.BrokenResourceError:
            octets = b""
        await send.send(octets)

    listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
    port = listeners[0].socket.getsockname()[1]
    async with session:
        with pytest.raises((TlsError, Disconnected)) as raised:  # the alert may arrive after the close
            await session.fetch(f"https://127.0.0.1:{port}/")
    assert await receive.receive() == b""
    return raised.value.message


async def test_server_without_certificate_does_not_match_a_pin(nursery: trio.Nursery) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ADH:@SECLEVEL=0")
    message = await fail_handshake(nursery, context, Resolver(pin="sha256:" + "0" * 64))
    assert "handshake" in message


async def test_certificate_for_another_purpose_is_not_trusted(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setattr(ExtendedKeyUsageOID, "SERVER_AUTH", ExtendedKeyUsageOID.EMAIL_PROTECTION)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    message = await fail_handshake(nursery, context, Resolver(cafile=str(tmp_path / "ca.pem")))
    assert "certificate purpose" in message
