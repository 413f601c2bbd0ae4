"""Servers that run in a separate thread."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

import fixtures.ftp
import fixtures.gopher
import fixtures.http
from fixtures.ftp import MockFtp
from fixtures.gopher import GopherServer
from fixtures.http import HttpServer, Page
from resolver import Policy
from tests.elsewhere import served

SITE = {**fixtures.http.EXAMPLE, "/private": Page(b"For you.\n", login=("user", "xyzzy"))}


@pytest.fixture
def gopher() -> Iterator[GopherServer]:
    behaviors = {b"/silent": fixtures.gopher.Behavior(silent=True, stays=True)}
    with served(partial(fixtures.gopher.serve, behaviors=behaviors)) as server:
        yield server


@pytest.fixture
def http() -> Iterator[HttpServer]:
    with served(partial(fixtures.http.serve, site=SITE)) as server:
        yield server


@pytest.fixture
def ftp() -> Iterator[MockFtp]:
    with served(fixtures.ftp.serve) as server:
        yield server


def allowing(*servers: MockFtp | GopherServer | HttpServer) -> Policy:
    return Policy(allow_port=frozenset(server.port for server in servers), allow_password=True)
