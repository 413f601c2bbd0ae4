"""`HttpxTransport` and `mounts` with the asynchronous and blocking clients of httpx and httpx2."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import httpx
import httpx2
import pytest
import trio

import fixtures.http
import resolver
from fixtures.gopher import GopherServer
from fixtures.http import ABOUT, Behavior, HttpServer, Page
from resolver import HttpxTransport, Policy
from resolver.adapters.httpx import mounts
from resolver.adapters.httpx_errors import RequestRefused
from resolver.adapters.httpx_family import find_family
from tests.elsewhere import served
from tests.fresh import run_alone
from tests.resolver.adapters.conftest import TABLE, allowing
from tests.resolver.network.peers import closed_port

FAMILIES = [httpx, httpx2]
#: The module `httpx` or `httpx2`. Both modules have the same names, so the tests use the type `Any`.
Family = Any

COOKIES = (("Set-Cookie", "a=1"),)
SITE = {
    **fixtures.http.EXAMPLE,
    "/cookies": Page(b"set", headers=COOKIES),
    "/about.txt?q": Page(ABOUT),
}


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    behaviors = {"/cut": Behavior(cut_at=0), "/short": Behavior(length_off=5, unannounced=True)}
    with served(partial(fixtures.http.serve, site=SITE, behaviors=behaviors)) as running:
        yield running


#: Calls a client and returns the response, for both kinds of clients.
Send = Callable[..., Any]


def by_client(family: Family, method: str, url: str, client: Mapping[str, Any], **given: Any) -> Any:
    with family.Client(**client) as plain:
        return plain.request(method, url, **given)


def by_async_client(family: Family, method: str, url: str, client: Mapping[str, Any], **given: Any) -> Any:
    async def send() -> Any:
        async with family.AsyncClient(**client) as plain:
            return await plain.request(method, url, **given)

    return trio.run(send)


def under_both(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with httpx and httpx2, each with an asynchronous and a blocking client."""
    by_kind = pytest.mark.parametrize("send", [by_client, by_async_client])
    by_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda each: str(each.__name__))
    tests: Callable[..., None] = by_family(by_kind(test))
    return tests


class Row(NamedTuple):
    """A request, and its response.

    Attributes:
        method: The method of the request.
        path: The path of the request.
        given: The arguments of the request.
        client: The arguments of the client.
        status: The status of the response.
        sent: Header fields that the server received, with their values.
        body: The request body that the server received.
    """

    method: str
    path: str
    given: Mapping[str, Any] = {}
    client: Mapping[str, Any] = {}
    status: int = 200
    sent: Mapping[str, list[str]] = {}
    body: bytes = b""


FORM = {"content-type": ["application/x-www-form-urlencoded"]}
ROWS = {
    "get": Row("GET", "/about.txt"),
    "missing": Row("GET", "/missing", status=404),
    "head": Row("HEAD", "/about.txt"),
    "gzip": Row("GET", "/gzip"),
    "chunked": Row("GET", "/data/chunked"),
    "redirect": Row("GET", "/moved", client={"follow_redirects": True}),
    "redirect not followed": Row("GET", "/moved", status=302),
    "login": Row("GET", "/private", {"auth": ("user", "password")}),
    "cookies": Row("GET", "/about.txt", client={"cookies": {"a": "1"}}, sent={"cookie": ["a=1"]}),
    "content": Row("PUT", "/about.txt", {"content": b"x" * 9}, sent={"content-length": ["9"]}, body=b"x" * 9),
    "large": Row("PUT", "/about.txt", {"content": bytes(300_000)}, body=bytes(300_000)),
    "form": Row("POST", "/about.txt", {"data": {"a": "b"}}, sent=FORM, body=b"a=b"),
    "json": Row("POST", "/about.txt", {"json": []}, sent={"content-type": ["application/json"]}, body=b"[]"),
    "params": Row("GET", "/about.txt", {"params": {"q": ""}}),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
@under_both
def test_client_of_family_gets_response(family: Family, send: Send, row: Row, server: HttpServer) -> None:
    before = len(server.requests)
    client = {"transport": HttpxTransport(), **row.client}
    response = send(family, row.method, server.url(row.path), client, **row.given)
    assert isinstance(response, family.Response)
    assert response.status_code == row.status
    received = server.requests[before]
    assert (received.method, received.body) == (row.method, row.body)
    assert received.values("user-agent") == [f"python-{family.__name__}/{family.__version__}"]
    assert {name: received.values(name) for name in row.sent} == row.sent


async def async_pieces() -> AsyncIterator[bytes]:
    for piece in (b"one ", b"", b"two"):
        yield piece


def pieces() -> Iterator[bytes]:
    yield from (b"one ", b"", b"two")


@under_both
def test_client_of_family_uploads_pieces_and_files(family: Family, send: Send, server: HttpServer) -> None:
    before = len(server.requests)
    content = pieces() if send is by_client else async_pieces()
    send(family, "PUT", server.url("/about.txt"), {"transport": HttpxTransport()}, content=content)
    files = {"name": ("x.txt", b"file")}
    send(family, "PUT", server.url("/about.txt"), {"transport": HttpxTransport()}, files=files)
    streamed, form = server.requests[before:]
    assert (streamed.values("transfer-encoding"), streamed.body) == (["chunked"], b"one two")
    assert b'name="name"; filename="x.txt"' in form.body


@under_both
def test_client_of_family_calls_event_hooks(family: Family, send: Send, server: HttpServer) -> None:
    heard: list[str] = []

    def note(each: Any) -> None:
        heard.append(type(each).__name__)

    async def note_async(each: Any) -> None:
        note(each)

    hook = note if send is by_client else note_async
    client = {"transport": HttpxTransport(), "event_hooks": {"request": [hook], "response": [hook]}}
    send(family, "GET", server.url("/about.txt"), client)
    assert heard == ["Request", "Response"]


@under_both
def test_client_of_family_keeps_cookies(family: Family, send: Send, server: HttpServer) -> None:
    response = send(family, "GET", server.url("/cookies"), {"transport": HttpxTransport()})
    assert dict(response.cookies) == {"a": "1"}


#: The path of a failing request, the exception of the client, and its cause.
FAILURES = [
    ("/cut", "RemoteProtocolError", resolver.Disconnected),
    ("/short", "RemoteProtocolError", resolver.Truncated),
]


@pytest.mark.parametrize(("path", "theirs", "ours"), FAILURES)
@under_both
def test_failure_is_exception_of_family(
    family: Family,
    send: Send,
    path: str,
    theirs: str,
    ours: type[resolver.ResolveError],
    server: HttpServer,
) -> None:
    with pytest.raises(getattr(family, theirs)) as caught:
        send(family, "GET", server.url(path), {"transport": HttpxTransport()})
    assert type(caught.value.__cause__) is ours
    assert caught.value.request.url.path == path


@under_both
def test_closed_port_raises_connect_error_of_family(family: Family, send: Send) -> None:
    with closed_port() as port, pytest.raises(family.ConnectError):
        send(family, "GET", f"http://127.0.0.1:{port}/", {"transport": HttpxTransport()})


@under_both
def test_timeout_of_client_raises_exception_of_family(family: Family, send: Send) -> None:
    silent = {"/": Behavior(silent=True, stays=True)}
    with served(partial(fixtures.http.serve, behaviors=silent)) as server:
        client = {"transport": HttpxTransport(), "timeout": family.Timeout(None, read=0.05)}
        with pytest.raises(family.ReadTimeout):
            send(family, "GET", server.url("/"), client)


@under_both
def test_refusal_is_exception_of_family_and_of_resolver(
    family: Family, send: Send, server: HttpServer
) -> None:
    before = len(server.requests)
    with pytest.raises(family.TransportError) as caught:
        send(family, "GET", server.url("/"), {"transport": HttpxTransport(policy=Policy.untrusted())})
    assert isinstance(caught.value, RequestRefused)
    assert (caught.value.rule, getattr(caught.value, "request").method) == ("S08", "GET")  # noqa: B009
    other = httpx if family is httpx2 else httpx2
    assert not isinstance(caught.value, other.TransportError)
    assert len(server.requests) == before


@under_both
def test_mounts_serve_other_schemes(family: Family, send: Send, gopher: GopherServer) -> None:
    client = {"mounts": mounts(policy=allowing(gopher))}
    url = f"gopher://127.0.0.1:{gopher.port}/"
    response = send(family, "GET", f"{url}0table.csv", client)
    assert (type(response), response.status_code, response.content) == (family.Response, 200, TABLE)
    with pytest.raises(family.RemoteProtocolError) as caught:
        send(family, "GET", f"{url}9reset.bin", {"mounts": mounts(policy=allowing(gopher))})
    assert isinstance(caught.value.__cause__, resolver.Truncated)
    with pytest.raises(family.UnsupportedProtocol, match="POST"):
        send(family, "POST", url, {"mounts": mounts(policy=allowing(gopher))})
    assert len(gopher.requests) == 2


#: The steps of a request that opens a connection.
STEPS = [
    f"{step}.{event}"
    for step in (
        "connection.connect_tcp",
        "http11.send_request_headers",
        "http11.receive_response_headers",
        "http11.receive_response_body",
    )
    for event in ("started", "complete")
]


class Tracer:
    """A `trace` extension for both kinds of clients."""

    def __init__(self, send: Send) -> None:
        self.heard: list[tuple[str, Mapping[str, Any]]] = []
        self._threads: set[int] = set()
        self.extension = self._note if send is by_client else self._note_async

    def _note(self, name: str, info: Mapping[str, Any]) -> None:
        self.heard.append((name, info))
        self._threads.add(threading.get_ident())

    async def _note_async(self, name: str, info: Mapping[str, Any]) -> None:
        await trio.lowlevel.checkpoint()
        self._note(name, info)

    @property
    def names(self) -> list[str]:
        assert self._threads <= {threading.get_ident()}
        return [name for name, _ in self.heard]


@pytest.mark.parametrize("path", ["/about.txt", "/gzip", "/data/chunked", "/nothing"])
@under_both
def test_trace_extension_reports_each_step_once(
    family: Family, send: Send, path: str, server: HttpServer
) -> None:
    tracer = Tracer(send)
    client = {"transport": HttpxTransport()}
    send(family, "GET", server.url(path), client, extensions={"trace": tracer.extension})
    assert tracer.names == STEPS


@under_both
def test_trace_extension_reports_facts(family: Family, send: Send, server: HttpServer) -> None:
    tracer = Tracer(send)
    client = {"transport": HttpxTransport()}
    response = send(family, "GET", server.url("/about.txt"), client, extensions={"trace": tracer.extension})
    assert response.content == ABOUT
    facts = dict(tracer.heard)
    assert facts["connection.connect_tcp.started"] == {"host": "127.0.0.1", "port": server.port}
    head = facts["http11.receive_response_headers.complete"]["return_value"]
    assert head[:3] == (b"HTTP/1.1", 200, b"OK")
    assert (b"Content-Length", b"37") in [(name.title(), value) for name, value in head[3]]


@under_both
def test_trace_extension_reports_body_and_failure(family: Family, send: Send, server: HttpServer) -> None:
    sent, cut, refused = Tracer(send), Tracer(send), Tracer(send)
    content = pieces() if send is by_client else async_pieces()
    given = {"content": content, "extensions": {"trace": sent.extension}}
    send(family, "PUT", server.url("/about.txt"), {"transport": HttpxTransport()}, **given)
    assert sent.names.count("http11.send_request_body.complete") >= 1
    with pytest.raises(family.RemoteProtocolError) as caught:
        send(
            family,
            "POST",
            server.url("/cut"),
            {"transport": HttpxTransport()},
            extensions={"trace": cut.extension},
        )
    assert cut.heard[-1] == ("http11.receive_response_headers.failed", {"exception": caught.value})
    given = {"extensions": {"trace": refused.extension}}
    with closed_port() as port, pytest.raises(family.ConnectError):
        send(family, "GET", f"http://127.0.0.1:{port}/", {"transport": HttpxTransport()}, **given)
    assert refused.names == ["connection.connect_tcp.started", "connection.connect_tcp.failed"]


def test_trace_extension_that_raises_ends_request(server: HttpServer) -> None:
    def fail(name: str, info: Mapping[str, Any]) -> None:
        raise ZeroDivisionError(name)

    for family in FAMILIES:
        with family.Client(transport=HttpxTransport()) as client:
            with pytest.raises(ZeroDivisionError, match="connect_tcp"):
                client.get(server.url("/about.txt"), extensions={"trace": fail})
            assert client.get(server.url("/about.txt")).content == ABOUT


async def test_trace_extension_that_raises_after_connect_closes_connection(server: HttpServer) -> None:
    async def fail(name: str, info: Mapping[str, Any]) -> None:
        if name == "connection.connect_tcp.complete":
            raise ZeroDivisionError

    events: list[type[resolver.Event]] = []
    transport = HttpxTransport(on_event=lambda event: events.append(type(event)))
    async with httpx.AsyncClient(transport=transport) as client:
        with pytest.raises(ZeroDivisionError):
            await client.get(server.url("/about.txt"), extensions={"trace": fail})
    assert events == [resolver.Connected, resolver.Closed]


@pytest.mark.parametrize("family", FAMILIES, ids=["httpx", "httpx2"])
def test_limits_of_family_raise_type_error(family: Family) -> None:
    """The limits of httpx bound the number of connections, which the transport does not limit."""
    limits = family.Limits(max_connections=3)
    with pytest.raises(TypeError, match=rf"resolver\.Limits, got {family.__name__}\.Limits \("):
        HttpxTransport(limits=limits)


def test_transport_serves_clients_of_both_families(server: HttpServer) -> None:
    transport = HttpxTransport()
    for family in FAMILIES:
        plain = family.Client(transport=transport)
        assert isinstance(plain.get(server.url("/about.txt")), family.Response)
    with pytest.raises(RuntimeError, match=r"serves httpx\.Client \(create another for httpx2\.AsyncClient"):
        by_async_client(httpx2, "GET", server.url("/"), {"transport": transport})
    transport.close()


def test_transport_is_instance_of_imported_families() -> None:
    for family in FAMILIES:
        assert isinstance(HttpxTransport(), family.BaseTransport | family.AsyncBaseTransport)


def test_request_of_neither_family_raises_type_error() -> None:
    class Request(httpx2.Request):
        """A subclass of a request."""

    assert find_family(Request("GET", "http://h/")).__name__ == "httpx2"
    with pytest.raises(TypeError, match=r"httpx\.Request or httpx2\.Request, got 'str'"):
        HttpxTransport().handle_request("http://h/")  # type: ignore[arg-type]


#: The imports of a program before it uses the transport, and the families that are imported afterwards.
IMPORTS = [("", ""), ("import httpx", "httpx"), ("import httpx2", "httpx2")]
ALIASED = "import httpx2; httpx2.alias_httpx(); import httpx; assert httpx is httpx2"


@pytest.mark.parametrize(("imports", "loaded"), [*IMPORTS, (ALIASED, "httpx httpx2")])
def test_transport_imports_no_other_family(imports: str, loaded: str, server: HttpServer) -> None:
    program = f"""
import sys
{imports}
import resolver
transport = resolver.HttpxTransport()
if "httpx" in {imports!r}:
    family = sys.modules["httpx2" if "httpx2" in {imports!r} else "httpx"]
    from resolver.adapters.httpx import mounts
    with family.Client(transport=transport, mounts=mounts()) as client:
        assert client.get(sys.argv[1]).status_code == 200
print(*sorted({{"httpx", "httpx2"}} & {{*sys.modules}}))
"""
    assert run_alone(program, server.url("/about.txt")) == f"{loaded}\n"


async def test_fetch_of_httpx2_url_is_typed(nursery: trio.Nursery) -> None:
    server = await fixtures.http.serve(nursery)
    fetch: Callable[[httpx2.URL], Awaitable[resolver.Response]] = resolver.fetch
    assert (await fetch(httpx2.URL(server.url("/about.txt")))).content == ABOUT


def test_transport_has_type_of_both_families() -> None:
    transport = HttpxTransport()
    clients: tuple[httpx.Client, httpx2.Client] = (
        httpx.Client(transport=transport),
        httpx2.Client(transport=transport),
    )
    assert not any(client.is_closed for client in clients)
