"""The way out through a proxy: a connection to it, and through that a tunnel to the place.

The proxy's own address is the user's word and is judged by no rule (S09). What it says behind the end of its
answer is the tunnel's. The time for all of it is the caller's to bound.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Hashable
from functools import partial
from typing import TypeVar

from protocols.errors import NetworkError, ResolveError, Unreachable
from protocols.socks import AddressTypeRefused
from protocols.step import Dialogue, RandomBytes, Receive, Send, Step
from protocols.values import replace
from protocols.wire import Buffer, Reader, Rest
from resolver.gate.admission import Admission
from resolver.gate.connecting import ConnectAttempts
from resolver.gate.connector import Connector
from resolver.gate.stream import SocketStream
from resolver.gate.stream_settings import StreamSettings
from resolver.policy import literal_addresses

T = TypeVar("T")

#: What a proxy that is spoken to in TLS may choose from.
_OFFERS = ("http/1.1",)


class ProxyConnector(Connector):
    """See `Connector`: of a URL that goes through a proxy. `peer` is the proxy."""

    def __init__(self, admission: Admission) -> None:
        super().__init__(admission)
        assert admission.way is not None
        self._way = admission.way
        self._proxy = admission.way.proxy
        self._reached: str | None = None

    @property
    def source(self) -> str | None:
        """What the proxy was told to connect to, if that is an address; a name that it looks up counts as
        public."""
        addresses = literal_addresses(self._reached or self._admission.place[0])
        return None if addresses is None else addresses[0]

    def note(self, stream: SocketStream) -> None:
        self.peer, self._reached = stream.address, stream.beyond

    def place(self, tls: bool) -> Hashable:
        """A connection that takes requests takes them for all hosts."""
        return (self._proxy, super().place(tls) if self._way.via is None else None)

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """What may be at the other end: the proxy itself, which no rule judges, or beyond it what it is told
        to connect to."""
        if self._way.via is not None:
            return await self.fitting(self._proxy.host, self._proxy.port)
        return (host,) if self._proxy.resolves else await super().addresses(host, port)

    def _has_one_address(self, host: str) -> bool:
        return False  # and else the proxy's answers would be waited for without end

    def _goal(self, host: str, port: int) -> str:
        return f"{super()._goal(host, port)} through the proxy {self._proxy.shown}"

    async def _open(self, host: str, port: int, tls: bool, attempts: ConnectAttempts) -> SocketStream:
        stream = await self._open_way(host, port)
        try:
            stream.serve(self.settings)
            if tls:
                await stream.handshake()
            if self._shared.report is not None:
                self._report(self._shared.report, stream, self._proxy.port, tls)
        except BaseException:
            await stream.aclose()
            raise
        self.note(stream)
        return stream

    async def _open_way(self, host: str, port: int) -> SocketStream:
        if self._way.via is not None:
            return await self._open_to_proxy()
        return await self._open_tunnel(deque(await self.addresses(host, port)), port)

    async def _open_to_proxy(self) -> SocketStream:
        proxy = self._proxy
        attempts = ConnectAttempts(f"the proxy {proxy.shown}")
        try:
            sock, address = await attempts.connect(await self.fitting(proxy.host, proxy.port), proxy.port)
        except NetworkError as error:
            raise self.settings.contact.judged(error) from error.__cause__
        stream = self.stream_type(sock, address, self._settings_there, first=self.first)
        if proxy.secured:
            await self._veil(stream)
        return stream

    async def _veil(self, stream: SocketStream) -> None:
        """TLS as far as the proxy: nobody beyond it is proved by that."""
        try:
            await stream.handshake()
        except BaseException as error:
            await stream.aclose()
            if isinstance(error, NetworkError):
                raise error.saying(f"which is the proxy {self._proxy.shown}") from error.__cause__
            raise
        stream.secured = False

    @property
    def _settings_there(self) -> StreamSettings:
        """What holds on the way to the proxy: it is whom TLS has to prove, and is shown nothing of ours."""
        return replace(
            self.settings,
            host=self._proxy.host,
            check_secret=self._admission.check_login,
            offers=_OFFERS,
            shows_certificate=False,
            certfile=None,
            check_certificate=None,
            bounds=None,
        )

    async def _open_tunnel(self, hosts: deque[str], port: int) -> SocketStream:
        """To the first of the hosts that the proxy connects to."""
        while True:
            stream = await self._open_to_proxy()  # one that wants a login gets it on a new connection
            opened = False
            try:
                opened = await converse(self._way.open_tunnel(hosts[0], port), stream)
            except (Unreachable, AddressTypeRefused):
                hosts.popleft()
                if not hosts:
                    raise
            finally:
                if not opened:
                    await stream.aclose()
            if opened:
                stream.lead_to(hosts[0])
                return stream


async def converse(dialogue: Dialogue[T], stream: SocketStream) -> T:
    """Perform a dialogue that says, hears and draws, and tell it what fails. What came and was not heard is
    put back."""
    buffer = Buffer()
    advance = partial(dialogue.send, None)
    try:
        while True:
            step = advance()
            try:
                answer = await _perform(step, buffer, stream)
            except ResolveError as error:
                advance = partial(dialogue.throw, error)
            else:
                advance = partial(dialogue.send, answer)
    except StopIteration as done:
        stream.put_back(buffer.take())
        result: T = done.value
        return result
    finally:
        dialogue.close()


async def _perform(step: Step, buffer: Buffer, stream: SocketStream) -> object:
    if isinstance(step, Send):
        await stream.send(*step.lines)
    elif isinstance(step, Receive):
        return await _read(step.reader, buffer, stream)
    elif isinstance(step, RandomBytes):
        return secrets.token_bytes(step.octets)
    return None


async def _read(reader: Reader[object], buffer: Buffer, stream: SocketStream) -> object:
    waiting = reader(buffer)
    while True:
        try:
            if next(waiting) is not Rest.REST:
                buffer.feed(await stream.receive())
        except StopIteration as done:
            return done.value
