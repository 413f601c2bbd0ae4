"""How often a place is asked: once for one URL, unless `--tries` or the configuration says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import fixtures.http
from fixtures.http import Behaviour, HttpServer, Page
from tests.cli.command import Done, resolve
from tests.elsewhere import served

FAILED = Page(b"later\n", status=500, reason="Internal Server Error")
WHOLE = Page(b"x" * 100_000, "application/octet-stream", headers=(("ETag", '"1"'),), parts=True)


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[HttpServer]:
    site = {"/500": FAILED, "/leaves": FAILED, "/pub/": FAILED, "/cut": WHOLE}
    spoilt = {"/leaves": Behaviour(instead=b"", unannounced=True), "/cut": Behaviour(cut_at=50_000, times=1)}
    with served(partial(fixtures.http.serve, site=site, behaviours=spoilt)) as server:
        yield server


def asked(server: HttpServer, folder: Path, *words: str) -> tuple[Done, int]:
    """What became of the command, and how many requests came."""
    before = len(server.requests)
    done = resolve(*words, "--retry-delay", "0.001", "--allow-port", str(server.port), folder=folder)
    return done, len(server.requests) - before


@pytest.mark.parametrize("path", ["/500", "/leaves"])
@pytest.mark.parametrize("verb", ["cat", "info", "ls", "get"])
def test_command_with_one_url_that_fails_tries_once(
    verb: str, path: str, server: HttpServer, tmp_path: Path
) -> None:
    done, requests = asked(server, tmp_path, verb, server.url(path))
    assert (done.status != 0, requests) == (True, 1)


@pytest.mark.parametrize("verb", ["cat", "get"])
def test_command_with_tries_tries_as_often(verb: str, server: HttpServer, tmp_path: Path) -> None:
    assert asked(server, tmp_path, verb, "--tries", "3", server.url("/500"))[1] == 3
    (tmp_path / "own.toml").write_text("tries = 2\n")
    assert asked(server, tmp_path, verb, "--config", "own.toml", server.url("/500"))[1] == 2


def test_command_with_several_urls_has_five_tries(server: HttpServer, tmp_path: Path) -> None:
    (tmp_path / "list").write_text(server.url("/500"))
    assert asked(server, tmp_path, "get", "-i", "list")[1] == 5
    assert asked(server, tmp_path, "cat", server.url("/500"), server.url("/500"))[1] == 10


def test_get_of_one_url_resumes_where_data_came(server: HttpServer, tmp_path: Path) -> None:
    done, requests = asked(server, tmp_path, "get", server.url("/cut"))
    assert (done.status, requests, (tmp_path / "cut").stat().st_size) == (0, 2, len(WHOLE.content))
