"""Origins of URLs, and the requests that each origin allows.

A URL is typed by the user, found in a page or passed by another site. Nothing is sent before the user
confirms it. The paths of the web UI and its gateway are tested here as well.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from html import unescape
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
import trio

from resolver import Policy, Referrer, Settings
from resolver.web import access
from resolver.web.access import LOOPBACK
from resolver.web.session import SessionLink
from tests.resolver.web.client import running
from tests.resolver.web.peers import serving


class Gopher:
    """A Gopher server with one menu; it records each request."""

    def __init__(self, menu: str) -> None:
        self.menu = menu
        self.port = 0
        self.heard: list[bytes] = []
        self.silent = False
        self.gone = trio.Event()
        self.come = trio.Event()

    @property
    def url(self) -> str:
        return f"gopher://{LOOPBACK}:{self.port}/1"

    async def answer(self, stream: trio.SocketStream) -> None:
        self.heard.append(bytes(await stream.receive_some(1_000)))
        self.come.set()
        if self.silent:
            while await stream.receive_some():
                pass
            self.gone.set()
            return
        lines = self.menu.replace("PORT", str(self.port)).replace("\n", "\r\n")
        await stream.send_all(f"{lines}.\r\n".encode())
        await stream.aclose()


def gopher(menu: str = "0About\tabout\t127.0.0.1\tPORT\n") -> AbstractAsyncContextManager[Gopher]:
    return serving(Gopher(menu))


def local_settings(peer: Gopher) -> Settings:
    """Return settings that let pages link to the peer's port on this machine."""
    loopback = frozenset({"127.0.0.0/8"})
    return Settings(policy=Policy(allow_address=loopback, allow_port=frozenset({peer.port})))


def path_of(url: str) -> str:
    return f"/u/{quote(url, safe='')}"


async def test_typed_url_is_previewed_then_opened() -> None:
    async with gopher() as peer, running() as (browser, _):
        looked = await browser.look(peer.url)
        assert (looked.status, peer.heard) == (200, [])
        opened = await browser.open(looked)
        assert (opened.status, len(peer.heard)) == (200, 1)
        assert "About" in opened.text
        assert "Protocol exchange" in opened.text
        history = (await browser.ask("/history")).text
        assert peer.url in history


async def test_typed_url_opens_in_one_step() -> None:
    async with gopher() as peer, running(settings=local_settings(peer)) as (browser, _):
        went = await browser.go(peer.url)
        assert (went.status, peer.heard) == (303, [])
        where = went.header("location") or ""
        assert where.startswith(f"{path_of(peer.url)}?from=")
        opened = await browser.ask(where)
        assert (opened.status, peer.heard) == (200, [b"\r\n"])
        assert "About" in opened.text
        assert (await browser.ask(where)).status == 200  # a reload


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://h.example:25/", "S04"),
        ("gopher://h.example:7000/", "S04"),
        ("http://me:secret@h.example/", "S06"),
        ("gopher://h.example/1x%0D%0A", "S02"),
        ("gopher://h.example/0x%09%09+%09", "Preview of a URL"),
        ("htp://h.example/", "Did you mean"),
        ("example.com", "Preview of a URL"),
    ],
)
async def test_typed_url_with_finding_is_previewed(url: str, why: str) -> None:
    async with running() as (browser, _):
        went = await browser.go(url)
        assert went.header("location") == f"/look?url={quote(url, safe='')}"
        looked = await browser.ask(went.header("location") or "")
        assert "Preview of a URL" in looked.text
        assert why in looked.text


async def test_address_bar_previews_url_that_user_did_not_type() -> None:
    """The text that a page shows in the address bar may be a link of a server."""
    async with gopher() as peer, running(settings=local_settings(peer)) as (browser, _):
        preview = f"/look?url={quote(peer.url, safe='')}"
        for shown in (peer.url, peer.url.replace("gopher", "gop\r\nher")):
            assert (await browser.go(peer.url, shown)).header("location") == preview
        assert (await browser.go(peer.url, preview="1")).header("location") == preview
        assert peer.heard == []


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", ""])
async def test_go_of_another_site_opens_nothing(site: str) -> None:
    async with gopher() as peer, running(settings=local_settings(peer)) as (browser, _):
        page = (await browser.ask("/")).text
        form = {"csrf": page.split('name="csrf" value="')[1].partition('"')[0], "url": peer.url}
        other = {"Sec-Fetch-Site": site, "Origin": "http://evil.example"}
        forged = await browser.post("/go", form, other)
        assert forged.status == 403 or (forged.header("location") or "").startswith("/look?")
        for wrong in ({**form, "csrf": ""}, {**form, "csrf": "x"}):
            assert (await browser.post("/go", wrong)).status == 403
        assert (await browser.ask(f"/go?url={quote(peer.url)}")).status == 405
        assert peer.heard == []


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("example.com", "http://example.com/"),
        ("htp://h.example/", "http://h.example/"),
        ("gohper://h.example/1", "gopher://h.example/1"),
        ("http://h.example/a b", "http://h.example/a%20b"),
        ("sftp://h.example/", None),
        ("javascript:alert(1)", None),
        ("http://h.example:25/", None),
    ],
)
async def test_preview_suggests_url_of_command(text: str, meant: str | None) -> None:
    async with running() as (browser, _):
        looked = await browser.look(text)
        if meant is None:
            assert "Did you mean" not in looked.text
            return
        assert f"<bdi>{meant}</bdi></a>?" in looked.text
        href = unescape(looked.text.split('Did you mean <a href="')[1].partition('"')[0])
        assert href == f"/look?url={quote(meant, safe='')}&from="
        assert 'action="/open"' in (await browser.ask(href)).text


async def test_suggestion_for_password_is_redacted() -> None:
    async with running() as (browser, _):
        looked = await browser.look("htp://me:secret@h.example/")
        assert "<bdi>http://me:****@h.example/</bdi>" in looked.text
        assert "secret" not in looked.text.partition("Did you mean")[2].partition(">")[2].partition("</a>")[0]


async def test_suggestion_for_link_has_origin_of_link() -> None:
    """A link on a public page with a mistyped scheme must not lead to a typed URL of this machine."""
    async with running() as (browser, _):
        text = "htp://127.0.0.1:8000/"
        link_id = browser.server.session.add_link(
            SessionLink(Referrer("gopher://public.example/1", "93.184.215.14"))
        )
        for target in (
            f"{path_of(text)}?from={link_id}",
            f"/look?url={quote(text, safe='')}&from={link_id}",
            f"/look?url={quote(text, safe='')}&from=asked",
        ):
            page = (await browser.ask(target)).text
            href = unescape(page.split('Did you mean <a href="')[1].partition('"')[0])
            assert not href.endswith("&from=")
            meant = (await browser.ask(href)).text
            assert link_id not in target or ("S08" in meant and 'action="/open"' not in meant)


async def test_cross_site_url_sends_no_request() -> None:
    async with gopher() as peer, running(settings=local_settings(peer)) as (browser, _):
        where = {"Sec-Fetch-Site": "cross-site"}
        await browser.ask(path_of(peer.url), where)
        await browser.ask(path_of(peer.url), {**where, "Sec-Fetch-Dest": "iframe"})
        await browser.ask(path_of(peer.url), {**where, "Cookie": ""})
        answer = await browser.ask(f"/look?url={quote(peer.url, safe='')}&from=asked")
        assert peer.heard == []
        assert (await browser.open(answer)).status == 200
        assert len(peer.heard) == 1


async def test_open_of_url_other_than_previewed_sends_no_request() -> None:
    async with gopher() as peer, running() as (browser, _):
        looked = await browser.look("gopher://127.0.0.1/1")
        form = {"csrf": looked.field("csrf"), "from": looked.field("from"), "url": peer.url}
        assert "Preview of a URL" in (await browser.post("/open", form)).text
        assert peer.heard == []


async def test_local_file_opens_only_if_typed(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("the words of a local file\n")
    url = (tmp_path / "secret.txt").as_uri()
    async with gopher(f"hlink\tURL:{url}\t127.0.0.1\tPORT\n") as peer, running() as (browser, _):
        assert "the words of a local file" in (await browser.typed(url)).text
        menu = await browser.typed(peer.url)
        assert f'href="{path_of(url)}' not in menu.text
        link_id = browser.server.session.add_link(SessionLink(Referrer(peer.url, LOOPBACK)))
        for target in (path_of(url), f"{path_of(url)}?from={link_id}", f"{path_of(url)}?from=forgotten"):
            refused = await browser.ask(target)
            # The user may preview the URL; the policy is checked again before a request.
            if refused.status == 303:
                refused = await browser.ask(refused.header("location") or "")
                assert 'action="/open"' not in refused.text
            assert "S12" in refused.text or "S10" in refused.text
            assert "the words of a local file" not in refused.text


@pytest.mark.parametrize("inner", ["http://169.254.169.254/latest/", "gopher://127.0.0.1:PORT/1"])
async def test_link_of_public_page_to_private_network_is_refused(inner: str) -> None:
    async with gopher() as peer, running() as (browser, _):
        url = inner.replace("PORT", str(peer.port))
        link_id = browser.server.session.add_link(
            SessionLink(Referrer("gopher://public.example/1", "93.184.215.14"))
        )
        answer = await browser.ask(f"{path_of(url)}?from={link_id}")
        assert answer.status in (303, 403)
        assert answer.status == 303 or "S08" in answer.text
        assert peer.heard == []


@pytest.mark.parametrize("octets", ["%0D%0A", "%00", "\r\n", "\0", "%0AQUIT"])
async def test_url_with_line_end_is_shown_and_not_sent(octets: str) -> None:
    async with gopher() as peer, running() as (browser, _):
        url = f"{peer.url}x{octets}"
        looked = await browser.look(url)
        assert 'action="/open"' not in looked.text
        shown = await browser.ask(path_of(url))
        assert shown.status in (303, 400, 403)
        assert peer.heard == []


@pytest.mark.parametrize(
    "target",
    ["//evil.example/", "/u", "/help/", "/look/", "//evil.example/%2e%2e", "/\\evil.example", "/d/x"],
)
async def test_path_with_other_host_is_not_found(target: str) -> None:
    async with running() as (browser, _):
        answer = await browser.ask(target)
        assert (answer.status, answer.header("location")) == (404, None)


ODD = (
    "gopher://h/1a%2Fb;x?q#f",
    "ftp://h//a/../b/./c",
    "ftp://h/%2e%2e/%2E/x",
    "x:\\a\\b",
    "ftp://h/%E9%00",
    "http://h/?a=%26&b=+%2B",
    "gopher://h/1 x",
    "ftp://h/\u2603",
    "ftp://h/\udce9",
)


@pytest.mark.parametrize("url", ODD)
def test_url_survives_its_path(url: str) -> None:
    path = access.make_path(url)
    assert set(path[3:]) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~%")
    assert access.parse_path(path.encode()) == access.PageAddress(url, False)


def test_parse_path_with_raw_colon_keeps_percent_encoding() -> None:
    assert access.parse_path(b"/u/mailto:a%2Cb@h") == access.PageAddress("mailto:a%2Cb@h", True)


def test_parse_path_removes_web_prefix_of_known_scheme() -> None:
    assert access.parse_path(b"/u/web%2Bgopher%3A%2F%2Fh%2F1").text == "gopher://h/1"
    assert access.parse_path(b"/u/web%2Bnothing%3Ax").text == "web+nothing:x"


async def test_url_typed_behind_path_is_only_previewed() -> None:
    async with gopher() as peer, running() as (browser, _):
        answer = await browser.ask(f"/u/{peer.url}")
        assert "typed behind /u/ by hand" in unquote(answer.text)
        assert peer.heard == []


async def test_url_with_form_data_is_sent_only_by_post() -> None:
    """RFC 1738 section 3.4.9: a URL can submit an ASK form."""
    async with gopher() as peer, running(settings=local_settings(peer)) as (browser, _):
        url = f"{peer.url}order%09%09+%091%0D%0A+-1%0D%0A1000%20units%0D%0A.%0D%0A"
        assert 'action="/open"' not in (await browser.ask(path_of(url))).text
        looked = await browser.look(url)
        assert "S05" in looked.text
        assert (await browser.ask(f"{path_of(url)}?from={looked.field('from')}")).status == 200
        assert peer.heard == []
        await browser.open(looked)
        assert len(peer.heard) == 1


async def test_fetch_ends_when_its_browser_disconnects() -> None:
    async with gopher() as peer, running(settings=local_settings(peer)) as (browser, _):
        peer.silent = True
        lines = (f"GET {path_of(peer.url)} HTTP/1.1", f"Host: {browser.server.site.authority}")
        fields = (f"Cookie: {browser.cookie}", "Sec-Fetch-Site: same-origin")
        head = "".join(f"{line}\r\n" for line in (*lines, *fields))
        stream = await trio.open_tcp_stream(LOOPBACK, browser.server.site.port)
        await stream.send_all(f"{head}\r\n".encode())
        await peer.come.wait()
        await stream.aclose()
        await peer.gone.wait()


async def test_gateway_serves_other_clients_with_its_secret() -> None:
    async with gopher() as peer, running(settings=local_settings(peer)) as (browser, log):
        secret = browser.server.site.keys.gateway
        target = f"/g/{secret}/{quote(peer.url, safe='')}"
        nobody = {"Sec-Fetch-Site": "", "Sec-Fetch-Mode": "", "Sec-Fetch-Dest": "", "Cookie": ""}
        answer = await browser.ask(target, nobody)
        assert (answer.status, answer.text.count("0About\tabout\t127.0.0.1")) == (200, 1)
        assert (await browser.ask(f"/g/x/{quote(peer.url, safe='')}", nobody)).status == 403
        assert (await browser.ask(target)).status == 403
        assert (await browser.ask(target, {**nobody, "Origin": "null"})).status == 403
        assert (await browser.ask(target, nobody, method="POST", body=b"x")).status == 405
        refused = await browser.ask(f"/g/{secret}/{quote('gopher://127.0.0.1:25/1', safe='')}", nobody)
        assert (refused.status, "S04" in refused.text) == (403, True)
        assert len(peer.heard) == 1
        assert secret not in "".join(log)


async def test_menu_item_refused_by_policy_shows_reason() -> None:
    """A link that the user may still confirm in the preview stays a link."""
    menu = (
        "0Mail\tx\th.example\t25\n0Other\tx\th.example\t25\n0Fine\tx\th.example\t70\n"
        "0Inside\tx\t127.0.0.1\t70\n1Control\tx\x01y\th.example\t70\n"
    )
    async with gopher(menu) as peer, running() as (browser, _):
        page = (await browser.open(await browser.look(peer.url))).text
        assert page.count("cannot be opened: <bdi>port 25 ") == 2
        names = ("Mail", "Other", "Fine", "Inside", "Control")
        assert [f"<bdi>{name}</bdi></a>" in page for name in names] == [False, False, True, True, True]
        assert len(peer.heard) == 1
