"""requests-cache on a session with the adapter: stored responses and revalidation, of http, ftp, gopher."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import requests
from requests_cache import CachedSession

import fixtures.http
import resolver
from fixtures.ftp import MockFtp
from fixtures.gopher import GopherServer
from fixtures.http import HttpServer, Page
from resolver.adapters.requests import mount
from tests.elsewhere import served
from tests.resolver.adapters.conftest import DATA, TABLE, allowing

CURRENT = Page(TABLE, headers=(("ETag", '"1"'), ("Cache-Control", "max-age=0"), ("Set-Cookie", "a=1")))
SITE = {
    "/packed": fixtures.http.coded(gzip.compress(TABLE, mtime=0), "gzip"),
    "/chunks": Page(DATA, framing="chunked"),
    "/moved": fixtures.http.moved("/packed"),
    "/current": CURRENT,
    "/inside": fixtures.http.moved("file:///etc/passwd"),
}


@pytest.fixture
def site() -> Iterator[HttpServer]:
    with served(partial(fixtures.http.serve, site=SITE)) as server:
        yield server


@pytest.fixture(params=["memory", "sqlite"])
def session(
    request: pytest.FixtureRequest, site: HttpServer, ftp: MockFtp, gopher: GopherServer, tmp_path: Path
) -> Iterator[CachedSession]:
    cached = CachedSession(str(tmp_path / "stored"), backend=request.param, cache_control=True)
    with mount(cached, http=True, policy=allowing(site, ftp, gopher)) as session:
        yield session


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("path", "body"), [("/packed", TABLE), ("/chunks", DATA), ("/moved", TABLE)])
def test_requests_cache_stores_http_responses(
    path: str, body: bytes, stream: bool, site: HttpServer, session: CachedSession
) -> None:
    first = session.get(site.url(path), stream=stream)
    assert (first.from_cache, first.content) == (False, body)
    asked = len(site.requests)
    second = session.get(site.url(path), stream=stream)
    assert (second.from_cache, second.content) == (True, body)
    assert [each.status_code for each in second.history] == [each.status_code for each in first.history]
    assert len(site.requests) == asked


def test_requests_cache_revalidates_http_response(site: HttpServer, session: CachedSession) -> None:
    for _ in range(2):
        assert session.get(site.url("/current")).content == TABLE
    assert [request.values("if-none-match") for request in site.requests] == [[], ['"1"']]


def test_requests_cache_stores_and_refreshes_ftp_and_gopher(
    ftp: MockFtp, gopher: GopherServer, session: CachedSession
) -> None:
    def exchanges() -> int:
        return len(ftp.commands) + len(gopher.requests)

    for url in (
        f"ftp://127.0.0.1:{ftp.port}/pub/a.txt",
        f"gopher://127.0.0.1:{gopher.port}/0table.csv",
    ):
        body = session.get(url).content
        sent = exchanges()
        again = session.get(url)
        assert (again.from_cache, again.content, exchanges()) == (True, body, sent)
        fresh = session.get(url, force_refresh=True)
        assert (fresh.from_cache, fresh.content) == (False, body)
        assert exchanges() > sent


def test_requests_cache_does_not_hide_a_refusal(site: HttpServer, session: CachedSession) -> None:
    for _ in range(2):
        with pytest.raises(requests.RequestException) as caught:
            session.get(site.url("/inside"))
        assert isinstance(caught.value.__cause__, resolver.Refused)
