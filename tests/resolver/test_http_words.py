"""What a server says beside the body: its status, its header fields, and a body that is JSON."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from fixtures.http import Page, serve
from resolver import Resolver

COOKIES = (("Set-Cookie", "a=1; Expires=Sun, 06 Nov 1994 08:49:37 GMT"), ("SET-COOKIE", "b=2"))
SITE = {
    "/json": Page('{"name": "é", "of": [1, 2.5, null]}'.encode(), "application/json", headers=COOKIES),
    "/utf-16": Page('["é"]'.encode("utf-16"), "application/json"),
    "/untyped": Page(b"[1]", None),
    "/text": Page(b"no JSON"),
    "/other": Page(b"here", status=203),
}


async def test_status_and_headers_of_every_value(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, SITE)
    async with Resolver() as session:
        response = await session.fetch(server.url("/json"))
        saved = await session.save(server.url("/json"), tmp_path / "file")
        async with session.stream(server.url("/json")) as reply:
            pass
        other = await session.fetch(server.url("/other"))
    for value in (response, saved, reply):
        assert value.status == 200
        assert value.headers["Content-TYPE"] == value.headers["content-type"] == "application/json"
        assert value.headers.get_list("Set-Cookie") == [cookie for _, cookie in COOKIES]
        assert value.headers == value.meta
        assert "x-none" not in value.headers
    assert other.status == 203


async def test_what_is_no_http_has_no_status(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"here")
    async with Resolver() as session:
        response = await session.fetch(tmp_path / "a")
    assert (response.status, len(response.headers)) == (None, 0)


async def test_a_body_that_is_json(nursery: trio.Nursery) -> None:
    """Whatever its type is said to be: what it is made of says enough (RFC 8259 8.1)."""
    server = await serve(nursery, SITE)
    async with Resolver() as session:
        assert (await session.fetch(server.url("/json"))).json() == {"name": "é", "of": [1, 2.5, None]}
        assert (await session.fetch(server.url("/utf-16"))).json() == ["é"]
        assert (await session.fetch(server.url("/untyped"))).json() == [1]
        with pytest.raises(ValueError, match="Expecting value"):
            (await session.fetch(server.url("/text"))).json()
