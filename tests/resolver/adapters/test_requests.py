"""The library requests with all schemes of this library."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest
import requests

import fixtures.ftp
import fixtures.http
import resolver
from fixtures.ftp import Behavior, MockFtp
from fixtures.gopher import GopherServer
from fixtures.http import HttpServer
from resolver.adapters.requests import mount
from tests.elsewhere import served
from tests.fresh import run_alone
from tests.resolver.adapters.conftest import DATA, SOON, TABLE, allowing


def test_requests_session_reads_every_scheme(gopher: GopherServer, ftp: MockFtp) -> None:
    with mount(requests.Session(), policy=allowing(gopher, ftp)) as session:
        response = session.get(f"gopher://127.0.0.1:{gopher.port}/0table.csv")
        assert (response.status_code, response.content, response.ok) == (200, TABLE, True)
        assert response.headers["content-type"] == "text/plain"
        response = session.get(f"ftp://127.0.0.1:{ftp.port}/pub/a.txt")
        assert int(response.headers["Content-Length"]) == len(response.content)


def test_requests_stream_is_read_in_segments_and_closed_early(gopher: GopherServer) -> None:
    with mount(requests.Session(), policy=allowing(gopher)) as session:
        with session.get(f"gopher://127.0.0.1:{gopher.port}/9data.bin", stream=True) as response:
            assert next(response.iter_content(1_000)) == DATA[:1_000]
        response = session.get(f"gopher://127.0.0.1:{gopher.port}/9data.bin", stream=True)
        assert b"".join(response.iter_content(4_096)) == DATA


def test_requests_server_failure_has_http_status(ftp: MockFtp) -> None:
    with mount(requests.Session(), policy=allowing(ftp)) as session:
        response = session.get(f"ftp://127.0.0.1:{ftp.port}/pub/nix")
        assert response.status_code == 404
        assert "550" in response.text
        with pytest.raises(requests.HTTPError):
            response.raise_for_status()


def test_requests_failure_is_a_requests_exception(gopher: GopherServer, unused_port: int) -> None:
    with mount(requests.Session(), policy=allowing(gopher, port=unused_port)) as session:
        for url, error, cause in (
            (f"gopher://127.0.0.1:{unused_port}/", requests.ConnectionError, resolver.Unreachable),
            ("gopher://127.0.0.1:25/", requests.RequestException, resolver.Refused),
            ("gopher://h.example:x/", requests.exceptions.InvalidURL, resolver.InvalidUrl),
        ):
            with pytest.raises(error) as caught:
                session.get(url)
            assert isinstance(caught.value.__cause__, cause)
        with pytest.raises(requests.exceptions.ChunkedEncodingError) as broken:
            session.get(f"gopher://127.0.0.1:{gopher.port}/9reset.bin")
        assert isinstance(broken.value.__cause__, resolver.Truncated)
        with pytest.raises(requests.Timeout):
            session.get(f"gopher://127.0.0.1:{gopher.port}/0silent", timeout=SOON)


#: The fault of an ftp server, the exception, and its cause.
FAULTS: Mapping[str, tuple[Behavior, type[requests.RequestException], type[resolver.ResolveError]]] = {
    "no ftp": (
        Behavior(greeting=b"HTTP/1.1 400 Bad Request\r\n"),
        requests.ConnectionError,
        resolver.ProtocolError,
    ),
    "no login": (Behavior(hangs_up=frozenset({b"USER"})), requests.ConnectionError, resolver.NetworkError),
    "cut": (Behavior(max_bytes=4), requests.exceptions.ChunkedEncodingError, resolver.Truncated),
    "silent": (Behavior(mute=frozenset({b"RETR"})), requests.exceptions.ReadTimeout, resolver.TimedOut),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_requests_ftp_fault_is_a_requests_exception(fault: str) -> None:
    behavior, error, cause = FAULTS[fault]
    limits = resolver.Limits(idle=SOON)
    with (
        served(partial(fixtures.ftp.serve, behavior=behavior)) as server,
        mount(requests.Session(), policy=allowing(server), limits=limits) as session,
        pytest.raises(error) as caught,
    ):
        session.get(f"ftp://127.0.0.1:{server.port}/%2Fpub/a.txt", auth=("bob", "secret pw"))
    assert isinstance(caught.value.__cause__, cause)
    assert "secret pw" not in str(caught.value)


@pytest.mark.parametrize("password", ["a\r\nDELE x", "a\0b"])
def test_requests_login_that_ends_a_line_is_not_sent(password: str, ftp: MockFtp) -> None:
    with mount(requests.Session(), policy=allowing(ftp)) as session, pytest.raises(requests.RequestException):
        session.get(f"ftp://127.0.0.1:{ftp.port}/pub/a.txt", auth=("bob", password))
    assert ftp.commands == [b"USER bob"]


def test_requests_unsupported_request_sends_nothing(gopher: GopherServer) -> None:
    url = f"gopher://127.0.0.1:{gopher.port}/0table.csv"
    with mount(requests.Session(), policy=allowing(gopher)) as session:
        with pytest.raises(requests.exceptions.InvalidSchema, match="POST"):
            session.post(url, data=b"x")
        with pytest.raises(requests.exceptions.SSLError, match="always verified"):
            session.get(url, verify=False)
    assert not gopher.requests


def test_requests_http_is_mounted_only_on_request(http: HttpServer) -> None:
    url = f"http://127.0.0.1:{http.port}/"
    with mount(requests.Session()) as session:
        assert isinstance(session.get_adapter(url), requests.adapters.HTTPAdapter)
    with (
        mount(requests.Session(), http=True) as session,
        pytest.raises(requests.RequestException, match="S04: port"),
    ):
        session.get("http://127.0.0.1:25/")
    with mount(requests.Session(), http=True, policy=allowing(http)) as session:
        response = session.get(f"{url}table.csv")
        assert (response.content, response.headers["Content-Type"]) == (TABLE, "text/csv")
        assert session.get(f"{url}nix").status_code == 404


def test_requests_session_in_forked_child_uses_separate_connections(gopher: GopherServer) -> None:
    program = """
import os, sys, warnings, requests, resolver
from resolver.adapters.requests import mount
warnings.simplefilter("ignore", ResourceWarning)  # for objects that the child drops without their thread
session = mount(requests.Session(), http=True, policy=resolver.Policy(allow_port=set(map(int, sys.argv[1:]))))
urls = f"gopher://127.0.0.1:{sys.argv[1]}/0table.csv", f"http://127.0.0.1:{sys.argv[2]}/about.txt"
first = [session.get(url).content for url in urls]
if (child := os.fork()) == 0:
    os._exit(0 if [session.get(url).content for url in urls] == first else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), [session.get(url).content for url in urls] == first)
"""
    with served(fixtures.http.serve) as server:
        assert run_alone(program, gopher.port, server.port).split() == ["0", "True"]
