"""Hosts inside messages: a name or dotted address, and a decimal port in parentheses straight behind it.

No port means the default of whatever the host is named for (protocol page 1.2). Names are compared
without regard to case, and servers print them in capitals: here they are lower case.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from protocols.authority import build_host, build_port
from protocols.errors import InvalidUrl

_HOST = re.compile(rb"([^()]+)(?:\(([0-9]{1,5})\))?")


class Place(NamedTuple):
    """A host, and the port that was said with it."""

    host: str
    port: int | None = None

    def authority(self, default_port: int) -> str:
        """`//host:port` for a URL; raises `InvalidUrl` for a host or port that no URL can have."""
        return f"//{build_host(self.host)}{build_port(self.port, default_port)}"


def parse_place(token: bytes) -> Place:
    """Raises `InvalidUrl` for what names no host; whether the host can be one is seen in `authority`."""
    found = _HOST.fullmatch(token)
    if found is None:
        raise InvalidUrl("bad-host", 0, f"bad-host: {token!r} names no host")
    return Place(found[1].decode("latin-1").lower(), None if found[2] is None else int(found[2]))
