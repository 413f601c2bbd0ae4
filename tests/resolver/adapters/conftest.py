"""Mock servers in a separate thread, because the threads of the tests block in other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

import fixtures.ftp
import fixtures.gopher
import fixtures.http
from fixtures.ftp import MockFtp
from fixtures.gopher import GopherServer, Item
from fixtures.http import HttpServer, Page
from resolver import Policy
from tests.elsewhere import served
from tests.resolver.network.peers import closed_port

TABLE = b"town,people\r\nPisa,90\r\nLima,10092\r\n"
DATA = bytes(range(256)) * 400
ITEMS = {
    b"table.csv": Item("0", b"Table", TABLE.replace(b"\r\n", b"\n")),
    b"data.bin": Item("9", b"Data", DATA),
    b"/data.bin": Item("9", b"Data", DATA),
    b"reset.bin": Item("9", b"Reset", DATA),
}


BEHAVIORS = {
    b"reset.bin": fixtures.gopher.Behavior(reset_at=20_000),
    b"silent": fixtures.gopher.Behavior(silent=True, stays=True),
}


@pytest.fixture
def gopher() -> Iterator[GopherServer]:
    with served(partial(fixtures.gopher.serve, tree=ITEMS, behaviors=BEHAVIORS)) as server:
        yield server


@pytest.fixture
def ftp() -> Iterator[MockFtp]:
    with served(fixtures.ftp.serve) as server:
        yield server


@pytest.fixture
def unused_port() -> Iterator[int]:
    """Yield a loopback port on which no server listens."""
    with closed_port() as port:
        yield port


@pytest.fixture
def http() -> Iterator[HttpServer]:
    site = {**fixtures.http.EXAMPLE, "/table.csv": Page(TABLE, media_type="text/csv")}
    with served(partial(fixtures.http.serve, site=site)) as server:
        yield server


#: The timeout in seconds for a server that does not respond.
SOON = 0.05


def allowing(*servers: MockFtp | GopherServer | HttpServer, port: int | None = None) -> Policy:
    ports = frozenset(server.port for server in servers)
    return Policy(allow_port=ports if port is None else ports | {port})
