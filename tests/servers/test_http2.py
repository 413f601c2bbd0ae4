"""HTTP/2 against nginx: all that https has without it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

import resolver
from resolver import Kind, Resolver
from tests.servers.http_servers import ABOUT, DATA, LONG, HttpServer


def session_of(nginx: HttpServer) -> Resolver:
    return Resolver(cafile=str(nginx.authority))


async def test_documents(nginx: HttpServer) -> None:
    async with session_of(nginx) as session:
        about = await session.fetch(nginx.http2_url("/about.txt"))
        empty = await session.fetch(nginx.http2_url("/empty.txt"))
        long = await session.fetch(nginx.http2_url("/long.txt"))
        data = await session.fetch(nginx.http2_url("/data.bin"))
        odd = await session.fetch(nginx.http2_url("/names/a%20b%7bc%7d.txt"))
    assert (about.text, about.charset, about.verified) == (ABOUT.decode(), "utf-8", ("length",))
    assert (empty.content, empty.verified) == (b"", ("length",))
    assert dict(long.headers)["content-encoding"] == "gzip"
    assert (long.content, long.size, long.verified) == (LONG, None, ("terminator",))
    assert (data.content, data.size, data.media_type) == (DATA, len(DATA), "application/octet-stream")
    assert odd.content == ABOUT
    assert about.modified is not None
    assert nginx.requests()[-1][1] == "GET /names/a%20b%7bc%7d.txt HTTP/2.0"


async def test_one_connection_serves_them_all(nginx: HttpServer) -> None:
    before = len(nginx.requests())
    async with session_of(nginx) as session:
        for path in ("/about.txt", "/moved", "/long.txt", "/data.bin", "/nothing"):
            await session.fetch(nginx.http2_url(path))
        for path in ("/missing", "/teapot", "/busy"):
            with pytest.raises(resolver.Declined):
                await session.fetch(nginx.http2_url(path))
        entry = await session.info(nginx.http2_url("/data.bin"))
    asked = nginx.requests()[before:]
    assert (entry.kind, entry.size) == (Kind.DOCUMENT, len(DATA))
    assert {line.rpartition(" ")[2] for _, line, *_ in asked} == {"HTTP/2.0"}
    assert asked[-1][1] == "HEAD /data.bin HTTP/2.0"
    assert len({connection for connection, *_ in asked}) == 1


async def test_a_file_that_was_begun(nginx: HttpServer, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(DATA[:100_000])
    async with session_of(nginx) as session:
        saved = await session.save(nginx.http2_url("/data.bin"), str(tmp_path / "data.bin"), exists="resume")
    assert (tmp_path / "data.bin").read_bytes() == DATA
    assert saved.resumed_from == 100_000
    assert nginx.requests()[-1][1:4] == ["GET /data.bin HTTP/2.0", "206", f"bytes={100_000 - 4096}-"]


async def test_credentials(nginx: HttpServer) -> None:
    async with session_of(nginx) as session:
        with pytest.raises(resolver.LoginRequired):
            await session.fetch(nginx.http2_url("/private/secret.txt"))
        secret = await session.fetch(nginx.http2_url("/private/secret.txt", "user:password@"))
    assert secret.content == b"A secret.\n"


async def test_more_requests_than_a_connection_serves(nginx: HttpServer) -> None:
    """nginx leaves after a thousand, by GOAWAY, and none is lost."""
    before = len(nginx.requests())
    async with session_of(nginx) as session:
        for _ in range(1_010):
            assert (await session.fetch(nginx.http2_url("/about.txt"))).content == ABOUT
    asked = nginx.requests()[before:]
    assert len(asked) == 1_010
    assert len({connection for connection, *_ in asked}) == 2


async def test_a_plain_httpx_client(nginx: HttpServer) -> None:
    """What has a body goes in HTTP/1.1, on a connection that is kept for the next such."""
    before = len(nginx.requests())
    transport = resolver.HttpxTransport(cafile=str(nginx.authority))
    async with httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
        for _ in range(2):
            long = await client.get(nginx.http2_url("/long.txt"))
            assert (long.content, long.http_version, long.reason_phrase) == (LONG, "HTTP/2", "OK")
            refused = await client.post(nginx.http2_url("/about.txt"), content=DATA[:4096])
            assert (refused.status_code, refused.http_version) == (405, "HTTP/1.1")
        head = await client.head(nginx.http2_url("/data.bin"))
        with pytest.raises(resolver.Refused):
            await client.get(nginx.http2_url("/moved/mail"))
    assert head.headers["content-length"] == str(len(DATA))
    asked = nginx.requests()[before:]
    connections = [
        {connection for connection, line, *_ in asked if line.endswith(version)}
        for version in ("HTTP/2.0", "HTTP/1.1")
    ]
    assert [len(each) for each in connections] == [1, 1]
