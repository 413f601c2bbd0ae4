"""HTTP/2: a `Resolver` against the mock server of frames (documents, faults, negotiation)."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import trio
from h2.connection import H2Connection

import resolver
from fixtures.http import serve as serve_http1
from fixtures.http.framed_server import Fault, FramedServer, frame, serve
from fixtures.http.site import ABOUT, DATA, EXAMPLE, Page
from resolver import Kind, Limits, Resolver, RetryPolicy
from resolver.transfer import extras as http2
from tests.hang import HANG

BIG = bytes(range(256)) * 5_000  # twenty windows of 64 KiB
SITE = {**EXAMPLE, "/big": Page(BIG), "/big/unannounced": Page(BIG, framing="chunked")}
ONCE = RetryPolicy(tries=1)


def head(machine: H2Connection, stream: int, *fields: tuple[str, str]) -> bytes:
    machine.send_headers(stream, [(":status", "200"), *fields])
    return machine.data_to_send()


@pytest.mark.parametrize(
    ("path", "content", "verified"),
    [
        ("/about.txt", ABOUT, ("length",)),
        ("/data", DATA, ("length",)),
        ("/data/chunked", DATA, ("terminator",)),
        ("/empty", b"", ("length",)),
        ("/gzip", ABOUT * 100, ("length",)),
        ("/moved", ABOUT, ("length",)),
        ("/big", BIG, ("length",)),
        ("/big/unannounced", BIG, ("terminator",)),
    ],
)
async def test_http2_documents_are_fetched_and_saved(
    path: str,
    content: bytes,
    verified: tuple[str, ...],
    nursery: trio.Nursery,
    tls: tuple[ssl.SSLContext, str],
    tmp_path: Path,
) -> None:
    server = await serve(nursery, tls[0], SITE)
    async with Resolver(cafile=tls[1]) as session:
        response = await session.fetch(server.url(path))
        saved = await session.save(server.url(path), str(tmp_path / "file"))
    assert (response.content, response.verified) == (content, verified)
    assert saved.verified == verified
    if path != "/gzip":
        assert (tmp_path / "file").read_bytes() == content
    assert server.connections == 1
    assert server.violations == []


async def test_http2_info_and_not_found(nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]) -> None:
    server = await serve(nursery, tls[0])
    async with Resolver(cafile=tls[1]) as session:
        entry = await session.info(server.url("/data"))
        with pytest.raises(resolver.NotFound):
            await session.fetch(server.url("/missing"))
        await session.fetch(server.url("/about.txt"))
    assert (entry.kind, entry.size) == (Kind.DOCUMENT, len(DATA))
    assert [request.method for request in server.requests] == ["HEAD", "GET", "GET"]


async def test_http2_resumes_file(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str], tmp_path: Path
) -> None:
    server = await serve(nursery, tls[0])
    (tmp_path / "data").write_bytes(DATA[:20_000])
    async with Resolver(cafile=tls[1]) as session:
        saved = await session.save(server.url("/data"), str(tmp_path / "data"), exists="resume")
    assert (tmp_path / "data").read_bytes() == DATA
    assert saved.resumed_from == 20_000
    assert server.violations == []


async def test_http2_events_mask_authorization(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]
) -> None:
    server = await serve(nursery, tls[0])
    events: list[object] = []
    async with Resolver(cafile=tls[1], on_event=events.append) as session:
        await session.fetch(server.url("/about.txt", user="user:password@"))
    assert server.requests[0].values("authorization") == ["Basic dXNlcjpwYXNzd29yZA=="]
    assert server.requests[0].values(":authority") == [f"127.0.0.1:{server.port}"]
    assert "authorization: ****" in repr(events)
    assert "dXNlcj" not in repr(events)


Spoil = Callable[[H2Connection, int], bytes]


def reset(machine: H2Connection, stream: int) -> bytes:
    return frame(3, 0, stream, bytes((0, 0, 0, 7)))


def cut(machine: H2Connection, stream: int) -> bytes:
    return head(machine, stream, ("content-length", "10")) + frame(0, 0, stream, b"five\n")


def short(machine: H2Connection, stream: int) -> bytes:
    return head(machine, stream, ("content-length", "10")) + frame(0, 1, stream, b"five\n")


def broken(machine: H2Connection, stream: int) -> bytes:
    return cut(machine, stream) + reset(machine, stream)


def pings(machine: H2Connection, stream: int) -> bytes:
    return frame(6, 0, 0, bytes(8)) * 5000


def no_http2(machine: H2Connection, stream: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\n\r\n"


def left(machine: H2Connection, stream: int) -> bytes:
    return frame(7, 0, 0, bytes(8))


#: The fault, whether the server then closes, and the errors of `Resolver` and of httpx.
WRONG: list[tuple[Spoil, bool, type[resolver.ResolveError], type[httpx.TransportError]]] = [
    (reset, False, resolver.Disconnected, httpx.RemoteProtocolError),
    (left, True, resolver.Disconnected, httpx.RemoteProtocolError),
    (cut, True, resolver.Truncated, httpx.ReadError),
    (short, False, resolver.Truncated, httpx.RemoteProtocolError),
    (broken, False, resolver.Truncated, httpx.RemoteProtocolError),
    (pings, False, resolver.ProtocolError, httpx.RemoteProtocolError),
    (no_http2, False, resolver.ProtocolError, httpx.RemoteProtocolError),
    (head, True, resolver.Disconnected, httpx.ReadError),
    (head, False, resolver.TimedOut, httpx.ReadTimeout),
]


@pytest.mark.parametrize(("spoil", "leaves", "error"), [row[:3] for row in WRONG])
async def test_http2_faults_raise_specific_errors(
    spoil: Spoil,
    leaves: bool,
    error: type[resolver.ResolveError],
    nursery: trio.Nursery,
    tls: tuple[ssl.SSLContext, str],
) -> None:
    spoilt: dict[str, Fault] = {"/data": (spoil, leaves)}
    server = await serve(nursery, tls[0], faults=spoilt)
    async with Resolver(cafile=tls[1], patience=ONCE, limits=Limits(idle=0.2)) as session:
        with trio.fail_after(HANG), pytest.raises(error) as caught:
            await session.fetch(server.url("/data"))
        if isinstance(caught.value, resolver.Truncated):
            assert (caught.value.received, caught.value.expected) == (5, 10)
        assert (await session.fetch(server.url("/about.txt"))).content == ABOUT
    assert server.connections == 2


async def test_http2_reset_after_head_reports_its_error_code(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]
) -> None:
    def refuse(machine: H2Connection, stream: int) -> bytes:
        return head(machine, stream) + reset(machine, stream)

    server = await serve(nursery, tls[0], faults={"/data": (refuse, False)})
    async with Resolver(cafile=tls[1], patience=ONCE) as session:
        with pytest.raises(resolver.Disconnected) as caught:
            await session.fetch(server.url("/data"))
    assert "error 7" in caught.value.message


async def test_http2_request_after_goaway_is_repeated(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]
) -> None:
    """GOAWAY reports that the request was not processed, so the client repeats it on a new connection."""
    server: FramedServer

    def refuse(machine: H2Connection, stream: int) -> bytes:
        server.mend("/data")
        return left(machine, stream)

    server = await serve(nursery, tls[0], faults={"/data": (refuse, True)})
    async with Resolver(cafile=tls[1], patience=ONCE) as session:
        await session.fetch(server.url("/about.txt"))
        assert (await session.fetch(server.url("/data"))).content == DATA
    assert server.connections == 2
    assert [request.path for request in server.requests] == ["/about.txt", "/data", "/data"]


async def test_http2_server_may_choose_http1(nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]) -> None:
    server = await serve(nursery, tls[0], protocols=("http/1.1",))
    async with Resolver(cafile=tls[1]) as session:
        assert (await session.fetch(server.url("/"))).content == b"plain\n"


async def test_http2_without_extra_is_not_offered(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http2, "find_frames", lambda: None)
    server = await serve(nursery, tls[0])
    async with Resolver(cafile=tls[1]) as session:
        assert (await session.fetch(server.url("/"))).content == b"plain\n"


async def test_http2_server_without_alpn_uses_http1(
    nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]
) -> None:
    server = await serve_http1(nursery, ssl_context=tls[0])
    async with Resolver(cafile=tls[1]) as session:
        assert (await session.fetch(server.url("/about.txt"))).content == ABOUT


_WITHOUT = """
import sys, trio, resolver
from resolver.transfer.session import Resolver
async def main():
    async with Resolver(cafile=sys.argv[2]) as session:
        await session.fetch(sys.argv[1])
trio.run(main)
print("h2" in sys.modules)
"""


@pytest.mark.parametrize(("protocol", "loaded"), [("h2", b"True\n"), ("http/1.1", b"False\n")])
async def test_h2_is_imported_only_if_negotiated(
    protocol: str, loaded: bytes, nursery: trio.Nursery, tls: tuple[ssl.SSLContext, str]
) -> None:
    server = await serve(nursery, tls[0], protocols=(protocol,))
    command = [sys.executable, "-c", _WITHOUT, server.url("/"), tls[1]]
    done = await trio.run_process(command, capture_stdout=True, stderr=subprocess.DEVNULL)
    assert done.stdout == loaded
