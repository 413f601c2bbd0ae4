"""Connections that serve again, and those that must not."""

from __future__ import annotations

import trio

import resolver
from fixtures.ftp import Behaviour, serve
from resolver import Options, Policy, Truncated
from tests.protocols.ftp.on_a_socket import network, take


async def test_kept_connections(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    keep = Options(keep=True)
    async with network(server) as opened:
        for path in ("pub/a.txt", "pub/a.bin", "pub/names/README", "etc/motd", "pub/a.txt"):
            assert (await take(server.url(path), opened, keep)).error is None
        assert len(server.sessions) == 1
        assert server.commands.count(b"PWD") == 4
        assert (await take(server.url("pub/a.txt", "bob:secret%20pw@"), opened, keep)).error is not None
    assert len(server.sessions) == 2
    assert server.violations == []


async def test_unless_told_to_keep_only_the_same_directory_is_served_again(
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery)
    async with network(server) as opened:
        for path in ("pub/a.txt", "pub/a.bin", "etc/motd"):
            assert (await take(server.url(path), opened)).error is None
    assert len(server.sessions) == 2
    assert b"PWD" not in server.commands
    assert server.commands.count(b"CWD pub") == 1


async def test_a_resolver_finds_the_way_back_and_one_call_does_not_ask_for_it(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    policy = Policy(allow_port={server.port})
    async with resolver.Resolver(policy=policy) as session:
        for path in ("pub/a.txt", "etc/motd"):
            assert (await session.fetch(server.url(path))).content
    assert [each.commands[2] for each in server.sessions] == [b"PWD\r\n"]
    await resolver.fetch(server.url("pub/a.txt"), policy=policy)
    assert server.sessions[1].commands[2] == b"CWD pub\r\n"


async def test_a_connection_that_failed_is_not_kept(nursery: trio.Nursery) -> None:
    server = await serve(nursery, Behaviour(final=b"426 broken\r\n", connections=1))
    async with network(server) as opened:
        assert isinstance((await take(server.url("pub/a.txt"), opened)).error, Truncated)
        assert (await take(server.url("pub/a.txt"), opened)).error is None
    assert len(server.sessions) == 2
