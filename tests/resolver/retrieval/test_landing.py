"""Data that turns out to be a page of another host is told of."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

import resolver
from fixtures.http import Page, moved, serve

HTML = "text/html; charset=utf-8"

#: The path asked for, the media type of what another host gives, and whether that is told.
ROWS = [
    ("/granule.nc", HTML, True),
    ("/archive.tar.gz", "application/xhtml+xml", True),
    ("/granule.nc", "application/octet-stream", False),
    ("/page.html", HTML, False),
    ("/PAGE.HTM", HTML, False),
    ("/show.php", HTML, False),
    ("/granule", HTML, False),
    ("/.hidden", HTML, False),
    ("/", HTML, False),
]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
@pytest.mark.parametrize(("path", "media_type", "told"), ROWS, ids=[" ".join(row[:2]) for row in ROWS])
async def test_a_page_in_place_of_data(
    path: str, media_type: str, told: bool, host: str, nursery: trio.Nursery
) -> None:
    """Not where the same host gives it: whoever it is, he was asked."""
    page = replace(Page(b"<form>who?</form>"), media_type=media_type)
    login = await serve(nursery, {"/login": page})
    data = await serve(nursery, {path: moved(f"http://{host}:{login.port}/login")})
    policy = resolver.Policy(allow_port={data.port, login.port})
    async with resolver.Resolver(policy=policy) as session:
        response = await session.fetch(f"http://127.0.0.1:{data.port}{path}")
        direct = await session.fetch(f"http://127.0.0.1:{login.port}/login")
    found = [finding for finding in response.findings if finding.rule == "http:landed-elsewhere"]
    assert len(found) == (told and host == "localhost")
    assert all("localhost" in finding.detail for finding in found)
    assert direct.findings == ()
