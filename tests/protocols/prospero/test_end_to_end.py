"""prospero URLs through the public functions and the command, against the mock server on loopback.

Links lead to further servers if the policy permits (S04, S08, S10).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import fixtures.ftp
import fixtures.gopher
import fixtures.wais
import resolver
from fixtures.prospero import Behavior, Channel, Moved, Node, ProsperoServer, file, method, serve
from fixtures.prospero.tree import CONTENTS, LOCAL, OCTETS, TEXT, Link, intrinsic
from protocols.conversation.driver import hold
from protocols.prospero.ardp import RetransmitTiming
from protocols.prospero.dialogue import converse
from resolver import (
    AccessDenied,
    Declined,
    Event,
    LimitExceeded,
    Limits,
    NotFound,
    Policy,
    ProsperoUrl,
    Refused,
    ResolveError,
    RetryPolicy,
    Sent,
    TimedOut,
    Truncated,
    Unreachable,
    UnsupportedScheme,
)
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.ipv6 import HAS_IPV6
from tests.protocols.command import command
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as
from tests.resolver.network.peers import closed_port

SAME = (b"", b"", b"", b"")
PATIENT = RetryPolicy(tries=3, delay=0)
CONTENTS_OF = "GET-OBJECT-INFO CONTENTS ASCII"
ABOUT = b"A text of two lines.\nThe second one.\n"


def allowing(*ports: int, **more: Any) -> Policy:
    """Return a policy that permits links to the mock servers' unassigned ports."""
    return Policy(allow_port=set(ports), **more)


# -- the functions


async def test_fetch_returns_contents(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    response = await resolver.fetch(server.url("AFTP/pub/all.bin"))
    assert (response.content, response.size, response.text) == (OCTETS, len(OCTETS), None)
    assert (response.kind, response.verified, response.peer) == ("document", ("length",), "127.0.0.1")
    assert dict(response.meta)["UNIX-MODES"] == "-rw-r--r--"
    assert server.violations == []


async def test_fetch_returns_directory(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    response = await resolver.fetch(server.url("/example/more"))
    assert response.content == b"long\nhello.txt\n"
    assert response.entries is not None
    assert [(entry.name, entry.url, entry.origin) for entry in response.entries] == [
        ("long", server.url("/example/long"), "derived"),
        ("hello.txt", server.url("AFTP/pub/hello.txt"), "derived"),
    ]
    assert [entry.referrer for entry in response.entries] == [
        (server.url("/example/more"), "127.0.0.1"),
        (server.url("/example/rest"), "127.0.0.1"),
    ]
    assert server.violations == []


async def test_fetch_entry_with_referrer_succeeds(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with resolver.entries(server.url("/example")) as entries:
        found = {entry.name: entry async for entry in entries}
    entry = found["moved"]
    assert entry.url is not None
    response = await resolver.fetch(entry.url, origin=entry.origin, referrer=entry.referrer)
    assert response.content == TEXT
    assert "secret" not in found


async def test_info_requests_no_contents(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    entry = await resolver.info(server.url("AFTP/pub/hello.txt"))
    assert (entry.kind, entry.size) == ("document", 15)
    assert entry.modified is not None
    assert entry.modified.isoformat() == "1994-03-01T12:00:00+00:00"
    assert (await resolver.info(server.url("/example"))).kind == "directory"
    assert not any("CONTENTS" in each for each in server.service.queries)


async def test_save_writes_bytes_and_modification_time(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery)
    path = tmp_path / "all.bin"
    saved = await resolver.save(server.url("AFTP/pub/all.bin"), str(path), digest=True)
    assert (path.read_bytes(), saved.bytes, saved.verified) == (OCTETS, len(OCTETS), ("length",))
    assert path.stat().st_mtime == 762523200


@pytest.mark.parametrize(
    ("path", "error", "status"),
    [("nope", NotFound, 8), ("/private/x", AccessDenied, 6), ("x;HOST-TYPE=X", Declined, 8)],
)
async def test_fetch_of_unavailable_object_raises(
    path: str, error: type[ResolveError], status: int, nursery: trio.Nursery
) -> None:
    server = await serve(nursery)
    with pytest.raises(error) as raised:
        await resolver.fetch(server.url(path))
    assert (type(raised.value), raised.value.exit_code, raised.value.url) == (error, status, server.url(path))
    assert server.violations == []


async def test_body_limit_counts_bytes_of_object(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    url = server.url("/example/long")
    assert len((await resolver.fetch(url, limits=Limits(body=52_000))).content) == 52_000
    with pytest.raises(LimitExceeded) as raised:
        await resolver.fetch(url, limits=Limits(body=51_999))
    assert raised.value.exit_code == 14


async def test_total_timeout_cancels_request(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviors={None: Behavior(silent=True)})
    with pytest.raises(TimedOut, match=r" 0\.2 s$"):
        await resolver.fetch(server.url("x"), limits=Limits(total=0.2))
    with trio.fail_after(HANG):
        while not server.service.cancelled:
            await trio.lowlevel.checkpoint()


async def test_idle_timeout_raises(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviors={None: Behavior(silent=True)})
    with pytest.raises(TimedOut) as raised:
        await resolver.fetch(server.url("x"), limits=Limits(idle=0.2))
    assert raised.value.exit_code == 11


async def test_wait_packet_beyond_idle_limit_times_out(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviors={None: Behavior(wait=900, silent=True)})
    with pytest.raises(TimedOut, match=" 900 s"):
        await resolver.fetch(server.url("x"), limits=Limits(idle=0.2))


async def test_answer_from_other_port_counts_from_other_address_not(
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery, behaviors={None: Behavior(other_port=True)})
    assert (await resolver.fetch(server.url("AFTP/pub/hello.txt"))).content == TEXT
    server.service.behaviors[None] = Behavior(other_address=True)
    with pytest.raises(TimedOut):
        await resolver.fetch(server.url("AFTP/pub/hello.txt"), limits=Limits(idle=0.2))


async def test_redirect_needs_permitted_port(nursery: trio.Nursery) -> None:
    second = await serve(nursery)
    first = await serve(nursery, behaviors={None: Behavior(redirect=("127.0.0.1", second.port))})
    with pytest.raises(Refused) as raised:
        await resolver.fetch(first.url("AFTP/pub/hello.txt"))
    assert (raised.value.rule, raised.value.exit_code, second.received) == ("S04", 15, 0)
    async with resolver.Resolver(policy=allowing(first.port, second.port)) as session:
        assert (await session.fetch(first.url("AFTP/pub/hello.txt"))).content == TEXT
    assert first.violations + second.violations == []


async def test_connection_ids_and_source_ports_are_random(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for _ in range(10):
        await resolver.fetch(server.url("AFTP/pub/hello.txt"))
    keys = list(server.service._transport._exchanges)
    assert len({source for source, _ in keys}) > 15
    ids = [number for _, number in keys]
    assert len(set(ids)) > 15
    assert max(ids) - min(ids) > 10_000


async def test_fetch_despite_30_percent_loss(nursery: trio.Nursery) -> None:
    """The test uses a real socket and a shortened schedule."""
    weather = Channel(lost=0.3, doubled=0.1, shuffled=True, seed=11)
    server = await serve(nursery, channel=weather)
    url = parse_as(ProsperoUrl, server.url("/example/long"))
    async with Network(policy=Policy()) as network:
        gate = network.admit(url)
        schedule = RetransmitTiming(first=0.01, retries=12)
        async with hold(converse(url, gate.options, gate.limits, schedule), gate) as reply:
            content = b"".join([octets async for octets in reply.body])
    assert len(content) == 52_000
    assert content.endswith(b"line 01999 of a long file\n")
    assert weather.lost > 10
    assert server.violations == []


async def test_silent_first_address_falls_back_to_next(nursery: trio.Nursery) -> None:
    """The other address is tried once per run: later requests start with the answering one (S09)."""
    server = await serve(nursery)

    async def lookup_addresses(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "::1"]

    events: list[Event] = []
    url = parse_as(ProsperoUrl, server.url("AFTP/pub/hello.txt").replace("127.0.0.1", "h.example"))
    network = Network(policy=Policy(), lookup=lookup_addresses, on_event=events.append)
    async with network, open_url(url, network.admit(url)) as reply:
        content = b"".join([octets async for octets in reply.body])
    assert (content, reply.peer) == (b"hello prospero\n", "127.0.0.1")
    sent = [event.octets[-60:] for event in events if isinstance(event, Sent)]
    assert [b"CONTENTS" in octets for octets in sent] == [False] * (1 + HAS_IPV6) + [True]
    assert server.violations == []


# -- links to other servers


def way(scheme: bytes, port: int, name: bytes, *arguments: bytes, host: bytes = b"127.0.0.1") -> Any:
    return method(scheme, b"INTERNET-D", b"%s(%d)" % (host, port), b"ASCII", name, *arguments)


def objects(*attributes: Any, contents: bytes | None = None) -> dict[bytes, Node]:
    return {b"x": Node(attributes=attributes, contents=contents)}


async def test_link_to_gopher_is_followed(nursery: trio.Nursery) -> None:
    gopher = await fixtures.gopher.serve(nursery)
    server = await serve(nursery, objects(way(b"GOPHER", gopher.port, b"9/data", b"BINARY")))
    async with resolver.Resolver(policy=allowing(server.port, gopher.port)) as session:
        response = await session.fetch(server.url("x"))
    assert response.content == fixtures.gopher.EXAMPLE[b"9/data"].content
    assert (response.url, response.chain) == (gopher.url("99/data"), (server.url("x"),))
    assert response.requested_url == server.url("x")
    assert [request.selector for request in gopher.requests] == [b"9/data"]
    assert server.violations + gopher.violations == []


async def test_link_to_ftp_is_followed(nursery: trio.Nursery) -> None:
    ftp = await fixtures.ftp.serve(nursery)
    server = await serve(
        nursery,
        {
            b"x": Node(attributes=(way(b"AFTP", ftp.port, b"/pub/a.txt", b"BINARY"),)),
            b"d": Node(attributes=(way(b"AFTP", ftp.port, b"/pub", b"DIRECTORY"),)),
        },
    )
    async with resolver.Resolver(policy=allowing(server.port, ftp.port)) as session:
        response = await session.fetch(server.url("x"))
        listing = await session.fetch(server.url("d"))
    assert response.content == (await resolver.fetch(ftp.url("pub/a.txt"))).content != b""
    assert response.url == ftp.url("pub/a.txt;type=i")
    assert listing.entries is not None
    assert "a.txt" in [entry.name for entry in listing.entries]
    assert server.violations + ftp.violations == []


async def test_link_to_wais_is_followed(nursery: trio.Nursery) -> None:
    wais = await fixtures.wais.serve(nursery)
    path = b"1=wais.example%3A210;2=/srv/wais/db/demo;3=0%20121%20/srv/wais/docs/quay.txt;7=%00;"
    name = b"WAIS-GW/127.0.0.1(%d)/TEXT/demo/" % wais.port
    found = objects(method(b"WAIS", b"", b"", b"", name + b"121/" + path))
    server = await serve(nursery, found)
    async with resolver.Resolver(policy=allowing(server.port, wais.port)) as session:
        response = await session.fetch(server.url("x"))
    assert (len(response.content), response.url.partition(":")[0]) == (121, "wais")
    assert server.violations + wais.violations == []


async def test_moved_object_with_link_to_gopher_is_followed(nursery: trio.Nursery) -> None:
    gopher = await fixtures.gopher.serve(nursery)
    second = await serve(nursery, {b"y": Node(attributes=(way(b"GOPHER", gopher.port, b"0/about"),))})
    host = b"127.0.0.1(%d)" % second.port
    first = await serve(nursery, {b"x": Node(moved=Moved(b"y", host=host))})
    async with resolver.Resolver(policy=allowing(first.port, second.port, gopher.port)) as session:
        response = await session.fetch(first.url("x"))
    assert response.content.replace(b"\r\n", b"\n") == ABOUT
    assert len(second.requests) == 1


def refused_object(scheme: bytes, port: int, host: bytes = b"127.0.0.1") -> dict[bytes, Node]:
    return objects(way(scheme, port, b"0/about", host=host))


async def test_link_to_unassigned_port_is_refused(
    nursery: trio.Nursery,
) -> None:
    gopher = await fixtures.gopher.serve(nursery)
    server = await serve(nursery, refused_object(b"GOPHER", gopher.port))
    with pytest.raises(Refused) as raised:
        await resolver.fetch(server.url("x"))
    assert (raised.value.rule, raised.value.exit_code) == ("S04", 15)
    assert raised.value.url == gopher.url("00/about")
    assert gopher.requests == []


async def test_link_to_narrower_address_scope_is_refused(nursery: trio.Nursery) -> None:
    """The policy allows only the server's own address; each link target is checked separately (S08)."""
    listener = socket.create_server(("127.0.0.2", 0))
    listener.setblocking(False)
    port = listener.getsockname()[1]
    server = await serve(nursery, refused_object(b"GOPHER", port, b"127.0.0.2"))
    policy = Policy(name="untrusted", allow_address={"127.0.0.1/32"}, allow_port={server.port, port})
    async with resolver.Resolver(policy=policy) as session:
        with pytest.raises(Refused) as raised:
            await session.fetch(server.url("x"))
    assert (raised.value.rule, raised.value.exit_code) == ("S08", 15)
    with pytest.raises(BlockingIOError):
        listener.accept()
    listener.close()


@pytest.mark.parametrize("links", ["moved", "union", "contents"])
async def test_server_in_narrower_address_scope_receives_nothing(links: str, nursery: trio.Nursery) -> None:
    inside = await serve(nursery, {b"y": file(b"secret")}, host="127.0.0.2")
    host = b"127.0.0.2(%d)" % inside.port
    there = intrinsic(b"ACCESS-METHOD", b"PROSPERO-CONTENTS", b"", host, b"", b"y")
    thing = {
        "moved": Node(moved=Moved(b"y", host=host)),
        "union": Node(links=(Link(b"DIRECTORY", b"", b"y", host=host, ltype=b"U"),)),
        "contents": Node(attributes=(there,)),
    }[links]
    server = await serve(nursery, {b"x": thing})
    policy = Policy(name="untrusted", allow_address={"127.0.0.1/32"}, allow_port={server.port, inside.port})
    async with resolver.Resolver(policy=policy) as session:
        if links == "union":
            response = await session.fetch(server.url("x"))
            assert [finding.rule for finding in response.findings] == ["prospero:incomplete"]
            assert "S08" in response.findings[0].detail
        else:
            with pytest.raises(Refused) as raised:
                await session.fetch(server.url("x"))
            assert (raised.value.rule, raised.value.exit_code) == ("S08", 15)
    assert inside.received == 0


async def test_union_link_referrer_is_its_server(nursery: trio.Nursery) -> None:
    other = await serve(nursery, {b"u": Node(links=(Link(b"FILE", b"f", b"g"),))}, host="127.0.0.2")
    host = b"127.0.0.2(%d)" % other.port
    server = await serve(nursery, {b"d": Node(links=(Link(b"DIRECTORY", b"", b"u", host=host, ltype=b"U"),))})
    async with resolver.Resolver(policy=allowing(server.port, other.port)) as session:
        response = await session.fetch(server.url("d"))
    assert response.entries is not None
    (entry,) = response.entries
    assert entry.url == f"prospero://127.0.0.2:{other.port}/g"
    assert entry.referrer == (f"prospero://127.0.0.2:{other.port}/u", "127.0.0.2")


#: Access methods that the client never follows.
NEVER: list[tuple[tuple[Any, ...], type[ResolveError], int]] = [
    ((LOCAL,), Refused, 15),
    ((intrinsic(b"ACCESS-METHOD", b"LOCAL", b"", b"", b"", b"/etc/passwd"),), Refused, 15),
    ((method(b"NFS", *SAME, b"/export"),), Declined, 8),
]


@pytest.mark.parametrize(("attributes", "error", "status"), NEVER)
async def test_unsupported_access_method_is_not_followed(
    attributes: tuple[Any, ...], error: type[ResolveError], status: int, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, objects(*attributes))
    with pytest.raises(error) as raised:
        await resolver.fetch(server.url("x"))
    assert raised.value.exit_code == status


async def test_telnet_access_method_is_announced(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, objects(way(b"TELNET", 2323, b"", b"Log in as guest")))
    response = await resolver.fetch(server.url("x"))
    assert (response.kind, response.target) == ("service", "telnet://127.0.0.1:2323/")
    with pytest.raises(Refused, match="not followed") as raised:
        await resolver.save(server.url("x"), str(tmp_path / "x"))
    assert raised.value.rule == "S10"
    assert os.listdir(tmp_path) == []


# -- the next access method


@pytest.fixture
def closed() -> Iterator[int]:
    with closed_port() as port:
        yield port


async def test_failed_access_method_falls_back_to_next(nursery: trio.Nursery, closed: int) -> None:
    gopher = await fixtures.gopher.serve(nursery)
    ways = (
        way(b"AFTP", closed, b"/x", b"BINARY"),
        way(b"GOPHER", gopher.port, b"0/missing"),
        way(b"GOPHER", 25, b"0/refused"),
        way(b"GOPHER", gopher.port, b"0/about"),
        way(b"GOPHER", gopher.port, b"0/never"),
    )
    server = await serve(nursery, objects(*ways))
    async with resolver.Resolver(policy=allowing(server.port, gopher.port, closed)) as session:
        response = await session.fetch(server.url("x"))
    assert response.url == gopher.url("00/about")
    assert response.chain == (server.url("x"),)
    assert [request.selector for request in gopher.requests] == [b"0/missing", b"0/about"]
    failed = [finding for finding in response.findings if finding.rule.endswith(":failed")]
    assert [finding.rule for finding in failed] == ["ftp:failed", "gopher:failed", "gopher:failed"]
    assert "S04" in failed[-1].detail
    assert len(server.requests) == 1


async def test_failed_access_method_falls_back_to_contents(nursery: trio.Nursery, closed: int) -> None:
    ways = (way(b"AFTP", closed, b"/x", b"TEXT"), LOCAL, CONTENTS)
    server = await serve(nursery, objects(*ways, contents=b"from here\n"))
    async with resolver.Resolver(policy=allowing(server.port, closed)) as session:
        response = await session.fetch(server.url("x"))
    assert (response.content, response.url, response.chain) == (b"from here\n", server.url("x"), ())
    assert [finding.rule for finding in response.findings] == ["ftp:failed"]
    assert response.media_type == "text/plain"


#: Contents that the server does not send, although it answered before.
UNANSWERED = intrinsic(b"ACCESS-METHOD", b"PROSPERO-CONTENTS", b"", b"", b"", b"y")


async def serve_silent_contents(nursery: trio.Nursery, *ways: Any) -> ProsperoServer:
    silent: dict[bytes | None, Behavior] = {b"y": Behavior(silent=True)}
    return await serve(nursery, {**objects(*ways), b"y": file(b"never")}, silent)


async def test_unanswered_contents_fall_back_after_one_timeout(nursery: trio.Nursery) -> None:
    gopher = await fixtures.gopher.serve(nursery)
    server = await serve_silent_contents(nursery, UNANSWERED, way(b"GOPHER", gopher.port, b"0/about"))
    async with resolver.Resolver(
        policy=allowing(server.port, gopher.port), limits=Limits(idle=0.2), patience=PATIENT
    ) as session:
        response = await session.fetch(server.url("x"))
    assert (response.content.replace(b"\r\n", b"\n"), response.url) == (ABOUT, gopher.url("00/about"))
    (finding,) = (each for each in response.findings if each.rule == "prospero:failed")
    assert "no packet received" in finding.detail
    assert [asked for asked in server.service.queries if "CONTENTS" in asked] == [f"{CONTENTS_OF} y 0"]


@pytest.mark.parametrize(
    ("order", "error"),
    [("contents", TimedOut), ("contents ftp", TimedOut), ("ftp contents", Unreachable)],
)
async def test_unanswered_contents_are_requested_once(
    order: str, error: type[ResolveError], nursery: trio.Nursery, closed: int
) -> None:
    ways = {"contents": UNANSWERED, "ftp": way(b"AFTP", closed, b"/x", b"BINARY")}
    server = await serve_silent_contents(nursery, *(ways[name] for name in order.split()))
    policy = allowing(server.port, closed)
    async with resolver.Resolver(policy=policy, limits=Limits(idle=0.2), patience=PATIENT) as session:
        with pytest.raises(error) as raised:
            await session.fetch(server.url("x"))
    assert (type(raised.value), raised.value.attempts) == (error, 1)
    assert [asked for asked in server.service.queries if "CONTENTS" in asked] == [f"{CONTENTS_OF} y 0"]


async def test_silent_server_is_retried(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviors={None: Behavior(silent=True)})
    async with resolver.Resolver(limits=Limits(idle=0.2), patience=PATIENT) as session:
        with pytest.raises(TimedOut) as raised:
            await session.fetch(server.url("x"))
    assert (raised.value.attempts, len(server.requests)) == (3, 3)


async def test_failure_of_all_access_methods_raises_first_error(nursery: trio.Nursery, closed: int) -> None:
    gopher = await fixtures.gopher.serve(nursery)
    ways = (way(b"GOPHER", gopher.port, b"0/missing"), way(b"AFTP", closed, b"/x"), CONTENTS)
    server = await serve(nursery, objects(*ways))
    async with resolver.Resolver(policy=allowing(server.port, gopher.port)) as session:
        with pytest.raises(NotFound) as raised:
            await session.fetch(server.url("x"))
    assert raised.value.url == gopher.url("00/missing")


async def test_access_methods_are_limited_by_hops(nursery: trio.Nursery) -> None:
    gopher = await fixtures.gopher.serve(nursery)
    ways = [way(b"GOPHER", gopher.port, b"0/missing%d" % number) for number in range(30)]
    server = await serve(nursery, objects(*ways))
    policy = allowing(server.port, gopher.port)
    async with resolver.Resolver(policy=policy, limits=Limits(hops=4)) as session:
        with pytest.raises(NotFound):
            await session.fetch(server.url("x"))
    assert len(gopher.requests) == 4


async def test_truncated_transfer_does_not_fall_back(nursery: trio.Nursery) -> None:
    """The client already emitted bytes: only the caller can retry the complete transfer."""
    cut = {b"0/about": fixtures.gopher.Behavior(reset_at=10)}
    gopher = await fixtures.gopher.serve(nursery, behaviors=cut)
    ways = (way(b"GOPHER", gopher.port, b"0/about"), CONTENTS)
    server = await serve(nursery, objects(*ways, contents=b"from here"))
    async with resolver.Resolver(policy=allowing(server.port, gopher.port)) as session:
        with pytest.raises(Truncated) as raised:
            await session.fetch(server.url("x"))
    assert (raised.value.received, raised.value.url) == (10, gopher.url("00/about"))
    assert not any("CONTENTS" in each for each in server.service.queries)


async def test_access_method_without_handler_is_skipped(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    from protocols import wais
    from resolver.url import registry

    monkeypatch.setattr(registry, "load", registry.load.__wrapped__)
    monkeypatch.setattr(wais, "WAIS", wais.WAIS._replace(converse=None))
    assert registry.find("wais") is not None
    hopeless = method(b"WAIS", b"", b"", b"", b"WAIS-GW/127.0.0.1/TEXT/db/1")
    server = await serve(nursery, objects(hopeless, CONTENTS, contents=b"here"))
    async with resolver.Resolver(policy=allowing(server.port)) as session:
        assert (await session.fetch(server.url("x"))).content == b"here"
    server = await serve(nursery, objects(hopeless))
    async with resolver.Resolver(policy=allowing(server.port)) as session:
        with pytest.raises(UnsupportedScheme) as raised:
            await session.fetch(server.url("x"))
    assert raised.value.exit_code == 15


# -- the command


@pytest.fixture
async def server(nursery: trio.Nursery) -> ProsperoServer:
    return await serve(nursery)


async def test_cat_writes_contents_and_targets(nursery: trio.Nursery, server: ProsperoServer) -> None:
    gopher = await fixtures.gopher.serve(nursery)
    more = {
        b"x": Node(attributes=(way(b"GOPHER", gopher.port, b"9/data"),)),
        b"t": Node(attributes=(way(b"TELNET", 2323, b""),)),
    }
    leading = await serve(nursery, more)
    urls = [server.url("AFTP/pub/all.bin"), leading.url("x"), leading.url("t")]
    status, out, err = await command("cat", "--allow-port", str(gopher.port), *urls)
    data = fixtures.gopher.EXAMPLE[b"9/data"].content
    assert (status, out) == (0, OCTETS + data + b"telnet://127.0.0.1:2323/\n")
    assert b"S04" in err


async def test_get_reports_outcome_of_each_url(
    nursery: trio.Nursery, server: ProsperoServer, tmp_path: Path
) -> None:
    gopher = await fixtures.gopher.serve(nursery)
    leading = await serve(nursery, refused_object(b"GOPHER", gopher.port))
    urls = [server.url(path) for path in ("AFTP/pub/hello.txt", "nope", "/private/y", "a%0Ab", "z;a=%0D")]
    status, out, _ = await command("get", "--json", "-q", *urls, leading.url("x"), folder=tmp_path)
    found = {record["url"]: record for record in map(json.loads, out.splitlines())}
    outcomes = [
        (found[url]["status"], found[url]["exit"], (found[url]["error"] or {}).get("rule"))
        for url in (*urls, leading.url("x"))
    ]
    assert outcomes == [
        ("done", 0, None),
        ("failed", 8, None),
        ("failed", 6, None),
        ("refused", 9, "S02"),
        ("refused", 9, "S02"),
        ("refused", 15, "S04"),
    ]
    assert (status, found[urls[0]]["bytes"], found[urls[0]]["scheme"]) == (1, 15, "prospero")
    assert (tmp_path / "hello.txt").read_bytes() == TEXT
    assert gopher.requests == []
    assert not any("a\n" in each for each in server.service.queries)


async def test_ls_json_lists_entries(server: ProsperoServer) -> None:
    status, out, _ = await command("ls", "-q", "--json", server.url("/example"))
    listed = [json.loads(line) for line in out.splitlines()]
    names = ["hello.txt", "all.bin", "more", "nothing", "it's a file", "moved", "readme", "library"]
    assert (status, [entry["name"] for entry in listed]) == (0, names)
    assert {entry["kind"] for entry in listed} == {"document", "directory", "service"}
    assert all(entry["referrer"] == [server.url("/example"), "127.0.0.1"] for entry in listed)
    assert listed[6]["url"] == "ftp://ftp.example.org/pub/readme;type=a"


async def test_info_command_prints_facts(server: ProsperoServer) -> None:
    status, out, _ = await command("info", "--json", "-q", server.url("AFTP/pub/hello.txt"))
    record = json.loads(out)
    assert (status, record["kind"], record["size"]) == (0, "document", 15)
    assert record["modified"] == "1994-03-01T12:00:00Z"
    status, out, _ = await command("info", "-q", server.url("nope"))
    assert (status, out) == (8, b"")  # not "directory"


async def test_explain_and_refused_cat_send_nothing(server: ProsperoServer) -> None:
    url = server.url("AFTP/pub/hello.txt")
    status, out, _ = await command("explain", "--json", url)
    steps = json.loads(out)["steps"]
    assert (status, steps[0]["transport"], steps[0]["port"]) == (0, "udp", server.port)
    sent = [step["octets"] for step in steps if step["action"] == "send"]
    asked = "GET-OBJECT-INFO ACCESS-METHOD+SIZE+LAST-MODIFIED+UNIX-MODES ASCII AFTP'/pub/hello.txt' 0"
    assert sent[0].endswith(f"\n{asked}\n")
    status, out, err = await command("cat", "--policy", "cautious", url)
    assert (status, out, server.received) == (9, b"", 0)
    assert b"S04" in err
