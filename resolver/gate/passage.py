"""The way of one URL to the outside: what a handler gets as its `Gate`.

Making a `Passage` *is* judging its URL: there is no other constructor, so nothing can be opened that
was not judged. Each connection judges the addresses again (S08), connects to one of those by number
(S09), and knows no other host than the URL's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar, cast

import trio

from protocols.contract import (
    Came,
    Credentials,
    Finding,
    HostUrl,
    Limits,
    Memory,
    Options,
    Origin,
    Referrer,
    Url,
)
from protocols.errors import TimedOut, Unreachable
from resolver.events import Connected, OnEvent
from resolver.gate import race
from resolver.gate.connecting import Attempts, interleave
from resolver.gate.datagrams import Datagrams
from resolver.gate.faults import refusal
from resolver.gate.file import LocalFile, open_local
from resolver.gate.lookup import LookupCache
from resolver.gate.pool import Kept, Pool
from resolver.gate.rooted import Root
from resolver.gate.row import Row, Rows, Seat
from resolver.gate.stream import Stream, Terms
from resolver.gate.trust import Trust
from resolver.policy import (
    Policy,
    Server,
    Verdict,
    check_data_port,
    endpoint_of,
    judge,
    judge_addresses,
    judge_credentials,
)
from resolver.url import parse

A = TypeVar("A")
B = TypeVar("B")

#: `-4`, `-6`: the only IP version to use; None means both.
Family: TypeAlias = Literal["4", "6"]

#: Gives the credentials for a scheme, host, port and user; see `protocols.contract.Gate.credentials`.
Ask: TypeAlias = Callable[[str, str, int, bytes | None], Awaitable[Credentials | None]]

#: What an https server may choose from where HTTP/2 can be spoken, the preferred one first.
_OFFERS = ("h2", "http/1.1")


@dataclass(frozen=True, slots=True)
class Shared:
    """What the passages of one run have in common. `ask` gives credentials for a place."""

    policy: Policy
    limits: Limits
    gateways: Mapping[str, str]
    lookups: LookupCache
    trust: Trust
    family: Family | None
    tell: OnEvent | None
    ask: Ask
    pool: Pool
    rows: Rows


@dataclass(slots=True)
class Loan:
    """See `protocols.contract.Loan`. `left` is what `keep` was given."""

    stream: Stream
    memory: object | None = None
    left: object | None = None

    def keep(self, memory: object) -> None:
        self.left = memory


class Passage:
    """See `protocols.contract.Gate`. Raises `Refused` or `UnsupportedScheme` when it is made: nothing
    has been looked up or sent by then.

    `findings` are the policy's warnings and grow as addresses are judged; `peer` is the address that
    was connected to last, None until then. `outer` is the passage whose answer led to this one.
    """

    def __init__(
        self,
        shared: Shared,
        url: Url,
        *,
        origin: Origin,
        referrer: Referrer | None,
        server: Server | None,
        options: Options | None = None,
        outer: Passage | None = None,
    ) -> None:
        self._shared = shared
        self._options = _under(shared.policy, Options() if options is None else options)
        self._url = url
        self._origin = origin
        self._referrer = referrer
        self._server = server
        self._first: Stream | None = None
        self._is_hop = outer is not None
        self._findings: list[Finding] = [] if outer is None else outer._findings
        self.peer: str | None = None
        self._heed(
            judge(
                url,
                shared.policy,
                origin=origin,
                referrer=referrer,
                gateways=shared.gateways,
                server=server,
            )
        )

    @property
    def limits(self) -> Limits:
        return self._shared.limits

    @property
    def options(self) -> Options:
        return self._options

    async def credentials(self, user: bytes | None) -> Credentials | None:
        return await self._shared.ask(self._url.scheme, *self._place(), user)

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(self._findings)

    @asynccontextmanager
    async def connect(self, *, tls: bool) -> AsyncIterator[Stream]:
        host, port = self._place()
        self._first = stream = await self._connect(host, port, tls)
        try:
            yield stream
        finally:
            await stream.aclose()

    @asynccontextmanager
    async def borrow(self, whom: Hashable, *, tls: bool) -> AsyncIterator[Loan]:
        host, port = self._place()
        key = (self._url.scheme, host, port, tls, whom)
        kept = await self._kept(key, host, port)
        loan = Loan(await self._connect(host, port, tls)) if kept is None else Loan(kept.stream, kept.memory)
        self._first = loan.stream
        try:
            yield loan
        except BaseException:
            await loan.stream.aclose()
            raise
        if loan.left is None:
            await loan.stream.aclose()
        else:
            await self._shared.pool.put(key, loan.stream, loan.left)

    @asynccontextmanager
    async def join(self, whom: Hashable, memory: Memory, *, tls: bool, anew: bool) -> AsyncIterator[Seat]:
        host, port = self._place()
        key = ("joined", host, port, tls, whom)

        async def open_() -> tuple[Stream, Memory]:
            kept = None if anew else await self._kept(key, host, port)
            if kept is not None:
                return kept.stream, cast(Memory, kept.memory)
            return await self._connect(host, port, tls), memory

        if self._options.prompt:
            row = await self._shared.rows.join(key, await self._addresses(host, port), open_)
        else:
            row = Row(*await open_())
        self.peer = row.stream.peer
        seat = row.sit(self._terms())
        try:
            yield seat
        finally:
            await self._shared.rows.leave(key, row, seat)

    @asynccontextmanager
    async def connect_data(self, port: int) -> AsyncIterator[Stream]:
        assert self._first is not None, "a data connection follows a first one"
        check_data_port(port, self._shared.policy)
        stream = await self._connect(self._first.peer, port, False)
        try:
            yield stream
        finally:
            await stream.aclose()

    @asynccontextmanager
    async def open_datagrams(self) -> AsyncIterator[Datagrams]:
        host, port = self._place()
        with trio.move_on_after(self.limits.connect) as scope:
            addresses = await self._addresses(host, port)
        if scope.cancelled_caught:
            raise TimedOut(f"no address for {host} within {self.limits.connect:g} s")
        datagrams = Datagrams(interleave(addresses), port, self._terms(), self._check_turn)
        self.peer = datagrams.peer
        try:
            yield datagrams
        finally:
            self.peer = datagrams.peer
            datagrams.close()

    @asynccontextmanager
    async def open_file(self, segments: tuple[bytes, ...]) -> AsyncIterator[LocalFile]:
        if self._url.scheme != "file":
            raise refusal("S12", f"a {self._url.scheme} URL names no file of this machine")
        policy = self._shared.policy
        root = None if policy.file_root is None else Root(policy.file_root)
        file = open_local(segments, root=root, special=policy.allow_special, idle=self.limits.idle)
        try:
            yield file
        finally:
            file.close()

    def elsewhere(self, location: str) -> Passage:
        return Passage(
            self._shared,
            parse(location),
            origin="derived",
            referrer=Referrer(self._url.shown, self.peer),
            server=None,
            options=replace(self._options, headers=(), login=None),  # S11
            outer=self,
        )

    async def first_of(
        self, first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]]
    ) -> tuple[Came[A] | None, Came[B] | None]:
        return await race.first_of(first, second)

    async def _kept(self, key: Hashable, host: str, port: int) -> Kept | None:
        """A kept connection whose address may be connected to now (S09); None if there is none."""
        if not len(self._shared.pool):
            return None
        with trio.move_on_after(self.limits.connect):
            addresses = await self._addresses(host, port)
            kept = await self._shared.pool.take(key, addresses)
            if kept is not None:
                kept.stream.serve(self._terms())
                self.peer = kept.stream.peer
            return kept
        return None

    async def _connect(self, host: str, port: int, tls: bool) -> Stream:
        """Look up, judge, connect and begin TLS, all within the one connect limit."""
        attempts = Attempts(f"{host} port {port}")
        limit = self.limits.connect
        with trio.move_on_after(limit):
            return await self._open(host, port, tls, attempts)
        told = f" ({attempts.told})" if attempts.failures else ""
        raise TimedOut(f"no connection to {host} port {port} within {limit:g} s{told}")

    async def _open(self, host: str, port: int, tls: bool, attempts: Attempts) -> Stream:
        sock, address = await attempts.connect(await self._addresses(host, port), port)
        stream = Stream(sock, address, self._terms(), first=self._first)
        try:
            if tls:
                await stream.handshake()
            if self._shared.tell is not None:  # which may raise what it likes
                self._shared.tell(Connected(self._url.shown, address, port, tls))
        except BaseException:
            await stream.aclose()
            raise
        self.peer = address
        return stream

    async def _addresses(self, host: str, port: int) -> tuple[str, ...]:
        """The addresses of a host that may be connected to. Raises `Refused` (S08), `Unreachable`."""
        found = await self._shared.lookups.addresses_of(host, port)
        fitting = [address for address in found if self._fits(address)]
        if not fitting:
            none = Unreachable(f"{host} has no IPv{self._shared.family} address")
            none.retryable = False  # nor will it have one in a minute
            raise none
        return self._allowed(self._url, fitting)

    def _fits(self, address: str) -> bool:
        return self._shared.family is None or (":" in address) == (self._shared.family == "6")

    def _allowed(self, url: Url, addresses: Iterable[str]) -> tuple[str, ...]:
        allowed, verdict = judge_addresses(
            url,
            tuple(addresses),
            self._shared.policy,
            origin=self._origin,
            referrer=self._referrer,
        )
        self._heed(verdict)
        return tuple(allowed)

    def _heed(self, verdict: Verdict) -> None:
        error = verdict.error(self._url)
        if error is not None:
            if self._is_hop:
                error.exit_code = 15  # as for any redirect, whatever rule stops it
            raise error
        self._findings += [finding for finding in verdict.findings if finding not in self._findings]

    def _check_turn(self, peer: str, address: str, port: int) -> None:
        """The server at `peer` says to go on elsewhere: as if a URL of that place had been followed."""
        assert isinstance(self._url, HostUrl)
        url = replace(self._url, host=address, port=port)
        there = Passage(
            self._shared,
            url,
            origin="derived",
            referrer=Referrer(self._url.shown, peer),
            server=None,
            outer=self,
        )
        there._allowed(url, [address])
        self.peer = address

    def _check_secret(self, peer: str, secured: bool) -> None:
        """S06: may a password leave on this connection?"""
        self._heed(judge_credentials(self._url, peer, self._shared.policy, tls=secured, origin=self._origin))

    def _place(self) -> tuple[str, int]:
        endpoint = endpoint_of(self._url, self._server)
        assert endpoint is not None, f"a {self._url.scheme} URL names no place to connect to"
        return endpoint.host, endpoint.port

    def _terms(self) -> Terms:
        return Terms(
            url=self._url.shown,
            host=self._place()[0],
            idle=self.limits.idle,
            connect=self.limits.connect,
            trust=self._shared.trust,
            tell=self._shared.tell,
            check_secret=self._check_secret,
            offers=_OFFERS if self._url.scheme == "https" and self._options.http2 is not None else (),
        )


def _under(policy: Policy, options: Options) -> Options:
    """What the person tells of themselves is the policy's to say (S17)."""
    if policy.ftp_email is None:
        return options
    return replace(options, anonymous_password=policy.ftp_email.encode("ascii"))
