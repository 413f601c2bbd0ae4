"""Cookies: the cookie jar of a run, logins that request the first URL twice, and the cookie file."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trio

import resolver
from fixtures.__main__ import server_tls
from fixtures.http import Page, Request, moved, serve
from protocols.http.cookies import TITLE
from resolver import Credentials, Event, LocalError, NotConfigured, Options, Refused, Resolver, Warned
from resolver.files.atomic import update_own
from tests.hang import HANG
from tests.resolver.network.peers import start

CHECKOUT = Path(__file__).parents[3]


@dataclass
class CookieGuard:
    """A guard that answers with the page if the request has the cookie, and with a redirect otherwise."""

    cookie: str
    elsewhere: str = ""

    def answer(self, request: Request, page: Page) -> Page:
        return page if self.cookie in request.values("cookie") else moved(self.elsewhere)


@dataclass
class LoginGuard:
    """A login page that redirects requests with credentials, and answers all other requests with 401."""

    onward: str
    asked: int = 0

    def answer(self, request: Request, page: Page) -> Page:
        self.asked += 1
        said = request.values("authorization")
        if not said:
            login = ("WWW-Authenticate", 'Basic realm="login"')
            return replace(page, status=401, reason="Unauthorized", headers=(login,))
        return replace(moved(self.onward), headers=(("Location", self.onward), ("Set-Cookie", "desk=1")))


def setting(field: str, location: str | None = None) -> Page:
    page = Page(b"set\n") if location is None else moved(location)
    return replace(page, headers=(*page.headers, ("Set-Cookie", field)))


async def test_login_by_redirects_and_cookies_succeeds(nursery: trio.Nursery) -> None:
    guard = CookieGuard("data_session=7")
    site = {
        "/granule.txt": Page(b"the data\n", guard=guard),
        "/other.txt": Page(b"more data\n", guard=guard),
        "/login": setting("data_session=7; Path=/", "/granule.txt"),
    }
    data = await serve(nursery, site=site)
    desk = LoginGuard(data.url("/login?code=3"))
    login = await serve(nursery, site={"/oauth/authorize": Page(b"who?\n", guard=desk)})
    guard.elsewhere = login.url("/oauth/authorize?client=9")
    given = {("http", "127.0.0.1", login.port): Credentials(b"me", b"secret")}
    async with resolver.Resolver(credentials=given) as session:
        assert (await session.fetch(data.url("/granule.txt"))).content == b"the data\n"
        assert (await session.fetch(data.url("/other.txt"))).content == b"more data\n"
    assert desk.asked == 1
    assert [request.path for request in data.requests] == [
        "/granule.txt",
        "/login",
        "/granule.txt",
        "/other.txt",
    ]
    assert not any(request.values("authorization") for request in data.requests)


async def test_command_logs_in_at_the_host_of_a_redirect_with_its_section(
    nursery: trio.Nursery, tmp_path: Path
) -> None:
    """The steps are those of NASA Earthdata: the data host redirects to a login host, over TLS at both hosts.

    Two files need one login. Without a section for the port, the password is not sent.
    """
    tls, cafile = server_tls(tmp_path)
    guard = CookieGuard("data_session=7")
    names = ("/granule.nc", "/next.nc")
    site = {name: Page(f"{name}\n".encode(), guard=guard) for name in names}
    data = await serve(
        nursery, {**site, "/login": setting("data_session=7; Path=/", names[0])}, ssl_context=tls
    )
    desk = LoginGuard(data.url("/login?code=3"))
    login = await serve(nursery, {"/oauth/authorize": Page(b"who?\n", guard=desk)}, ssl_context=tls)
    guard.elsewhere = login.url("/oauth/authorize?client=9")
    section = f"['127.0.0.1:{login.port}']\nuser = 'me'\npassword = 'secret'\n"
    for text, status in (("", 6), (section, 0)):
        (tmp_path / "c.toml").write_text(text)
        (tmp_path / "c.toml").chmod(0o600)
        words = ["get", "-j", "1", "--config", "c.toml", "--cacert", str(cafile), *map(data.url, names)]
        with trio.fail_after(HANG):
            done = await trio.run_process(
                [sys.executable, "-m", "resolver", *words],
                cwd=tmp_path,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
                capture_stderr=True,
                check=False,
            )
        assert done.returncode == status, done.stderr
        assert b"secret" not in done.stderr
    assert [(tmp_path / name[1:]).read_text() for name in names] == [f"{name}\n" for name in names]
    assert [request.path for request in data.requests[-4:]] == ["/granule.nc", "/login", *names]
    assert not any(request.values("authorization") for request in data.requests)


async def test_redirect_loop_without_new_cookie_is_refused(nursery: trio.Nursery) -> None:
    server = await serve(nursery, site={"/a": setting("a=1", "/b"), "/b": setting("b=1", "/a")})
    with pytest.raises(Refused) as caught:
        await resolver.fetch(server.url("/a"))
    assert caught.value.rule == "S10"
    assert len(server.requests) <= 4


async def test_redirect_back_with_new_cookie_succeeds(nursery: trio.Nursery) -> None:
    site = {"/a": Page(b"in\n", guard=CookieGuard("seen=1", "/set")), "/set": setting("seen=1", "/a")}
    server = await serve(nursery, site=site)
    assert (await resolver.fetch(server.url("/a"))).content == b"in\n"


async def test_cookie_jar_is_limited_to_session_and_port(nursery: trio.Nursery) -> None:
    first = await serve(nursery, site={"/set": setting("a=1; Path=/"), "/x": Page(b"x\n")})
    other = await serve(nursery, site={"/x": Page(b"x\n")})
    async with resolver.Resolver() as session:
        for url in (first.url("/set"), first.url("/x"), other.url("/x")):
            await session.fetch(url)
    await resolver.fetch(first.url("/x"))
    assert [request.values("cookie") for request in first.requests] == [[], ["a=1"], []]
    assert [request.values("cookie") for request in other.requests] == [[]]


async def test_cookie_header_of_caller_replaces_jar(nursery: trio.Nursery) -> None:
    server = await serve(nursery, site={"/set": setting("a=1; Path=/")})
    async with resolver.Resolver(options=Options(headers=((b"Cookie", b"mine=1"),))) as session:
        for _ in range(2):
            await session.fetch(server.url("/set"))
    assert [request.values("cookie") for request in server.requests] == [["mine=1"], ["mine=1"]]


# The cookie file: owner and mode, content after a run, and exchange with curl and wget.

LATE = 4_000_000_000


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_bytes(text.encode())
    path.chmod(mode)
    return path


def octets_of(path: Path) -> bytes:
    return path.read_bytes()


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def number_of(path: Path) -> int:
    return path.stat().st_ino


def names_in(path: Path) -> list[str]:
    return [item.name for item in path.iterdir()]


@pytest.fixture
def cookie_file(tmp_path: Path) -> Path:
    return tmp_path / "cookies.txt"


async def test_cookie_file_is_used_by_next_run(nursery: trio.Nursery, cookie_file: Path) -> None:
    """The next run sends unexpired cookies and session cookies (as curl does), but not to another port."""
    site = {
        "/set": setting("a=1; Max-Age=3600; Path=/; HttpOnly"),
        "/session": setting("s=2; Path=/"),
        "/end": setting("a=; Max-Age=0; Path=/"),
        "/x": Page(b"x\n"),
    }
    server, other = await serve(nursery, site), await serve(nursery, site)
    before = os.umask(0)
    try:
        for path in ("/set", "/session", "/x", "/end", "/x"):
            async with Resolver(cookies=cookie_file) as session:
                await session.fetch(server.url(path))
                await session.fetch(other.url("/x"))
            assert mode_of(cookie_file) == 0o600
    finally:
        os.umask(before)
    assert [request.values("cookie") for request in server.requests] == [
        [],
        ["a=1"],
        ["a=1; s=2"],
        ["a=1; s=2"],
        ["s=2"],
    ]
    assert not any(request.values("cookie") for request in other.requests)
    *title, line = octets_of(cookie_file).split(b"\n")[:-1]
    assert b"\n".join([*title, b""]) == TITLE
    assert line.decode() == f"127.0.0.1:{server.port}\tFALSE\t/\tFALSE\t0\ts\t2"


async def test_cookie_of_file_is_sent_to_redirect_target(nursery: trio.Nursery, cookie_file: Path) -> None:
    other = await serve(nursery, {"/x": Page(b"x\n")})
    server = await serve(nursery, {"/": moved(other.url("/x"))})
    write(cookie_file, f"127.0.0.1:{other.port}\tFALSE\t/\tFALSE\t{LATE}\tn\tv\n")
    async with Resolver(cookies=cookie_file) as session:
        await session.fetch(server.url("/"))
    assert [request.values("cookie") for request in (*server.requests, *other.requests)] == [[], ["n=v"]]


async def test_cookie_file_keeps_comments_and_unknown_lines(nursery: trio.Nursery, cookie_file: Path) -> None:
    server = await serve(nursery, {"/set": setting("a=1"), "/x": Page(b"x\n")})
    old = f"127.0.0.1:{server.port}\tFALSE\t/\tFALSE\t900\told\tv\n"
    text = f"# mine\r\nnonsense\n{old}h\tFALSE\t/\tFALSE\t0\tn\tv"
    write(cookie_file, text)
    events: list[Event] = []
    number = number_of(cookie_file)
    async with Resolver(cookies=cookie_file, on_event=events.append) as session:
        await session.fetch(server.url("/x"))
    assert (octets_of(cookie_file).decode(), number_of(cookie_file)) == (text, number), "nothing was changed"
    warned = next(event for event in events if isinstance(event, Warned))
    assert warned.finding.detail.startswith("line 2 ")
    assert server.requests[0].values("cookie") == [], "what is over is not sent"
    async with Resolver(cookies=cookie_file) as session:
        await session.fetch(server.url("/set"))
    assert octets_of(cookie_file).startswith(b"# mine\r\nnonsense\nh\tFALSE\t/\tFALSE\t0\tn\tv\n127.0.0.1:")
    assert b"old" not in octets_of(cookie_file)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666, 0o620])
async def test_cookie_file_readable_by_others_is_refused(cookie_file: Path, mode: int) -> None:
    write(cookie_file, "", mode)
    with pytest.raises(NotConfigured, match="chmod 600"):
        await Resolver(cookies=cookie_file).__aenter__()


async def test_cookie_file_that_is_not_regular_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none" / "x"):
        with pytest.raises(NotConfigured):
            await Resolver(cookies=path).__aenter__()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_cookie_file_of_another_user_is_refused(cookie_file: Path) -> None:
    os.chown(write(cookie_file, ""), 65534, 65534)
    with pytest.raises(NotConfigured, match="another user's"):
        await Resolver(cookies=cookie_file).__aenter__()


async def test_unwritable_cookie_file_is_reported_at_exit(nursery: trio.Nursery, tmp_path: Path) -> None:
    """The response is returned although the cookie file cannot be written."""
    server = await serve(nursery, {"/set": setting("a=1")})
    (tmp_path / "there").mkdir()
    session = Resolver(cookies=tmp_path / "there" / "cookies")
    await session.__aenter__()
    assert (await session.fetch(server.url("/set"))).content == b"set\n"
    (tmp_path / "there").rmdir()
    with pytest.raises(LocalError, match="cookie file"):
        await session.__aexit__(None, None, None)


async def test_concurrent_sessions_merge_cookie_file(nursery: trio.Nursery, cookie_file: Path) -> None:
    server = await serve(nursery, {f"/{name}": setting(f"{name}=1; Max-Age=9") for name in "abc"})
    write(cookie_file, "# mine\n")
    async with Resolver(cookies=cookie_file) as one, Resolver(cookies=cookie_file) as two:
        await one.fetch(server.url("/a"))
        await two.fetch(server.url("/b"))
        await two.fetch(server.url("/c"))
    assert [line.split("\t")[5:] for line in octets_of(cookie_file).decode().splitlines()[1:]] == [
        ["b", "1"],
        ["c", "1"],
        ["a", "1"],
    ]


async def test_update_own_serializes_concurrent_writes(tmp_path: Path) -> None:
    """Each of 30 threads adds a line and replaces the file. No line is lost."""
    path = tmp_path / "lines"

    def add(number: int) -> None:
        update_own(str(path), "note", 10_000, lambda octets: octets + b"%d\n" % number)

    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(trio.to_thread.run_sync, add, number)
    assert sorted(map(int, octets_of(path).decode().split())) == list(range(30))
    assert names_in(tmp_path) == ["lines"]


def test_update_own_keeps_link_and_content_on_failure(tmp_path: Path) -> None:
    write(tmp_path / "real", "before")
    (tmp_path / "link").symlink_to("real")

    def fail(octets: bytes) -> bytes:
        raise OSError(28, "No space left on device")

    with pytest.raises(LocalError, match="No space left"):
        update_own(str(tmp_path / "link"), "note", 100, fail)
    assert (tmp_path / "real").read_text() == "before"
    update_own(str(tmp_path / "link"), "note", 100, lambda octets: octets + b" and after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "before and after"
    assert len(names_in(tmp_path)) == 2


def curl(jar: Path, proxy: str, url: str) -> list[str]:
    return ["curl", "-sS", "-o", os.devnull, "-x", proxy, "-b", str(jar), "-c", str(jar), url]


def wget(jar: Path, proxy: str, url: str) -> list[str]:
    options = [f"--load-cookies={jar}", f"--save-cookies={jar}", "--keep-session-cookies"]
    return ["wget", "-q", "-O", os.devnull, "-e", f"http_proxy={proxy}", *options, url]


@pytest.mark.parametrize("tool", [curl, wget])
async def test_cookie_file_is_shared_with_curl_and_wget(
    nursery: trio.Nursery, cookie_file: Path, tool: Callable[[Path, str, str], list[str]]
) -> None:
    """The URLs have port 80, because curl's file format has no port.

    The test proxy answers in place of the host.
    """
    if shutil.which(tool.__name__) is None:
        pytest.skip(f"there is no {tool.__name__} here")
    asked: dict[str, set[str]] = {}
    fields_by_path = {
        "/theirs": (
            "a=1; Max-Age=9000",
            "s=2",
            "h=3; HttpOnly; Max-Age=9000",
            "d=4; Domain=example.org; Max-Age=9000",
        ),
        "/ours": ("a=5; Max-Age=9000", "m=6; Path=/; Max-Age=9000", "t=7"),
    }

    async def answer(stream: trio.SocketStream) -> None:
        head = (await stream.receive_some(65_536)).decode()
        path = head.split()[1].removeprefix("http://www.example.org")
        cookies = [line[8:] for line in head.split("\r\n") if line.lower().startswith("cookie: ")]
        asked[path] = set(cookies[0].split("; ")) if cookies else set()
        fields = "".join(f"Set-Cookie: {field}\r\n" for field in fields_by_path.get(path, ()))
        await stream.send_all(
            f"HTTP/1.1 200 OK\r\n{fields}Connection: close\r\nContent-Length: 0\r\n\r\n".encode()
        )
        await stream.aclose()

    proxy = f"http://127.0.0.1:{await start(nursery, answer)}"

    async def theirs(path: str) -> None:
        words = tool(cookie_file, proxy, f"http://www.example.org{path}")
        done = await trio.run_process(
            words,
            capture_stderr=True,
            check=False,
            env={"PATH": os.environ["PATH"], "HOME": str(cookie_file.parent)},
        )
        assert done.returncode == 0, done.stderr
        write(cookie_file, octets_of(cookie_file).decode())

    async def ours(path: str) -> None:
        async with Resolver(cookies=cookie_file, proxy=proxy) as session:
            await session.fetch(f"http://www.example.org{path}")

    write(cookie_file, TITLE.decode())
    with trio.fail_after(HANG):
        await theirs("/theirs")
        await ours("/first")
        assert asked["/first"] == {"a=1", "s=2", "h=3", "d=4"}
        await ours("/ours")
        await theirs("/second")
    assert asked["/second"] == {"a=5", "s=2", "h=3", "d=4", "m=6", "t=7"}
