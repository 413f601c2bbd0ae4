"""COMPRESS DEFLATE (RFC 8054) through the whole of the resolver, with a server that has it."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
import trio

import resolver
from fixtures.nntp import EXAMPLE, INN, Behaviour, Group, NewsServer, Spool, serve
from fixtures.nntp.flavour import COMPRESSING, LOGIN
from fixtures.nntp.spool import numbered
from protocols.news.negotiation import WORTH
from resolver import Event, Received, Resolver, Sent

MANY = Group(numbered(b"many", list(range(1, WORTH + 1))))
FEW = Group(numbered(b"few", list(range(1, WORTH))))
SECRET = Group(numbered(b"shut", [1]), locked=True)
SPOOL = Spool({**EXAMPLE.groups, b"many": MANY, b"few": FEW, b"shut": SECRET})
COMMANDS = [b"CAPABILITIES", b"COMPRESS DEFLATE"]


def session(server: NewsServer, **more: object) -> Resolver:
    policy = resolver.Policy(allow_port={server.port}, allow_password=True)
    return Resolver(policy=policy, **more)  # type: ignore[arg-type]


def said(server: NewsServer) -> list[bytes]:
    """What the server has heard, but for the farewell, which may be on its way."""
    return [command for command in server.commands if command != b"QUIT"]


def spoilt(answer: bytes, cut_at: int | None) -> dict[bytes, Behaviour]:
    """Compression is offered, and this is the answer to who wants it."""
    offering = b"101 list\r\nVERSION 2\r\nREADER\r\nCOMPRESS DEFLATE\r\n.\r\n"
    return {
        b"CAPABILITIES": Behaviour(instead=offering),
        b"COMPRESS DEFLATE": Behaviour(instead=answer, cut_at=cut_at),
    }


async def test_a_long_listing_is_compressed_and_the_same(nursery: trio.Nursery) -> None:
    plain, packing = [await serve(nursery, SPOOL, flavour=flavour) for flavour in (INN, COMPRESSING)]
    events: list[Event] = []
    async with session(plain) as one, session(packing, on_event=events.append) as other:
        straight = await one.fetch(plain.url("many"))
        response = await other.fetch(packing.url("many"))
        article = await other.fetch(packing.url("many/7"))
    assert response.content == straight.content
    assert (response.kind, response.verified) == (straight.kind, straight.verified)
    assert article.content.endswith(b"number 7\r\n")
    assert packing.commands[:4] == [b"GROUP many", *COMMANDS, b"OVER 1-1000"]
    assert said(packing)[4:] == [b"ARTICLE 7"]
    assert (packing.connections, packing.violations) == (1, [])
    assert packing.said * 8 < plain.said
    shown = b"".join(event.octets for event in events if isinstance(event, Sent))
    assert b"OVER 1-1000\r\nARTICLE 7\r\n" in shown, "a trace has what is said, and not how it is packed"
    assert straight.content[-100:] in b"".join(e.octets for e in events if isinstance(e, Received))


@pytest.mark.parametrize(
    ("path", "commands"),
    [
        ("few", [b"GROUP few", b"OVER 1-999"]),
        ("many/3", [b"GROUP many", b"ARTICLE 3"]),
        ("many?news", [*COMMANDS, b"LIST ACTIVE", b"LIST NEWSGROUPS"]),
    ],
)
async def test_what_is_worth_it(path: str, commands: list[bytes], nursery: trio.Nursery) -> None:
    server = await serve(nursery, SPOOL, flavour=COMPRESSING)
    url = server.url("*", scheme="news") if path.endswith("?news") else server.url(path)
    async with session(server) as one:
        response = await one.fetch(url)
    assert said(server) == commands
    assert response.verified == ("terminator",)
    assert server.violations == []


@pytest.mark.parametrize("refusal", [b"403 no\r\n", b"502 no\r\n", b"503 no\r\n"])
async def test_a_server_that_refuses_is_spoken_to_without(refusal: bytes, nursery: trio.Nursery) -> None:
    server = await serve(nursery, SPOOL, behaviours=spoilt(refusal, None))
    async with session(server) as one:
        for _ in range(2):
            response = await one.fetch(server.url("many"))
            assert response.content.count(b"\r\n") == WORTH
    assert server.commands.count(b"COMPRESS DEFLATE") == 1


def packed(octets: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    return packer.compress(octets) + packer.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"206 Compression active\r\n224 not compressed at all\r\n", resolver.ProtocolError),
        (b"206 Compression active\r\n" + packed(b"224 smuggled\r\n.\r\n"), resolver.ProtocolError),
        (b"290 what is this\r\n", resolver.ProtocolError),
    ],
)
async def test_octets_that_came_before_are_refused(
    answer: bytes, error: type[resolver.ResolveError], nursery: trio.Nursery
) -> None:
    """What came in one piece with the 206 may have been put there by somebody between."""
    server = await serve(nursery, SPOOL, behaviours=spoilt(answer, len(answer)))
    async with session(server) as one:
        with pytest.raises(error):
            await one.fetch(
                server.url("many"),
            )
    assert not any(command.startswith(b"OVER") for command in server.commands)


async def test_a_login_goes_where_nothing_is_compressed(nursery: trio.Nursery) -> None:
    """On a connection of its own, which is never compressed; the first one goes on to serve others."""
    server = await serve(nursery, SPOOL, flavour=COMPRESSING)
    held = {("nntp", "127.0.0.1", server.port): resolver.Credentials(b"alice", b"secret")}

    def credentials(scheme: str, host: str, port: int, user: bytes | None) -> resolver.Credentials | None:
        return held.get((scheme, host, port))

    async def look(*place: object) -> resolver.Credentials | None:
        return credentials(*place)  # type: ignore[arg-type]

    async with session(server, credentials=look) as one:
        assert len((await one.fetch(server.url("many"))).entries or ()) == WORTH
        assert (await one.fetch(server.url("shut/1"))).content.endswith(b"number 1\r\n")
        assert (await one.fetch(server.url("many/1"))).content.endswith(b"number 1\r\n")
        assert len((await one.fetch(server.url("many"))).entries or ()) == WORTH
    assert server.violations == []
    assert server.connections == 2
    assert server.commands.count(b"COMPRESS DEFLATE") == 1
    assert server.commands.count(b"AUTHINFO PASS secret") == 1


async def test_a_user_of_the_url_logs_in_first(nursery: trio.Nursery) -> None:
    flavour = replace(LOGIN, compresses=True)
    server = await serve(nursery, SPOOL, flavour=flavour)
    async with session(server) as one:
        await one.fetch(server.url("many", login="alice:secret@"))
        await one.fetch(server.url("*", scheme="news", login="alice:secret@"))
    verbs = [command.split()[0] for command in server.commands]
    assert verbs.index(b"COMPRESS") > verbs.index(b"AUTHINFO")
    assert server.violations == []


async def test_all_at_once(nursery: trio.Nursery) -> None:
    """Those who send ahead on a connection that turns are all answered right."""
    server = await serve(nursery, SPOOL, flavour=COMPRESSING)
    found: dict[str, int] = {}
    async with session(server) as many:

        async def fetch(path: str) -> None:
            found[path] = len((await many.fetch(server.url(path))).content.split(b"\r\n"))

        async with trio.open_nursery() as inner:
            for path in ("many/1", "many", "few", "many/2", "few/3", "many/900"):
                inner.start_soon(fetch, path)
    assert found["many"] == WORTH + 1
    assert found["few"] == WORTH
    assert server.violations == []
    assert server.connections == 1


def test_the_plan_says_it() -> None:
    """Of all groups as it will be, of one group as a note: only the server knows how long it is."""
    steps = resolver.explain("news://news.example/*").steps
    said = [step["octets"] for step in steps if step["action"] == "send"]
    assert said == ["CAPABILITIES\r\n", "COMPRESS DEFLATE\r\n", "LIST ACTIVE\r\nLIST NEWSGROUPS\r\n"]
    notes = " ".join(str(step["text"]) for step in resolver.explain("nntp://h/a.b").steps if "text" in step)
    assert "1000 or more: CAPABILITIES, and COMPRESS DEFLATE" in notes
