"""Comparison of http responses: a requests session with this project's adapter and with its own adapter."""

from __future__ import annotations

import contextlib
import gc
import gzip
import io
import os
import pickle
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
import trio
from requests.auth import HTTPDigestAuth
from urllib3 import Timeout

import fixtures.http
import resolver
from fixtures.http import HttpServer, Page
from resolver.adapters.requests import Adapter, mount
from tests.elsewhere import served
from tests.hang import HANG
from tests.resolver.adapters.conftest import DATA, SOON, TABLE, allowing
from tests.resolver.network.peers import start

PACKED = gzip.compress(TABLE, mtime=0)
CONFLICT = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy"
DIGEST = 'Digest realm="r", nonce="n", qop="auth"'
SITE = {
    "/packed": fixtures.http.coded(PACKED, "gzip"),
    "/damaged": fixtures.http.coded(TABLE, "gzip"),
    "/chunks": Page(DATA, framing="chunked"),
    "/data": Page(DATA),
    "/text": Page(TABLE, "text/plain; charset=latin-1"),
    "/circle": fixtures.http.moved("/circle"),
    "/to-utf8": fixtures.http.moved("/\u0161".encode().decode("latin-1")),
    "/%C5%A1": Page(TABLE),
    "/digest": Page(b"", status=401, reason="Unauthorized", headers=(("WWW-Authenticate", DIGEST),)),
    "/inside": fixtures.http.moved("file:///etc/passwd"),
}
BEHAVIORS = {
    "/conflict": fixtures.http.Behavior(instead=CONFLICT),
    "/no-http": fixtures.http.Behavior(instead=b"220 ready\r\n"),
    "/silent": fixtures.http.Behavior(silent=True, stays=True),
}


@pytest.fixture
def site() -> Iterator[HttpServer]:
    with served(partial(fixtures.http.serve, site=SITE, behaviors=BEHAVIORS)) as server:
        yield server


@pytest.fixture
def session(site: HttpServer, unused_port: int) -> Iterator[requests.Session]:
    with mount(requests.Session(), http=True, policy=allowing(site, port=unused_port)) as session:
        session.trust_env = False
        yield session


def test_requests_raw_is_a_response_of_urllib3(site: HttpServer, session: requests.Session) -> None:
    response = session.get(site.url("/data"), stream=True)
    assert (response.raw.status, response.raw.version, response.raw.reason) == (200, 11, "OK")
    assert response.raw.headers["Content-Length"] == str(len(DATA))
    copied = io.BytesIO()
    shutil.copyfileobj(response.raw, copied)
    assert copied.getvalue() == DATA
    assert response.raw.closed
    with session.get(site.url("/data"), stream=True) as response:
        assert response.raw.read(10, decode_content=True) == DATA[:10]
        assert response.raw.tell() == 10


def test_requests_body_is_decoded_and_has_no_coding(site: HttpServer, session: requests.Session) -> None:
    response = session.get(site.url("/packed"))
    assert response.content == TABLE
    assert not {"Content-Encoding", "Content-Length"} & set(response.headers)
    with pytest.raises(requests.ConnectionError, match="not valid in its content coding"):
        session.get(site.url("/damaged"))


@pytest.mark.parametrize("path", ["/data", "/chunks"])
def test_requests_iter_content_gives_the_whole_body(
    path: str, site: HttpServer, session: requests.Session
) -> None:
    for size in (None, 1_000, len(DATA), 10 * len(DATA)):
        with session.get(site.url(path), stream=True) as response:
            pieces = list(response.iter_content(size))
            assert b"".join(pieces) == DATA
            assert max(map(len, pieces)) <= (size or len(DATA))
            assert response.raw.closed or size is None
    assert site.connections == 1


@pytest.mark.parametrize("read", [None, 2 * HANG])
def test_requests_with_total_timeout_share_a_connection(
    read: float | None, site: HttpServer, session: requests.Session
) -> None:
    timeout: Any = Timeout(read=read, total=HANG)
    for _ in range(2):
        assert session.get(site.url("/data"), timeout=timeout).content == DATA
    assert site.connections == 1


def test_requests_with_many_timeouts_close_old_connections(
    site: HttpServer, session: requests.Session
) -> None:
    assert session.get(site.url("/data"), timeout=HANG).content == DATA
    before = len(os.listdir("/proc/self/fd"))  # with the descriptors that stay open after a first request
    for number in range(1, 30):
        assert session.get(site.url("/data"), timeout=HANG + number).content == DATA
    assert site.connections == 30
    while len(os.listdir("/proc/self/fd")) > before + 18:  # nine more connections, a descriptor at each end
        gc.collect()


def test_requests_that_begin_at_the_same_time_share_a_session(
    site: HttpServer, session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Adapter._make_transport

    def make_late(adapter: Adapter, said: Any) -> resolver.HttpxTransport:
        monkeypatch.setattr(Adapter, "_make_transport", make)
        assert session.get(site.url("/data")).content == DATA  # another thread is faster
        return make(adapter, said)

    monkeypatch.setattr(Adapter, "_make_transport", make_late)
    assert session.get(site.url("/data")).content == DATA
    assert site.connections == 1


def test_requests_chunks_are_given_as_they_arrive(session: requests.Session) -> None:
    async def begin(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n")
        await trio.sleep_forever()

    with served(partial(start, serve=begin)) as port:
        mount(session, http=True, policy=resolver.Policy(allow_port={port}))
        with session.get(f"http://127.0.0.1:{port}/", stream=True, timeout=HANG) as response:
            assert next(response.iter_content(512)) == b"data: 1\n\n"
        with pytest.raises(requests.exceptions.ReadTimeout) as caught:
            session.get(f"http://127.0.0.1:{port}/", timeout=(HANG, SOON))
        assert isinstance(caught.value, requests.ConnectionError)  # as with the adapter of requests


@pytest.mark.parametrize(
    ("body", "sent", "framing"),
    [
        ("\u0161", "\u0161".encode(), "content-length"),
        (io.BytesIO(DATA), DATA, "content-length"),
        (io.StringIO("text"), b"text", "content-length"),
        (bytearray(DATA), DATA, "content-length"),
        (memoryview(DATA), DATA, "content-length"),
        (iter([b"a", "\u0161", b""]), b"a\xc5\xa1", "transfer-encoding"),
    ],
)
def test_requests_body_in_each_form_is_sent(
    body: Any, sent: bytes, framing: str, site: HttpServer, session: requests.Session
) -> None:
    assert session.post(site.url("/data"), data=body).ok
    (request,) = site.requests
    assert request.body == sent
    assert len(request.values(framing)) == 1


def test_requests_body_with_read_alone_is_read_from_its_position(
    site: HttpServer, session: requests.Session
) -> None:
    class Readable:
        def __init__(self, file: io.BytesIO) -> None:
            self._file = file

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    file = io.BytesIO(b"skipped" + DATA)
    file.seek(7)
    session.post(site.url("/data"), data=Readable(file))
    assert site.requests[0].body == DATA


def test_requests_body_of_numbers_is_refused(site: HttpServer, session: requests.Session) -> None:
    numbers: Any = iter([1, 2])
    with pytest.raises(TypeError):
        session.post(site.url("/data"), data=numbers)
    assert not site.requests


@pytest.mark.parametrize("http", [False, True])
def test_requests_unknown_setting_is_refused(http: bool) -> None:
    misspelled: dict[str, Any] = {"polcy": "untrusted"}
    with pytest.raises(TypeError, match="polcy"):
        mount(requests.Session(), http=http, **misspelled)


def test_requests_timeouts_tell_the_phase(site: HttpServer, session: requests.Session) -> None:
    with pytest.raises(requests.exceptions.ReadTimeout) as caught:
        session.get(site.url("/silent"), timeout=SOON)
    assert not isinstance(caught.value, requests.ConnectionError)
    with pytest.raises(requests.exceptions.ConnectTimeout):  # the server waits for a request, not for TLS
        session.get(f"https://127.0.0.1:{site.port}/", timeout=(SOON, None))


@pytest.mark.parametrize("path", ["/conflict", "/no-http"])
def test_requests_invalid_response_is_a_connection_error(
    path: str, site: HttpServer, session: requests.Session
) -> None:
    with pytest.raises(requests.ConnectionError) as caught:
        session.get(site.url(path))
    assert isinstance(caught.value, requests.exceptions.InvalidHeader)
    assert isinstance(caught.value.__cause__, resolver.ProtocolError)


def test_requests_proxy_that_cannot_be_reached_is_a_proxy_error(
    site: HttpServer, session: requests.Session, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = f"http://127.0.0.1:{unused_port}"
    with pytest.raises(requests.exceptions.ProxyError):
        session.get(site.url("/data"), proxies={"http": proxy})
    monkeypatch.setenv("no_proxy", "*")  # is for the proxies of the environment alone
    with pytest.raises(requests.exceptions.ProxyError):
        session.get(site.url("/data"), proxies={"http": proxy})
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy")
    assert session.get(site.url("/data")).content == DATA  # trust_env is false
    session.trust_env = True
    with pytest.raises(requests.exceptions.ProxyError):
        session.get(site.url("/data"))
    assert len(site.requests) == 1


@pytest.mark.parametrize("proxy", ["http:/h.example:3128", "http://:8080", "https://"])
def test_requests_proxy_without_host_is_refused(
    proxy: str, site: HttpServer, session: requests.Session
) -> None:
    with pytest.raises(requests.exceptions.InvalidProxyURL):
        session.get(site.url("/data"), proxies={"http": proxy})
    assert not site.requests


def test_requests_proxy_without_port_has_the_port_of_requests() -> None:
    policy = resolver.Policy(name="untrusted", trusted_proxy="http://127.0.0.1:80")
    with (
        mount(requests.Session(), http=True, policy=policy) as session,
        contextlib.suppress(requests.exceptions.ProxyError),  # a refusal (S09) is not a ProxyError
    ):
        session.get("http://1.1.1.1/", proxies={"http": "127.0.0.1"})


def test_requests_redirects_end_at_the_limit_of_the_session(
    site: HttpServer, session: requests.Session
) -> None:
    session.max_redirects = 12
    with pytest.raises(requests.TooManyRedirects):
        session.get(site.url("/circle"))
    assert len(site.requests) == 13


def test_requests_location_in_utf_8_is_followed(site: HttpServer, session: requests.Session) -> None:
    assert session.get(site.url("/to-utf8")).content == TABLE
    assert site.requests[-1].target == "/%C5%A1"


def test_requests_copy_of_a_session_checks_redirects(site: HttpServer, session: requests.Session) -> None:
    session.get(site.url("/data"))
    with pickle.loads(pickle.dumps(session)) as copied, pytest.raises(requests.RequestException) as caught:
        copied.get(site.url("/inside"))
    assert isinstance(caught.value.__cause__, resolver.Refused)
    assert caught.value.__cause__.rule == "S10"


def test_requests_assigned_rebuild_auth_is_called(site: HttpServer) -> None:
    seen: list[str | None] = []
    session = requests.Session()
    vars(session)["rebuild_auth"] = lambda request, response: seen.append(request.url)
    with mount(session, http=True, policy=allowing(site)), pytest.raises(requests.RequestException):
        session.get(site.url("/inside"))
    assert seen == ["file:///etc/passwd"]


def test_requests_digest_and_netrc_logins_are_sent(
    site: HttpServer, session: requests.Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    response = session.get(site.url("/digest"), auth=HTTPDigestAuth("me", "secret"))
    assert [each.status_code for each in (*response.history, response)] == [401, 401]
    assert site.requests[-1].values("authorization")[0].startswith('Digest username="me", realm="r"')
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    session.trust_env = True
    session.get(site.url("/data"))
    assert site.requests[-1].values("authorization") == ["Basic bWU6c2VjcmV0"]


def test_requests_missing_certificate_files_are_named(
    site: HttpServer, session: requests.Session, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.pem")
    secured = f"https://127.0.0.1:{site.port}/"
    for settings in (
        {"verify": missing},
        {"verify": tmp_path / "missing.pem"},
        {"cert": missing},
        {"cert": (str(tmp_path), missing)},
    ):
        with pytest.raises(OSError, match=r"invalid path: .*missing\.pem"):
            session.get(secured, **settings)
    assert session.get(site.url("/data"), verify=missing).content == DATA  # http has no certificates


def test_requests_response_has_the_fields_of_requests(site: HttpServer, session: requests.Session) -> None:
    seen: list[requests.Response] = []
    response = session.get(site.url("/text"), hooks={"response": lambda answer, **_: seen.append(answer)})
    assert seen == [response]
    assert (response.encoding, response.apparent_encoding) == ("latin-1", "ascii")
    assert response.elapsed.total_seconds() > 0
    assert response.headers["content-length"] == str(len(TABLE))
    assert session.head(site.url("/text")).content == b""
    assert session.head(site.url("/text")).headers["content-length"] == str(len(TABLE))
