"""http and https against nginx, HTTP/2, Digest and cookies with Apache, and nginx's index pages."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

import resolver
from resolver import Credentials, Entry, Event, Kind, Policy, Received, Resolver, Sent
from tests.servers.apache_servers import PAGE, USERS, ApacheServer
from tests.servers.http_servers import ABOUT, DATA, LONG, TREE, HttpServer
from tests.servers.service import LOOPBACK

DIGEST = f"sha256:{sha256(DATA).hexdigest()}"
SCHEMES = pytest.mark.parametrize("scheme", ["http", "https"])
#: The schemes with HTTP/1.1, and https with HTTP/2.
WAYS = pytest.mark.parametrize("way", ["http", "https", "http2"])


def session_of(nginx: HttpServer) -> Resolver:
    return Resolver(cafile=str(nginx.authority))


def url_of(nginx: HttpServer, path: str, way: str) -> str:
    return nginx.http2_url(path) if way == "http2" else nginx.url(path, way)


@WAYS
async def test_fetch_documents(nginx: HttpServer, way: str) -> None:
    async with session_of(nginx) as session:
        about = await session.fetch(url_of(nginx, "/about.txt", way))
        empty = await session.fetch(url_of(nginx, "/empty.txt", way))
        long = await session.fetch(url_of(nginx, "/long.txt", way))
        data = await session.fetch(url_of(nginx, "/data.bin", way))
    assert (about.text, about.charset, about.verified) == (ABOUT.decode(), "utf-8", ("length",))
    assert (empty.content, empty.verified) == (b"", ("length",))
    assert dict(long.headers)["content-encoding"] == "gzip"
    assert (long.content, long.size, long.verified) == (LONG, None, ("terminator",))
    assert (data.content, data.size, data.media_type) == (DATA, len(DATA), "application/octet-stream")
    assert about.modified is not None


@WAYS
async def test_requests_share_a_connection(nginx: HttpServer, way: str) -> None:
    before = len(nginx.requests())
    async with session_of(nginx) as session:
        for path in ("/about.txt", "/moved", "/long.txt", "/data.bin", "/nothing"):
            await session.fetch(url_of(nginx, path, way))
        for path in ("/missing", "/teapot", "/busy"):
            with pytest.raises(resolver.Declined):
                await session.fetch(url_of(nginx, path, way))
        entry = await session.info(url_of(nginx, "/data.bin", way))
    asked = nginx.requests()[before:]
    version = "HTTP/2.0" if way == "http2" else "HTTP/1.1"
    assert (entry.kind, entry.size) == (Kind.DOCUMENT, len(DATA))
    assert len(asked) == 10
    assert {line.rpartition(" ")[2] for _, line, *_ in asked} == {version}
    assert asked[-1][1] == f"HEAD /data.bin {version}"
    assert len({connection for connection, *_ in asked}) == 1


@SCHEMES
async def test_save_files(nginx: HttpServer, scheme: str, tmp_path: Path) -> None:
    async with session_of(nginx) as session:
        for name, content in (("data.bin", DATA), ("long.txt", LONG)):
            saved = await session.save(nginx.url(f"/{name}", scheme), str(tmp_path / name))
            assert (tmp_path / name).read_bytes() == content
            # the response has no content coding, so the length is that of the file
            assert saved.verified == ("length",)


@pytest.mark.parametrize(("way", "version"), [("http", "HTTP/1.1"), ("http2", "HTTP/2.0")])
async def test_save_resumes_partial_file(nginx: HttpServer, way: str, version: str, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(DATA[:100_000])
    url = url_of(nginx, "/data.bin", way)
    async with session_of(nginx) as session:
        saved = await session.save(url, str(tmp_path / "data.bin"), exists="resume")
    assert (tmp_path / "data.bin").read_bytes() == DATA
    assert saved.resumed_from == 100_000
    assert nginx.requests()[-1][1:4] == [f"GET /data.bin {version}", "206", f"bytes={100_000 - 4096}-"]


async def test_redirects_are_followed_or_refused(nginx: HttpServer) -> None:
    async with session_of(nginx) as session:
        response = await session.fetch(nginx.url("/moved"))
        for path, rule in (("/moved/round", "S10"), ("/moved/mail", "S04")):
            with pytest.raises(resolver.Refused) as caught:
                await session.fetch(nginx.url(path))
            assert (caught.value.rule, caught.value.exit_code) == (rule, 15)
        named = await session.fetch(nginx.url("/moved/name"))
    assert (response.content, response.url) == (ABOUT, nginx.url("/about.txt"))
    assert (named.content, named.url) == (ABOUT, nginx.url("/names/a%20b{c}.txt"))


@pytest.mark.parametrize(
    ("path", "user", "error"),
    [
        ("/missing", "", resolver.NotFound),
        ("/names/", "", resolver.AccessDenied),
        ("/private/secret.txt", "", resolver.LoginRequired),
        ("/private/secret.txt", "user:wrong@", resolver.AccessDenied),
        ("/busy", "", resolver.TryLater),
        ("/teapot", "", resolver.Declined),
    ],
)
async def test_error_statuses_raise(
    nginx: HttpServer, path: str, user: str, error: type[resolver.ResolveError]
) -> None:
    async with session_of(nginx) as session:
        with pytest.raises(error) as caught:
            await session.fetch(nginx.url(path, user=user))
    assert type(caught.value) is error
    assert "wrong" not in str(caught.value.url)


async def test_basic_login_from_url(nginx: HttpServer) -> None:
    url = nginx.url("/private/secret.txt", user="user:password@")
    async with session_of(nginx) as session:
        assert (await session.fetch(url)).text == "A secret.\n"


@pytest.mark.parametrize(
    "target",
    [
        "/%61bout.txt",
        "/names/../about.txt",
        "/names/a%20b{c}.txt",
        "/about.txt?a=b&c[]=%0D%0A",
        "/names/./../about.txt?",
    ],
)
async def test_request_target_is_sent_unchanged(nginx: HttpServer, target: str) -> None:
    async with session_of(nginx) as session:
        assert (await session.fetch(nginx.url(target))).content == ABOUT
    assert nginx.requests()[-1][1] == f"GET {target} HTTP/1.1"


@SCHEMES
async def test_httpx_client_with_transport(nginx: HttpServer, scheme: str) -> None:
    transport = resolver.HttpxTransport(cafile=str(nginx.authority))
    async with httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
        assert (await client.get(nginx.url("/moved", scheme))).content == ABOUT
        assert (await client.get(nginx.url("/long.txt", scheme))).content == LONG
        assert (await client.post(nginx.url("/about.txt", scheme), content=DATA[:4096])).status_code == 405
        with pytest.raises(resolver.Refused):
            await client.get(nginx.url("/moved/mail", scheme))


async def test_save_newer_of_unchanged_file_gets_304(nginx: HttpServer, tmp_path: Path) -> None:
    async with session_of(nginx) as session:
        await session.save(nginx.url("/data.bin"), tmp_path / "data.bin")
        before = len(nginx.requests())
        again = await session.save(nginx.url("/data.bin"), tmp_path / "data.bin", exists="newer")
    (asked,) = nginx.requests()[before:]
    assert (again.skipped, asked[1:3]) == (True, ["GET /data.bin HTTP/1.1", "304"])
    assert (tmp_path / "data.bin").read_bytes() == DATA


@WAYS
async def test_save_with_four_segments(nginx: HttpServer, way: str, tmp_path: Path) -> None:
    url = url_of(nginx, "/data.bin", way)
    before = len(nginx.requests())
    async with Resolver(cafile=str(nginx.authority), segments=4) as session:
        saved = await session.save(url, tmp_path / "it", checksum=DIGEST)
    assert (tmp_path / "it").read_bytes() == DATA
    assert (saved.verified, saved.attempts) == (("digest", "length"), 1)
    asked = nginx.requests()[before:]
    pieces = [each[3].removeprefix("bytes=").split("-") for each in asked[1:]]
    assert {each[2] for each in asked[1:]} == {"206"}
    assert sum(int(last) - int(first) + 1 for first, last in pieces) == len(DATA)
    assert 1 < len({connection for connection, *_ in asked}) <= 5


async def test_save_of_compressible_file_uses_one_stream(nginx: HttpServer, tmp_path: Path) -> None:
    """A server compresses only on request, and a save does not request compression.

    The file is too small for segments.
    """
    async with Resolver(segments=4) as session:
        await session.save(nginx.url("/long.txt"), tmp_path / "it")
    assert (tmp_path / "it").read_bytes() == LONG


# HTTP/2 against nginx.


async def test_http2_request_target_is_sent_unchanged(nginx: HttpServer) -> None:
    async with session_of(nginx) as session:
        odd = await session.fetch(nginx.http2_url("/names/a%20b%7bc%7d.txt"))
    assert odd.content == ABOUT
    assert nginx.requests()[-1][1] == "GET /names/a%20b%7bc%7d.txt HTTP/2.0"


async def test_http2_credentials_from_url(nginx: HttpServer) -> None:
    async with session_of(nginx) as session:
        with pytest.raises(resolver.LoginRequired):
            await session.fetch(nginx.http2_url("/private/secret.txt"))
        secret = await session.fetch(nginx.http2_url("/private/secret.txt", "user:password@"))
    assert secret.content == b"A secret.\n"


async def test_http2_goaway_opens_second_connection(nginx: HttpServer) -> None:
    """After 1,000 requests, nginx closes the connection with GOAWAY. No request is lost or sent twice."""
    before = len(nginx.requests())
    async with session_of(nginx) as session:
        for _ in range(1_010):
            assert (await session.fetch(nginx.http2_url("/about.txt"))).content == ABOUT
    asked = nginx.requests()[before:]
    assert len(asked) == 1_010
    assert len({connection for connection, *_ in asked}) == 2


async def test_http2_httpx_client_sends_bodies_over_http1(nginx: HttpServer) -> None:
    """A request with a body is sent over HTTP/1.1. The next such request reuses the connection."""
    before = len(nginx.requests())
    transport = resolver.HttpxTransport(cafile=str(nginx.authority))
    async with httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
        for _ in range(2):
            long = await client.get(nginx.http2_url("/long.txt"))
            assert (long.content, long.http_version, long.reason_phrase) == (LONG, "HTTP/2", "OK")
            refused = await client.post(nginx.http2_url("/about.txt"), content=DATA[:4096])
            assert (refused.status_code, refused.http_version) == (405, "HTTP/1.1")
        head = await client.head(nginx.http2_url("/data.bin"))
        with pytest.raises(resolver.Refused):
            await client.get(nginx.http2_url("/moved/mail"))
    assert head.headers["content-length"] == str(len(DATA))
    asked = nginx.requests()[before:]
    connections = [
        {connection for connection, line, *_ in asked if line.endswith(version)}
        for version in ("HTTP/2.0", "HTTP/1.1")
    ]
    assert [len(each) for each in connections] == [1, 1]


# Digest against Apache's mod_auth_digest, and cookies set by Apache and nginx.


@pytest.mark.parametrize("user", USERS)
async def test_digest_login_costs_one_401(user: str, apache: ApacheServer) -> None:
    """A run gets only one 401 response.

    The digest covers the query, even an empty one. User names are UTF-8.
    """
    given = {("http", LOOPBACK, apache.port): Credentials(user.encode(), USERS[user].encode())}
    before = len(apache.requests())
    told: list[Event] = []
    async with Resolver(
        policy=Policy(allow_port={apache.port}), credentials=given, on_event=told.append
    ) as session:
        for path in ("/private/page.txt", "/private/page.txt?x=1&y=%2F", "/private/page.txt?"):
            response = await session.fetch(apache.url(path))
            assert (response.content, response.findings) == (PAGE, ())
    statuses = [fields[1] for fields in apache.requests()[before:]]
    assert statuses == ["401", "200", "200", "200"]
    octets = b"".join(event.octets for event in told if isinstance(event, Sent))
    assert USERS[user].encode() not in octets
    # On loopback, the client sends Basic credentials without a challenge. A request on a connection that was
    # already closed is sent again.
    assert octets.count(b"Authorization: ****") == octets.count(b"GET /") >= 4


async def test_digest_login_from_url_is_accepted_or_refused(apache: ApacheServer) -> None:
    policy = Policy(allow_port={apache.port}, allow_password=True)
    async with Resolver(policy=policy) as session:
        login = f"alice:{quote(USERS['alice'])}@"
        assert (await session.fetch(apache.url("/private/page.txt", login))).content == PAGE
        with pytest.raises(resolver.LoginRequired):
            await session.fetch(apache.url("/private/page.txt"))
        with pytest.raises(resolver.AccessDenied) as caught:
            await session.fetch(apache.url("/private/page.txt", "alice:wr0ng@"))
    assert (caught.value.exit_code, caught.value.attempts) == (6, 1)
    assert "wr0ng" not in str(caught.value)


@pytest.fixture(params=["apache", "nginx"])
def shop(request: pytest.FixtureRequest) -> tuple[str, int, bytes]:
    """Return a page below `/shop` that sets cookies: its URL, port and content."""
    server: ApacheServer | HttpServer = request.getfixturevalue(request.param)
    page = "/shop/page.txt" if isinstance(server, ApacheServer) else "/shop/about.txt"
    return server.url(page), server.port, PAGE if isinstance(server, ApacheServer) else ABOUT


async def test_cookies_are_sent_to_their_path_only(
    shop: tuple[str, int, bytes], apache: ApacheServer, nginx: HttpServer
) -> None:
    """Cookies of these pages are sent to their path.

    Expired cookies and cookies for another domain are not sent.
    """
    url, port, content = shop
    told: list[Event] = []
    async with Resolver(policy=Policy(allow_port={port}), on_event=told.append) as session:
        for _ in range(2):
            assert (await session.fetch(url)).content == content
        with pytest.raises(resolver.NotFound):
            await session.fetch(url.replace("/shop/", "/none/"))
    log = apache.requests() if port == apache.port else nginx.requests()
    assert [fields[-1] for fields in log[-3:]] == ["-", "desk=s3cret", "-"]
    octets = b"".join(event.octets for event in told if isinstance(event, (Sent, Received)))
    assert (octets.count(b"s3cret"), octets.count(b"desk=****")) == (0, 2)


# Index pages of a real nginx, in each of its formats.

FORMATS = ("/rounded/", "/objects/", "/elements/")


async def entries_of(url: str) -> list[Entry]:
    async with Resolver() as session, session.entries(url) as entries:
        return [entry async for entry in entries]


@pytest.mark.parametrize("path", FORMATS)
async def test_index_formats_give_equal_entries(nginx: HttpServer, path: str) -> None:
    found = await entries_of(nginx.url(path))
    kinds = {entry.name: entry.kind for entry in found}
    files = {name for name in TREE if "/" not in name}
    folders = {name.partition("/")[0] for name in TREE if "/" in name}
    assert kinds == {**dict.fromkeys(files, Kind.DOCUMENT), **dict.fromkeys(folders, Kind.DIRECTORY)}
    sizes = {entry.name: entry.size for entry in found}
    exact = path != "/rounded/"
    expected = {"about.txt": len(ABOUT), "data.bin": len(DATA) if exact else None, "long.txt": len(LONG)}
    assert {name: sizes[name] for name in expected} == {
        **expected,
        "long.txt": len(LONG) if exact else None,
    }
    assert all((entry.modified is not None) is exact for entry in found)


@pytest.mark.parametrize("path", FORMATS)
async def test_index_entry_can_be_fetched(nginx: HttpServer, path: str) -> None:
    (about,) = [entry for entry in await entries_of(nginx.url(path)) if entry.name == "about.txt"]
    assert about.url is not None
    assert about.url == nginx.url(f"{path}about.txt")
    assert (await resolver.fetch(about.url)).content == ABOUT


async def test_index_url_without_slash_is_redirected(nginx: HttpServer) -> None:
    (entry,) = await entries_of(nginx.url("/rounded/names"))
    assert (entry.name, entry.url) == ("a b{c}.txt", nginx.url("/rounded/names/a%20b%7Bc%7D.txt"))
    assert entry.referrer is not None
    assert entry.referrer.url == nginx.url("/rounded/names/")


async def test_index_page_is_a_document_for_fetch(nginx: HttpServer) -> None:
    response = await resolver.fetch(nginx.url("/rounded/names/"))
    assert response.entries is None
    with pytest.raises(resolver.Declined, match="listing"):
        await entries_of(nginx.url("/about.txt"))
