"""http and https against nginx: what the mock server was made to look like, and what it was not."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import httpx
import pytest

import resolver
from resolver import Kind, Resolver
from tests.servers.http_servers import ABOUT, DATA, LONG, HttpServer

DIGEST = f"sha256:{sha256(DATA).hexdigest()}"
SCHEMES = pytest.mark.parametrize("scheme", ["http", "https"])


def session_of(nginx: HttpServer) -> Resolver:
    return Resolver(cafile=str(nginx.authority))


@SCHEMES
async def test_documents(nginx: HttpServer, scheme: str) -> None:
    async with session_of(nginx) as session:
        about = await session.fetch(nginx.url("/about.txt", scheme))
        empty = await session.fetch(nginx.url("/empty.txt", scheme))
        long = await session.fetch(nginx.url("/long.txt", scheme))
        data = await session.fetch(nginx.url("/data.bin", scheme))
    assert (about.text, about.charset, about.verified) == (ABOUT.decode(), "utf-8", ("length",))
    assert (empty.content, empty.verified) == (b"", ("length",))
    assert dict(long.headers)["content-encoding"] == "gzip"
    assert (long.content, long.size, long.verified) == (LONG, None, ("terminator",))
    assert (data.content, data.size, data.media_type) == (DATA, len(DATA), "application/octet-stream")
    assert about.modified is not None


@SCHEMES
async def test_one_connection_serves_them_all(nginx: HttpServer, scheme: str) -> None:
    before = len(nginx.requests())
    async with session_of(nginx) as session:
        for path in ("/about.txt", "/moved", "/long.txt", "/data.bin", "/nothing"):
            await session.fetch(nginx.url(path, scheme))
        for path in ("/missing", "/teapot", "/busy"):
            with pytest.raises(resolver.Declined):
                await session.fetch(nginx.url(path, scheme))
        await session.info(nginx.url("/data.bin", scheme))
    asked = nginx.requests()[before:]
    assert len(asked) == 10
    assert len({connection for connection, *_ in asked}) == 1


async def test_facts(nginx: HttpServer) -> None:
    async with session_of(nginx) as session:
        entry = await session.info(nginx.url("/data.bin"))
    assert (entry.kind, entry.size) == (Kind.DOCUMENT, len(DATA))
    assert nginx.requests()[-1][1] == "HEAD /data.bin HTTP/1.1"


@SCHEMES
async def test_files(nginx: HttpServer, scheme: str, tmp_path: Path) -> None:
    async with session_of(nginx) as session:
        for name, content in (("data.bin", DATA), ("long.txt", LONG)):
            saved = await session.save(nginx.url(f"/{name}", scheme), str(tmp_path / name))
            assert (tmp_path / name).read_bytes() == content
            assert saved.verified == ("length",)  # uncoded: so the length is that of the file


async def test_a_file_that_was_begun(nginx: HttpServer, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(DATA[:100_000])
    async with session_of(nginx) as session:
        saved = await session.save(nginx.url("/data.bin"), str(tmp_path / "data.bin"), exists="resume")
    assert (tmp_path / "data.bin").read_bytes() == DATA
    assert saved.resumed_from == 100_000
    assert nginx.requests()[-1][1:4] == ["GET /data.bin HTTP/1.1", "206", f"bytes={100_000 - 4096}-"]


async def test_redirects(nginx: HttpServer) -> None:
    async with session_of(nginx) as session:
        response = await session.fetch(nginx.url("/moved"))
        for path, rule in (("/moved/round", "S10"), ("/moved/mail", "S04")):
            with pytest.raises(resolver.Refused) as caught:
                await session.fetch(nginx.url(path))
            assert (caught.value.rule, caught.value.exit_code) == (rule, 15)
    assert (response.content, response.url) == (ABOUT, nginx.url("/about.txt"))


@pytest.mark.parametrize(
    ("path", "user", "error"),
    [
        ("/missing", "", resolver.NotFound),
        ("/names/", "", resolver.AccessDenied),
        ("/private/secret.txt", "", resolver.LoginRequired),
        ("/private/secret.txt", "user:wrong@", resolver.LoginRequired),
        ("/busy", "", resolver.TryLater),
        ("/teapot", "", resolver.Declined),
    ],
)
async def test_refusals(nginx: HttpServer, path: str, user: str, error: type[resolver.ResolveError]) -> None:
    async with session_of(nginx) as session:
        with pytest.raises(error) as caught:
            await session.fetch(nginx.url(path, user=user))
    assert type(caught.value) is error
    assert "wrong" not in str(caught.value.url)


async def test_a_login(nginx: HttpServer) -> None:
    url = nginx.url("/private/secret.txt", user="user:password@")
    async with session_of(nginx) as session:
        assert (await session.fetch(url)).text == "A secret.\n"


@pytest.mark.parametrize(
    "target",
    [
        "/%61bout.txt",
        "/names/../about.txt",
        "/names/a%20b{c}.txt",
        "/about.txt?a=b&c[]=%0D%0A",
        "/names/./../about.txt?",
    ],
)
async def test_targets_arrive_as_they_are_written(nginx: HttpServer, target: str) -> None:
    async with session_of(nginx) as session:
        assert (await session.fetch(nginx.url(target))).content == ABOUT
    assert nginx.requests()[-1][1] == f"GET {target} HTTP/1.1"


@SCHEMES
async def test_a_plain_httpx_client(nginx: HttpServer, scheme: str) -> None:
    transport = resolver.HttpxTransport(cafile=str(nginx.authority))
    async with httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
        assert (await client.get(nginx.url("/moved", scheme))).content == ABOUT
        assert (await client.get(nginx.url("/long.txt", scheme))).content == LONG
        assert (await client.post(nginx.url("/about.txt", scheme), content=DATA[:4096])).status_code == 405
        with pytest.raises(resolver.Refused):
            await client.get(nginx.url("/moved/mail", scheme))


async def test_a_second_run_transfers_no_body(nginx: HttpServer, tmp_path: Path) -> None:
    async with session_of(nginx) as session:
        await session.save(nginx.url("/data.bin"), tmp_path / "data.bin")
        before = len(nginx.requests())
        again = await session.save(nginx.url("/data.bin"), tmp_path / "data.bin", exists="newer")
    (asked,) = nginx.requests()[before:]
    assert (again.skipped, asked[1:3]) == (True, ["GET /data.bin HTTP/1.1", "304"])
    assert (tmp_path / "data.bin").read_bytes() == DATA


@pytest.mark.parametrize("way", ["http", "https", "http2"])
async def test_one_file_over_four_connections(nginx: HttpServer, way: str, tmp_path: Path) -> None:
    url = nginx.http2_url("/data.bin") if way == "http2" else nginx.url("/data.bin", way)
    before = len(nginx.requests())
    async with Resolver(cafile=str(nginx.authority), segments=4) as session:
        saved = await session.save(url, tmp_path / "it", checksum=DIGEST)
    assert (tmp_path / "it").read_bytes() == DATA
    assert (saved.verified, saved.attempts) == (("digest", "length"), 1)
    asked = nginx.requests()[before:]
    pieces = [each[3].removeprefix("bytes=").split("-") for each in asked[1:]]
    assert {each[2] for each in asked[1:]} == {"206"}
    assert sum(int(last) - int(first) + 1 for first, last in pieces) == len(DATA)
    assert 1 < len({connection for connection, *_ in asked}) <= 5


async def test_a_file_that_comes_coded_comes_in_one_stream(nginx: HttpServer, tmp_path: Path) -> None:
    """nginx codes text unasked of nobody: as a file it comes as it is, and is too small for pieces."""
    async with Resolver(segments=4) as session:
        await session.save(nginx.url("/long.txt"), tmp_path / "it")
    assert (tmp_path / "it").read_bytes() == LONG
