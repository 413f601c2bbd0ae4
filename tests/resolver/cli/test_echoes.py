"""Outputs contain no secret, even if a server repeats all bytes it received (S17).

The tests cover all outputs for each scheme that sends secrets.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import resolver
from protocols.text import Masked
from resolver import ResolveError, blocking
from tests.resolver.cli.command import Done, resolve
from tests.resolver.cli.echoes import (
    BASIC,
    LOGINS,
    PASSWORD,
    PROXY_BASIC,
    PROXY_PASSWORD,
    TYPED,
    Echoes,
    echoes,
)
from tests.resolver.cli.test_mcp import memory_session
from tests.resolver.web.client import running

ARCHIVE = "out/kept.warc.gz"
FILES = ("--trace", "out/trace", "--trace-html", "out/page.html", "--warc", ARCHIVE)
SAVES = ("--meta", "--ledger", "out/ledger", "--failed", "out/failed", *FILES)
ONLINE = (
    ("get", "-v", "--json", "-d", "saved", *SAVES),
    ("get", "-v", "--allow-server-name", "-d", "named", *SAVES),
    ("get", "-v", "--segments", "2", "--mirror", "{url}", "-d", "mirrored", *SAVES),
    ("get", "--exists", "newer", "--meta", "-d", "saved", "--dry-run"),
    ("get", "--progress", "json", "-d", "told"),
    ("cat", "-v", "--json", "--show-error-body", *FILES),
    ("info", "-v"),
    ("info", "--json"),
    ("ls", "--json", "-v"),
    ("ls", "-l"),
)
OFFLINE = (
    ("ledger", "--json", "out/ledger"),
    ("ledger", "--failed=out/left", "out/ledger"),
    ("warc", "ls", "--json", ARCHIVE),
    ("warc", "check", ARCHIVE),
)
#: Pages of the quick run; the full run tests the other pages, too.
FIRST = ("whole", "typed", "moved", "gone")
PAGES = (
    *FIRST,
    *(
        pytest.param(page, marks=pytest.mark.slow)
        for page in (
            *("untyped", "coded", "index/", "again", "astray", "lost", "later", "login", "cut", "garbage"),
            *("length", "chunk", "coding", "part"),
        )
    ),
)


@pytest.fixture(scope="module", name="echo")
def _echo() -> Iterator[Echoes]:
    with echoes() as result:
        yield result


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG, "resolver"):
        yield caplog


def run_all(url: str, *options: str) -> dict[str, bytes]:
    """Run each command for the URL and for the files that these runs write; return the printed bytes."""
    os.makedirs("out", exist_ok=True)
    octets = ("--allow-password", "-t", "2", "--retry-delay", "0.001", *options, url)
    online = [(*(word.format(url=url) for word in words), *octets) for words in ONLINE]
    printed: dict[str, bytes] = {}
    explained = [
        ("explain", *shown, "--allow-password", *options, url) for shown in (("--json",), ("--html",), ())
    ]
    for words in (*online, *explained, *OFFLINE):
        done = resolve(*words)
        assert done.status != 2, done.messages
        printed |= outputs_of(done, " ".join(words[:3]))
    assert os.path.getsize(ARCHIVE) > 0
    return printed


def outputs_of(done: Done, name: str = "") -> dict[str, bytes]:
    return {f"stdout of {name}": done.out, f"stderr of {name}": done.err}


def outputs_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the decompressed content of each file below the folder."""
    for path in folder.rglob("*"):
        if path.is_file():
            octets = path.read_bytes()
            name = str(path.relative_to(folder))
            yield name, name.encode() + (gzip.decompress(octets) if name.endswith(".gz") else octets)


def check_masked(
    secrets: Sequence[str], printed: dict[str, bytes], folder: Path, log: str, url: str = ""
) -> None:
    """Assert that no output contains a secret; the list of unfinished URLs contains `url` as given."""
    text = {**printed, **dict(outputs_below(folder)), "log": log.encode()}
    text |= {"out/failed": text.get("out/failed", b"").replace(url.encode(), b"")} if url else {}
    shown = {
        (secret, name) for secret in secrets for name, octets in text.items() if secret.encode() in octets
    }
    assert shown == set()


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("login", LOGINS)
def test_http_outputs_mask_repeated_secrets(
    login: str, page: str, echo: Echoes, folder: Path, log: pytest.LogCaptureFixture
) -> None:
    options, secrets = LOGINS[login]
    url = f"{getattr(echo, login)}/{page}"
    check_masked(secrets, run_all(url, *options), folder, log.text, url)


@pytest.mark.parametrize("path", ["pub/a.txt", "pub/", "gone", "pub/gone", "pub/later"])
def test_ftp_outputs_mask_repeated_password(
    path: str, echo: Echoes, folder: Path, log: pytest.LogCaptureFixture
) -> None:
    url = f"{echo.ftp}/{path}"
    check_masked((PASSWORD,), run_all(url), folder, log.text, url)


@pytest.mark.parametrize("place", ["{nntp}", "{nntp}/1", "{nntp}/2", "{locked_nntp}"])
def test_nntp_outputs_mask_repeated_password(
    place: str, echo: Echoes, folder: Path, log: pytest.LogCaptureFixture
) -> None:
    url = place.format(**vars(echo))
    check_masked((PASSWORD,), run_all(url), folder, log.text, url)


def test_proxy_outputs_mask_repeated_login(echo: Echoes, folder: Path, log: pytest.LogCaptureFixture) -> None:
    printed = run_all("http://127.0.0.1:8920/whole", "--proxy", echo.proxy)
    check_masked((PROXY_PASSWORD, PROXY_BASIC), printed, folder, log.text)


def test_telnet_outputs_mask_repeated_typed_text(
    echo: Echoes, folder: Path, log: pytest.LogCaptureFixture
) -> None:
    """Standard output is the session, which is not masked."""
    os.makedirs("out")
    done = resolve("cat", "-v", *FILES, "--until", "login: $|user", "--send", TYPED, f"{echo.telnet}/")
    assert TYPED in done.out.decode()
    check_masked((TYPED,), {"stderr": done.err}, folder, log.text)


@pytest.mark.parametrize("page", PAGES)
def test_http_values_mask_repeated_secrets(page: str, echo: Echoes) -> None:
    _, secrets = LOGINS["basic"]
    options = resolver.Options(headers=((b"X-Api-Key", secrets[2].encode()),))
    with blocking.Resolver(policy=resolver.Policy(allow_password=True), options=options) as session:
        try:
            response = session.fetch(f"{echo.basic}/{page}")
        except ResolveError as error:
            shown = f"{error!r} {error} {vars(error)}"
        else:
            shown = (
                f"{response!r} {response.as_json()} {response.headers} {response.chain} {response.findings}"
            )
    assert not [secret for secret in secrets[:3] if secret in shown]


async def test_stream_metadata_is_masked_text(echo: Echoes) -> None:
    async with resolver.stream(f"{echo.basic}/whole", policy=resolver.Policy(allow_password=True)) as reply:
        texts = [reply.media_type, reply.charset, reply.url, reply.requested_url]
        texts += [text for pair in reply.meta for text in pair]
        assert {type(text) for text in texts} == {Masked}
        assert (reply.etag, reply.suggested) == (None, None)


URL = "http://127.0.0.1:8920/whole"


async def test_mcp_answers_mask_repeated_proxy_login(echo: Echoes) -> None:
    options = ("--proxy", echo.proxy, "--trusted-proxy", echo.proxy, "--allow-address", "127.0.0.0/8")
    async with memory_session(*options, "--allow-port", "8920") as session:
        for tool in ("fetch", "info", "explain", "check", "list"):
            answer = (await session.call_tool(tool, {"url": URL})).model_dump_json()
            assert PROXY_PASSWORD not in answer
            assert PROXY_BASIC not in answer
        assert "a body" in (await session.call_tool("fetch", {"url": URL})).model_dump_json()


#: Pages of the web UI that show the URLs of earlier pages.
OWN_PAGES = ("/", "/history", "/bookmarks", "/transfers", "/settings")


@pytest.mark.parametrize("page", ["whole", "gone", "moved"])
async def test_web_ui_outputs_mask_password_of_url(page: str, echo: Echoes, folder: Path) -> None:
    """The pages, the downloads of the protocol exchange, and the log."""
    policy = resolver.Policy(allow_password=True)
    async with running(settings=resolver.Settings(policy=policy)) as (browser, log):
        opened = await browser.typed(f"{echo.basic}/{page}")
        shown = [opened.text, *[(await browser.ask(own_page)).text for own_page in OWN_PAGES]]
        exchanges = set(re.findall(r"/dialogue/[^\"]+", opened.text))
        shown += [(await browser.ask(each)).text for each in exchanges]
    assert {each.rpartition(".")[2] for each in exchanges} == {"svg", "json"}
    # "Try again" and "Preview" lead to the URL as typed, with its login, for this browser only.
    texts = [re.sub(r'href="/(u|look)[^"]*"', "", text) for text in (*shown, *log)]
    assert [text for text in texts if PASSWORD in text or BASIC in text] == []


async def test_web_ui_pages_mask_repeated_proxy_login(echo: Echoes) -> None:
    async with running(settings=resolver.Settings(proxy=echo.proxy)) as (browser, log):
        page = await browser.typed(URL)
        assert page.status == 200
        assert "a body" in page.text
        for text in (page.text, *log):
            assert PROXY_PASSWORD not in text
            assert PROXY_BASIC not in text
