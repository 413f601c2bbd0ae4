"""Cookies end to end: one run, one jar; the login dance of data archives, which asks its first URL twice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import trio

import resolver
from fixtures.http import Page, Request, moved, serve
from resolver import Credentials, Options, Refused


@dataclass
class Door:
    """Gives the page to who has the cookie, and sends the others elsewhere."""

    cookie: str
    elsewhere: str = ""

    def answer(self, request: Request, page: Page) -> Page:
        return page if self.cookie in request.values("cookie") else moved(self.elsewhere)


@dataclass
class Desk:
    """Sends who logs in on, and nobody else."""

    onward: str
    asked: int = 0

    def answer(self, request: Request, page: Page) -> Page:
        self.asked += 1
        said = request.values("authorization")
        if not said:
            login = ("WWW-Authenticate", 'Basic realm="login"')
            return replace(page, status=401, reason="Unauthorized", headers=(login,))
        return replace(moved(self.onward), headers=(("Location", self.onward), ("Set-Cookie", "desk=1")))


def setting(field: str, location: str | None = None) -> Page:
    page = Page(b"set\n") if location is None else moved(location)
    return replace(page, headers=(*page.headers, ("Set-Cookie", field)))


async def test_the_login_dance() -> None:
    async with trio.open_nursery() as nursery:
        door = Door("data_session=7")
        site = {
            "/granule.txt": Page(b"the data\n", guard=door),
            "/other.txt": Page(b"more data\n", guard=door),
            "/login": setting("data_session=7; Path=/", "/granule.txt"),
        }
        data = await serve(nursery, site=site)
        desk = Desk(data.url("/login?code=3"))
        login = await serve(nursery, site={"/oauth/authorize": Page(b"who?\n", guard=desk)})
        door.elsewhere = login.url("/oauth/authorize?client=9")
        given = {("http", "127.0.0.1", login.port): Credentials(b"me", b"secret")}
        async with resolver.Resolver(credentials=given) as session:
            assert (await session.fetch(data.url("/granule.txt"))).content == b"the data\n"
            assert (await session.fetch(data.url("/other.txt"))).content == b"more data\n"
        assert desk.asked == 1
        assert [request.path for request in data.requests] == [
            "/granule.txt",
            "/login",
            "/granule.txt",
            "/other.txt",
        ]
        assert not any(request.values("authorization") for request in data.requests)
        nursery.cancel_scope.cancel()


async def test_a_circle_in_which_nothing_is_learnt_ends_at_once() -> None:
    async with trio.open_nursery() as nursery:
        server = await serve(nursery, site={"/a": setting("a=1", "/b"), "/b": setting("b=1", "/a")})
        with pytest.raises(Refused) as caught:
            await resolver.fetch(server.url("/a"))
        assert caught.value.rule == "S10"
        assert len(server.requests) <= 4
        nursery.cancel_scope.cancel()


async def test_a_page_that_sets_a_cookie_and_leads_to_itself() -> None:
    async with trio.open_nursery() as nursery:
        site = {"/a": Page(b"in\n", guard=Door("seen=1", "/set")), "/set": setting("seen=1", "/a")}
        server = await serve(nursery, site=site)
        assert (await resolver.fetch(server.url("/a"))).content == b"in\n"
        nursery.cancel_scope.cancel()


async def test_a_jar_is_for_one_run_and_not_for_another_place() -> None:
    async with trio.open_nursery() as nursery:
        first = await serve(nursery, site={"/set": setting("a=1; Path=/"), "/x": Page(b"x\n")})
        other = await serve(nursery, site={"/x": Page(b"x\n")})
        async with resolver.Resolver() as session:
            for url in (first.url("/set"), first.url("/x"), other.url("/x")):
                await session.fetch(url)
        await resolver.fetch(first.url("/x"))
        assert [request.values("cookie") for request in first.requests] == [[], ["a=1"], []]
        assert [request.values("cookie") for request in other.requests] == [[]]
        nursery.cancel_scope.cancel()


async def test_cookies_of_the_caller_leave_the_jar_out() -> None:
    async with trio.open_nursery() as nursery:
        server = await serve(nursery, site={"/set": setting("a=1; Path=/")})
        async with resolver.Resolver(options=Options(headers=((b"Cookie", b"mine=1"),))) as session:
            for _ in range(2):
                await session.fetch(server.url("/set"))
        assert [request.values("cookie") for request in server.requests] == [["mine=1"], ["mine=1"]]
        nursery.cancel_scope.cancel()
