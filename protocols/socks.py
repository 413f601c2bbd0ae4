"""A connection through a SOCKS5 proxy: RFC 1928, and RFC 1929 for user name and password.

`socksio` encodes the messages and checks their order. But `socksio` does not find the end of a message in the
received bytes, and validates only some fields. Therefore this module validates each reply before it passes
the reply to `socksio`. The module stops reading at the last byte of a reply, because later bytes come from
the destination. An IP address is sent in binary form. A host name is sent as text, and the proxy performs the
DNS lookup. The library `socksio` is an extra and is imported on first use (lazy import).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING

from protocols.errors import (
    AccessDenied,
    Declined,
    Disconnected,
    LoginRequired,
    ProtocolError,
    Refused,
    ResolveError,
    TimedOut,
    Unreachable,
)
from protocols.options import Credentials
from protocols.step import Dialogue, PlanNote, Send, receive
from protocols.wire import Buffer, Reader, encode_counted

if TYPE_CHECKING:
    from socksio import SOCKS5AType, SOCKS5AuthMethod, SOCKS5Connection

_VERSION = 5
_NO_METHOD = 0xFF
_LOGIN = 2
_MAX_NAME = 255
_NO_LOGIN = b"\x05\x00"
_LOGIN_ACCEPTED = b"\x01\x00"
#: The size of an address in bytes, by the address type (RFC 1928 6). A host name begins with a byte for its
#: length.
_SIZES: Mapping[int, int] = {1: 4, 4: 16}
_NAME = 3
#: Reply codes (RFC 1928 6).
_GENERAL, _NOT_ALLOWED, _TTL_EXPIRED, _COMMAND_REFUSED, _TYPE_REFUSED = 1, 2, 6, 7, 8
_REASONS: Mapping[int, str] = {
    _GENERAL: "general failure",
    3: "network unreachable",
    4: "host unreachable, or its name unknown",
    5: "refused",
}
_SUCCESS = b"\x05\x00\x00\x01" + bytes(6)


class AddressTypeRefused(Declined):
    """A refusal of the address type. The proxy may accept the same host with another address type."""


def open_tunnel(host: str, port: int, credentials: Credentials | None, proxy: str) -> Dialogue[None]:
    """Send a request to the proxy for a connection to a host and port.

    The credentials are sent only if the proxy requires a login. `proxy` is the proxy's URL for display.
    """
    from socksio import SOCKS5Command, SOCKS5CommandRequest, SOCKS5Connection

    destination = _encode_destination(host)
    machine = SOCKS5Connection()
    yield from _negotiate(machine, credentials, proxy)
    yield _send(machine, SOCKS5CommandRequest(SOCKS5Command.CONNECT, *destination, port))
    reply = yield from receive(_read_reply(proxy), "the reply of the proxy", _SUCCESS)
    if reply[1]:
        raise _make_error(reply[1], f"{host} port {port}", proxy)
    machine.receive_data(_SUCCESS)  # The client does not need the bound address of the proxy.


def _encode_destination(host: str) -> tuple[SOCKS5AType, bytes]:
    from socksio import SOCKS5AType

    try:
        address = ip_address(host)
    except ValueError:
        name = host.encode("ascii")
        if not 1 <= len(name) <= _MAX_NAME:
            raise Refused("S02", f"SOCKS5 host name must have 1 to {_MAX_NAME} bytes") from None
        return SOCKS5AType.DOMAIN_NAME, name
    address = getattr(address, "ipv4_mapped", None) or address
    kind = SOCKS5AType.IPV4_ADDRESS if address.version == 4 else SOCKS5AType.IPV6_ADDRESS
    return kind, address.packed


def _negotiate(machine: SOCKS5Connection, credentials: Credentials | None, proxy: str) -> Dialogue[None]:
    """Negotiate the authentication method with the proxy, and log in if the proxy requires a login."""
    from socksio import SOCKS5AuthMethod, SOCKS5AuthMethodsRequest, SOCKS5UsernamePasswordRequest

    methods: list[SOCKS5AuthMethod] = [SOCKS5AuthMethod.NO_AUTH_REQUIRED]
    if credentials is not None:
        methods.append(SOCKS5AuthMethod.USERNAME_PASSWORD)
        yield PlanNote(f"if the proxy {proxy} requires a login, the configured user and password are sent")
    yield _send(machine, SOCKS5AuthMethodsRequest(methods))
    reply = yield from receive(_read_pair(_VERSION, proxy), "the method chosen by the proxy", _NO_LOGIN)
    _check_method(reply[1], [method[0] for method in methods], proxy)
    machine.receive_data(reply)
    if reply[1] != _LOGIN or credentials is None:
        return
    login = SOCKS5UsernamePasswordRequest(credentials.user, credentials.password)
    yield _send(machine, login, credentials.password)
    answer = yield from receive(_read_pair(1, proxy), "the proxy's answer to the login", _LOGIN_ACCEPTED)
    if answer != _LOGIN_ACCEPTED:
        raise AccessDenied(f"the proxy {proxy} refuses this user and password")
    machine.receive_data(answer)


def _send(machine: SOCKS5Connection, request: object, *secrets: bytes) -> Send:
    machine.send(request)
    return Send((encode_counted(machine.data_to_send(), *secrets),))


def _check_method(method: int, methods: list[int], proxy: str) -> None:
    if method == _NO_METHOD and _LOGIN in methods:
        raise AccessDenied(f"the proxy {proxy} accepts neither this login nor an anonymous connection")
    if method == _NO_METHOD:
        words = f"the proxy {proxy} requires a login (user:password@ in its URL)"
        raise LoginRequired(words).with_setting("proxy")
    if method not in methods:
        raise ProtocolError(f"the proxy {proxy} chooses method {method:02X}, which was not offered")


def _make_error(code: int, place: str, proxy: str) -> ResolveError:
    """Return the error for a reply code.

    Dante sends the same code (4) for an unknown host name and for an unreachable host.
    """
    if code == _NOT_ALLOWED:
        return AccessDenied(f"the proxy {proxy} does not allow {place}")
    if code == _TTL_EXPIRED:
        return TimedOut(f"the proxy {proxy} got no answer from {place} in time")
    if code == _TYPE_REFUSED:
        return AddressTypeRefused(f"the proxy {proxy} does not support the address type of {place}", code="8")
    if code == _COMMAND_REFUSED:
        return Declined(f"the proxy {proxy} does not support CONNECT", code="7")
    words = _REASONS.get(code, f"reply {code:02X}")
    return Unreachable(f"the proxy {proxy} cannot connect to {place}: {words}", retryable=code == _GENERAL)


def _read_pair(version: int, proxy: str) -> Reader[bytes]:
    """Return a reader for the version byte and one more byte."""

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        yield from _wait_for(buffer, 1, proxy)
        if buffer.peek(1)[0] != version:
            raise ProtocolError(f"{proxy} is not a SOCKS5 proxy")
        yield from _wait_for(buffer, 2, proxy)
        return buffer.take(2)

    return reader


def _read_reply(proxy: str) -> Reader[bytes]:
    """Return a reader for a complete reply, with the bound address and port."""

    def reader(buffer: Buffer) -> Generator[None, None, bytes]:
        yield from _wait_for(buffer, 5, proxy)
        head = buffer.peek(5)
        if head[0] != _VERSION:
            raise ProtocolError(f"{proxy} is not a SOCKS5 proxy")
        size = head[4] + 1 if head[3] == _NAME else _SIZES.get(head[3])
        if size is None:
            raise ProtocolError(f"the proxy {proxy} replied with unknown address type {head[3]:02X}")
        length = 4 + size + 2
        yield from _wait_for(buffer, length, proxy)
        return buffer.take(length)

    return reader


def _wait_for(buffer: Buffer, count: int, proxy: str) -> Generator[None, None, None]:
    while len(buffer) < count:
        if buffer.at_end:
            raise Disconnected(f"the proxy {proxy} closed the connection inside its answer")
        yield


# The server side. The proxy requires no login. The proxy supports only the command CONNECT, with all three
# types of addresses.
#
# A reader stops at the last byte of a message, because later bytes belong to the destination.

#: Replies of a server (RFC 1928 6): the version, the code, and an unspecified bound address.
SERVER_METHOD, SERVER_NO_METHOD = b"\x05\x00", b"\x05\xff"


def encode_reply(code: int) -> bytes:
    """Return the server's reply with a code of RFC 1928 6."""
    return bytes((_VERSION, code)) + _SUCCESS[2:]


def read_methods(buffer: Buffer) -> Generator[None, None, bool]:
    """Read the greeting of a client, and return whether the client accepts a connection without a login."""
    yield from _wait_for_client(buffer, 2)
    version, count = buffer.peek(2)
    if version != _VERSION:
        raise ProtocolError("the client does not use SOCKS5")
    yield from _wait_for_client(buffer, 2 + count)
    return 0 in buffer.take(2 + count)[2:]


def read_request(buffer: Buffer) -> Generator[None, None, tuple[str, int]]:
    """Read a request of a client, and return the host and port.

    Raises:
        ProtocolError: the message is not a request.
        Declined: the command or the address type is not supported. `code` is the code of the reply.
    """
    yield from _wait_for_client(buffer, 5)
    version, command, reserved, kind, first = buffer.peek(5)
    if version != _VERSION or reserved:
        raise ProtocolError("the client does not send a SOCKS5 request")
    size = first + 1 if kind == _NAME else _SIZES.get(kind)
    if size is None:
        raise Declined(f"address type {kind:02X} is not supported", code=str(_TYPE_REFUSED))
    yield from _wait_for_client(buffer, 4 + size + 2)
    message = buffer.take(4 + size + 2)
    if command != 1:
        raise Declined(f"command {command:02X} is not supported: only CONNECT", code=str(_COMMAND_REFUSED))
    address, port = message[4:-2], int.from_bytes(message[-2:], "big")
    if kind != _NAME:
        return str(ip_address(address)), port
    if not address[1:] or not all(
        0x21 <= octet < 0x7F and octet not in b"/?#@\\[]%" for octet in address[1:]
    ):
        raise ProtocolError("the client sends an invalid host name")
    return address[1:].decode("ascii"), port


def _wait_for_client(buffer: Buffer, count: int) -> Generator[None, None, None]:
    while len(buffer) < count:
        if buffer.at_end:
            raise ProtocolError("the client closed the connection inside a message")
        yield
