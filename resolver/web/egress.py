"""An egress proxy: the policy of this package for programs in any language (`resolve proxy`).

The same port accepts HTTP (CONNECT and absolute-form requests) and SOCKS5. A SOCKS5 request begins with byte
5 (RFC 1928 section 3). `Network.admit` checks each target as a URL. It returns the only object that can open
the connection. Therefore the proxy connects to the checked address (S08, S09), and nothing is sent to a
refused target.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import h11
import trio

from protocols import socks
from protocols.errors import (
    Declined,
    InvalidUrl,
    LimitExceeded,
    NetworkError,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
)
from protocols.http.proxy_server import (
    ProxyConnection,
    ProxyRequest,
    encode_answer,
    endpoint_url,
    forwardable,
)
from protocols.location import HostUrl
from protocols.text import Masked
from protocols.wire import Buffer, encode_counted, join_head
from resolver.network.lookup import Lookup, look_up
from resolver.network.stream import NO_RESET, RESET, SocketStream
from resolver.policy.components import check_tunnel_port
from resolver.transfer.network import Network
from resolver.transfer.settings import Settings
from resolver.url.parsing import parse
from resolver.web.access import bind_socket

T = TypeVar("T")

_SIZE = 65_536
_SOCKS5 = b"\x05"
#: The maximum number of open connections; other clients wait in the listen backlog. Each connection needs two
#: file descriptors, and a process usually may open 1,024.
_MAX_CONNECTIONS = 256
#: Three timeouts in seconds: to receive a complete request head (slow-loris), the idle timeout without data
#: in both directions, and to read the body of a refused request.
_HEAD_TIMEOUT = 10.0
_IDLE_TIMEOUT = 300.0
_LINGER = 1.0


_ESTABLISHED = join_head((b"HTTP/1.1 200 Connection established",))

Action: TypeAlias = Literal["allowed", "refused", "invalid", "failed"]


class ProxyDecision(NamedTuple):
    """The decision about one connection.

    Attributes:
        action: The decision. `failed` means that the policy allowed the target, but the proxy cannot reach
            the target.
        address: the IP address of the connection to the target; None without a connection.
        rule: the policy rule that refused the target, or None.
    """

    action: Action
    client: str
    method: str
    host: str | None
    port: int | None
    address: str | None
    rule: str | None
    reason: Masked | None


class ProxySettings(NamedTuple):
    """The options of the proxy. Only tests set the last three options.

    Attributes:
        report: a function that receives each decision. The client waits for the function.
        resolve: the function that makes DNS lookups.
        head_timeout: the timeout in seconds for a complete request head.
        idle_timeout: the idle timeout in seconds, without data in both directions.
    """

    settings: Settings
    report: Callable[[ProxyDecision], Awaitable[None]]
    address: str = "127.0.0.1"
    port: int = 0
    resolve: Lookup = look_up
    head_timeout: float = _HEAD_TIMEOUT
    idle_timeout: float = _IDLE_TIMEOUT


@asynccontextmanager
async def run_proxy(options: ProxySettings) -> AsyncIterator[int]:
    """Run a proxy during the `async with` block, and yield its port.

    Raises:
        LocalError: the address or port cannot be bound.
    """
    listener = trio.socket.from_stdlib_socket(bind_socket(options.address, options.port))
    with listener:
        listener.listen(_MAX_CONNECTIONS)
        settings = options.settings.copy()
        settings["proxy"] = "none"  # The proxy must connect to the checked address.
        network = Network(lookup=options.resolve, **settings)
        async with network, trio.open_nursery() as nursery:
            nursery.start_soon(_accept, listener, network, options)
            yield listener.getsockname()[1]
            nursery.cancel_scope.cancel()


async def _accept(listener: trio.socket.SocketType, network: Network, options: ProxySettings) -> None:
    slots = trio.Semaphore(_MAX_CONNECTIONS)
    async with trio.open_nursery() as nursery:
        while True:
            await slots.acquire()
            try:
                sock, peer = await listener.accept()
            except OSError:  # The client has disconnected, or no file descriptor is free.
                slots.release()
                await trio.sleep(0.01)
                continue
            client = _Client(trio.SocketStream(sock), str(peer[0]), network, options)
            nursery.start_soon(client.serve, slots)


class _SlowHead(ProtocolError):
    """The client did not complete its request in time."""


class _NoMethod(ProtocolError):
    """The client offers no SOCKS5 connection without a login."""


class _BadResponse(NetworkError):
    """The response of the target is invalid, so the client gets status 502 (RFC 9110 15.6.3)."""


class _Client:
    """The connection of one client, which serves one request."""

    def __init__(
        self, stream: trio.SocketStream, peer: str, network: Network, options: ProxySettings
    ) -> None:
        self._stream, self._network, self._options = stream, network, options
        self._buffer = Buffer()
        self._fields: dict[str, Any] = dict.fromkeys(ProxyDecision._fields)
        self._set_fields(client=peer, method="?")
        self._is_socks = self._answered = self._is_complete = False
        self._http = ProxyConnection()

    async def serve(self, slots: trio.Semaphore) -> None:
        try:
            async with self._stream:
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    await self._serve()
        except Exception as error:  # noqa: BLE001 - a defect ends this connection, and not the proxy
            await self._report("failed", reason=f"internal error: {type(error).__name__}")
        finally:
            slots.release()

    async def _serve(self) -> None:
        try:
            request = None
            with trio.move_on_after(self._options.head_timeout) as scope:
                request = await self._read_request()
            if scope.cancelled_caught:
                raise _SlowHead("no complete request in time")
            if request is not None:
                await self._connect(request)
        except ResolveError as error:
            if not self._answered:
                await self._refuse(error)

    async def _read_request(self) -> ProxyRequest | None:
        self._buffer.feed(await self._stream.receive_some(_SIZE))
        if not self._buffer:  # The client sent nothing, for example in a port scan or health check.
            return None
        self._is_socks = self._buffer.peek(1) == _SOCKS5
        if not self._is_socks:
            self._set_fields(method="HTTP")
            request = await self._read(self._http.read_request)
            self._set_fields(method=request.method.decode("ascii", "replace"))
            return request
        self._set_fields(method="SOCKS5")
        if not await self._read(socks.read_methods):
            raise _NoMethod("the client requires a login method")
        await self._stream.send_all(socks.SERVER_METHOD)
        host, port = await self._read(socks.read_request)
        return ProxyRequest(b"CONNECT", endpoint_url(host, port), b"", [])

    async def _read(self, reader: Callable[[Buffer], Generator[None, None, T]]) -> T:
        steps = reader(self._buffer)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                value: T = end.value
                return value
            self._buffer.feed(await self._stream.receive_some(_SIZE))

    async def _connect(self, request: ProxyRequest) -> None:
        url = parse(request.url)
        if isinstance(url, HostUrl):
            self._set_fields(host=url.host, port=url.effective_port)
            if request.is_tunnel:
                check_tunnel_port(url.effective_port, self._network.policy)
        gate = self._network.admit(url)
        async with gate.connect(tls=False) as target:
            self._set_fields(address=gate.peer)
            rule = gate.findings[0].rule if gate.findings else None
            await self._report("allowed", rule=rule)
            target.drop_idle_limit()  # The idle timeout of `_run` covers both directions.
            # The end of a connection (FIN) can mean the end of the data: an HTTP/1.0 body, an FTP upload. So
            # a relay that fails, or is stopped, must reset both connections.
            target.set_reset(True)
            self._stream.setsockopt(*RESET)
            if not request.is_tunnel:
                await self._run(partial(self._forward, request, target), partial(self._respond, target))
            else:
                self._answered = True
                await self._stream.send_all(socks.encode_reply(0) if self._is_socks else _ESTABLISHED)
                await self._run(partial(self._send_tunnel, target), partial(self._receive_tunnel, target))
                self._is_complete = not self._scope.cancel_called
            if self._is_complete:
                target.set_reset(False)
                await self._end()

    async def _run(self, up: Callable[[], Awaitable[None]], down: Callable[[], Awaitable[None]]) -> None:
        """Relay data in both directions.

        The method ends when both directions have ended, one fails, or both are idle for too long. If only
        sending to the target fails, the received data is still relayed: a server may respond (413) and close
        the connection before it reads the whole request.
        """
        failures: list[ResolveError] = []
        with trio.CancelScope() as self._scope:

            async def guard(direction: Callable[[], Awaitable[None]]) -> None:
                try:
                    await direction()
                except ResolveError as error:
                    if direction is up and isinstance(error, NetworkError):
                        return
                    invalid = direction is down and isinstance(error, ProtocolError)
                    failures.append(_BadResponse(error.message) if invalid else error)
                    self._scope.cancel()
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    self._scope.cancel()

            self._extend_deadline()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(guard, up)
                nursery.start_soon(guard, down)
        if failures:
            raise failures[0]
        if (
            self._scope.cancelled_caught
            and not self._answered
            and trio.current_time() >= self._scope.deadline
        ):
            raise TimedOut("no response in time")

    def _extend_deadline(self) -> None:
        self._scope.deadline = trio.current_time() + self._options.idle_timeout

    async def _send_tunnel(self, target: SocketStream) -> None:
        octets = self._buffer.take()
        while True:
            if octets:
                await target.send(encode_counted(octets))
                self._extend_deadline()
            elif self._buffer.at_end:
                target.end_sending()
                return
            octets = await self._stream.receive_some(_SIZE)
            if not octets:
                self._buffer.feed(b"")

    async def _receive_tunnel(self, target: SocketStream) -> None:
        while octets := await target.receive():
            await self._stream.send_all(octets)
            self._extend_deadline()
        await self._stream.send_eof()

    async def _forward(self, request: ProxyRequest, target: SocketStream) -> None:
        client, server = self._http.client, self._http.target
        head = h11.Request(method=request.method, target=request.target, headers=request.fields)
        await target.send(encode_counted(self._http.encode(server, head)))
        if octets := self._buffer.take():
            client.receive_data(octets)
        while True:
            event = self._http.next_event(client)
            if event is h11.NEED_DATA:
                client.receive_data(await self._stream.receive_some(_SIZE))
            elif isinstance(event, h11.Data):
                await target.send(encode_counted(self._http.encode(server, h11.Data(data=bytes(event.data)))))
                self._extend_deadline()
            else:
                if isinstance(event, h11.EndOfMessage):
                    # Trailer fields are not forwarded, because a trailer may contain any field. RFC 9110
                    # section 6.5.1 permits this.
                    await target.send(encode_counted(self._http.encode(server, h11.EndOfMessage())))
                return

    async def _respond(self, target: SocketStream) -> None:
        client, server = self._http.client, self._http.target
        while True:
            event = self._http.next_event(server)
            if event is h11.NEED_DATA:
                server.receive_data(await target.receive())
                self._extend_deadline()
                continue
            out: h11.Event
            if isinstance(event, h11.InformationalResponse) and event.status_code != 101:
                is_unwanted = event.status_code == 100 and not client.they_are_waiting_for_100_continue
                if is_unwanted or client.their_http_version == b"1.0":  # RFC 9110 15.2
                    continue
                fields = forwardable(event.headers)
                out = h11.InformationalResponse(status_code=event.status_code, headers=fields)
            elif isinstance(event, h11.Response):
                names = {name for name, _ in event.headers}
                if {b"content-length", b"transfer-encoding"} <= names:
                    raise ProtocolError("the response has both Content-Length and Transfer-Encoding")
                fields = [*forwardable(event.headers), (b"Connection", b"close")]
                out = h11.Response(status_code=event.status_code, reason=event.reason, headers=fields)
                self._answered = True
            elif isinstance(event, h11.Data):
                out = h11.Data(data=bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                await self._stream.send_all(self._http.encode(client, h11.EndOfMessage()))
                self._is_complete = True
                self._scope.cancel()  # The remaining request body is not needed.
                return
            else:
                raise ProtocolError("the server closed the connection before its response")
            await self._stream.send_all(self._http.encode(client, out))

    def _set_fields(self, **fields: object) -> None:
        self._fields.update(fields)

    async def _report(self, action: Action, **fields: object) -> None:
        self._set_fields(action=action, **fields)
        await self._options.report(ProxyDecision(**self._fields))

    async def _refuse(self, error: ResolveError) -> None:
        """Log the error, and send an error response to the client."""
        answer = _make_answer(error)
        if self._fields["action"] != "allowed":
            rule = error.rule if isinstance(error, Refused) else None
            await self._report(answer.action, rule=rule, reason=error.message)
        else:
            await self._report("failed", reason=error.message)
        if self._is_socks:
            code = int(error.code) if isinstance(error, Declined) and error.code else answer.reply
            is_method = isinstance(error, _NoMethod)
            await self._end(socks.SERVER_NO_METHOD if is_method else socks.encode_reply(code))
        else:
            await self._end(encode_answer(answer.status, answer.phrase, error.message).octets)

    async def _end(self, octets: bytes = b"") -> None:
        """Send the last bytes, and then read the remaining bytes of the request for a short time.

        If a socket with unread bytes is closed, the kernel sends a TCP reset (RST), and the client may lose
        the response.
        """
        with trio.move_on_after(_LINGER):
            self._stream.setsockopt(*NO_RESET)
            await self._stream.send_all(octets)
            await self._stream.send_eof()
            for _ in range(16):
                if not await self._stream.receive_some(_SIZE):
                    return


class _ProxyAnswer(NamedTuple):
    """The responses to an error: an HTTP status code, and a SOCKS5 reply code (RFC 1928 section 6)."""

    action: Action
    status: int
    phrase: str
    reply: int


def _make_answer(error: ResolveError) -> _ProxyAnswer:
    if isinstance(error, Refused):
        return _ProxyAnswer("refused", 403, "Forbidden", 2)
    if isinstance(error, _SlowHead):
        return _ProxyAnswer("invalid", 408, "Request Timeout", 1)
    if isinstance(error, LimitExceeded):
        return _ProxyAnswer("invalid", 431, "Request Header Fields Too Large", 1)
    if isinstance(error, ProtocolError | InvalidUrl | Declined):
        return _ProxyAnswer("invalid", 400, "Bad Request", 1)
    if isinstance(error, TimedOut):
        return _ProxyAnswer("failed", 504, "Gateway Timeout", 4)
    return _ProxyAnswer("failed", 502, "Bad Gateway", 4)
