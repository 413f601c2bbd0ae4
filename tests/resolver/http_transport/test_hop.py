"""What goes along when a client of httpx's follows a redirect: what goes along in a `fetch` (S11)."""

from __future__ import annotations

import httpx
import pytest
import trio

import resolver
from fixtures.http import moved, serve
from fixtures.http.server import HttpServer
from fixtures.http.site import Page
from resolver import HttpxTransport, Options, Policy, Resolver
from resolver.adapters.httpx_transport import route_of

SECRETS = {
    "Authorization": "Bearer t",
    "Proxy-Authorization": "Basic eA==",
    "X-Api-Key": "k",
    "X-Anything": "a",
    "Origin": "http://a.example",
    "From": "me@h.example",
    "Forwarded": "for=10.0.0.1",
}
HARMLESS = {
    "Accept": "text/html",
    "Accept-Language": "en",
    "Cache-Control": "no-cache",
    "If-None-Match": '"x"',
    "Content-Type": "text/x",
}
GIVEN = {**SECRETS, **HARMLESS}


def received(server: HttpServer) -> list[tuple[str, set[str]]]:
    """Each request's path, and which of the headers came with it."""
    return [
        (request.path, {name for name, value in GIVEN.items() if value in request.values(name.lower())})
        for request in server.requests
    ]


async def by_client(url: str, policy: Policy) -> None:
    async with httpx.AsyncClient(transport=HttpxTransport(policy=policy), follow_redirects=True) as client:
        assert (await client.get(url, headers=GIVEN)).status_code == 200


async def by_client_step_by_step(url: str, policy: Policy) -> None:
    """A program may follow by itself what httpx has put together."""
    async with httpx.AsyncClient(transport=HttpxTransport(policy=policy)) as client:
        response = await client.get(url, headers=GIVEN)
        while response.next_request is not None:
            response = await client.send(response.next_request)
        assert response.status_code == 200


async def by_fetch(url: str, policy: Policy) -> None:
    headers = tuple((name.encode(), value.encode()) for name, value in GIVEN.items())
    async with Resolver(policy=policy, options=Options(headers=headers)) as session:
        await session.fetch(url)


WAYS = [by_client, by_client_step_by_step, by_fetch]


@pytest.mark.parametrize("way", WAYS)
async def test_a_redirect_to_another_place(way: object, nursery: trio.Nursery) -> None:
    assert callable(way)
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved("/again"), "/again": moved(there.url("/"))})
    await way(here.url("/"), Policy.default())
    assert received(here) == [("/", set(GIVEN)), ("/again", set(GIVEN))]
    assert received(there) == [("/", set(HARMLESS))]


@pytest.mark.parametrize("way", WAYS)
async def test_a_place_that_a_person_named_gets_it_all(way: object, nursery: trio.Nursery) -> None:
    assert callable(way)
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved(there.url("/"))})
    await way(here.url("/"), Policy(allow_forward={"127.0.0.1"}))
    never = set() if way is by_fetch else {"Authorization"}  # which httpx itself keeps back
    assert received(there) == [("/", set(GIVEN) - never)]


@pytest.mark.parametrize("way", WAYS)
async def test_what_stayed_behind_does_not_come_back(way: object, nursery: trio.Nursery) -> None:
    """A second hop within the other place, and one back to the first, are no reason to send it again."""
    assert callable(way)
    routes: dict[str, Page] = {}
    here = await serve(nursery, routes)
    there = await serve(nursery, {"/": moved("/again"), "/again": moved(here.url("/end"))})
    routes.update({"/": moved(there.url("/")), "/end": Page(b"x")})
    await way(here.url("/"), Policy.default())
    assert received(there) == [("/", set(HARMLESS)), ("/again", set(HARMLESS))]
    assert received(here) == [("/", set(GIVEN)), ("/end", set(HARMLESS))]


async def test_cookies_of_the_client_do_not_go_along_either(nursery: trio.Nursery) -> None:
    """httpx has cookies that are for every place: `AsyncClient(cookies=…)`."""
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved(there.url("/"))})
    transport = HttpxTransport()
    async with httpx.AsyncClient(
        transport=transport, follow_redirects=True, cookies={"session": "s"}
    ) as client:
        await client.get(here.url("/"))
    assert here.requests[0].values("cookie") == ["session=s"]
    assert there.requests[0].values("cookie") == []


async def test_a_body_that_is_sent_on_is_framed(nursery: trio.Nursery) -> None:
    """307 asks for the same request elsewhere: what is about the message goes with it."""
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved(there.url("/"), 307)})
    async with httpx.AsyncClient(transport=HttpxTransport(), follow_redirects=True) as client:
        response = await client.post(here.url("/"), content=b"body", headers=GIVEN)
    assert response.status_code == 200
    assert [(request.method, request.body) for request in there.requests] == [("POST", b"body")]
    assert there.violations == []


async def test_a_request_that_is_sent_twice_is_no_hop(nursery: trio.Nursery) -> None:
    """Nor is one that has the same extensions: they are the program's, and stay as they are."""
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved(there.url("/"))})
    given = {"target": b"/?x", "timeout": {"read": 5.0}}
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        request = client.build_request("GET", here.url("/"), headers=GIVEN, extensions=given)
        for _ in range(2):
            assert (await client.send(request)).status_code == 302
            await client.get(here.url("/"), headers=GIVEN, extensions=given)
    assert received(here) == [("/", set(GIVEN))] * 4
    assert [request.target for request in here.requests] == ["/?x"] * 4
    assert given.keys() == {"target", "timeout"}


async def test_an_answer_that_leads_on_is_found_in_its_url(nursery: trio.Nursery) -> None:
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved(there.url("/"))})
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        response = await client.get(here.url("/", "u:p@"))
    assert response.next_request is not None
    route = route_of(response.next_request, "user")
    assert route.referrer == resolver.Referrer(here.url("/", "u:****@"), "127.0.0.1")
    assert (route.origin, route.hops) == ("derived", 1)
