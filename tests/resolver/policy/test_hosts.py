"""Settings for a single host: found by the host and port of a request, and not used for other hosts."""

from __future__ import annotations

import ssl
from contextlib import nullcontext
from pathlib import Path

import pytest
import trio
import trustme

import resolver
from fixtures.http import Page, moved, serve
from fixtures.http.server import Behavior
from fixtures.proxy import serve_http_proxy
from resolver import Host, LimitExceeded, Limits, NotConfigured, Policy, Refused, Resolver, TimedOut, parse
from resolver.policy.settings import HostSettings
from resolver.transfer.redirects import list_mirrors
from tests.resolver.network.peers import start

BODY = b"ten octets"
SMALL = Host(limits=Limits(body=3, body_everywhere=True))
LARGE = Host(limits=Limits(body=1_000, body_everywhere=True))
TIGHT = Limits(body=3, body_everywhere=True)


@pytest.mark.parametrize(
    ("name", "host", "port", "found"),
    [
        ("h.example", "h.example", 80, True),
        ("h.example", "H.Example.", 8080, True),
        ("H.Example", "h.example", 80, True),
        ("h.example:80", "h.example", 80, True),
        ("h.example:80", "h.example", 8080, False),
        ("h.example", "x.h.example", 80, False),
        ("example", "h.example", 80, False),
        ("[::1]", "::1", 80, True),
        ("[::1]:80", "0:0:0:0:0:0:0:1", 80, True),
        ("[0:0:0:0:0:0:0:1]", "::1", 80, True),
        ("[::1]:80", "::1", 81, False),
    ],
)
def test_find_host_matches_name_and_port(name: str, host: str, port: int, found: bool) -> None:
    assert (HostSettings({name: SMALL}).find_host(host, port) == SMALL) == found


def test_find_host_prefers_values_of_the_port() -> None:
    hosts = HostSettings(
        {"h": Host(proxy="http://p", certfile="a", mirrors=("http://m",)), "h:81": Host(proxy="none")}
    )
    assert hosts.find_host("h", 80) == Host(proxy="http://p", certfile="a", mirrors=("http://m",))
    assert hosts.find_host("h", 81) == Host(proxy="none", certfile="a", mirrors=("http://m",))


@pytest.mark.parametrize("way", ["fetch", "stream", "save"])
@pytest.mark.parametrize(
    ("first", "landed", "limits", "fails"),
    [
        (SMALL, None, None, False),  # the body is not from this host
        (None, SMALL, None, True),
        (SMALL, LARGE, None, False),
        (None, LARGE, TIGHT, False),
        (LARGE, None, TIGHT, True),
        (None, None, TIGHT, True),
    ],
)
async def test_host_limits_follow_redirect(
    nursery: trio.Nursery,
    tmp_path: Path,
    way: str,
    first: Host | None,
    landed: Host | None,
    limits: Limits | None,
    fails: bool,
) -> None:
    other = await serve(nursery, {"/x": Page(BODY)})
    server = await serve(nursery, {"/": moved(other.url("/x"))})
    said = {
        f"127.0.0.1:{port}": host
        for port, host in ((server.port, first), (other.port, landed))
        if host is not None
    }
    async with Resolver(limits=limits, hosts=said) as session:
        with pytest.raises(LimitExceeded, match=r"limit .*\b3\b") if fails else nullcontext():
            if way == "fetch":
                assert (await session.fetch(server.url("/"))).content == BODY
            elif way == "save":
                assert (await session.save(server.url("/"), tmp_path / "x")).bytes == len(BODY)
            else:
                async with session.stream(server.url("/")) as reply:
                    assert b"".join([octets async for octets in reply.body]) == BODY


async def test_host_idle_limit_applies(nursery: trio.Nursery) -> None:
    """A silent server is the only host with a short limit."""
    silent = await serve(nursery, {"/": Page(BODY)}, behaviors={"/": Behavior(silent=True)})
    hosts = {f"127.0.0.1:{silent.port}": Host(limits=Limits(idle=0.2))}
    async with Resolver(hosts=hosts, limits=Limits(idle=600)) as session:
        with pytest.raises(TimedOut, match=r"0\.2 s"):
            await session.fetch(silent.url("/"))


async def test_untrusted_bounds_time_of_every_host() -> None:
    async with Resolver(policy=Policy.untrusted(), hosts={"h": Host(limits=Limits(idle=5))}) as session:
        held = session.limits_of(parse("http://h/"))
        assert (held.idle, held.total, held.head) == (5, 600.0, 60.0)
        assert session.limits_of(parse("http://other/")).idle == 60


@pytest.mark.parametrize("proxied", ["first", "landed", "both"])
async def test_host_proxy_and_its_credentials_are_separate(nursery: trio.Nursery, proxied: str) -> None:
    """Each host has a separate proxy, or none: the first host's proxy sees nothing of the second host."""
    other = await serve(nursery, {"/x": Page(BODY)})
    server = await serve(nursery, {"/": moved(other.url("/x"))})
    one, two = await serve_http_proxy(nursery), await serve_http_proxy(nursery)
    hosts = {}
    if proxied in ("first", "both"):
        hosts[f"127.0.0.1:{server.port}"] = Host(proxy=one.url("me:first@"))
    if proxied in ("landed", "both"):
        hosts[f"127.0.0.1:{other.port}"] = Host(proxy=two.url("me:second@"))
    policy = Policy(allow_port=frozenset({server.port, other.port}))
    async with Resolver(hosts=hosts, policy=policy, environment={}) as session:
        assert (await session.fetch(server.url("/"))).content == BODY
    assert [asked.target for asked in one.requests] == ([server.url("/")] if proxied != "landed" else [])
    assert [asked.target for asked in two.requests] == ([other.url("/x")] if proxied != "first" else [])


async def test_host_proxy_overrides_environment(nursery: trio.Nursery) -> None:
    server, proxy = await serve(nursery, {"/": Page(BODY)}), await serve_http_proxy(nursery)
    place = f"127.0.0.1:{server.port}"
    for own, environment, asked in (
        ("none", {"http_proxy": proxy.url()}, 0),
        (None, {"http_proxy": proxy.url()}, 1),
        (proxy.url(), {"http_proxy": "http://nobody.example", "no_proxy": "*"}, 2),
    ):
        policy = Policy(allow_port=frozenset({server.port}))
        hosts = {place: Host(proxy=own)}
        async with Resolver(hosts=hosts, environment=environment, policy=policy) as session:
            assert (await session.fetch(server.url("/"))).content == BODY
        assert len(proxy.requests) == asked
        plan = resolver.explain(server.url("/"), hosts=hosts, environment=environment, policy=policy)
        assert (plan.proxy is not None) == (len(proxy.requests) > 0), "explain says what a retrieval does"


async def test_host_proxy_is_checked_by_policy() -> None:
    with pytest.raises(NotConfigured, match="'gopher'"):
        Resolver(hosts={"h": Host(proxy="gopher://p")})
    async with Resolver(hosts={"h": Host(proxy="http://p")}, policy=Policy.untrusted()) as session:
        with pytest.raises(Refused, match="this host") as caught:
            await session.fetch("http://h/")
        assert caught.value.rule == "S09"


@pytest.mark.parametrize("name", ["first", "landed", "nobody"])
async def test_host_certificate_is_sent_only_to_its_host(
    nursery: trio.Nursery, authority: trustme.CA, cafile: str, ours: str, name: str
) -> None:
    """Also if a redirect leads to the host; a certificate for one host is not sent to the next."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    shown: list[str] = []

    async def answer(place: str, head: str) -> int:
        async def serve_one(stream: trio.SocketStream) -> None:
            secured = trio.SSLStream(stream, context, server_side=True)
            await secured.receive_some(65_536)
            if secured.getpeercert():
                shown.append(place)
            await secured.send_all(f"HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n".encode())
            await secured.aclose()

        return await start(nursery, serve_one)

    landed = await answer("landed", "200 OK")
    first = await answer("first", f"302 Found\r\nLocation: https://127.0.0.1:{landed}/x")
    ports = {"first": first, "landed": landed, "nobody": 1}
    hosts = {f"127.0.0.1:{ports[name]}": Host(certfile=ours)}
    async with Resolver(hosts=hosts, cafile=cafile) as session:
        await session.fetch(f"https://127.0.0.1:{first}/")
    assert shown == ([] if name == "nobody" else [name])


async def test_unusable_host_certificate_is_reported_before_connecting(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, {"/": Page(BODY)})
    hosts = {f"127.0.0.1:{server.port}": Host(certfile=str(tmp_path / "none"))}
    async with Resolver(hosts=hosts) as session:
        with pytest.raises(NotConfigured, match="No such file"):
            await session.fetch(server.url("/"))
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "mirror", "expected"),
    [
        ("http://h/a/b", "http://m", "http://m/a/b"),
        ("http://h/a/b", "http://m/h/", "http://m/h/a/b"),
        ("http://h:81/a?q=1", "http://m:82/x", "http://m:82/x/a?q=1"),
        ("http://u:p@h/a#f", "http://m", "http://m/a"),
        ("ftp://h/a/b", "http://m/h", "http://m/h/a/b"),
        ("ftp://h/a;type=a", "ftp://m", "ftp://m/a;type=a"),
        ("ftp://h/a;type=a", "http://m", None),
        ("ftp://h/%2Fetc/motd", "http://m", None),
        ("http://h/a?q", "ftp://m", None),
        ("http://h/", "http://m", "http://m/"),
    ],
)
def test_list_mirrors_appends_path_of_url(url: str, mirror: str, expected: str | None) -> None:
    assert list(list_mirrors(parse(url), [mirror])) == ([] if expected is None else [expected])


async def test_host_mirror_is_used_after_failure(nursery: trio.Nursery, tmp_path: Path) -> None:
    mirror = await serve(nursery, {"/h/pub/x": Page(BODY)})
    server = await serve(nursery, {})
    hosts = {"127.0.0.1": Host(mirrors=(mirror.url("/h"),))}
    async with Resolver(hosts=hosts) as session:
        saved = await session.save(server.url("/pub/x"), tmp_path / "x")
    assert (saved.mirror, (tmp_path / "x").read_bytes()) == (mirror.url("/h/pub/x"), BODY)
