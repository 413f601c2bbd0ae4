"""Both clients of httpx with the schemes that httpx lacks."""

from __future__ import annotations

from functools import partial

import httpx
import pytest
import trio

import resolver
from fixtures.ftp import MockFtp
from fixtures.gopher import GopherServer
from resolver.adapters.httpx import mounts
from tests.resolver.adapters.conftest import DATA, SOON, TABLE, allowing


def test_httpx_client_reads_every_scheme(gopher: GopherServer, ftp: MockFtp) -> None:
    with httpx.Client(mounts=mounts(policy=allowing(gopher, ftp))) as client:
        response = client.get(f"gopher://127.0.0.1:{gopher.port}/0table.csv")
        assert (response.status_code, response.content) == (200, TABLE)
        response = client.get(f"ftp://127.0.0.1:{ftp.port}/pub/a.txt")
        assert int(response.headers["Content-Length"]) == len(response.content)
        assert client.get(f"ftp://127.0.0.1:{ftp.port}/pub/nix").status_code == 404
        with client.stream("GET", f"gopher://127.0.0.1:{gopher.port}/9data.bin") as response:
            assert next(response.iter_bytes(1_000)) == DATA[:1_000]


def test_httpx_async_client_reads_every_scheme(gopher: GopherServer, ftp: MockFtp) -> None:
    async def read() -> None:
        async with httpx.AsyncClient(mounts=mounts(policy=allowing(gopher, ftp))) as client:
            assert (await client.get(f"gopher://127.0.0.1:{gopher.port}/0table.csv")).content == TABLE
            assert (await client.get(f"ftp://127.0.0.1:{ftp.port}/pub/nix")).status_code == 404
            async with client.stream("GET", f"gopher://127.0.0.1:{gopher.port}/9data.bin") as response:
                assert b"".join([octets async for octets in response.aiter_bytes()]) == DATA
            with pytest.raises(httpx.RemoteProtocolError) as caught:
                await client.get(f"gopher://127.0.0.1:{gopher.port}/9reset.bin")
            assert isinstance(caught.value.__cause__, resolver.Truncated)

    trio.run(read)


def test_httpx_failure_is_an_httpx_exception(gopher: GopherServer, unused_port: int) -> None:
    client = partial(httpx.Client, mounts=mounts(policy=allowing(gopher, port=unused_port)))
    with client() as session:
        for url, error, cause in (
            (f"gopher://127.0.0.1:{unused_port}/", httpx.ConnectError, resolver.Unreachable),
            ("gopher://127.0.0.1:25/", httpx.UnsupportedProtocol, resolver.Refused),
            (f"gopher://127.0.0.1:{gopher.port}/9reset.bin", httpx.RemoteProtocolError, resolver.Truncated),
        ):
            with pytest.raises(error) as caught:
                session.get(url)
            assert isinstance(caught.value.__cause__, cause)
    patience = httpx.Timeout(None, read=SOON)
    with client(timeout=patience) as session, pytest.raises(httpx.ReadTimeout):
        session.get(f"gopher://127.0.0.1:{gopher.port}/0silent")


def test_httpx_method_other_than_get_is_refused(gopher: GopherServer) -> None:
    with (
        httpx.Client(mounts=mounts(policy=allowing(gopher))) as client,
        pytest.raises(httpx.UnsupportedProtocol, match="POST"),
    ):
        client.post(f"gopher://127.0.0.1:{gopher.port}/0table.csv", content=b"x")
    assert not gopher.requests
