"""HTTP: a `Resolver` against the mock server (redirects, credentials, faults, JSON, Digest)."""

from __future__ import annotations

import tracemalloc
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio

import resolver
from fixtures.__main__ import server_tls
from fixtures.http import ABOUT, DATA, EXAMPLE, Behavior, HttpServer, Page, Request, moved, serve
from fixtures.http.digest import Guard
from fixtures.http.server import encode
from protocols.contract import Origin
from resolver import (
    AccessDenied,
    Credentials,
    Declined,
    Disconnected,
    Kind,
    LimitExceeded,
    Limits,
    LoginRequired,
    NotFound,
    Options,
    Policy,
    ProtocolError,
    Refused,
    ResolveError,
    Resolver,
    RetryPolicy,
    TimedOut,
    Truncated,
)
from resolver.policy.addresses import AddressScope


async def test_fetch_document_returns_content_and_metadata(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with Resolver() as session:
        response = await session.fetch(server.url("/about.txt"))
    assert (response.kind, response.content, response.text) == (Kind.DOCUMENT, ABOUT, ABOUT.decode())
    assert (response.media_type, response.charset, response.size) == ("text/plain", "utf-8", len(ABOUT))
    assert response.modified is not None
    assert response.modified.isoformat() == "1994-11-06T08:49:37+00:00"
    assert (response.verified, response.findings, response.chain) == (("length",), (), ())
    assert dict(response.headers)["content-type"] == "text/plain; charset=utf-8"
    assert response.extra == {"status": 200}
    assert server.violations == []


@pytest.mark.parametrize(
    ("path", "content", "verified"),
    [
        ("/data", DATA, ("length",)),
        ("/data/chunked", DATA, ("terminator",)),
        ("/data/close", DATA, ()),
        ("/empty", b"", ("length",)),
        ("/gzip", ABOUT * 100, ("length",)),
        ("/deflate/bare", ABOUT * 100, ("length",)),
    ],
)
async def test_fetch_and_save_verify_every_framing(
    path: str, content: bytes, verified: tuple[str, ...], nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery)
    async with Resolver() as session:
        response = await session.fetch(server.url(path))
        saved = await session.save(server.url(path), str(tmp_path / "file"))
    assert (response.content, response.verified) == (content, verified)
    assert ((tmp_path / "file").read_bytes(), saved.verified) == (content, verified)
    asked = [request.values("accept-encoding")[0] for request in server.requests]
    assert asked[0].startswith("gzip, deflate")
    assert asked[1] == "identity"
    assert server.violations == []


async def test_fetch_of_no_content_is_empty(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with Resolver() as session:
        response = await session.fetch(server.url("/nothing"))
    assert (response.status, response.content, response.verified) == (204, b"", ())


async def test_info_sends_head_and_returns_size(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with Resolver() as session:
        entry = await session.info(server.url("/data"))
        moved_entry = await session.info(server.url("/moved"))
    assert (entry.kind, entry.size) == (Kind.DOCUMENT, len(DATA))
    assert entry.extra is not None
    assert entry.extra["media_type"] == "application/octet-stream"
    assert moved_entry.url == server.url("/about.txt")
    assert {request.method for request in server.requests} == {"HEAD"}
    assert server.connections == 1


async def test_session_reuses_connection(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with Resolver() as session:
        for path in ("/about.txt", "/data/chunked", "/gzip", "/moved", "/nothing"):
            await session.fetch(server.url(path))
        with pytest.raises(NotFound):
            await session.fetch(server.url("/missing"))
        await session.fetch(server.url("/about.txt"))
    assert (len(server.requests), server.connections) == (8, 1)


async def test_session_reuses_connection_if_cookies_change(nursery: trio.Nursery) -> None:
    """Some load balancers set another value at each response."""
    server = await serve(
        nursery, {f"/{n}": Page(b"x", headers=(("Set-Cookie", f"a={n}"),)) for n in range(4)}
    )
    async with Resolver() as session:
        for number in range(4):
            await session.fetch(server.url(f"/{number}"))
    sent = [request.values("cookie") for request in server.requests]
    assert (sent, server.connections) == ([[], ["a=0"], ["a=1"], ["a=2"]], 1)


async def test_fetch_function_closes_connection(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    for _ in range(2):
        await resolver.fetch(server.url("/about.txt"))
    async with resolver.stream(server.url("/about.txt")) as reply:
        assert b"".join([octets async for octets in reply.body]) == ABOUT
    assert server.connections == 3


async def test_closed_pooled_connection_is_replaced(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviors={"/about.txt": Behavior(unannounced=True)})
    async with Resolver() as session:
        for _ in range(3):
            assert (await session.fetch(server.url("/about.txt"))).content == ABOUT
    assert (len(server.requests), server.connections) == (3, 3)


# -- redirects


async def test_redirects_are_followed_and_recorded(nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with Resolver() as session:
        response = await session.fetch(server.url("/moved/far?x"))
    assert response.content == ABOUT
    assert (response.url, response.requested_url) == (server.url("/about.txt"), server.url("/moved/far?x"))
    assert response.chain == (server.url("/moved/far?x"), server.url("/moved"))
    assert [request.target for request in server.requests] == ["/moved/far?x", "/moved", "/about.txt"]
    assert not any(request.values("referer") for request in server.requests)


#: The path of a redirect, the error, its rule and its exit status.
LED: list[tuple[str, type[ResolveError], str | None, int]] = [
    ("/moved/round", Refused, "S10", 15),
    ("/moved/ftp", Refused, "S10", 15),
    ("/moved/gopher", Refused, "S10", 15),
    ("/moved/file", Refused, "S10", 15),
    ("/moved/mail", Refused, "S04", 15),
    ("/moved/metadata", Refused, "S08", 15),
    ("/moved/nowhere", ProtocolError, None, 7),
    ("/moved/no-url", ProtocolError, None, 7),
    ("/part", ProtocolError, None, 7),
]


@pytest.mark.parametrize(("path", "error", "rule", "status"), LED)
async def test_forbidden_redirect_is_refused(
    path: str, error: type[ResolveError], rule: str | None, status: int, nursery: trio.Nursery
) -> None:
    server = await serve(nursery)
    async with Resolver() as session:
        with pytest.raises(error) as caught:
            await session.fetch(server.url(path))
    assert (getattr(caught.value, "rule", None), caught.value.exit_code) == (rule, status)
    assert all(request.path.startswith(path) for request in server.requests)


async def test_redirect_to_unknown_scheme_is_refused(nursery: trio.Nursery) -> None:
    server = await serve(nursery, {"/": moved("dict://127.0.0.1:6379/info")})
    async with Resolver() as session:
        with pytest.raises(ResolveError) as caught:
            await session.fetch(server.url())
    assert caught.value.exit_code == 15


async def test_redirects_over_limit_are_refused(nursery: trio.Nursery) -> None:
    site = {f"/{number}": moved(f"/{number + 1}") for number in range(11)} | {"/11": EXAMPLE["/about.txt"]}
    server = await serve(nursery, site)
    async with Resolver() as session:
        assert (await session.fetch(server.url("/1"))).content == ABOUT
        with pytest.raises(Refused) as caught:
            await session.fetch(server.url("/0"))
    assert (caught.value.rule, caught.value.exit_code) == ("S10", 15)
    assert len(server.requests) == 11 + 11


async def test_redirect_from_https_to_http_is_refused(nursery: trio.Nursery, tmp_path: Path) -> None:
    tls, cafile = server_tls(tmp_path)
    plain = await serve(nursery)
    secure = await serve(nursery, {"/": moved(plain.url("/about.txt"))}, ssl_context=tls)
    inward = await serve(nursery, {"/": moved(secure.url("/x"))})
    async with Resolver(cafile=str(cafile)) as session:
        with pytest.raises(Refused) as caught:
            await session.fetch(secure.url())
        assert (caught.value.rule, caught.value.exit_code) == ("S10", 15)
        with pytest.raises(NotFound):
            await session.fetch(inward.url())  # a redirect from http to https is allowed
    async with Resolver(cafile=str(cafile), policy=Policy(allow_redirect={"http"})) as session:
        assert (await session.fetch(secure.url())).content == ABOUT
    assert len(plain.requests) == 1


# -- credentials (S11)


def basic(user: str, password: str) -> list[str]:
    return ["Basic " + b64encode(f"{user}:{password}".encode()).decode()]


async def sent_along(
    start: HttpServer, target: HttpServer, policy: Policy, options: Options | None = None
) -> tuple[list[str], list[str], list[str]]:
    """Return the fields Authorization, Cookie and Accept-Language that the target of a redirect received."""
    async with Resolver(policy=policy, options=options) as session:
        await session.fetch(start.url("/start", "user:password@"))
    (request,) = [item for item in target.requests if item.path == "/about.txt"]
    assert target.violations == start.violations == []
    return (
        request.values("authorization"),
        request.values("cookie"),
        request.values("accept-language"),
    )


HEADERS = Options(headers=((b"Cookie", b"c=1"), (b"Accept-Language", b"en")))


async def test_credentials_are_sent_to_same_port_after_redirect(nursery: trio.Nursery) -> None:
    site = {"/start": moved("/about.txt"), "/about.txt": EXAMPLE["/about.txt"]}
    server = await serve(nursery, site)
    assert await sent_along(server, server, Policy.default(), HEADERS) == (
        basic("user", "password"),
        ["c=1"],
        ["en"],
    )


@pytest.mark.parametrize(
    ("policy", "carried"), [(Policy.default(), False), (Policy(allow_forward={"127.0.0.1"}), True)]
)
async def test_credentials_are_not_sent_to_another_port(
    policy: Policy, carried: bool, nursery: trio.Nursery
) -> None:
    target = await serve(nursery)
    start = await serve(nursery, {"/start": moved(target.url("/about.txt"))})
    authorization, cookie, language = await sent_along(start, target, policy, HEADERS)
    assert authorization == (basic("user", "password") if carried else [])
    assert cookie == (["c=1"] if carried else [])
    assert language == ["en"]


async def test_credentials_in_a_location_are_refused(nursery: trio.Nursery) -> None:
    target = await serve(nursery)
    start = await serve(nursery, {"/start": moved(target.url("/about.txt", "a:b@"))})
    async with Resolver() as session:
        with pytest.raises(Refused) as caught:
            await session.fetch(start.url("/start"))
    assert (caught.value.rule, caught.value.exit_code, target.connections) == ("S06", 15, 0)
    assert "b@" not in str(caught.value) + str(caught.value.url)


FAR = ("user", "password")


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the rules for passwords treat this machine as a remote host."""
    monkeypatch.setattr("resolver.policy.redirects.find_least_scope", lambda address: AddressScope.PUBLIC)


@pytest.mark.usefixtures("far")
async def test_login_follows_redirects_on_same_port_with_one_warning(nursery: trio.Nursery) -> None:
    """The login is sent along a redirect to the same scheme, host and port (S11).

    The warning about a password in clear text (S06) is given once, although two hops send the login.
    """
    private = Page(b"A secret.\n", login=FAR)
    there = {"/a": replace(moved("/b"), login=FAR), "/b": replace(moved("/c"), login=FAR), "/c": private}
    server = await serve(nursery, there)
    async with Resolver() as session:
        response = await session.fetch(server.url("/a", "user:password@"))
    assert response.text == "A secret.\n"
    assert [finding.rule for finding in response.findings if finding.action == "warn"].count("S06") == 1


@pytest.mark.usefixtures("far")
async def test_cleartext_login_without_warning_is_refused(nursery: trio.Nursery) -> None:
    """A password in clear text is refused (S06) if no warning was possible.

    In the first row a redirect leads to another port, although forwarding is allowed. In the second row the
    URL is derived.
    """
    private = Page(b"A secret.\n", login=FAR)
    target = await serve(nursery, {"/c": private})
    server = await serve(nursery, {"/b": moved(target.url("/c")), "/c": private})

    async def ask(scheme: str, host: str, port: int, user: bytes | None) -> Credentials:
        return Credentials(b"user", b"password")

    rows: tuple[tuple[str, Policy, Origin], ...] = (
        (server.url("/b", "user:password@"), Policy(allow_forward={"127.0.0.1"}), "user"),
        (server.url("/c"), Policy(), "derived"),
    )
    for url, policy, origin in rows:
        async with Resolver(policy=policy, credentials=ask) as session:
            with pytest.raises(Refused) as caught:
                await session.fetch(url, origin=origin, referrer=(server.url("/"), "127.0.0.1"))
        assert caught.value.rule == "S06"
    asked = [request for request in (*server.requests, *target.requests) if request.path == "/c"]
    assert not any(request.values("authorization") for request in asked)


async def test_redirect_to_news_is_refused_before_server_lookup(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(option: str | None) -> None:
        raise AssertionError("a news server was looked for")

    monkeypatch.setattr("resolver.transfer.network.find_setting", looked)
    server = await serve(nursery, {"/": moved("news:comp.misc")})
    async with Resolver() as session:
        with pytest.raises(Refused) as caught:
            await session.fetch(server.url())
    assert (caught.value.rule, caught.value.exit_code) == ("S10", 15)


async def test_missing_login_is_login_required_and_wrong_is_denied(
    nursery: trio.Nursery,
) -> None:
    server = await serve(nursery)
    async with Resolver() as session:
        with pytest.raises(LoginRequired) as caught:
            await session.fetch(server.url("/private"))
        assert (caught.value.code, caught.value.exit_code) == ("401", 6)
        with pytest.raises(AccessDenied, match="401 Unauthorized to this name and password"):
            await session.fetch(server.url("/private", "user:wrong@"))
        assert (await session.fetch(server.url("/private", "user:password@"))).text == "A secret.\n"
    assert server.connections == 3  # one without login, one for user:wrong, one for user:password


# Faulty servers.


@pytest.mark.parametrize(
    ("behavior", "path", "error"),
    [
        (Behavior(cut_at=0), "/about.txt", Disconnected),
        (Behavior(reset_at=0), "/about.txt", Disconnected),
        (Behavior(length_off=5, unannounced=True), "/about.txt", Truncated),
        (Behavior(length_off=-5), "/about.txt", None),
        (Behavior(reset_at=500), "/data", Truncated),
        (Behavior(cut_at=9_000), "/data/chunked", Truncated),
        (
            Behavior(instead=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"),
            "/x",
            ProtocolError,
        ),
        (Behavior(instead=b"220 ftp.example ready\r\n\r\n"), "/x", ProtocolError),
        (Behavior(endless="line"), "/x", LimitExceeded),
        (Behavior(endless="headers"), "/x", LimitExceeded),
        (Behavior(endless="interim"), "/x", LimitExceeded),
        (Behavior(endless="body"), "/x", LimitExceeded),
        (Behavior(silent=True), "/x", TimedOut),
        (Behavior(surplus=b"more"), "/about.txt", None),
    ],
)
async def test_faulty_responses_raise_specific_errors(
    behavior: Behavior, path: str, error: type[ResolveError] | None, nursery: trio.Nursery
) -> None:
    server = await serve(nursery, behaviors={path: behavior})
    async with Resolver(limits=Limits(idle=0.2, body=1_000_000)) as session:
        if error is None:
            response = await session.fetch(server.url(path))
            assert response.content == ABOUT[: len(ABOUT) + min(0, behavior.length_off)]
            await session.fetch(server.url(path))
            assert server.connections == 2  # a connection with surplus bytes is not reused
            return
        with pytest.raises(error) as caught:
            await session.fetch(server.url(path))
    assert type(caught.value) is error
    assert caught.value.url == server.url(path)


def behind_head(path: str, octets: int) -> int:
    """Return the index in the response of a byte of the body."""
    return encode(Request("GET", path), EXAMPLE[path]).index(b"\r\n\r\n") + 4 + octets


#: 10,000 bytes were received, and the last 4,096 of them are requested again.
DATA_CUT, RANGES = behind_head("/data", 10_000), ["bytes=5904-"]
CHUNK_CUT = behind_head("/data/chunked", 10_000 + len("1388\r\n\r\n1388\r\n"))


@pytest.mark.parametrize(
    ("behavior", "page", "ranges", "again"),
    [
        (Behavior(reset_at=DATA_CUT, times=1), "/data", RANGES, "206"),
        (Behavior(cut_at=DATA_CUT, times=1), "/data", RANGES, "206"),
        (Behavior(cut_at=CHUNK_CUT, times=1), "/data/chunked", RANGES, "200"),  # does not support ranges
        (Behavior(cut_at=0, times=1), "/data", [], "200"),
        (Behavior(instead=b"HTTP/1.1 503 No\r\nRetry-After: 0\r\n\r\n", times=1), "/data", [], "200"),
    ],
)
async def test_retry_resumes_partial_file(
    behavior: Behavior, page: str, ranges: list[str], again: str, nursery: trio.Nursery, tmp_path: Path
) -> None:
    server = await serve(nursery, behaviors={page: behavior})
    async with Resolver(patience=RetryPolicy(tries=2, delay=0.0)) as session:
        saved = await session.save(server.url(page), str(tmp_path / "file"))
    assert (tmp_path / "file").read_bytes() == DATA
    assert (saved.attempts, saved.bytes) == (2, len(DATA))
    assert server.requests[1].values("range") == ranges
    assert server.requests[1].values("if-range") == (['"1"'] if again == "206" else [])
    assert server.violations == []


async def test_retry_of_changed_object_restarts(nursery: trio.Nursery, tmp_path: Path) -> None:
    old = EXAMPLE["/data"]
    site = {"/data": old}
    server = await serve(nursery, site, {"/data": Behavior(cut_at=DATA_CUT, times=1)})

    def change(event: object) -> None:
        if isinstance(event, resolver.Retrying):
            site["/data"] = replace(old, content=b"new", headers=(("ETag", '"2"'),))

    async with Resolver(patience=RetryPolicy(tries=2, delay=0.0), on_event=change) as session:
        # the path does not matter to the test
        saved = await session.save(server.url("/data"), tmp_path / "file")
        assert saved.path == str(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert server.requests[1].values("if-range") == ['"1"']


class EarlyEnd:
    """A server with ranges that end before the object, without the size in `Content-Range`."""

    def answer(self, _request: Request, page: Page) -> Page:
        if page.status != 206:
            return page
        first = len(DATA) - len(page.content)
        content_range = f"bytes {first}-{first + 4_999}/*"
        return replace(page, content=page.content[:5_000], headers=(("Content-Range", content_range),))


@pytest.mark.parametrize("is_cut", [True, False], ids=["size known", "size unknown"])
async def test_range_that_ends_early_restarts(is_cut: bool, nursery: trio.Nursery, tmp_path: Path) -> None:
    page = replace(EXAMPLE["/data"], guard=EarlyEnd())
    server = await serve(nursery, {"/data": page}, {"/data": Behavior(cut_at=DATA_CUT, times=int(is_cut))})
    if not is_cut:
        (tmp_path / "file").write_bytes(DATA[:10_000])
    async with Resolver(patience=RetryPolicy(tries=3, delay=0.0)) as session:
        saved = await session.save(server.url("/data"), tmp_path / "file", exists="resume")
    assert (tmp_path / "file").read_bytes() == DATA
    assert [finding.rule for finding in saved.findings] == ["save:restarted"]


async def test_tls_without_close_notify_is_truncated(nursery: trio.Nursery, tmp_path: Path) -> None:
    tls, cafile = server_tls(tmp_path)
    server = await serve(nursery, behaviors={"/data/close": Behavior(no_notify=True)}, ssl_context=tls)
    good = await serve(nursery, ssl_context=tls)
    async with Resolver(cafile=str(cafile)) as session:
        with pytest.raises(Truncated) as caught:
            await session.fetch(server.url("/data/close"))
        assert (await session.fetch(good.url("/data/close"))).verified == ("close-notify",)
    assert (caught.value.received, caught.value.exit_code) == (len(DATA), 10)


async def test_slow_body_is_limited_by_total_timeout(nursery: trio.Nursery) -> None:
    server = await serve(nursery, behaviors={"/about.txt": Behavior(drip=0.02)})
    async with Resolver(limits=Limits(idle=5.0, total=0.2)) as session:
        with pytest.raises(TimedOut):
            await session.fetch(server.url("/about.txt"))


@pytest.mark.parametrize("path", ["/twice", "/bomb"])
async def test_coding_bomb_is_refused_with_bounded_memory(path: str, nursery: trio.Nursery) -> None:
    server = await serve(nursery)
    async with Resolver() as session, session.stream(server.url("/about.txt")) as reply:
        assert [octets async for octets in reply.body]  # the first request imports all modules
    tracemalloc.start()
    try:
        async with Resolver() as session:
            with pytest.raises(LimitExceeded) as caught:
                await session.fetch(server.url(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (caught.value.limit, caught.value.exit_code) == ("ratio", 14)
    # memory holds only the bytes that were decoded before the ratio limit was exceeded
    assert peak < 16 << 20


async def test_url_with_unsafe_characters_is_sent_unchanged(nursery: trio.Nursery) -> None:
    """The URL has characters that RFC 1738 calls national or unsafe."""
    server = await serve(nursery, {"/{a|b}\\^~[]`": Page(ABOUT)})
    async with Resolver() as session:
        await session.fetch(server.url("/{a|b}\\^~[]`?{}|#part"))
    assert [request.target for request in server.requests] == ["/{a|b}\\^~[]`?{}|"]
    assert server.violations == []


# The status, the header fields, and a JSON body.

COOKIES = (("Set-Cookie", "a=1; Expires=Sun, 06 Nov 1994 08:49:37 GMT"), ("SET-COOKIE", "b=2"))
SITE = {
    "/json": Page('{"name": "é", "of": [1, 2.5, null]}'.encode(), "application/json", headers=COOKIES),
    "/utf-16": Page('["é"]'.encode("utf-16"), "application/json"),
    "/untyped": Page(b"[1]", None),
    "/text": Page(b"no JSON"),
    "/other": Page(b"here", status=203),
}


async def test_results_have_status_and_headers(nursery: trio.Nursery, tmp_path: Path) -> None:
    server = await serve(nursery, SITE)
    async with Resolver() as session:
        response = await session.fetch(server.url("/json"))
        saved = await session.save(server.url("/json"), tmp_path / "file")
        async with session.stream(server.url("/json")) as reply:
            pass
        other = await session.fetch(server.url("/other"))
    for value in (response, saved, reply):
        assert value.status == 200
        assert value.headers["Content-TYPE"] == value.headers["content-type"] == "application/json"
        assert value.headers.get_list("Set-Cookie") == [cookie for _, cookie in COOKIES]
        assert value.headers == value.meta
        assert "x-none" not in value.headers
    assert other.status == 203


async def test_file_response_has_no_status(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"here")
    async with Resolver() as session:
        response = await session.fetch(tmp_path / "a")
    assert (response.status, len(response.headers)) == (None, 0)


async def test_json_is_decoded_for_any_media_type(nursery: trio.Nursery) -> None:
    """The media type is ignored: the content determines the character encoding (RFC 8259 8.1)."""
    server = await serve(nursery, SITE)
    async with Resolver() as session:
        assert (await session.fetch(server.url("/json"))).json() == {"name": "é", "of": [1, 2.5, None]}
        assert (await session.fetch(server.url("/utf-16"))).json() == ["é"]
        assert (await session.fetch(server.url("/untyped"))).json() == [1]
        with pytest.raises(ValueError, match="Expecting value"):
            (await session.fetch(server.url("/text"))).json()


# Digest authentication against a server that requires it.

ALICE = Credentials(b"alice", b"wonder land")


def site(guard: Guard) -> dict[str, Page]:
    return {f"/{name}": Page(f"{name}\n".encode(), guard=guard) for name in ("a", "b", "c", "d")}


async def fetched(guard: Guard, *paths: str, login: Credentials = ALICE) -> tuple[list[bytes], list[str]]:
    """Return the bodies of a run, and the authentication scheme of each request."""
    bodies, failed = [], None
    async with trio.open_nursery() as nursery:
        server = await serve(nursery, site=site(guard))
        given = {("http", "127.0.0.1", server.port): login}
        async with resolver.Resolver(credentials=given) as session:
            try:
                bodies = [(await session.fetch(server.url(path))).content for path in paths]
            except ResolveError as error:
                failed = error
        nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed
    said = ["".join(request.values("authorization")).partition(" ")[0] for request in server.requests]
    assert server.violations == []
    return bodies, said


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"algorithm": "MD5"},
        {"algorithm": None},
        {"algorithm": None, "qop": None},
        {"algorithm": "MD5-sess"},
        {"algorithm": "SHA-256-sess"},
        {"qop": "auth-int, auth"},
        {
            "extra": (
                "Newauth t='a', Basic realm=x",
                'Digest realm="lab", nonce="x", algorithm=MD5, qop="auth"',
            )
        },
        {"renews": True},
    ],
)
async def test_digest_is_sent_unprompted_after_first_challenge(wanted: dict[str, Any]) -> None:
    guard = Guard(**wanted)
    bodies, said = await fetched(guard, "/a", "/b", "/c?x=1&y")
    assert bodies == [b"a\n", b"b\n", b"c\n"]
    assert guard.refused == []
    assert said[-3:] == ["Digest"] * 3
    assert len(said) == 4


async def test_digest_stale_nonce_is_renewed() -> None:
    guard = Guard(uses=2)
    bodies, said = await fetched(guard, "/a", "/b", "/c", "/d", "/a")
    assert bodies == [b"a\n", b"b\n", b"c\n", b"d\n", b"a\n"]
    assert said == ["Basic", *["Digest"] * 7]  # two more 401 responses, for the third and the fifth request


async def test_digest_always_stale_nonce_is_access_denied() -> None:
    with pytest.raises(AccessDenied):
        await fetched(guard := Guard(uses=0), "/a")
    assert guard.refused == []


async def test_digest_wrong_password_is_sent_once(nursery: trio.Nursery) -> None:
    guard = Guard()
    server = await serve(nursery, site=site(guard))
    wrong = {("http", "127.0.0.1", server.port): Credentials(b"alice", b"no")}
    async with resolver.Resolver(credentials=wrong) as session:
        for path in ("/a", "/b"):
            with pytest.raises(AccessDenied) as caught:
                await session.fetch(server.url(path))
            assert caught.value.exit_code == 6
    proofs = [request for request in server.requests if "Digest" in "".join(request.values("authorization"))]
    assert len(proofs) == 1
    assert server.requests[-1].path == "/b"
    # no Basic login either, which would reveal the password
    assert server.requests[-1].values("authorization") == []


async def test_digest_without_login_is_login_required(nursery: trio.Nursery) -> None:
    server = await serve(nursery, site=site(Guard()))
    with pytest.raises(LoginRequired):
        await resolver.fetch(server.url("/a"))
    assert len(server.requests) == 1


async def test_digest_unsupported_qop_is_declined() -> None:
    with pytest.raises(Declined, match="auth-int"):
        await fetched(Guard(qop="auth-int"), "/a")


async def test_digest_wrong_rspauth_is_a_finding(nursery: trio.Nursery) -> None:
    server = await serve(nursery, site=site(Guard(lies=True)))
    response = await resolver.fetch(server.url("/a", user="alice:wonder%20land@"))
    assert response.content == b"a\n"
    assert "http:rspauth" in [finding.rule for finding in response.findings]


async def test_digest_uses_login_of_url(nursery: trio.Nursery) -> None:
    server = await serve(nursery, site=site(guard := Guard()))
    response = await resolver.fetch(server.url("/a", user="alice:wonder%20land@"))
    assert response.content == b"a\n"
    assert guard.refused == []
