"""Logins, Gopher+ forms and searches on pages: their recipients, confirmation and secrecy."""

from __future__ import annotations

import re
from base64 import b64encode
from contextlib import AbstractAsyncContextManager
from html import unescape
from urllib.parse import quote, urlencode

import pytest
import trio

from fixtures.ftp.server import ACCOUNTS
from fixtures.ftp.server import serve as serve_ftp
from fixtures.gopher.server import GopherServer, serve
from fixtures.http.digest import Guard
from fixtures.http.server import serve as serve_http
from fixtures.http.site import Page
from resolver import Policy, Settings
from resolver.web.access import LOOPBACK
from tests.resolver.web.client import Answer, Browser, running
from tests.resolver.web.peers import serving

USER, PASSWORD = "sam", "speak friend"
RIGHT = f"Basic {b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"


class LoginServer:
    """An HTTP server that requires a login; `open_form` holds the received logins, by target."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[tuple[str, str]] = []
        self.leads_to = ""

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/a.txt"

    @property
    def given(self) -> list[str]:
        return [login for _, login in self.requests if login]

    async def answer(self, stream: trio.SocketStream) -> None:
        octets = b""
        while b"\r\n\r\n" not in octets:
            if not (more := await stream.receive_some()):
                return
            octets += more
        lines = octets.decode().split("\r\n")
        login = "".join(line[15:] for line in lines if line.lower().startswith("authorization: "))
        self.requests.append((lines[0].split()[1], login))
        status, fields, body = "401 No", 'WWW-Authenticate: Basic realm="x"\r\n', "no"
        if self.leads_to:
            status, fields = "302 There", f"Location: {self.leads_to}\r\n"
        elif login == RIGHT:
            status, fields, body = "200 OK", "Content-Type: text/plain\r\n", "the words of a document"
        head = f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        await stream.send_all(f"{head}{body}".encode())
        await stream.aclose()


def login_server() -> AbstractAsyncContextManager[LoginServer]:
    return serving(LoginServer())


BOBS = ACCOUNTS[b"bob"].decode()


async def log_in(browser: Browser, page: Answer, password: str = PASSWORD, user: str = USER) -> Answer:
    """Submit the login form and follow its redirect."""
    csrf = browser.server.site.keys.make_csrf("/login")
    form = {"csrf": csrf, "login": page.field("login"), "user": user, "password": password}
    answer = await browser.post("/login", form)
    assert answer.status == 303
    where = answer.header("location") or ""
    assert not any(word in where for word in (USER, "friend"))
    return await browser.ask(where)


async def test_login_opens_page_and_is_shown_nowhere() -> None:
    async with login_server() as server, running() as (browser, log):
        page = await browser.typed(server.url)
        assert (page.status, f"http://{LOOPBACK}:{server.port}" in page.text) == (403, True)
        opened = await log_in(browser, page)
        assert (opened.status, "the words of a document" in opened.text) == (200, True)
        dialogue = opened.text.split('href="/dialogue/')[1].split(".")[0]
        targets = ["/", "/history", "/bookmarks", "/transfers", "/settings", "/help"]
        targets += [
            f"/dialogue/{dialogue}.svg",
            f"/dialogue/{dialogue}.json",
            f"/look?url={quote(server.url)}",
        ]
        shown = [opened.text, *[(await browser.ask(target)).text for target in targets], *log]
        basic = RIGHT.removeprefix("Basic ")
        assert not any(word in text for text in shown for word in ("friend", basic))
        assert server.given[-1] == RIGHT
        assert (await browser.typed(server.url)).status == 200  # The login is remembered.


async def test_login_refused_is_not_resent_and_can_be_replaced() -> None:
    async with login_server() as server, running() as (browser, _):
        refused = await log_in(browser, await browser.typed(server.url), "wrong")
        assert (
            refused.status,
            "did not accept the previous login" in refused.text,
            "wrong" in refused.text,
        ) == (
            403,
            True,
            False,
        )
        count = len(server.given)
        again = await browser.typed(server.url)
        assert len(server.given) == count
        assert (await log_in(browser, again)).status == 200


async def test_login_refused_by_digest_can_be_replaced(nursery: trio.Nursery) -> None:
    """A server that refused one password of a user can be given another one."""
    page = Page(b"the words of a document", guard=Guard(USER, PASSWORD))
    server = await serve_http(nursery, {"/a": page})
    async with running() as (browser, _):
        first = await browser.typed(f"http://{LOOPBACK}:{server.port}/a")
        second = await log_in(browser, first, "wrong")
        assert (first.status, second.status) == (403, 403)
        assert "the words" in (await log_in(browser, second)).text


async def test_ftp_connection_of_another_login_is_not_reused(nursery: trio.Nursery) -> None:
    """FTP logs in a connection, and the pool keeps it: it is not reused after another login or none."""
    server = await serve_ftp(nursery)
    url = server.url("%2Fpub/a.txt", "bob@")
    async with running() as (browser, _):
        page = await browser.typed(url)
        assert (page.status, 'action="/login"' in page.text) == (403, True)
        assert 'name="user" type="text" value="bob"' in page.text
        page = await log_in(browser, page, "wrong", "bob")
        assert (page.status, "did not accept the previous login" in page.text) == (403, True)
        opened = await log_in(browser, page, BOBS, "bob")
        assert opened.status == 200
        assert BOBS not in opened.text
        csrf = browser.server.site.keys.make_csrf("/login/forget")
        await browser.post("/login/forget", {"csrf": csrf, "place": "all"})
        assert (await browser.typed(url)).status == 403


async def test_login_forgotten_is_not_sent() -> None:
    async with login_server() as server, running() as (browser, _):
        await log_in(browser, await browser.typed(server.url))
        settings = (await browser.ask("/settings")).text
        place = f"http://{LOOPBACK}:{server.port}"
        assert f'value="{place}"' in settings
        csrf = browser.server.site.keys.make_csrf("/login/forget")
        assert (await browser.post("/login/forget", {"csrf": csrf, "place": place})).status == 303
        assert place not in (await browser.ask("/settings")).text.split("gateway for other")[0]
        count = len(server.given)
        assert (await browser.typed(server.url)).status == 403
        assert len(server.given) == count


async def test_login_goes_only_to_the_server_that_requested_it() -> None:
    """Neither another port nor the redirecting server gets the login; the form names its recipient."""
    async with (
        login_server() as server,
        login_server() as other,
        login_server() as way,
        running() as (browser, _),
    ):
        way.leads_to = server.url
        page = await browser.typed(way.url)
        assert f"http://{LOOPBACK}:{server.port}" in page.text
        assert (await log_in(browser, page)).status == 200
        assert (await browser.typed(other.url)).status == 403
        assert (server.given[-1], other.given, way.given) == (RIGHT, [], [])


@pytest.mark.parametrize("action", ["/login", "/login/forget"])
async def test_login_form_from_another_origin_is_refused(action: str) -> None:
    async with login_server() as server, running() as (browser, log):
        page = await browser.typed(server.url)
        csrf = browser.server.site.keys.make_csrf(action)
        form = {"login": page.field("login"), "user": USER, "password": PASSWORD, "place": "all"}
        for fields, headers_sent in (
            (form, {}),
            ({**form, "csrf": "x"}, {}),
            ({**form, "csrf": browser.server.site.keys.make_csrf("/save")}, {}),
            ({**form, "csrf": csrf}, {"Sec-Fetch-Site": "same-site"}),
            ({**form, "csrf": csrf}, {"Sec-Fetch-Site": "cross-site"}),
            ({**form, "csrf": csrf}, {"Sec-Fetch-Site": "", "Origin": "null"}),
            ({**form, "csrf": csrf}, {"Cookie": ""}),
        ):
            assert (await browser.post(action, fields, headers_sent)).status == 403
        assert (await browser.ask(f"{action}?user={USER}&password=x")).status == 405
        forged = {**form, "csrf": csrf, "login": "none"}
        assert (await browser.post(action, forged)).header("location") in ("/", "/settings")
        assert (await browser.typed(server.url)).status == 403
        assert server.given == []
        assert not any("friend" in line for line in log)


async def test_gateway_sends_no_login_of_the_session() -> None:
    async with login_server() as server:
        policy = Policy(allow_address=frozenset({"127.0.0.0/8"}))
        async with running(settings=Settings(policy=policy)) as (browser, _):
            assert (await log_in(browser, await browser.typed(server.url))).status == 200
            count = len(server.given)
            path = browser.server.site.gateway.partition("/g/")[2].partition("/")[0]
            target = f"/g/{path}/{quote(server.url, safe='')}"
            bare = dict.fromkeys(("Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Cookie"), "")
            assert (await browser.ask(target, bare)).status == 403
            assert len(server.given) == count


async def test_login_form_for_url_with_password_is_omitted() -> None:
    async with login_server() as server, running() as (browser, _):
        page = await browser.typed(server.url.replace("//", "//sam:wrong@"))
        assert (page.status, 'action="/login"' in page.text) == (403, False)


# Searches and forms on pages: input is sent once, and only after the user confirms it.

ANSWERS = {
    "answer1": "Sam",
    "answer2": "speak friend",
    "answer3": "one\r\ntwo",
    "answer4": "1",
    "answer5": "1",
}
BLOCK = b"Sam\r\nspeak friend\r\n2\r\none\r\ntwo\r\ngreen\r\n1\r\n.\r\n"


@pytest.fixture
async def server(nursery: trio.Nursery) -> GopherServer:
    return await serve(nursery)


def settings_for(server: GopherServer) -> Settings:
    return Settings(policy=Policy(allow_port={server.port}))


async def open_form(browser: Browser, server: GopherServer) -> Answer:
    """Open the form as a user does: the address bar, the item's page, its button."""
    item = await browser.typed(f"gopher://127.0.0.1:{server.port}/0{'0/poll'}%09%09?")
    fields = {name: item.field(name) for name in ("url", "from")}
    return await browser.ask(f"/form?{urlencode(fields)}")


async def test_form_is_sent_once_after_its_preview(server: GopherServer) -> None:
    async with running(settings=settings_for(server)) as (browser, _):
        form = await open_form(browser, server)
        assert "What is your name?" in form.text
        assert 'value="Frodo"' in form.text
        looked = await browser.post(
            "/form", {"csrf": form.field("csrf"), "form": form.field("form"), **ANSWERS}
        )
        assert "Send this form?" in looked.text
        assert "speak friend" not in looked.text
        assert not any(BLOCK in bytes(request) for request in server.heard)
        confirmation = {"csrf": looked.field("csrf"), "answers": looked.field("answers")}
        answer = await browser.post("/send", confirmation)
        assert (answer.status, "Thank you." in answer.text) == (200, True)
        before, _, said_back = answer.text.partition('<pre class="text">')
        assert "speak friend" not in before
        assert "speak friend" in said_back  # The server itself returns the answer.
        again = await browser.post("/send", confirmation)
        assert (again.status, again.header("location")) == (303, "/")
        assert sum(BLOCK in bytes(request) for request in server.heard) == 1


async def test_form_answer_page_shows_exchange_without_hidden_input(server: GopherServer) -> None:
    """The page and its downloads show the bytes as on every other page; the hidden input is masked."""
    async with running(settings=settings_for(server)) as (browser, log):
        form = await open_form(browser, server)
        filled = {"csrf": form.field("csrf"), "form": form.field("form"), **ANSWERS}
        looked = await browser.post("/form", filled)
        confirmation = {"csrf": looked.field("csrf"), "answers": looked.field("answers")}
        answer = await browser.post("/send", confirmation)
        _, _, beside = answer.text.partition("<summary>Protocol exchange")
        assert "Protocol exchange" in beside
        assert "Planned exchange" in beside
        assert "0/poll" in beside
        files = re.findall(r'href="(/dialogue/[^"]+)"', beside)
        away = [(await browser.ask(file)).text for file in files]
        assert [file[:1] for file in away] == ["<", "{"]
        assert all("0/poll" in file for file in away)
        history = (await browser.ask("/history")).text
        for text in (beside, *away, history, *log):
            assert "friend" not in text


async def test_form_with_invalid_answer_shows_error_and_questions(server: GopherServer) -> None:
    async with running(settings=settings_for(server)) as (browser, _):
        form = await open_form(browser, server)
        for name, text in (("answer1", "."), ("answer3", "a\r\n.\r\nb"), ("answer4", "9")):
            fields = {"csrf": form.field("csrf"), "form": form.field("form"), **ANSWERS, name: text}
            looked = await browser.post("/form", fields)
            assert 'role="alert"' in looked.text, name
            assert "What is your name?" in looked.text


async def test_form_to_a_port_the_policy_refuses_is_not_shown(server: GopherServer) -> None:
    """S03: forms go only to port 70 or to an allowed port."""
    async with running() as (browser, _):
        form = await open_form(browser, server)
        assert form.status == 403
        assert "S03" in form.text


async def test_send_without_preview_sends_nothing(server: GopherServer) -> None:
    """An unknown ID, an ID of another object and a GET request send nothing."""
    async with running(settings=settings_for(server)) as (browser, _):
        form = await open_form(browser, server)
        count = len(server.heard)
        token = await browser.post("/form", {"csrf": form.field("csrf"), "form": "none", **ANSWERS})
        assert (token.status, token.header("location")) == (303, "/")
        for target in ("/send?answers=x", "/send"):
            assert (await browser.ask(target)).status == 405
        without = {"answers": form.field("form")}
        assert (await browser.post("/send", without)).status == 403
        assert len(server.heard) == count


async def test_search_form_opens_the_url_with_the_search_terms(server: GopherServer) -> None:
    async with running(settings=settings_for(server)) as (browser, _):
        menu = await browser.typed(f"gopher://127.0.0.1:{server.port}/")
        match = re.search(r'name="url" value="([^"]*7/find[^"]*)"', menu.text)
        assert match is not None
        fields = {"url": unescape(match[1]), "from": menu.field("from"), "words": "grüße & co"}
        answer = await browser.ask(f"/search?{urlencode(fields)}")
        assert answer.status == 303
        where = answer.header("location") or ""
        assert quote("%09gr%C3%BC%C3%9Fe%20", safe="") in where
        assert (await browser.ask(where)).status == 200
        assert any(b"gr\xc3\xbc\xc3\x9fe & co" in bytes(request) for request in server.heard)


async def test_search_at_url_without_search_leads_to_preview() -> None:
    async with running() as (browser, _):
        for url in ("ftp://h.example/", "no url", "gopher://h.example/7x\r\n"):
            answer = await browser.ask(f"/search?{urlencode({'url': url, 'words': 'x'})}")
            assert (answer.header("location") or "").startswith("/look?"), url
