"""What a telnet URL comes to: a service, announced. No session is opened, and nothing is connected to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from protocols.body import Octets
from protocols.contract import Gate, Kind, Reply
from protocols.telnet.url import TelnetUrl, build


@asynccontextmanager
async def open_telnet(url: TelnetUrl, gate: Gate) -> AsyncIterator[Reply]:
    """A reply of kind service: its target is the URL without a password, `extra` says where and as whom.
    The login is advice to show to a person (RFC 1738 3.8)."""
    login = None if url.user is None else url.user.decode("latin-1")
    yield Reply(
        kind=Kind.SERVICE,
        body=Octets(),
        target=build(replace(url, password=None, fragment=None)),
        extra={"service": url.scheme, "host": url.host, "port": url.effective_port, "login": login},
    )
