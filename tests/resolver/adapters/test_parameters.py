"""Each parameter that requests and httpx pass to an adapter either has its effect or raises an error."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
from requests.adapters import BaseAdapter
from urllib3.util import Timeout

import fixtures.http
import resolver
from fixtures.ftp import MockFtp
from fixtures.gopher import GopherServer
from fixtures.http import HttpServer, Page
from resolver.adapters.httpx import mounts
from resolver.adapters.requests import mount
from tests.elsewhere import served
from tests.resolver.adapters.conftest import DATA, SOON, TABLE, allowing

WITHOUT_CODING = {"Range": "bytes=250-260", "Accept-Encoding": "identity"}
PNG = ("x.png", b"x")


@pytest.fixture
def site(tmp_path: Path, gopher: GopherServer) -> Iterator[HttpServer]:
    """Run a server with features that a session handles itself: redirects, cookies, logins."""
    (tmp_path / "secret").write_bytes(b"secret")
    cookies = (("Set-Cookie", "a=1"), ("Set-Cookie", "b=2; Path=/"))
    pages = {
        **fixtures.http.EXAMPLE,
        "/moved": Page(b"", status=302, reason="Found", headers=(("Location", "/cookies"), *cookies)),
        "/cookies": Page(TABLE, headers=cookies),
        "/file": fixtures.http.moved((tmp_path / "secret").as_uri()),
        "/gopher": fixtures.http.moved(f"gopher://127.0.0.1:{gopher.port}/0table.csv"),
        "/circle": fixtures.http.moved("/circle"),
        "/locked": Page(TABLE, login=("me", "secret")),
    }
    with served(partial(fixtures.http.serve, site=pages)) as server:
        yield server


def test_requests_table_has_every_parameter() -> None:
    taken = set(inspect.signature(requests.Session.request).parameters) - {"self", "method", "url"}
    assert taken == {*REFUSED_BY_REQUESTS, *HONORED_BY_REQUESTS, *LEFT_TO_REQUESTS}
    handed = set(inspect.signature(BaseAdapter.send).parameters) - {"self", "request"}
    assert handed <= {*REFUSED_BY_REQUESTS, *HONORED_BY_REQUESTS, *LEFT_TO_REQUESTS}


#: The behavior of requests for a URL of another scheme, without the adapter.
LEFT_TO_REQUESTS = {
    "allow_redirects": "no answer of these schemes is a redirect",
    "hooks": "requests calls them",
    "params": "requests drops them for URLs of other schemes",
    "stream": "requests reads the body",
}
REFUSED_BY_REQUESTS: Mapping[str, tuple[Any, ...]] = {
    "data": (b"x", {"a": "b"}),
    "json": ({},),
    "files": ({"a": PNG},),
    "cookies": ({"a": "b"},),
    "headers": (
        {"Range": "bytes=1-"},
        {"X-Api-Key": "x"},
        {"User-Agent": "x"},
        {"Accept": "text/csv"},
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic %"},
    ),
    "auth": (("me", "secret"),),  # gopher has no login
    "verify": (False, ""),
    "cert": (("a,b", "c"),),
}
HONORED_BY_REQUESTS = ("timeout", "proxies", "auth", "verify", "cert")


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REFUSED_BY_REQUESTS.items() for value in values]
)
def test_requests_parameter_that_gopher_lacks_is_refused(name: str, value: Any, gopher: GopherServer) -> None:
    url = f"gopher://127.0.0.1:{gopher.port}/0table.csv"
    with mount(requests.Session(), policy=allowing(gopher)) as session:
        with pytest.raises(requests.RequestException, match="nothing was sent"):
            session.request("GET", url, **{name: value})
        assert not gopher.requests
        assert session.get(url).content == TABLE


def test_requests_parameters_are_honored(gopher: GopherServer, unused_port: int, tmp_path: Path) -> None:
    url = f"gopher://127.0.0.1:{gopher.port}/0table.csv"
    with mount(requests.Session(), policy=allowing(gopher, port=unused_port)) as session:
        for proxies in (
            {"gopher://127.0.0.1": f"socks5://127.0.0.1:{unused_port}"},
            {"all": f"http://127.0.0.1:{unused_port}"},
        ):
            with pytest.raises(requests.exceptions.ProxyError):
                session.get(url, proxies=proxies)
        missing = str(tmp_path / "missing.pem")
        secured = url.replace("gopher", "gophers")
        with pytest.raises(requests.RequestException, match=r"missing\.pem"):
            session.get(secured, verify=missing)
        for cert in (missing, (missing, "key.pem")):
            with pytest.raises(requests.RequestException, match=r"missing\.pem"):
                session.get(secured, cert=cert)
        assert not gopher.requests


#: HTTPAdapter accepts a Timeout, though the types of requests do not.
@pytest.mark.parametrize("timeout", [SOON, (None, SOON), Timeout(read=SOON), Timeout(total=SOON)])
def test_requests_timeout_in_each_form_is_a_read_timeout(timeout: Any, gopher: GopherServer) -> None:
    with (
        mount(requests.Session(), policy=allowing(gopher)) as session,
        pytest.raises(requests.exceptions.ReadTimeout),
    ):
        session.get(f"gopher://127.0.0.1:{gopher.port}/0silent", timeout=timeout)


@pytest.mark.parametrize("timeout", ["1", (1, 2, 3), 0, (1, "2")])
def test_requests_invalid_timeout_is_a_value_error(timeout: Any, gopher: GopherServer) -> None:
    with (
        mount(requests.Session(), policy=allowing(gopher)) as session,
        pytest.raises(ValueError, match=r"must be|less than"),
    ):
        session.get(f"gopher://127.0.0.1:{gopher.port}/0table.csv", timeout=timeout)
    assert not gopher.requests


@pytest.mark.parametrize("name", ["If-None-Match", "If-Modified-Since", "Cache-Control"])
def test_requests_revalidation_of_gopher_is_a_complete_response(name: str, gopher: GopherServer) -> None:
    url = f"gopher://127.0.0.1:{gopher.port}/0table.csv"
    with mount(requests.Session(), policy=allowing(gopher)) as session:
        response = session.get(url, headers={name: "*"})
    assert (response.status_code, response.content) == (200, TABLE)


@pytest.mark.parametrize("auth", [("bob", "secret pw"), ("bob", "wrong")])
def test_requests_auth_logs_in_to_ftp(auth: tuple[str, str], ftp: MockFtp) -> None:
    url = f"ftp://127.0.0.1:{ftp.port}/%2Fpub/a.txt"
    with mount(requests.Session(), policy=allowing(ftp)) as session:
        assert session.get(url, auth=auth).status_code == (200 if auth[1] == "secret pw" else 403)
        assert f"PASS {auth[1]}".encode() in ftp.commands
        assert b"USER anonymous" not in ftp.commands
        assert session.get(url).status_code == 200
        assert b"USER anonymous" in ftp.commands


def test_requests_login_in_the_url_is_used_once(ftp: MockFtp) -> None:
    url = f"ftp://bob:secret%20pw@127.0.0.1:{ftp.port}/%2Fpub/a.txt"
    with mount(requests.Session(), policy=allowing(ftp)) as session:
        assert session.get(url).status_code == 200
        with pytest.raises(requests.exceptions.InvalidHeader, match="different logins"):
            session.get(url, auth=("me", "asked"))


def test_requests_http_request_is_sent_unchanged(site: HttpServer) -> None:
    with mount(requests.Session(), http=True, policy=allowing(site)) as session:
        session.headers["X-Own"] = "1"
        response = session.post(site.url("/locked"), {"a": "b c"}, auth=("me", "secret"), cookies={"c": "d"})
        assert (response.status_code, response.content) == (200, TABLE)
        part = session.get(site.url("/data"), headers=WITHOUT_CODING)
        assert (part.status_code, part.content) == (206, DATA[250:261])
        missing = session.get(site.url("/gone"))
        assert (missing.status_code, missing.reason) == (410, "Gone")
        assert missing.text.startswith("It went")
    sent = site.requests[0]
    assert (sent.method, sent.body) == ("POST", b"a=b+c")
    for name, value in (
        ("x-own", "1"),
        ("cookie", "c=d"),
        ("content-type", "application/x-www-form-urlencoded"),
    ):
        assert sent.values(name) == [value]
    assert sent.values("user-agent") == [requests.utils.default_user_agent()]


def test_requests_redirect_is_followed_by_the_session(site: HttpServer) -> None:
    with mount(requests.Session(), http=True, policy=allowing(site)) as session:
        response = session.get(site.url("/moved"), allow_redirects=False)
        assert (response.status_code, response.headers["Location"]) == (302, "/cookies")
        assert response.cookies.get_dict() == {"a": "1", "b": "2"}
        assert session.cookies.get_dict() == {"a": "1", "b": "2"}
        assert len(site.requests) == 1
        response = session.get(site.url("/moved"))
        assert (response.content, response.url) == (TABLE, site.url("/cookies"))
        (answered,) = response.history
        assert answered.url == site.url("/moved")
        assert site.requests[-1].values("cookie") == ["a=1; b=2"]
        assert pickle.loads(pickle.dumps(response)).content == TABLE


def test_requests_cookies_of_http_servers_do_not_hinder_ftp(site: HttpServer, ftp: MockFtp) -> None:
    url = f"ftp://127.0.0.1:{ftp.port}/pub/a.txt"
    with mount(requests.Session(), http=True, policy=allowing(site, ftp)) as session:
        session.get(site.url("/cookies"))
        assert session.cookies.get_dict() == {"a": "1", "b": "2"}
        assert session.get(url).ok
        sent = len(ftp.commands)
        for wanted in ({"cookies": {"c": "3"}}, {"headers": {"Cookie": "c=3"}}):
            with pytest.raises(requests.exceptions.InvalidHeader, match="Cookie"):
                session.get(url, **wanted)  # type: ignore[arg-type]
        assert len(ftp.commands) == sent


@pytest.mark.parametrize("http", [False, True])
def test_requests_redirect_to_a_file_is_refused(http: bool, site: HttpServer) -> None:
    with (
        mount(requests.Session(), http=http, policy=allowing(site)) as session,
        pytest.raises(requests.RequestException) as caught,
    ):
        session.get(site.url("/file"), hooks={"response": [lambda response, **_: response]})
    assert isinstance(caught.value.__cause__, resolver.Refused)
    assert caught.value.__cause__.rule == "S10"


def test_requests_redirects_are_bounded(site: HttpServer) -> None:
    limits = resolver.Limits(hops=3)
    with (
        mount(requests.Session(), http=True, policy=allowing(site), limits=limits) as session,
        pytest.raises(requests.RequestException) as caught,
    ):
        session.get(site.url("/circle"))
    assert isinstance(caught.value.__cause__, resolver.Refused)
    assert len(site.requests) == 4


def test_requests_truncated_body_fails_on_every_read() -> None:
    short = {"/short": fixtures.http.Behavior(cut_at=20_000)}
    with (
        served(partial(fixtures.http.serve, behaviors=short, site={"/short": Page(DATA)})) as server,
        mount(requests.Session(), http=True, policy=allowing(server)) as session,
    ):
        response = session.get(server.url("/short"), stream=True)
        for _ in range(2):
            with pytest.raises(requests.exceptions.ChunkedEncodingError) as caught:
                response.raw.read()
            assert isinstance(caught.value.__cause__, resolver.Truncated)


def test_requests_settings_without_effect_on_http_are_refused() -> None:
    place = ("http", "h.example", 80)
    for settings in (
        resolver.Settings(credentials={place: resolver.Credentials(b"me", b"x")}),
        resolver.Settings(cookies="jar"),
        resolver.Settings(headers={"X-Own": "1"}),
        resolver.Settings(options=resolver.Options(user_agent=b"me")),
    ):
        with pytest.raises(TypeError, match="is not supported for http by requests"):
            mount(requests.Session(), http=True, **settings)
        mount(requests.Session(), **settings).close()


REFUSED_BY_HTTPX: Mapping[str, tuple[Any, ...]] = {
    "content": (b"x",),
    "data": ({"a": "b"},),
    "files": ({"a": PNG},),
    "json": ({},),
    "headers": tuple(REFUSED_BY_REQUESTS["headers"]),
    "cookies": ({"a": "b"},),
    "auth": (("me", "secret"),),
    "extensions": ({"trace": print}, {"sni_hostname": "h.example"}, {"target": b"/x"}),
}
#: Parameters that httpx handles without the transport, or that a test below covers.
OF_HTTPX = {"params", "follow_redirects", "timeout"}


def test_httpx_table_has_every_parameter() -> None:
    taken = set(inspect.signature(httpx.Client.request).parameters) - {"self", "method", "url"}
    assert taken == {*REFUSED_BY_HTTPX, *OF_HTTPX}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in REFUSED_BY_HTTPX.items() for value in values]
)
def test_httpx_parameter_that_gopher_lacks_is_refused(name: str, value: Any, gopher: GopherServer) -> None:
    url = f"gopher://127.0.0.1:{gopher.port}/0table.csv"
    with httpx.Client(mounts=mounts(policy=allowing(gopher))) as client:
        request = client.build_request("GET", url, **({} if name == "auth" else {name: value}))
        with pytest.raises(httpx.UnsupportedProtocol, match="nothing was sent"):
            client.send(request, **({name: value} if name == "auth" else {}))
        assert not gopher.requests
        assert client.get(url).content == TABLE


@pytest.mark.parametrize("auth", [("bob", "secret pw"), ("bob", "wrong")])
def test_httpx_auth_logs_in_to_ftp(auth: tuple[str, str], ftp: MockFtp) -> None:
    with httpx.Client(mounts=mounts(policy=allowing(ftp))) as client:
        response = client.get(f"ftp://127.0.0.1:{ftp.port}/%2Fpub/a.txt", auth=auth)
    assert response.status_code == (200 if auth[1] == "secret pw" else 403)
    assert f"PASS {auth[1]}".encode() in ftp.commands


def test_httpx_origin_and_redirect_are_checked(site: HttpServer, gopher: GopherServer) -> None:
    policy = allowing(site, gopher)
    transport = resolver.HttpxTransport(policy=policy)
    url = f"gopher://127.0.0.1:{gopher.port}/0table.csv"
    derived = {"origin": "derived", "referrer": (site.url(), "127.0.0.1")}
    with httpx.Client(transport=transport, mounts=mounts(policy=policy), follow_redirects=True) as client:
        assert client.get(url, extensions={"origin": "user"}).content == TABLE
        asked = len(gopher.requests)
        for place, extensions in ((site.url("/gopher"), {}), (url, derived)):
            with pytest.raises(httpx.UnsupportedProtocol) as caught:
                client.get(place, extensions=extensions)
            assert isinstance(caught.value.__cause__, resolver.Refused)
            assert caught.value.__cause__.rule == "S10"
        assert len(gopher.requests) == asked
