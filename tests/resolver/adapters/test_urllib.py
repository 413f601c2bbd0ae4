"""`urlopen` for all schemes, and libraries that use `urlopen`."""

from __future__ import annotations

import io
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

import resolver
from fixtures.ftp import MockFtp
from fixtures.gopher import GopherServer
from fixtures.http import HttpServer
from resolver.adapters.urllib import Handler, install, opener
from tests.resolver.adapters.conftest import DATA, SOON, TABLE, allowing


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    urllib.request.install_opener(urllib.request.build_opener())


def test_urlopen_reads_schemes_that_urllib_lacks(gopher: GopherServer, ftp: MockFtp) -> None:
    install(policy=allowing(gopher, ftp))
    with urllib.request.urlopen(f"gopher://127.0.0.1:{gopher.port}/9data.bin") as answer:
        assert answer.read(1_000) + answer.read() == DATA
        assert (answer.status, answer.url) == (None, f"gopher://127.0.0.1:{gopher.port}/9data.bin")
        assert answer.headers["content-type"] == "application/octet-stream"
    with urllib.request.urlopen(f"ftp://127.0.0.1:{ftp.port}/pub/a.txt") as answer:
        content = answer.read()
        assert int(answer.headers["Content-Length"]) == len(content)


def test_pandas_reads_table_from_gopher(gopher: GopherServer) -> None:
    import pandas

    install(policy=allowing(gopher))
    table = pandas.read_csv(f"gopher://127.0.0.1:{gopher.port}/0table.csv")
    assert table.equals(pandas.read_csv(io.BytesIO(TABLE)))


def test_urlopen_refusal_is_url_error_with_cause() -> None:
    install()
    with pytest.raises(urllib.error.URLError, match="S04: port") as caught:
        urllib.request.urlopen("gopher://127.0.0.1:25/")
    assert isinstance(caught.value.__cause__, resolver.Refused)
    assert caught.value.reason is caught.value.__cause__


def test_urlopen_truncated_body_is_an_error(gopher: GopherServer) -> None:
    install(policy=allowing(gopher))
    with (
        urllib.request.urlopen(f"gopher://127.0.0.1:{gopher.port}/9reset.bin") as answer,
        pytest.raises(urllib.error.URLError) as caught,
    ):
        answer.read()
    assert isinstance(caught.value.reason, resolver.Truncated)


def test_urlopen_truncated_body_fails_on_every_read(gopher: GopherServer) -> None:
    install(policy=allowing(gopher))
    answer = urllib.request.urlopen(f"gopher://127.0.0.1:{gopher.port}/9reset.bin")
    for _ in range(3):
        with pytest.raises(urllib.error.URLError):
            answer.read()
    answer.close()


def test_urlopen_method_other_than_get_sends_nothing(gopher: GopherServer) -> None:
    install(policy=allowing(gopher))
    url = f"gopher://127.0.0.1:{gopher.port}/0table.csv"
    for request in (urllib.request.Request(url, data=b"x"), urllib.request.Request(url, method="HEAD")):
        with pytest.raises(urllib.error.URLError, match="GET"):
            urllib.request.urlopen(request)
    assert not gopher.requests


def test_urlopen_timeout_applies_to_each_wait(gopher: GopherServer) -> None:
    with pytest.raises(urllib.error.URLError) as caught:
        opener(policy=allowing(gopher)).open(f"gopher://127.0.0.1:{gopher.port}/0silent", timeout=SOON)
    assert isinstance(caught.value.reason, resolver.TimedOut)


def test_opener_handles_http_only_on_request(http: HttpServer) -> None:
    url = f"http://127.0.0.1:{http.port}/table.csv"
    assert not hasattr(Handler(), "http_open")
    with pytest.raises(urllib.error.URLError, match="S04: port"):
        opener(http=True).open("http://127.0.0.1:25/")
    allowed = opener(http=True, policy=allowing(http))
    request = urllib.request.Request(url, headers={"X-Mark": "word"})
    with allowed.open(request) as answer:
        assert (answer.read(), answer.status) == (TABLE, 200)
        assert answer.headers["Content-Type"] == "text/csv"
    assert ("x-mark", "word") in [(name.lower(), value) for name, value in http.requests[-1].headers]
    with pytest.raises(urllib.error.HTTPError) as caught:
        allowed.open(f"http://127.0.0.1:{http.port}/nix")
    assert caught.value.code == 404
    caught.value.close()


def test_urlopen_unverifiable_request_is_checked_as_link(gopher: GopherServer) -> None:
    request = urllib.request.Request(
        f"gopher://127.0.0.1:{gopher.port}/0table.csv", origin_req_host="h.example", unverifiable=True
    )
    handler = Handler(
        policy=resolver.Policy(allow_port=frozenset([gopher.port]), allow_address=frozenset(["127.0.0.1"]))
    )
    with urllib.request.build_opener(handler).open(request) as answer:
        assert answer.read() == TABLE
    strict = Handler(policy=resolver.Policy.untrusted())
    with pytest.raises(urllib.error.URLError):
        urllib.request.build_opener(strict).open(request)
    assert len(gopher.requests) == 1
