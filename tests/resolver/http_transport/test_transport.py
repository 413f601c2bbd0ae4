"""A plain `httpx.AsyncClient` under the policy: what is refused, what is pinned, what a redirect may."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
import trio

import resolver
from fixtures.__main__ import server_tls
from fixtures.http import ABOUT, moved, serve
from protocols.contract import Origin
from resolver import HttpxTransport, Limits, Policy
from tests.resolver.gate.peers import no_lookup, seen, silent_listener

UNTRUSTED = Policy.untrusted()


def client(transport: HttpxTransport | None = None, *, follow: bool = False) -> httpx.AsyncClient:
    """A client as anybody would make one."""
    return httpx.AsyncClient(
        transport=HttpxTransport() if transport is None else transport, follow_redirects=follow
    )


async def test_what_a_client_gets(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        response = await plain.get(server.url("/about.txt"))
    assert (response.status_code, response.reason_phrase, response.http_version) == (200, "OK", "HTTP/1.1")
    assert (response.content, response.text) == (ABOUT, ABOUT.decode())
    assert response.headers["last-modified"] == "Sun, 06 Nov 1994 08:49:37 GMT"
    assert response.extensions["verified"] == {"length"}
    assert response.extensions["peer"] == "127.0.0.1"
    assert response.extensions["findings"] == ()
    assert server.violations == []


@pytest.mark.parametrize(
    ("path", "status"),
    [("/missing", 404), ("/private", 401), ("/moved", 302), ("/nothing", 204), ("/part", 206)],
)
async def test_a_status_is_the_clients_to_judge(path: str, status: int, nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        assert (await plain.get(server.url(path))).status_code == status


async def test_credentials_of_the_client(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        by_url = await plain.get(server.url("/private", "user:password@"))
        by_argument = await plain.get(server.url("/private"), auth=("user", "password"))
    assert by_url.text == by_argument.text == "A secret.\n"
    assert [finding.rule for finding in by_url.extensions["findings"]] == ["S06", "S06"]


#: URLs, who chose them, the policy, and the rule that refuses.
REFUSED: list[tuple[str, Origin, Policy, str]] = [
    ("http://127.0.0.1:25/", "user", Policy.default(), "S04"),
    ("http://127.0.0.1:{port}/", "user", UNTRUSTED, "S08"),
    ("http://127.0.0.1:{port}/", "derived", Policy.default(), "S08"),
    ("http://localhost:{port}/", "chosen", Policy.default(), "S08"),
    ("http://[::ffff:127.0.0.1]:{port}/", "user", UNTRUSTED, "S08"),
    ("http://h.example:{port}/", "user", UNTRUSTED, "S08"),  # a name that leads inside
    ("http://u:p@127.0.0.1:{port}/", "user", Policy.cautious(), "S06"),
    ("http://0.0.0.0:{port}/", "user", Policy.default(), "S08"),
]


@pytest.mark.parametrize(("url", "origin", "policy", "rule"), REFUSED)
async def test_what_is_refused_sends_nothing(url: str, origin: Origin, policy: Policy, rule: str) -> None:
    listener, port = silent_listener()

    async def inside(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    with listener:
        async with client(HttpxTransport(policy=policy, origin=origin, lookup=inside)) as plain:
            with pytest.raises(httpx.TransportError) as caught:
                await plain.get(url.format(port=port))
        assert isinstance(caught.value, resolver.Refused)
        assert (caught.value.rule, caught.value.request.method) == (rule, "GET")
        assert not seen(listener)


async def test_the_origin_may_come_with_the_request(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        with pytest.raises(resolver.Refused) as caught:
            await plain.get(server.url(), extensions={"origin": "derived"})
        inside = {"origin": "derived", "referrer": ("http://127.0.0.1/", "127.0.0.1")}
        assert (await plain.get(server.url(), extensions=inside)).status_code == 200
    assert caught.value.rule == "S08"
    assert len(server.requests) == 1


async def test_a_name_is_looked_up_once_and_pinned(nursery: trio.Nursery) -> None:
    """DNS rebinding: what the second answer would have been makes no difference."""
    server = await serve(nursery)
    asked: list[str] = []

    async def rebind(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    async with client(HttpxTransport(lookup=rebind)) as plain:
        for _ in range(3):
            response = await plain.get(
                f"http://rebind.example:{server.port}/about.txt", headers={"Connection": "close"}
            )
            assert response.extensions["peer"] == "127.0.0.1"
    assert asked == ["rebind.example"]
    assert server.connections == 3
    assert server.requests[0].values("host") == [f"rebind.example:{server.port}"]


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:{port}\\@127.0.0.1:1/",  # S01's attacks
        "http://127.1:{port}/",
        "http://0x7f000001:{port}/",
        "http://2130706433:{port}/",
    ],
)
async def test_what_readers_disagree_about_goes_nowhere(text: str) -> None:
    listener, port = silent_listener()
    with listener:
        async with client(HttpxTransport(lookup=no_lookup)) as plain:
            with pytest.raises((httpx.TransportError, httpx.InvalidURL)):
                await plain.get(text.format(port=port))
        assert not seen(listener)


async def test_the_target_goes_out_as_it_stands(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        await plain.get(server.url("/a/../b"))
        await plain.get(server.url("/x"), extensions={"target": b"/a/../b%7e?%zz"})
        await plain.options(server.url("/x"), extensions={"target": b"*"})
        for target in (b"/a b", b"/a\r\nX: y", b"/\xff", b"", b"/\0"):
            with pytest.raises(resolver.Refused) as caught:
                await plain.get(server.url("/x"), extensions={"target": target})
            assert caught.value.rule == "S02"
    assert [request.target for request in server.requests] == ["/b", "/a/../b%7e?%zz", "*"]
    assert server.violations == []


async def test_redirects_that_the_client_follows(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client(follow=True) as plain:
        response = await plain.get(server.url("/moved/far"), extensions={"target": b"/moved/far?x"})
    assert response.text == ABOUT.decode()
    assert [each.status_code for each in response.history] == [301, 302]
    assert [request.target for request in server.requests] == ["/moved/far?x", "/moved", "/about.txt"]
    assert not any(request.values("referer") for request in server.requests)


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/moved/ftp", "S10"),
        ("/moved/gopher", "S10"),
        ("/moved/file", "S10"),
        ("/moved/mail", "S04"),
        ("/moved/metadata", "S08"),
    ],
)
async def test_redirects_are_judged_as_derived(path: str, rule: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client(follow=True) as plain:
        with pytest.raises(resolver.Refused) as caught:
            await plain.get(server.url(path))
    assert caught.value.rule == rule
    assert [request.path for request in server.requests] == [path]


async def test_redirects_in_a_row_are_counted(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client(HttpxTransport(limits=Limits(hops=1)), follow=True) as plain:
        assert (await plain.get(server.url("/moved"))).text == ABOUT.decode()
        with pytest.raises(resolver.Refused) as caught:
            await plain.get(server.url("/moved/far"))
    assert (caught.value.rule, caught.value.flag) == ("S10", "--limit hops=2")
    assert [request.path for request in server.requests] == ["/moved", "/about.txt", "/moved/far", "/moved"]


@pytest.mark.parametrize(
    ("method", "headers"),
    [("GE T", {}), ("G\xc9T", {}), ("GET", {"X": "a\r\nY: b"})],
)
async def test_what_cannot_be_sent_opens_nothing(method: str, headers: dict[str, str]) -> None:
    listener, port = silent_listener()
    with listener:
        async with client() as plain:
            with pytest.raises(resolver.Refused) as caught:
                await plain.request(method, f"http://127.0.0.1:{port}/", headers=headers)
        assert caught.value.rule == "S02"
        assert not seen(listener)


async def test_a_redirect_from_outside_leads_to_nothing_inside(nursery: trio.Nursery) -> None:
    inside = await serve(nursery)
    outside = await serve(nursery, {"/": moved(inside.url("/about.txt"))})
    addresses = {"outside.example": ["127.0.0.1"], "inside.example": ["127.0.0.1"]}

    async def look_up(host: str, port: int) -> list[str]:
        return addresses[host]

    async with client(HttpxTransport(lookup=look_up), follow=True) as plain:
        assert (await plain.get(f"http://outside.example:{outside.port}/")).text == ABOUT.decode()
        led = {"origin": "derived", "referrer": ("http://far.example/", "198.51.100.7")}
        with pytest.raises(resolver.Refused):
            await plain.get(f"http://inside.example:{inside.port}/", extensions=led)
    assert [request.path for request in inside.requests] == ["/about.txt"]


@pytest.mark.parametrize(
    ("policy", "carried"), [(Policy.default(), False), (Policy(allow_forward={"127.0.0.1"}), True)]
)
async def test_a_redirect_takes_no_authorization_elsewhere(
    policy: Policy, carried: bool, nursery: trio.Nursery
) -> None:
    """S11, also where httpx itself would send it along."""
    there, here = await serve(nursery), await serve(nursery)
    led = {"origin": "derived", "referrer": (here.url("/x"), "127.0.0.1")}
    async with client(HttpxTransport(policy=policy)) as plain:
        for server in (here, there):
            await plain.get(server.url("/about.txt"), headers={"Authorization": "Bearer t"}, extensions=led)
    assert here.requests[0].values("authorization") == ["Bearer t"]
    assert there.requests[0].values("authorization") == (["Bearer t"] if carried else [])


async def test_a_relative_redirect_may_repeat_the_user(nursery: trio.Nursery) -> None:
    """httpx repeats it; what the first URL was warned for is not refused in the second (S06)."""
    server = await serve(nursery)
    async with client(follow=True) as plain:
        assert (await plain.get(server.url("/moved", "user:password@"))).text == ABOUT.decode()


async def test_tls_is_checked(nursery: trio.Nursery, tmp_path: Path) -> None:
    tls, cafile = server_tls(tmp_path)
    server = await serve(nursery, ssl_context=tls)
    async with client(HttpxTransport(cafile=str(cafile))) as trusting, client() as wary:
        response = await trusting.get(server.url("/data/close"))
        assert response.extensions["verified"] == {"close-notify"}
        with pytest.raises(httpx.ConnectError):
            await wary.get(server.url())
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("path", "limits", "error"),
    [
        ("/twice", Limits(), httpx.RemoteProtocolError),
        ("/bomb", Limits(), httpx.RemoteProtocolError),
        ("/data", Limits(body=1000, body_everywhere=True), httpx.RemoteProtocolError),
        ("/about.txt", Limits(lines=2), httpx.RemoteProtocolError),
        ("/about.txt", Limits(line=20), httpx.RemoteProtocolError),
        ("/data", Limits(body=1000), None),  # a client may stream: collecting is its own choice
    ],
)
async def test_limits_hold(
    path: str, limits: Limits, error: type[httpx.TransportError] | None, nursery: trio.Nursery
) -> None:
    server = await serve(nursery)
    async with client(HttpxTransport(limits=limits)) as plain:
        if error is None:
            assert len((await plain.get(server.url(path))).content) == 65_536
            return
        with pytest.raises(error) as caught:
            await plain.get(server.url(path))
    assert isinstance(caught.value.__cause__, resolver.LimitExceeded)


@pytest.mark.parametrize("path", ["/gzip", "/deflate", "/deflate/bare"])
async def test_codings_are_undone_here(path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with client() as plain:
        response = await plain.get(server.url(path))
        head = await plain.head(server.url(path))
    assert response.content == ABOUT * 100
    assert not {"content-encoding", "content-length"} & set(response.headers)
    assert "content-encoding" in head.headers


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("gzip, deflate", "gzip, deflate"),
        ("gzip;q=0.5, compress, x", "gzip;q=0.5"),
        ("compress", "identity"),
        ("identity", "identity"),
        ("*", "identity"),
    ],
)
async def test_only_codings_that_can_be_undone_are_asked_for(
    asked: str, sent: str, nursery: trio.Nursery
) -> None:
    server = await serve(nursery)
    async with client() as plain:
        await plain.get(server.url(), headers={"Accept-Encoding": asked})
    assert server.requests[0].values("accept-encoding") == [sent]


def test_another_run_of_a_loop_is_refused_in_words() -> None:
    """One client serves one run: its connections are there."""
    plain = client()

    async def main() -> None:
        with pytest.raises(resolver.Refused):
            await plain.get("http://127.0.0.1:1/")

    asyncio.run(main())
    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(main())
    with pytest.raises(RuntimeError, match="event loop"):
        trio.run(main)
