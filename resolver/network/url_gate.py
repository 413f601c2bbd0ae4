"""The network access of one URL: the `Gate` that is passed to a protocol handler.

A gate requires an `Admission`, so only URLs that passed the policy can open connections. `Connector` opens
all TCP connections.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypeAlias, cast

from protocols.contract import Credentials, Finding, HostUrl, Limits, Options, PipelineState
from protocols.errors import TimedOut
from protocols.scheme import Scheme
from protocols.step import Dialogue
from protocols.text import Masked
from resolver.network.admission import Admission
from resolver.network.clock import Throttle
from resolver.network.connecting import first_of, interleave
from resolver.network.connector import Connector, ProxyConnector
from resolver.network.mask import Mask
from resolver.network.pool import ConnectionPool, Pipeline, Pipelines, PipelineSlot, ReusableConnection
from resolver.network.stream import LoopTimer, SocketStream
from resolver.network.stream_settings import Tap
from resolver.policy.components import check_data_port
from resolver.policy.schemes import find_rules
from resolver.policy.subject import refusal
from resolver.url.parsing import parse

if TYPE_CHECKING:
    from resolver.files.local import OpenedFile
    from resolver.network.datagrams import UdpSocket

#: A predicate on the state of a pooled connection; see `protocols.contract.Gate.acquire`.
Suits: TypeAlias = "Callable[[object], bool]"


class UrlGate:
    """The gate of one URL; see `protocols.contract.Gate`.

    Attributes:
        findings: the policy's warnings, shared with the admission.
        reported_in_clear: whether this retrieval warned about a password sent without TLS.
        peer: the IP address of the last connection; None before the first connection.
        throttle: the rate limiter for received bytes; None without a rate limit.
        proxy: the redacted URL of the proxy; None without a proxy.
        row: the scheme definition.
    """

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._shared = admission.shared
        self._connector = Connector(admission) if admission.route is None else ProxyConnector(admission)
        self._gate_by_url: dict[str, UrlGate] = {}
        self.limits: Limits = admission.limits
        self.options: Options = admission.options
        self.mask: Mask = admission.mask
        self.findings: Sequence[Finding] = admission.findings
        self.row: Scheme | None = admission.row
        self.throttle: Throttle | None = self._connector.throttle
        self.proxy: Masked | None = None if admission.route is None else admission.route.proxy.shown

    async def credentials(self, user: bytes | None, *, challenged: bool = True) -> Credentials | None:
        source = self._shared.credentials
        if source is None or not (challenged or self._admission.may_log_in_unasked):
            return None
        return await source.request(self._admission.url.scheme, *self._admission.place, user)

    def random(self, count: int) -> bytes:
        return secrets.token_bytes(count)

    def wrap_dialogue(self, dialogue: Dialogue[object]) -> Dialogue[object]:
        """Return the protocol exchange unchanged, because its responses come from the network."""
        return dialogue

    def tap(self, tap: Tap) -> None:
        """Set the recorder. The caller must set the recorder before a connection is opened."""
        self._admission.tap = tap

    @property
    def reported_in_clear(self) -> bool:
        return self._admission.reported_in_clear

    @property
    def peer(self) -> str | None:
        return self._connector.peer

    @property
    def source(self) -> str | None:
        """Return the address that is used to check redirect targets and links (S08).

        Without a proxy, the result is the address of the peer.
        """
        return self._connector.source

    def connect(self, *, tls: bool) -> AbstractAsyncContextManager[SocketStream]:
        if self._connector.bounds is not None:
            self._connector.bounds.begin("connect")
        return _Connection(partial(self.open_connection, *self._admission.place, tls))

    def acquire(
        self, pool_key: Hashable, *, tls: bool, suits: Suits | None = None
    ) -> AbstractAsyncContextManager[ReusableConnection]:
        if self._connector.bounds is not None:
            self._connector.bounds.begin("connect")
        host, port = self._admission.place
        key: Hashable = (self._admission.url.scheme, self._connector.pool_key(host, port, tls), pool_key)
        if (source := self._shared.credentials) is not None:
            key = (key, source.round)
        opening = partial(self.find_or_connect, key, host, port, tls, suits)
        return _Acquisition(self._shared.pool, opening)

    async def find_or_connect(
        self, key: Hashable, host: str, port: int, tls: bool, suits: Suits | None = None
    ) -> ReusableConnection:
        """Return a pooled connection with the key, or a new connection."""
        pooled = await self._connector.find_pooled(key, host, port, suits)
        if pooled is None:
            return ReusableConnection(await self.open_connection(host, port, tls), key)
        self._connector.first = pooled.stream
        if self._connector.bounds is not None:
            self._connector.bounds.record_connected()
        return pooled

    async def open_connection(self, host: str, port: int, tls: bool) -> SocketStream:
        """Open a new connection."""
        stream = self._connector.first = await self._connector.connect(host, port, tls=tls)
        if self._connector.bounds is not None:
            self._connector.bounds.record_connected()
        return stream

    def join(
        self, key: Hashable, state: PipelineState, *, tls: bool, anew: bool
    ) -> AbstractAsyncContextManager[PipelineSlot]:
        host, port = self._admission.place
        place: Hashable = ("joined", self._connector.pool_key(host, port, tls), key)
        if (source := self._shared.credentials) is not None:
            place = (place, source.round)
        joining = partial(self._join, place, host, port, state, tls, anew)
        return _PipelineMembership(self._shared.pipelines, place, joining)

    async def _join(
        self, place: Hashable, host: str, port: int, state: PipelineState, tls: bool, anew: bool
    ) -> tuple[Pipeline, PipelineSlot]:
        connector = self._connector
        addresses = await connector.addresses(host, port) if self.options.prompt else None

        async def open_() -> tuple[SocketStream, PipelineState]:
            pooled = None if anew else await connector.find_pooled(place, host, port, addresses=addresses)
            if pooled is not None:
                return pooled.stream, cast("PipelineState", pooled.state)
            return await connector.connect(host, port, tls=tls), state

        if addresses is not None:
            pipeline = await self._shared.pipelines.join(place, addresses, open_)
        else:
            pipeline = Pipeline(*await open_())
        connector.record_peer(pipeline.stream)
        return pipeline, pipeline.add(connector.settings)

    def connect_data(self, port: int) -> AbstractAsyncContextManager[SocketStream]:
        check_data_port(port, self._shared.policy)
        return _Connection(partial(self._connector.connect_data, port))

    @asynccontextmanager
    async def open_datagrams(self) -> AsyncIterator[UdpSocket]:
        host, port = self._admission.place
        with self._admission.loop.move_on_after(self.limits.connect) as scope:
            addresses = await self._connector.addresses(host, port)
        if scope.cancelled_caught:
            words = f"timed out: no address for {host} within {self.limits.connect:g} s"
            raise TimedOut(words).with_setting("connect_timeout")
        from resolver.network.datagrams import UdpSocket  # Imported lazily: only one scheme uses UDP.

        datagrams = UdpSocket(interleave(addresses), port, self._connector.settings, self._check_redirect)
        self._connector.peer = datagrams.peer
        try:
            yield datagrams
        finally:
            self._connector.peer = datagrams.peer
            datagrams.close()

    @asynccontextmanager
    async def open_file(self, segments: tuple[bytes, ...]) -> AsyncIterator[OpenedFile]:
        if not find_rules(self._admission.url.scheme).local:
            raise refusal("S12", f"a {self._admission.url.scheme} URL cannot name a local file")
        from resolver.files.local import (
            FileRoot,
            open_local,  # Imported lazily: only one scheme opens local files.
        )

        policy = self._shared.policy
        root = None if policy.file_root is None else FileRoot(policy.file_root)
        file = open_local(segments, root=root, special=policy.allow_special, idle=self.limits.idle)
        try:
            yield file
        finally:
            file.close()

    async def stand_by(self) -> NoReturn:
        await self._admission.loop.sleep_forever()

    async def pause(self) -> None:
        await self._admission.loop.checkpoint()

    def timer(self, seconds: float) -> LoopTimer:
        return LoopTimer(self._admission.loop, seconds)

    def derive_gate(self, location: str) -> UrlGate:
        if location not in self._gate_by_url:
            self._gate_by_url[location] = UrlGate(self._admission.admit_derived(parse(location), self.source))
        return self._gate_by_url[location]

    def _check_redirect(self, peer: str, address: str, port: int) -> None:
        """Check an address that the server at `peer` sent by the rules for redirect targets."""
        assert isinstance(self._admission.url, HostUrl)
        url = replace(self._admission.url, host=address, port=port, zone=None)
        self._admission.admit_derived(url, peer).check_addresses([address])
        self._connector.peer = address

    first_of = staticmethod(first_of)


# The contexts of connections are classes, because a generator needs more calls than the pool.


class _Connection:
    """The context of a new connection."""

    def __init__(self, opening: Callable[[], Awaitable[SocketStream]]) -> None:
        self._opening = opening

    async def __aenter__(self) -> SocketStream:
        self._stream = await self._opening()
        return self._stream

    async def __aexit__(self, *_: object) -> None:
        await self._stream.aclose()


class _Acquisition:
    """The context of a connection that returns to the pool if the retrieval kept it."""

    def __init__(self, pool: ConnectionPool, opening: Callable[[], Awaitable[ReusableConnection]]) -> None:
        self._pool = pool
        self._opening = opening

    async def __aenter__(self) -> ReusableConnection:
        self._pooled = await self._opening()
        return self._pooled

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        pooled = self._pooled
        if kind is not None or pooled.next_state is None:
            await pooled.stream.aclose()
        else:
            pooled.state, pooled.next_state = pooled.next_state, None
            await self._pool.store(pooled)


class _PipelineMembership:
    """The context of a slot in a pipeline."""

    def __init__(
        self,
        pipelines: Pipelines,
        key: Hashable,
        joining: Callable[[], Awaitable[tuple[Pipeline, PipelineSlot]]],
    ) -> None:
        self._pipelines = pipelines
        self._key = key
        self._joining = joining

    async def __aenter__(self) -> PipelineSlot:
        self._joined = await self._joining()
        return self._joined[1]

    async def __aexit__(self, *_: object) -> None:
        await self._pipelines.leave(self._key, *self._joined)
