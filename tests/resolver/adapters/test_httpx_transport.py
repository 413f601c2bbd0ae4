"""`HttpxTransport` under the policy: refusals, pinned addresses, redirects, and errors."""

from __future__ import annotations

import asyncio
import pickle
import traceback
from pathlib import Path

import httpx
import httpx2
import pytest
import trio

import resolver
from fixtures.__main__ import server_tls
from fixtures.http import ABOUT, moved, serve
from fixtures.http.server import HttpServer
from fixtures.http.site import Page
from protocols.contract import Origin
from protocols.text import Masked
from resolver import HttpxTransport, Limits, Options, Policy, ResolveError, Resolver
from resolver.adapters.httpx_errors import RequestRefused, translate_error
from resolver.adapters.httpx_family import HttpxFamily
from resolver.adapters.httpx_transport import HttpxTimeouts, find_route
from resolver.network.clock import Clock
from tests.resolver.network.peers import closed_port, no_lookup, seen, silent_listener

UNTRUSTED = Policy.untrusted()

FAMILIES = pytest.mark.parametrize("family", [httpx, httpx2], ids=["httpx", "httpx2"])


def client(transport: HttpxTransport | None = None, *, follow: bool = False) -> httpx.AsyncClient:
    """Return a client as an ordinary caller makes it."""
    return httpx.AsyncClient(
        transport=HttpxTransport() if transport is None else transport, follow_redirects=follow
    )


@pytest.fixture
async def server(nursery: trio.Nursery) -> HttpServer:
    return await serve(nursery)


async def test_transport_returns_response_with_extensions(server: HttpServer) -> None:
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
async def test_transport_returns_every_status(path: str, status: int, server: HttpServer) -> None:
    async with client() as plain:
        assert (await plain.get(server.url(path))).status_code == status


async def test_transport_sends_credentials_of_client(server: HttpServer) -> None:
    async with client() as plain:
        by_url = await plain.get(server.url("/private", "user:password@"))
        by_argument = await plain.get(server.url("/private"), auth=("user", "password"))
    assert by_url.text == by_argument.text == "A secret.\n"
    assert [finding.rule for finding in by_url.extensions["findings"]] == ["S06", "S06"]


#: A URL, its origin, the policy, and the rule that refuses it.
REFUSED: list[tuple[str, Origin, Policy, str]] = [
    ("http://127.0.0.1:25/", "user", Policy.default(), "S04"),
    ("http://127.0.0.1:{port}/", "user", UNTRUSTED, "S08"),
    ("http://127.0.0.1:{port}/", "derived", Policy.default(), "S08"),
    ("http://localhost:{port}/", "chosen", Policy.default(), "S08"),
    ("http://[::ffff:127.0.0.1]:{port}/", "user", UNTRUSTED, "S08"),
    ("http://h.example:{port}/", "user", UNTRUSTED, "S08"),  # a name of an internal address
    ("http://u:p@127.0.0.1:{port}/", "user", Policy.cautious(), "S06"),
    ("http://0.0.0.0:{port}/", "user", Policy.default(), "S08"),
]


@pytest.mark.parametrize(("url", "origin", "policy", "rule"), REFUSED)
async def test_transport_refusal_sends_nothing(url: str, origin: Origin, policy: Policy, rule: str) -> None:
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


async def test_transport_accepts_origin_from_request(server: HttpServer) -> None:
    async with client() as plain:
        with pytest.raises(resolver.Refused) as caught:
            await plain.get(server.url(), extensions={"origin": "derived"})
        inside = {"origin": "derived", "referrer": ("http://127.0.0.1/", "127.0.0.1")}
        assert (await plain.get(server.url(), extensions=inside)).status_code == 200
    assert caught.value.rule == "S08"
    assert len(server.requests) == 1


async def test_transport_looks_up_name_once(server: HttpServer) -> None:
    """The transport makes only one DNS lookup for a request, which prevents DNS rebinding."""
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
        "http://127.0.0.1:{port}\\@127.0.0.1:1/",  # the attacks of S01
        "http://127.1:{port}/",
        "http://0x7f000001:{port}/",
        "http://2130706433:{port}/",
    ],
)
async def test_transport_ambiguous_url_causes_no_connection(text: str) -> None:
    listener, port = silent_listener()
    with listener:
        async with client(HttpxTransport(lookup=no_lookup)) as plain:
            with pytest.raises((httpx.TransportError, httpx.InvalidURL)):
                await plain.get(text.format(port=port))
        assert not seen(listener)


async def test_transport_sends_target_unchanged(server: HttpServer) -> None:
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


async def test_transport_serves_client_that_follows_redirects(server: HttpServer) -> None:
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
async def test_transport_checks_redirects_as_derived(path: str, rule: str, server: HttpServer) -> None:
    async with client(follow=True) as plain:
        with pytest.raises(resolver.Refused) as caught:
            await plain.get(server.url(path))
    assert caught.value.rule == rule
    assert [request.path for request in server.requests] == [path]


async def test_transport_limits_redirect_chain(server: HttpServer) -> None:
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
async def test_transport_invalid_request_causes_no_connection(method: str, headers: dict[str, str]) -> None:
    listener, port = silent_listener()
    with listener:
        async with client() as plain:
            with pytest.raises(resolver.Refused) as caught:
                await plain.request(method, f"http://127.0.0.1:{port}/", headers=headers)
        assert caught.value.rule == "S02"
        assert not seen(listener)


async def test_transport_redirect_to_internal_address_is_refused(nursery: trio.Nursery) -> None:
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
async def test_transport_drops_authorization_for_another_host(
    policy: Policy, carried: bool, nursery: trio.Nursery
) -> None:
    """The header is not sent to another host (S11), even if httpx itself would send the header."""
    there, here = await serve(nursery), await serve(nursery)
    led = {"origin": "derived", "referrer": (here.url("/x"), "127.0.0.1")}
    async with client(HttpxTransport(policy=policy)) as plain:
        for server in (here, there):
            await plain.get(server.url("/about.txt"), headers={"Authorization": "Bearer t"}, extensions=led)
    assert here.requests[0].values("authorization") == ["Bearer t"]
    assert there.requests[0].values("authorization") == (["Bearer t"] if carried else [])


async def test_transport_accepts_user_in_relative_redirect(server: HttpServer) -> None:
    """The user is repeated by httpx; a warning for the first URL is not a refusal for the second (S06)."""
    async with client(follow=True) as plain:
        assert (await plain.get(server.url("/moved", "user:password@"))).text == ABOUT.decode()


async def test_transport_verifies_tls(nursery: trio.Nursery, tmp_path: Path) -> None:
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
        ("/data", Limits(body=1000), None),  # a client may stream: it decides whether to collect
    ],
)
async def test_transport_applies_limits(
    path: str, limits: Limits, error: type[httpx.TransportError] | None, server: HttpServer
) -> None:
    async with client(HttpxTransport(limits=limits)) as plain:
        if error is None:
            assert len((await plain.get(server.url(path))).content) == 65_536
            return
        with pytest.raises(error) as caught:
            await plain.get(server.url(path))
    assert isinstance(caught.value.__cause__, resolver.LimitExceeded)


@pytest.mark.parametrize("path", ["/gzip", "/deflate", "/deflate/bare"])
async def test_transport_decodes_content_codings(path: str, server: HttpServer) -> None:
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
async def test_transport_requests_only_supported_codings(asked: str, sent: str, server: HttpServer) -> None:
    async with client() as plain:
        await plain.get(server.url(), headers={"Accept-Encoding": asked})
    assert server.requests[0].values("accept-encoding") == [sent]


def test_transport_in_another_loop_run_raises_runtime_error() -> None:
    """A transport works only in one event loop, because its pooled connections belong to this event loop."""
    plain = client()

    async def main() -> None:
        with pytest.raises(resolver.Refused):
            await plain.get("http://127.0.0.1:1/")

    asyncio.run(main())
    with pytest.raises(RuntimeError, match="event loop"):
        asyncio.run(main())
    with pytest.raises(RuntimeError, match="event loop"):
        trio.run(main)


# Headers sent when an httpx client follows a redirect: the same as in a `fetch` (S11).

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
    """Return the path of each request, and the names of its received header fields."""
    return [
        (request.path, {name for name, value in GIVEN.items() if value in request.values(name.lower())})
        for request in server.requests
    ]


async def by_client(url: str, policy: Policy) -> None:
    async with httpx.AsyncClient(transport=HttpxTransport(policy=policy), follow_redirects=True) as client:
        assert (await client.get(url, headers=GIVEN)).status_code == 200


async def by_client_step_by_step(url: str, policy: Policy) -> None:
    """Follow redirects as a caller may, with the next request that httpx prepared."""
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
async def test_redirect_to_another_host_drops_secret_headers(way: object, nursery: trio.Nursery) -> None:
    assert callable(way)
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved("/again"), "/again": moved(there.url("/"))})
    await way(here.url("/"), Policy.default())
    assert received(here) == [("/", set(GIVEN)), ("/again", set(GIVEN))]
    assert received(there) == [("/", set(HARMLESS))]


@pytest.mark.parametrize("way", WAYS)
async def test_redirect_to_host_named_by_user_keeps_headers(way: object, nursery: trio.Nursery) -> None:
    assert callable(way)
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved(there.url("/"))})
    await way(here.url("/"), Policy(allow_forward={"127.0.0.1"}))
    never = set() if way is by_fetch else {"Authorization"}  # httpx itself drops the header
    assert received(there) == [("/", set(GIVEN) - never)]


@pytest.mark.parametrize("way", WAYS)
async def test_redirect_back_does_not_restore_headers(way: object, nursery: trio.Nursery) -> None:
    """Credentials are not sent again after two redirects to another host and a redirect back."""
    assert callable(way)
    routes: dict[str, Page] = {}
    here = await serve(nursery, routes)
    there = await serve(nursery, {"/": moved("/again"), "/again": moved(here.url("/end"))})
    routes.update({"/": moved(there.url("/")), "/end": Page(b"x")})
    await way(here.url("/"), Policy.default())
    assert received(there) == [("/", set(HARMLESS)), ("/again", set(HARMLESS))]
    assert received(here) == [("/", set(GIVEN)), ("/end", set(HARMLESS))]


async def test_redirect_drops_cookies_of_client(nursery: trio.Nursery) -> None:
    """With `AsyncClient(cookies=…)` httpx sends cookies to every host."""
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved(there.url("/"))})
    transport = HttpxTransport()
    async with httpx.AsyncClient(
        transport=transport, follow_redirects=True, cookies={"session": "s"}
    ) as client:
        await client.get(here.url("/"))
    assert here.requests[0].values("cookie") == ["session=s"]
    assert there.requests[0].values("cookie") == []


async def test_redirect_307_resends_framed_body(nursery: trio.Nursery) -> None:
    """A redirect with status 307 repeats the request, so the header fields of the body are sent again."""
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved(there.url("/"), 307)})
    async with httpx.AsyncClient(transport=HttpxTransport(), follow_redirects=True) as client:
        response = await client.post(here.url("/"), content=b"body", headers=GIVEN)
    assert response.status_code == 200
    assert [(request.method, request.body) for request in there.requests] == [("POST", b"body")]
    assert there.violations == []


async def test_request_sent_twice_is_not_a_hop(nursery: trio.Nursery) -> None:
    """A second request with the same extensions is not a redirect; the caller's extensions do not change."""
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


async def test_next_request_has_referrer_without_password(nursery: trio.Nursery) -> None:
    there = await serve(nursery, {"/": Page(b"x")})
    here = await serve(nursery, {"/": moved(there.url("/"))})
    async with httpx.AsyncClient(transport=HttpxTransport()) as client:
        response = await client.get(here.url("/", "u:p@"))
    assert response.next_request is not None
    route = find_route(response.next_request, "user")
    assert route.referrer == resolver.Referrer(here.url("/", "u:****@"), "127.0.0.1")
    assert (route.origin, route.hops) == ("derived", 1)


# Every error of this package is raised as an error that httpx documents.


def every_class(root: type[ResolveError] = ResolveError) -> list[type[ResolveError]]:
    return [root, *(each for child in root.__subclasses__() for each in every_class(child))]


SPECIAL: dict[type[ResolveError], ResolveError] = {
    resolver.InvalidUrl: resolver.InvalidUrl("bad-host", 7, "no host"),
    resolver.UnsupportedScheme: resolver.UnsupportedScheme("x", "no handler"),
    resolver.Refused: resolver.Refused(
        "S04", "no port", flag="--allow-port 25", position=3, url=Masked("http://h/")
    ),
    resolver.LimitExceeded: resolver.LimitExceeded("body", "too much"),
    resolver.Truncated: resolver.Truncated("too little", received=1),
}


@FAMILIES
@pytest.mark.parametrize(
    "ours",
    [each for each in every_class() if each.__module__ == "protocols.errors"],
    ids=lambda each: each.__name__,
)
def test_translate_error_returns_httpx_error_for_every_class(
    ours: type[ResolveError], family: HttpxFamily
) -> None:
    error = SPECIAL.get(ours) or ours("some words")
    theirs = translate_error(error, family)
    assert isinstance(theirs, family.TransportError)
    assert str(theirs) == (str(error) if ours is resolver.Refused else error.message)


@FAMILIES
@pytest.mark.parametrize(
    ("error", "theirs"),
    [
        (resolver.TimedOut("x"), "WriteTimeout"),
        (resolver.Unreachable("x"), "ConnectError"),
        (resolver.TlsError("x"), "ConnectError"),
        (resolver.Disconnected("x"), "RemoteProtocolError"),
        (resolver.ProtocolError("x"), "RemoteProtocolError"),
        (resolver.LimitExceeded("line", "x"), "RemoteProtocolError"),
        (resolver.Truncated("x", received=1), "RemoteProtocolError"),
        (resolver.InvalidUrl("empty", 0, "x"), "UnsupportedProtocol"),
        (resolver.UnsupportedScheme("x", "x"), "UnsupportedProtocol"),
        (resolver.NotConfigured("x"), "LocalProtocolError"),
        (resolver.Refused("S04", "x"), "RequestRefused"),
        (resolver.Declined("x"), "TransportError"),
    ],
)
def test_translate_error_returns_matching_httpx_class(
    error: ResolveError, theirs: str, family: HttpxFamily
) -> None:
    assert type(translate_error(error, family, "write")).__name__ == theirs


@FAMILIES
def test_request_refused_is_both_kinds_of_error(family: HttpxFamily) -> None:
    refusal = resolver.Refused("S10", "S10: no", flag="f", position=3, url=Masked("http://h/"))
    refused = translate_error(refusal, family)
    assert isinstance(refused, RequestRefused)
    assert isinstance(refused, family.TransportError)
    assert (refused.rule, refused.flag, refused.position, refused.url) == ("S10", "f", 3, "http://h/")
    assert (refused.exit_code, refused.message, str(refused)) == (15, "S10: no", "http://h/: S10: no")
    refused.request = httpx.Request("GET", "http://h/")
    assert refused.request.method == "GET"
    restored = pickle.loads(pickle.dumps(refused))
    assert type(restored) is type(refused)
    assert (restored.rule, restored.request.method, str(restored)) == ("S10", "GET", str(refused))


# An error never repeats the value of a header (S17), neither in its message nor in its causes.

_SECRET = "s3cret"

#: Header names, valid or not; the tests combine each with every value.
NAMES = [
    *("Authorization", "Cookie", "X-Api-Key", "User-Agent", "Host", "Content-Length", "Transfer-Encoding"),
    *("Connection", "Expect", "Upgrade", "TE", "Range", "Accept-Encoding", "no name", "Cookie\r\nX", ""),
]
_ODD = ("", "\0", "\r", "\n", "\r\n", "\v", "\f", "\x01", "\x7f", "\xff")
VALUES = [f"Bearer {_SECRET}{octet}x" for octet in _ODD]


def logged_text(error: BaseException) -> str:
    """Return everything that a log could print of an error and of its causes and contexts."""
    text = "".join(traceback.format_exception(error))
    chained = [each for each in (error.__cause__, error.__context__) if each is not None]
    return "".join([text, repr(error), *(logged_text(each) for each in chained)])


@pytest.mark.parametrize("name", NAMES)
async def test_client_error_does_not_show_header_value(name: str) -> None:
    with closed_port() as port:
        async with httpx.AsyncClient(transport=HttpxTransport()) as client:
            for value in VALUES:
                headers = httpx.Headers([(name.encode("latin-1"), value.encode("latin-1"))])
                with pytest.raises(httpx.TransportError) as caught:
                    await client.get(f"http://127.0.0.1:{port}/", headers=headers)
                assert _SECRET not in logged_text(caught.value)


@pytest.mark.parametrize("name", NAMES)
async def test_resolver_error_does_not_show_header_value(name: str) -> None:
    with closed_port() as port:
        for value in VALUES:
            options = Options(headers=((name.encode("latin-1"), value.encode("latin-1")),))
            async with Resolver(options=options) as session:
                with pytest.raises(ResolveError) as caught:
                    await session.fetch(f"http://127.0.0.1:{port}/")
            assert _SECRET not in logged_text(caught.value)


# The httpx timeout that applies while two phases wait concurrently.


async def test_httpx_timeouts_name_write_while_sending() -> None:
    times = HttpxTimeouts({}, Clock(None), None)
    phases: list[str] = []
    times.begin_saying()
    times.late = "write"
    times.late = "read"  # the last one woken
    phases.append(times.late)
    times.end_saying()
    times.late = "read"
    assert [*phases, times.late] == ["write", "read"]
