"""The sockets that browsers of this machine connect to: bound before anything else, so that their numbers are
known before the first page is made.

They are no way out: what URLs lead to is opened by the gate alone.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
from ipaddress import ip_address

from protocols.errors import LocalError, NotConfigured
from protocols.values import NamedTuple

#: The numeric address and no name: of `localhost` browsers take `::1` first, where another user may listen.
LOOPBACK = "127.0.0.1"

#: Milliseconds after which a reader that takes nothing is given up. A server's sending has no deadline of its
#: own, and would hold a shutdown.
_UNREAD = 4_000

_OWN_PORTS = {"http": 80, "https": 443}

#: Linux knows the user of each socket, macOS and the BSDs do not tell.
_KNOWS_USERS = sys.platform == "linux"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9  # columns
_LISTENS = b"0A"  # a state
_MOST_TABLE = 16_777_216

#: A socket of IPv6 has an address of IPv4 behind this prefix (RFC 4291 2.5.5.2).
_MAPPED = bytes(10) + b"\xff\xff"

#: What Linux is asked for one connection, and what it answers (sock_diag(7)): the head of a message, the
#: question, the ports in the order of the network, the rest of the places, any interface and any cookie.
_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_HEAD = struct.Struct("=IHHII")
_QUESTION = struct.Struct("=BBBxI")
_PORTS = struct.Struct(">HH")
_USER_AND_INODE = struct.Struct("=II")
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


class Endpoints(NamedTuple):
    """Both ends of a connection that was accepted: the numeric address and the port of each."""

    peer: tuple[str, int]
    own: tuple[str, int]


def is_of_this_user(ends: Endpoints) -> bool:
    """Is the other end of a connection on this machine a process of our user? Where the system does not tell
    users, every peer on loopback is. A connection is both addresses and both ports: the port of a peer at
    127.0.0.2 is also that of somebody else's socket at 127.0.0.1."""
    if not ip_address(ends.peer[0]).is_loopback:
        return False
    if not _KNOWS_USERS:
        return True
    if (known := _user_of(ends)) is not None:
        return known == os.geteuid()
    return {uid for table in _TABLES for uid in _uids(table, ends)} == {os.geteuid()}


def is_listened_to_by_this_user(port: int) -> bool:
    """Is whoever listens at that port of this machine, at whichever address, a process of our user? Where the
    system does not tell users, it is."""
    uids = {int(row[_UID]) for table in _TABLES for row in _rows(table, port) if row[_STATE] == _LISTENS}
    return uids == {os.geteuid()} or not _KNOWS_USERS


def _user_of(ends: Endpoints) -> int | None:
    """Who is at the other end of that connection, by a question for it alone: to read the table of all takes
    longer than a page, where thousands have just ended. None where that is not known so.

    A socket that its process has closed has the user 0 and the inode 0 there: nobody's, and not root's."""
    packed = _packed(ends)
    family = socket.AF_INET if len(packed[0]) == 4 else socket.AF_INET6
    places = _PORTS.pack(ends.peer[1], ends.own[1]) + b"".join(each.ljust(16, b"\0") for each in packed)
    question = _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0xFFFF_FFFF) + places + _ANY
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as system:
            system.send(_HEAD.pack(_HEAD.size + len(question), _BY_FAMILY, _REQUEST, 1, 0) + question)
            answer = system.recv(4_096, socket.MSG_DONTWAIT)
    except (AttributeError, OSError):  # there is no such thing
        return None
    if len(answer) < _ANSWER or _HEAD.unpack_from(answer)[1] != _BY_FAMILY:
        return None
    if _PORTS.unpack_from(answer, _ANSWERED_PORTS) != (ends.peer[1], ends.own[1]):
        return None
    user, inode = _USER_AND_INODE.unpack_from(answer, _ANSWERED_USER)
    return int(user) if inode else None


def _uids(table: str, ends: Endpoints) -> list[int]:
    """Of the rows whose local end is the peer, and whose remote one is ours; none of what is closed."""
    packed = _packed(ends)
    prefixes = (b"", _MAPPED) if len(packed[0]) == 4 else (b"",)
    wanted = [
        [_column(prefix + packed[0], ends.peer[1]), _column(prefix + packed[1], ends.own[1])]
        for prefix in prefixes
    ]
    rows = _rows(table, ends.peer[1])
    return [int(row[_UID]) for row in rows if [row[_LOCAL], row[_REMOTE]] in wanted and row[_INODE] != b"0"]


def _packed(ends: Endpoints) -> tuple[bytes, bytes]:
    return ip_address(ends.peer[0]).packed, ip_address(ends.own[0]).packed


def _column(address: bytes, port: int) -> bytes:
    """One end as the table has it: words of 32 bits as the machine reads them, in hexadecimal digits."""
    words = struct.unpack(f"={len(address) // 4}I", address)
    return b"%b:%04X" % (b"".join(b"%08X" % word for word in words), port)


def _rows(table: str, port: int) -> list[list[bytes]]:
    """Those whose local end has that port (proc(5))."""
    try:
        with open(table, "rb") as file:
            lines = file.read(_MOST_TABLE).splitlines()
    except OSError:
        return []
    rows = [line.split() for line in lines if b":%04X " % port in line]
    return [row for row in rows if len(row) > _INODE and _port(row[_LOCAL]) == port]


def _port(place: bytes) -> int:
    return int(place.rpartition(b":")[2], 16)
