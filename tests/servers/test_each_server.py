"""A fetch from every real server, and a page in Chromium: the real-server tests of the gate.

All other tests of these servers are in the other files of this folder, which `make test-full` runs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import resolver
from resolver import Credentials, Options, Policy, Resolver, RetryPolicy, Transcript, prompt
from tests.hang import HANG
from tests.plugin import installed
from tests.servers import ftp_tree, http_servers
from tests.servers.apache_servers import PAGE, USERS, ApacheServer
from tests.servers.ftp_servers import FtpServer
from tests.servers.gopher_servers import GopherServer
from tests.servers.http_servers import HttpServer
from tests.servers.news_servers import NewsServer
from tests.servers.packages import find
from tests.servers.proxy_servers import PASSWORD, USER, ProxyServer
from tests.servers.service import LOOPBACK
from tests.window.served import served

PLUGINS = {
    "finger": "fixtures.plugins.more_schemes.finger:FINGER",
    "dict": "fixtures.plugins.more_schemes.dictionary:DICT",
    "gemini": "fixtures.plugins.more_schemes.gemini:GEMINI",
}
#: Molly Brown logs that it listens before it does, so a refused connection is retried.
PATIENT = RetryPolicy(tries=12, delay=0.05, retry_all=True)


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the schemes of `fixtures/plugins`; the file of known certificates is in `tmp_path`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    with installed(tmp_path / "site", PLUGINS):
        yield


def policy_for(url: str) -> Policy:
    return Policy(allow_port={int(url.rstrip("/").rpartition(":")[2])})


async def test_ftp_server_document_and_listing(ftp_server: FtpServer) -> None:
    port = ftp_server.ports["plain"]
    here = f"ftp://{LOOPBACK}:{port}/pub/"
    async with Resolver(policy=Policy(allow_port={port})) as session:
        response = await session.fetch(f"{here}bin.dat")
        assert (response.content, {*response.verified}) == (ftp_tree.OCTETS, {"length", "final-reply"})
        async with session.entries(here) as found:
            assert {"a.txt", "bin.dat"} <= {entry.name async for entry in found}


async def test_vsftpd_implicit_tls_document(vsftpd: FtpServer) -> None:
    port = vsftpd.ports["implicit"]
    async with Resolver(policy=Policy(allow_port={port}), cafile=str(vsftpd.authority)) as session:
        response = await session.fetch(f"ftps://{LOOPBACK}:{port}/pub/bin.dat")
    assert response.content == ftp_tree.OCTETS


@pytest.mark.parametrize("server", ["gophernicus", "pygopherd"])
async def test_gopher_server_text_and_menu(server: str, request: pytest.FixtureRequest) -> None:
    gopher: GopherServer = request.getfixturevalue(server)
    text = await resolver.fetch(gopher.url("0/about.txt"))
    assert (text.text or "").splitlines() == ["A text of two lines.", "The second one."]
    menu = await resolver.fetch(gopher.url(""))
    targets = {(entry.url or "").rpartition("/")[2].partition("%09")[0] for entry in menu.entries or ()}
    assert {"about.txt", "octets.bin"} <= targets


async def test_nginx_document_http2_and_tls(nginx: HttpServer) -> None:
    async with Resolver(cafile=str(nginx.authority)) as session:
        plain = await session.fetch(nginx.url("/data.bin"))
        secured = await session.fetch(nginx.http2_url("/long.txt"))
    assert (plain.content, plain.verified) == (http_servers.DATA, ("length",))
    assert secured.content == http_servers.LONG


async def test_apache_digest_login(apache: ApacheServer) -> None:
    (user, password), *_ = USERS.items()
    before = len(apache.requests())
    given = {("http", LOOPBACK, apache.port): Credentials(user.encode(), password.encode())}
    policy = Policy(allow_port={apache.port}, allow_password=True)
    async with Resolver(policy=policy, credentials=given) as session:
        assert (await session.fetch(apache.url("/private/page.txt"))).content == PAGE
    assert [fields[1] for fields in apache.requests()][before:] == ["401", "200"]


async def test_inn_group_and_article(inn: NewsServer) -> None:
    port = inn.ports["plain"]
    here = f"nntp://{LOOPBACK}:{port}/test.prose"
    async with Resolver(policy=Policy(allow_port={port})) as session:
        async with session.entries(here) as found:
            names = [entry.name async for entry in found]
        response = await session.fetch(f"{here}/{names[0]}")
    assert b"\r\n\r\n" in response.content
    assert response.media_type == "message/rfc822"


@pytest.mark.parametrize(
    ("proxy", "login"), [("tinyproxy", ""), ("squid", f"{USER}:{PASSWORD}@"), ("dante", "")]
)
async def test_proxy_passes_http_through(
    proxy: str, login: str, nginx: HttpServer, request: pytest.FixtureRequest
) -> None:
    server: ProxyServer = request.getfixturevalue(proxy)
    policy = Policy(allow_port={nginx.port})
    async with Resolver(proxy=server.url(login), policy=policy, cafile=str(nginx.authority)) as session:
        assert (await session.fetch(nginx.url("/data.bin"))).content == http_servers.DATA


async def test_telnetd_transcript(telnetd: str) -> None:
    wanted = Options(transcript=Transcript(prompt=prompt(rb"(login: |\$ )"), send=(b"guest",), seconds=60))
    response = await resolver.fetch(telnetd, options=wanted, policy=policy_for(telnetd))
    assert response.content == b"login: guest\nhello guest\n$ "


async def test_dictd_definition(dictd: str, plugins: None) -> None:
    response = await resolver.fetch(f"{dictd}d:cat", policy=policy_for(dictd))
    assert response.text == "cat\r\nA small animal\r\n.that purrs.\r\n"


async def test_fingerd_user(fingerd: str, plugins: None) -> None:
    response = await resolver.fetch(f"{fingerd}joe", policy=policy_for(fingerd))
    assert response.text == "Asked for: [joe]\n"


async def test_molly_brown_text(molly_brown: str, plugins: None) -> None:
    url = f"{molly_brown}a.txt"
    response = await resolver.fetch(url, policy=policy_for(molly_brown), patience=PATIENT)
    assert (response.text, response.verified) == ("A text.\nTwo lines.\n", ("close-notify",))


def test_chromium_shows_first_page(tmp_path: Path) -> None:
    """Chromium prints the document after the refresh.

    The one-time address sets a cookie and refreshes to the page. Virtual time stops while requests are in
    progress, so Chromium follows the refresh before it prints.
    """
    program = find("chromium", "usr/bin/chromium").program
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    quiet = [
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ]
    with served() as window:
        done = subprocess.run(
            [
                *command,
                *quiet,
                f"--user-data-dir={tmp_path}",
                "--virtual-time-budget=10000",
                "--dump-dom",
                window.entry(),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG,
        )
    assert done.returncode == 0
    assert "<form" in done.stdout
    assert 'name="url"' in done.stdout
