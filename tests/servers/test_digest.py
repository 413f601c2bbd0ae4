"""Digest as Apache's mod_auth_digest wants it, and cookies as Apache and nginx set them."""

from __future__ import annotations

from urllib.parse import quote

import pytest

import resolver
from resolver import Credentials, Event, Policy, Received, Resolver, Sent
from tests.servers.apache_servers import PAGE, USERS, ApacheServer
from tests.servers.http_servers import ABOUT, HttpServer
from tests.servers.service import LOOPBACK


@pytest.mark.parametrize("user", USERS)
async def test_digest(user: str, apache: ApacheServer) -> None:
    """One 401 for all of a run; query and empty query are part of what is proved. Names are UTF-8."""
    given = {("http", LOOPBACK, apache.port): Credentials(user.encode(), USERS[user].encode())}
    before = len(apache.requests())
    told: list[Event] = []
    async with Resolver(
        policy=Policy(allow_port={apache.port}), credentials=given, on_event=told.append
    ) as session:
        for path in ("/private/page.txt", "/private/page.txt?x=1&y=%2F", "/private/page.txt?"):
            response = await session.fetch(apache.url(path))
            assert (response.content, response.findings) == (PAGE, ())
    statuses = [fields[1] for fields in apache.requests()[before:]]
    assert statuses == ["401", "200", "200", "200"]
    octets = b"".join(event.octets for event in told if isinstance(event, Sent))
    assert USERS[user].encode() not in octets
    # On this machine it is said unasked, by Basic. What comes late to a connection is sent once more.
    assert octets.count(b"Authorization: ****") == octets.count(b"GET /") >= 4


async def test_digest_from_the_url_and_refused(apache: ApacheServer) -> None:
    policy = Policy(allow_port={apache.port}, allow_password=True)
    async with Resolver(policy=policy) as session:
        login = f"alice:{quote(USERS['alice'])}@"
        assert (await session.fetch(apache.url("/private/page.txt", login))).content == PAGE
        with pytest.raises(resolver.LoginRequired):
            await session.fetch(apache.url("/private/page.txt"))
        with pytest.raises(resolver.AccessDenied) as caught:
            await session.fetch(apache.url("/private/page.txt", "alice:wr0ng@"))
    assert (caught.value.exit_code, caught.value.attempts) == (6, 1)
    assert "wr0ng" not in str(caught.value)


@pytest.fixture(params=["apache", "nginx"])
def shop(request: pytest.FixtureRequest) -> tuple[str, int, bytes]:
    """Pages below `/shop` that set cookies: where, and what they have."""
    server: ApacheServer | HttpServer = request.getfixturevalue(request.param)
    page = "/shop/page.txt" if isinstance(server, ApacheServer) else "/shop/about.txt"
    return server.url(page), server.port, PAGE if isinstance(server, ApacheServer) else ABOUT


async def test_cookies(shop: tuple[str, int, bytes], apache: ApacheServer, nginx: HttpServer) -> None:
    """What was set for these pages comes back there: not what has ended, nor what is for a stranger."""
    url, port, content = shop
    told: list[Event] = []
    async with Resolver(policy=Policy(allow_port={port}), on_event=told.append) as session:
        for _ in range(2):
            assert (await session.fetch(url)).content == content
        with pytest.raises(resolver.NotFound):
            await session.fetch(url.replace("/shop/", "/none/"))
    log = apache.requests() if port == apache.port else nginx.requests()
    assert [fields[-1] for fields in log[-3:]] == ["-", "desk=s3cret", "-"]
    octets = b"".join(event.octets for event in told if isinstance(event, (Sent, Received)))
    assert (octets.count(b"s3cret"), octets.count(b"desk=****")) == (0, 2)
