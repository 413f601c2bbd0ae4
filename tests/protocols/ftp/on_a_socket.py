"""Retrieve from a mock FTP server on loopback through the real gate."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from fixtures.ftp import MockFtp
from fixtures.ftp_urls import ASKED
from protocols.contract import Reply
from resolver import Credentials, Entry, Finding, FtpUrl, Kind, Limits, Options, Policy, ResolveError
from resolver.transfer.network import Network
from tests.hang import HANG
from tests.protocols.opening import open_url
from tests.protocols.typed_url import parse_as


async def ask(scheme: str, host: str, port: int, user: bytes | None) -> Credentials | None:
    """Return the one known password for a named user."""
    return None if user is None else Credentials(user, ASKED)


@dataclass
class FtpOutcome:
    """The outcome of a retrieval."""

    body: bytes = b""
    kind: Kind | None = None
    size: int | None = None
    start: int = 0
    entries: list[Entry] = field(default_factory=list)
    verified: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)
    error: ResolveError | None = None


@asynccontextmanager
async def network(
    server: MockFtp, limits: Limits | None = None, cafile: Path | None = None
) -> AsyncIterator[Network]:
    policy = Policy(allow_port={server.port}, allow_password=True)
    async with Network(
        policy=policy, limits=limits, credentials=ask, cafile=None if cafile is None else str(cafile)
    ) as opened:
        yield opened


async def take(url: str, server: Network, options: Options | None = None) -> FtpOutcome:
    """Read the body and its entries; an error is stored in the outcome."""
    parsed = parse_as(FtpUrl, url)
    taken = FtpOutcome()
    with trio.fail_after(HANG):
        try:
            async with open_url(parsed, server.admit(parsed, options=options)) as reply:
                await _take_reply(reply, taken)
        except ResolveError as error:
            taken.error = error
    return taken


async def _take_reply(reply: Reply, taken: FtpOutcome) -> None:
    taken.kind, taken.size, taken.start = reply.kind, reply.size, reply.start
    try:
        async for octets in reply.body:
            taken.body += octets
            if reply.listing is not None:
                taken.entries += reply.listing.feed(octets)
        if reply.listing is not None:
            taken.entries += reply.listing.finish()
    finally:
        taken.verified, taken.findings = reply.verified, reply.findings


async def retrieve(
    server: MockFtp,
    path: str,
    *,
    login: str = "",
    options: Options | None = None,
    limits: Limits | None = None,
    cafile: Path | None = None,
) -> FtpOutcome:
    async with network(server, limits, cafile) as opened:
        return await take(server.url(path, login), opened, options)
