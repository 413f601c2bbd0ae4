"""The sockets that browsers of this machine connect to: bound before anything else, so that their numbers are
known before the first page is made.

They are no way out: what URLs lead to is opened by the gate alone.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct

from protocols.errors import LocalError, NotConfigured
from protocols.values import NamedTuple

#: The numeric address and no name: of `localhost` browsers take `::1` first, where another user may listen.
LOOPBACK = "127.0.0.1"

#: Milliseconds after which a reader that takes nothing is given up. A server's sending has no deadline of its
#: own, and would hold a shutdown.
_UNREAD = 4_000

_OWN_PORTS = {"http": 80, "https": 443}

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _STATE, _UID = 1, 2, 3, 7  # columns
_LISTENS = b"0A"  # a state
_MOST_TABLE = 16_777_216

#: What Linux is asked for one connection, and what it answers (sock_diag(7)): the head of a message, the
#: question, the ports in the order of the network, the rest of the places, any interface and any cookie.
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_HEAD = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_PORTS = struct.Struct(">HH")
_USER = struct.Struct("=I")
_ANY = struct.pack("=III", 0, 0xFFFF_FFFF, 0xFFFF_FFFF)
_ANSWERED_PORTS, _ANSWERED_USER, _ANSWER = 20, 80, 88  # where they begin in an answer, and how long that is


def bound(address: str, port: int) -> socket.socket:
    """A socket at that place, not yet listening; port 0 is one that is free. Raises `LocalError`."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # inherited by what is accepted
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD)
        found.bind((address, port))
    except OSError as error:
        found.close()
        raise LocalError(f"cannot listen at {address} port {port}: {error.strerror}") from error
    return found


class Certificate(NamedTuple):
    """Files: of the certificate, and of its key, which may be the same one."""

    chain: str
    key: str


def check_certificate(certificate: Certificate) -> None:
    """Raises `NotConfigured` for what no server could show."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*certificate, password=_no_password)
    except (OSError, ValueError) as error:
        words = f"cannot serve with the certificate {certificate.chain} and the key {certificate.key}"
        raise NotConfigured(f"{words}: {error}") from error


def _no_password() -> str:
    raise ValueError("the key is encrypted, and nobody is there to be asked for its password")


def place_of(scheme: str, address: str, port: int) -> str:
    """What browsers write in `Host` and in an origin: without a port that is the scheme's own."""
    host = f"[{address}]" if ":" in address else address
    return host if port == _OWN_PORTS[scheme] else f"{host}:{port}"


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


def is_of_this_user(peer_port: int, own_port: int) -> bool:
    """Is the other end of a connection on this machine a process of our user? Where the system has no table
    that says so, everybody is."""
    if (known := _user_of(peer_port, own_port)) is not None:
        return known == os.geteuid()
    uids = {uid for table in _TABLES for uid in _uids(table, peer_port, own_port)}
    return uids == {os.geteuid()} or not any(map(os.path.exists, _TABLES))


def is_listened_to_by_this_user(port: int) -> bool:
    """Is whoever listens at that port of this machine, at whichever address, a process of our user? Where the
    system has no table that says so, it is."""
    uids = {int(row[_UID]) for table in _TABLES for row in _rows(table, port) if row[_STATE] == _LISTENS}
    return uids == {os.geteuid()} or not any(map(os.path.exists, _TABLES))


def _user_of(peer_port: int, own_port: int) -> int | None:
    """Who is at the other end of that connection, by a question for it alone: to read the table of all takes
    longer than a page, where thousands have just ended. None where that is not known so, as of a peer that
    came from another address of this machine: the table tells."""
    address = socket.inet_aton(LOOPBACK).ljust(16, b"\0")
    places = _PORTS.pack(peer_port, own_port) + address + address
    question = _QUESTION.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0xFFFF_FFFF) + places + _ANY
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as system:
            system.send(_HEAD.pack(_HEAD.size + len(question), _BY_FAMILY, _REQUEST, 1, 0) + question)
            answer = system.recv(4_096, socket.MSG_DONTWAIT)
    except (AttributeError, OSError):  # there is no such thing
        return None
    if len(answer) < _ANSWER or _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    if _PORTS.unpack_from(answer, _ANSWERED_PORTS) != (peer_port, own_port):
        return None
    (user,) = _USER.unpack_from(answer, _ANSWERED_USER)
    return int(user)


def _uids(table: str, peer_port: int, own_port: int) -> list[int]:
    """Of the rows whose local end is the peer's, and whose remote one is ours."""
    return [int(row[_UID]) for row in _rows(table, peer_port) if _port(row[_REMOTE]) == own_port]


def _rows(table: str, port: int) -> list[list[bytes]]:
    """Those whose local end has that port (proc(5))."""
    try:
        with open(table, "rb") as file:
            lines = file.read(_MOST_TABLE).splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines if b":%04X " % port in line]
    return [row for row in rows if len(row) > _UID and _port(row[_LOCAL]) == port]


def _port(place: bytes) -> int:
    return int(place.rpartition(b":")[2], 16)
