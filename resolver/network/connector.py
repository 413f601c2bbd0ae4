"""The TCP connections of one URL: direct connections to checked IP addresses, or connections to a proxy.

The policy checks an IP address (S08), and the client connects to the same IP address. No second DNS lookup
can change the address, which prevents DNS rebinding (S09).
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

from protocols.errors import NetworkError, ResolveError, TimedOut, TlsError, Unreachable
from protocols.socks import AddressTypeRefused
from protocols.step import Dialogue, RandomBytes, Receive, Send, Step
from protocols.wire import Buffer, Reader, Rest
from resolver.loops import running
from resolver.network.admission import Admission
from resolver.network.clock import Throttle
from resolver.network.connecting import ConnectAttempts, ConnectTimeout
from resolver.network.events import Connected, LookedUp, OnEvent
from resolver.network.lookup import Deadline, add_zone
from resolver.network.pool import ReusableConnection
from resolver.network.stream import SocketStream, TappedStream
from resolver.network.stream_settings import Bounds, CertificateCheck, StreamSettings, TlsSettings
from resolver.network.task import current
from resolver.network.tls import check_pin
from resolver.policy.addresses import literal_addresses

#: ALPN protocols offered to an https server if HTTP/2 is available, in order of preference.
_ALPN_PROTOCOLS = ("h2", "http/1.1")


class Connector:
    """The direct connections of one URL.

    Attributes:
        first: the control connection of the data connections. None before the control connection is open.
        peer: the IP address of the last connection.
    """

    _via_proxy = ""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._shared = admission.shared
        self.first: SocketStream | None = None
        self.peer: str | None = None
        self.bounds: Bounds | None = None
        self._settings: StreamSettings | None = None
        self._for_data = False
        self._target: str | None = None
        self.stream_type = TappedStream if self._shared.taps else SocketStream
        bucket = self._shared.bucket
        #: The rate limit for all connections of this URL.
        self.throttle = None if bucket is None else Throttle(bucket, running())

    def _compute_deadline(self) -> float:
        """Return the deadline of a connection attempt that starts now."""
        until = self._admission.loop.current_time() + self._admission.limits.connect
        return until if self.bounds is None else min(until, self.bounds.deadline("connect"))

    async def find_pooled(
        self,
        key: Hashable,
        host: str,
        port: int,
        suits: Callable[[object], bool] | None = None,
        addresses: tuple[str, ...] | None = None,
    ) -> ReusableConnection | None:
        """Return an idle connection from the pool with an allowed address (S09), or None.

        The pool may contain only connections with other logins. If a batch limits the connections per host,
        the idle connections with other logins are closed, so that a new connection does not exceed the limit.
        `addresses` are the allowed addresses, if the caller has already checked them.
        """
        if not self._shared.pool.idle:
            return None
        try:
            if addresses is None:
                addresses = await self.addresses(host, port, self._compute_deadline)
        except TimedOut:  # The later call of `connect` raises the error.
            return None
        pooled = await self._shared.pool.take(key, addresses, suits)
        if pooled is not None:
            pooled.stream.apply_settings(self.settings)
            self.record_peer(pooled.stream)
        elif (task := current()) is not None and task.max_idle is not None:
            await self._shared.pool.close_excess(addresses, task.max_idle)
        return pooled

    async def connect(self, host: str, port: int, *, tls: bool) -> SocketStream:
        """Resolve the host, check its addresses, connect, and start TLS within the connect timeout.

        Raises:
            TimedOut: the connect timeout, or a limit of the caller, has passed.
        """
        until = self._compute_deadline()
        attempts = ConnectAttempts(f"{host} port {port}", until)
        try:
            return await self._open(host, port, tls, attempts, until)
        except ConnectTimeout:
            raise self._make_timeout(attempts, until) from None
        except TimedOut:
            if self.bounds is not None:
                self.bounds.late = "connect"
            raise

    def _make_timeout(self, attempts: ConnectAttempts, until: float) -> TimedOut:
        if self.bounds is not None:
            self.bounds.late = "connect"
            if until == self.bounds.deadline("connect"):
                return self.bounds.make_timeout("connect")
        limit = self._admission.limits.connect
        reasons = f": {attempts.reasons}" if attempts.failures else ""
        words = f"timed out: no connection to {attempts.place}{self._via_proxy} within {limit:g} s{reasons}"
        return TimedOut(words).with_setting("connect_timeout")

    async def _open(
        self, host: str, port: int, tls: bool, attempts: ConnectAttempts, until: float
    ) -> SocketStream:
        """Open a connection and return its stream; raise `ConnectTimeout` at the deadline."""
        try:
            addresses = await self.addresses(host, port, lambda: until)
        except TimedOut:
            raise ConnectTimeout from None
        try:
            sock, address = await attempts.connect(addresses, port)
        except NetworkError as error:
            raise self.settings.contact.judge_error(error) from error.__cause__
        stream = self.stream_type(sock, address, self.settings, first=self.first)
        try:
            if tls:
                with self._admission.loop.move_on_at(until) as scope:
                    await stream.handshake()
                if scope.cancelled_caught:
                    raise ConnectTimeout
            if self._shared.report is not None:
                self._report(self._shared.report, stream, port, tls)
        except BaseException:
            await stream.aclose()
            raise
        self.record_peer(stream)
        return stream

    def record_peer(self, stream: SocketStream) -> None:
        """Record the address of the current connection, and the host at the far end of a tunnel."""
        self.peer, self._target = stream.address, stream.tunnel_host

    def _report(self, report: OnEvent, stream: SocketStream, port: int, tls: bool) -> None:
        """Report the connection to the listener; the listener may raise any exception."""
        report(Connected(self._admission.shown, stream.address, port, tls, data=self._for_data))

    async def connect_data(self, port: int) -> SocketStream:
        """Open a connection to another port of the host of the first connection."""
        assert self.first is not None, "a data connection requires a control connection"
        self._for_data = True
        try:
            stream = await self.connect(self.first.peer, port, tls=False)
        finally:
            self._for_data = False
        stream.mark_data_connection()
        return stream

    def pool_key(self, host: str, port: int, tls: bool) -> Hashable:
        """Return the key for the connection pool, from the host, the port and the proxy."""
        return (host, port, tls)

    @property
    def source(self) -> str | None:
        """Return the IP address that is used to check redirect targets and links in a response (S08)."""
        return self.peer

    async def addresses(self, host: str, port: int, until: Deadline | None = None) -> tuple[str, ...]:
        """Return the IP addresses of a host that the policy allows.

        The addresses have the IPv6 zone of the URL. `until` returns the deadline of a DNS lookup.

        Raises:
            Refused: the policy allows none of the addresses (S08).
            Unreachable: the name does not resolve.
            TimedOut: the deadline passed during the lookup.
        """
        allowed = self._admission.check_addresses(await self.select_addresses(host, port, until))
        # Link-local addresses begin with "fe", so this cheap test avoids most calls of `add_zone`.
        is_like_link_local = ":" in host and host[:2].lower() == "fe"
        return add_zone(self._admission.url, host, allowed) if is_like_link_local else allowed

    async def select_addresses(self, host: str, port: int, until: Deadline | None = None) -> tuple[str, ...]:
        """Return the IP addresses of a host for the selected IP version.

        The policy has not checked these addresses.

        Raises:
            Unreachable: the name does not resolve, or has no address of this IP version.
        """
        addresses = literal_addresses(host)
        if addresses is None:
            try:
                addresses = await self._shared.lookups.find_addresses(host, port, until)
            except NetworkError as error:
                raise self.settings.contact.judge_error(error) from error.__cause__
            if self._shared.report is not None:
                self._shared.report(LookedUp(self._admission.shown, host, addresses))
        if (family := self._shared.family) is None:
            return addresses
        matches = tuple(address for address in addresses if (":" in address) == (family == "6"))
        if not matches:
            words = f"{host} has no IPv{family} address"
            raise Unreachable(words, retryable=False)  # A retry gives the same result.
        return matches

    @property
    def settings(self) -> StreamSettings:
        """Return the settings of every connection made for this URL."""
        if self._settings is None:
            admission, limits, place = self._admission, self._admission.limits, self._admission.place
            self._settings = StreamSettings(
                admission.shown,
                place[0],
                limits.idle,
                limits.connect,
                partial(_tls_settings, admission),
                self._shared.report,
                admission.check_secret,
                limits.min_rate,
                admission.mask,
                self._shared.contacts[place],
                admission.loop,
                self.throttle,
                self.bounds,
                admission.tap,
            )
        return self._settings


def _tls_settings(admission: Admission) -> TlsSettings:
    """Return the TLS settings for the URL's host; a pin replaces the verification by authorities."""
    row, (host, port), trust = admission.row, admission.place, admission.shared.trust
    pin = admission.host.pin
    if pin is None and trust.has_personal:
        pin = trust.find_pin(admission.full_place)
    check: CertificateCheck | None = None
    if pin is not None:
        check = partial(check_pin, host, pin)
    elif row is not None and row.certificates == "pin":
        check = partial(admission.shared.pins.check, host, port)
    negotiates = row is not None and row.negotiates and row.tls == "always"
    context = trust.context(
        _ALPN_PROTOCOLS if negotiates and admission.options.http2 is not None else (),
        with_certfile=trust.has_personal and trust.may_send_certificate(admission.full_place),
        certfile=admission.host.certfile,
        pinned=check is not None,
    )
    return TlsSettings(context, check)


# A connection through a proxy: a TCP connection to the proxy, and a tunnel to the host and port.
#
# The policy does not check the IP address of the proxy, because the user configured the proxy (S09). Bytes
# after the end of the proxy's response belong to the tunnel. The caller limits the total time.

T = TypeVar("T")

#: ALPN protocols offered to a proxy that is reached over TLS.
_PROXY_ALPN = ("http/1.1",)


class ProxyConnector(Connector):
    """The connections of a URL through a proxy. `peer` is the IP address of the proxy."""

    def __init__(self, admission: Admission) -> None:
        super().__init__(admission)
        assert admission.route is not None
        self._route = admission.route
        self._proxy = admission.route.proxy
        self._via_proxy = f" through the proxy {self._proxy.shown}"

    @property
    def source(self) -> str | None:
        """Return the IP address that was sent to the proxy as the target, or None for a host name.

        The policy treats a host name that the proxy resolves as public.
        """
        addresses = literal_addresses(self._target or self._admission.place[0])
        return None if addresses is None else addresses[0]

    def pool_key(self, host: str, port: int, tls: bool) -> Hashable:
        """Return the connection pool key; all hosts behind a forwarding proxy share it."""
        return (self._proxy, super().pool_key(host, port, tls) if self._route.via is None else None)

    async def addresses(self, host: str, port: int, until: Deadline | None = None) -> tuple[str, ...]:
        """Return the valid peers: the IP addresses of the proxy, or the targets of a tunnel.

        If the proxy forwards requests, the peers are the IP addresses of the proxy, which the policy does not
        check. For a tunnel, the peer is the host name. If the proxy does not resolve names, the peers are the
        checked IP addresses of the host.
        """
        if self._route.via is not None:
            return await self._select_proxy_addresses(until)
        return (host,) if self._proxy.resolves else await super().addresses(host, port, until)

    async def _select_proxy_addresses(self, until: Deadline | None = None) -> tuple[str, ...]:
        proxy = self._proxy
        try:
            return await self.select_addresses(proxy.host, proxy.port, until)
        except NetworkError as error:
            raise error.saying(f"so the proxy {proxy.shown} cannot be reached") from error.__cause__

    async def _open(
        self, host: str, port: int, tls: bool, attempts: ConnectAttempts, until: float
    ) -> SocketStream:
        with self._admission.loop.move_on_at(until):
            return await self._open_through(host, port, tls)
        raise ConnectTimeout

    async def _open_through(self, host: str, port: int, tls: bool) -> SocketStream:
        if self._route.via is not None:
            stream = await self._open_to_proxy()
        else:
            stream = await self._open_tunnel(deque(await self.addresses(host, port)), port)
        try:
            stream.apply_settings(self.settings)
            if tls:
                await stream.handshake()
            if self._shared.report is not None:
                self._report(self._shared.report, stream, self._proxy.port, tls)
        except BaseException:
            await stream.aclose()
            raise
        self.record_peer(stream)
        return stream

    async def _open_to_proxy(self) -> SocketStream:
        proxy = self._proxy
        attempts = ConnectAttempts(f"the proxy {proxy.shown}")
        try:
            sock, address = await attempts.connect(await self._select_proxy_addresses(), proxy.port)
        except NetworkError as error:
            raise self.settings.contact.judge_error(error) from error.__cause__
        stream = self.stream_type(sock, address, self._proxy_settings, first=self.first)
        if proxy.secured:
            await self._start_proxy_tls(stream)
        return stream

    async def _start_proxy_tls(self, stream: SocketStream) -> None:
        """Start TLS with the proxy; this TLS layer does not authenticate the host behind the proxy."""
        try:
            await stream.handshake()
        except BaseException as error:
            await stream.aclose()
            if isinstance(error, TlsError):
                error = error.without_certificate()  # pins are for the servers of URLs
            if isinstance(error, NetworkError):
                raise error.saying(f"in the connection to the proxy {self._proxy.shown}") from error.__cause__
            raise
        stream.secured = False

    @property
    def _proxy_settings(self) -> StreamSettings:
        """Return the settings for the connection to the proxy.

        TLS verifies the certificate of the proxy. The client certificate is not sent to the proxy.
        """
        trust = self._shared.trust
        return self.settings._replace(
            host=self._proxy.host,
            check_secret=self._admission.check_login,
            tls=lambda: TlsSettings(trust.context(_PROXY_ALPN, with_certfile=False)),
            bounds=None,
        )

    async def _open_tunnel(self, hosts: deque[str], port: int) -> SocketStream:
        """Return a tunnel to the first of the hosts, in order, that the proxy can reach."""
        while True:
            # If the proxy requires a login, the login is sent on a new connection.
            stream = await self._open_to_proxy()
            opened = False
            try:
                opened = await converse(self._route.open_tunnel(hosts[0], port), stream)
            except (Unreachable, AddressTypeRefused):
                hosts.popleft()
                if not hosts:
                    raise
            finally:
                if not opened:
                    await stream.aclose()
            if opened:
                stream.peer = stream.tunnel_host = hosts[0]
                return stream


async def converse(dialogue: Dialogue[T], stream: SocketStream) -> T:
    """Perform the steps of a protocol exchange on a stream and return the result.

    The exchange may yield send, receive and random-bytes steps. An error of a step is raised inside the
    exchange. Received bytes that the exchange does not consume are put back into the stream.
    """
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
    reading = reader(buffer)
    while True:
        try:
            if next(reading) is not Rest.REST:
                buffer.feed(await stream.receive())
        except StopIteration as done:
            return done.value
