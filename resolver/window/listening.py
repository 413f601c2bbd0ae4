"""The sockets that browsers of this machine connect to: bound before anything else, so that their numbers are
known before the first page is made.

They are no way out: what URLs lead to is opened by the gate alone.
"""

from __future__ import annotations

import os
import socket
import ssl

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
    uids = {uid for table in _TABLES for uid in _uids(table, peer_port, own_port)}
    return uids == {os.geteuid()} or not any(map(os.path.exists, _TABLES))


def is_listened_to_by_this_user(port: int) -> bool:
    """Is whoever listens at that port of this machine, at whichever address, a process of our user? Where the
    system has no table that says so, it is."""
    uids = {int(row[_UID]) for table in _TABLES for row in _rows(table, port) if row[_STATE] == _LISTENS}
    return uids == {os.geteuid()} or not any(map(os.path.exists, _TABLES))


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
