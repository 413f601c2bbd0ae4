"""Searches and forms on pages: what a person types is sent when the person says so, once, and not before."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote, urlencode

import trio

from fixtures.gopher.server import GopherServer, serve
from resolver import Policy, Settings
from tests.resolver.window.client import Answer, Browser, running

SAID = {
    "answer1": "Sam",
    "answer2": "speak friend",
    "answer3": "one\r\ntwo",
    "answer4": "1",
    "answer5": "1",
}
BLOCK = b"Sam\r\nspeak friend\r\n2\r\none\r\ntwo\r\ngreen\r\n1\r\n.\r\n"


def allowing(server: GopherServer) -> Settings:
    return Settings(policy=Policy(allow_port={server.port}))


async def asked(browser: Browser, server: GopherServer) -> Answer:
    """The form, by the way that a person goes: the address bar, the item's page, its button."""
    item = await browser.typed(f"gopher://127.0.0.1:{server.port}/0{'0/poll'}%09%09?")
    fields = {name: item.field(name) for name in ("url", "from")}
    return await browser.ask(f"/form?{urlencode(fields)}")


async def test_a_form_is_sent_after_it_was_looked_at() -> None:
    async with trio.open_nursery() as nursery:
        server = await serve(nursery)
        async with running(settings=allowing(server)) as (browser, _):
            form = await asked(browser, server)
            assert "What is your name?" in form.text
            assert 'value="Frodo"' in form.text
            looked = await browser.post(
                "/form", {"csrf": form.field("csrf"), "form": form.field("form"), **SAID}
            )
            assert "Send this?" in looked.text
            assert "speak friend" not in looked.text
            assert not any(BLOCK in bytes(heard) for heard in server.heard)
            said = {"csrf": looked.field("csrf"), "answers": looked.field("answers")}
            done = await browser.post("/send", said)
            assert (done.status, "Thank you." in done.text) == (200, True)
            before, _, said_back = done.text.partition('<pre class="text">')
            assert "speak friend" not in before
            assert "speak friend" in said_back  # by the server itself
            again = await browser.post("/send", said)
            assert (again.status, again.header("location")) == (303, "/")
            assert sum(BLOCK in bytes(heard) for heard in server.heard) == 1
        nursery.cancel_scope.cancel()


async def test_what_was_sent_is_told_beside_what_came_back() -> None:
    """As on every other page: the octets, less what was typed hidden, also in what is taken away."""
    async with trio.open_nursery() as nursery:
        server = await serve(nursery)
        async with running(settings=allowing(server)) as (browser, told):
            form = await asked(browser, server)
            filled = {"csrf": form.field("csrf"), "form": form.field("form"), **SAID}
            looked = await browser.post("/form", filled)
            said = {"csrf": looked.field("csrf"), "answers": looked.field("answers")}
            done = await browser.post("/send", said)
            _, _, beside = done.text.partition("<summary>Dialogue")
            assert "What was said" in beside
            assert "What would be said" in beside
            assert "0/poll" in beside
            files = re.findall(r'href="(/dialogue/[^"]+)"', beside)
            away = [(await browser.ask(each)).text for each in files]
            assert [each[:1] for each in away] == ["<", "{"]
            assert all("0/poll" in each for each in away)
            history = (await browser.ask("/history")).text
            for text in (beside, *away, history, *told):
                assert "friend" not in text
        nursery.cancel_scope.cancel()


async def test_what_no_form_can_hold_is_said_beside_the_questions() -> None:
    async with trio.open_nursery() as nursery:
        server = await serve(nursery)
        async with running(settings=allowing(server)) as (browser, _):
            form = await asked(browser, server)
            for name, text in (("answer1", "."), ("answer3", "a\r\n.\r\nb"), ("answer4", "9")):
                fields = {"csrf": form.field("csrf"), "form": form.field("form"), **SAID, name: text}
                looked = await browser.post("/form", fields)
                assert 'role="alert"' in looked.text, name
                assert "What is your name?" in looked.text
        nursery.cancel_scope.cancel()


async def test_where_forms_may_not_go_nothing_is_asked() -> None:
    """S03: to port 70, or one that was allowed."""
    async with trio.open_nursery() as nursery:
        server = await serve(nursery)
        async with running() as (browser, _):
            form = await asked(browser, server)
            assert form.status == 403
            assert "S03" in form.text
        nursery.cancel_scope.cancel()


async def test_only_what_was_looked_at_is_sent() -> None:
    """Neither an ID that nobody has nor one of another thing sends anything; nor does a GET."""
    async with trio.open_nursery() as nursery:
        server = await serve(nursery)
        async with running(settings=allowing(server)) as (browser, _):
            form = await asked(browser, server)
            heard = len(server.heard)
            token = await browser.post("/form", {"csrf": form.field("csrf"), "form": "none", **SAID})
            assert (token.status, token.header("location")) == (303, "/")
            for target in ("/send?answers=x", "/send"):
                assert (await browser.ask(target)).status == 405
            without = {"answers": form.field("form")}
            assert (await browser.post("/send", without)).status == 403
            assert len(server.heard) == heard
        nursery.cancel_scope.cancel()


async def test_words_are_searched_for_where_the_page_asks_them() -> None:
    async with trio.open_nursery() as nursery:
        server = await serve(nursery)
        async with running(settings=allowing(server)) as (browser, _):
            menu = await browser.typed(f"gopher://127.0.0.1:{server.port}/")
            found = re.search(r'name="url" value="([^"]*7/find[^"]*)"', menu.text)
            assert found is not None
            fields = {"url": unescape(found[1]), "from": menu.field("from"), "words": "grüße & co"}
            answer = await browser.ask(f"/search?{urlencode(fields)}")
            assert answer.status == 303
            where = answer.header("location") or ""
            assert quote("%09gr%C3%BC%C3%9Fe%20", safe="") in where
            assert (await browser.ask(where)).status == 200
            assert any(b"gr\xc3\xbc\xc3\x9fe & co" in bytes(heard) for heard in server.heard)
        nursery.cancel_scope.cancel()


async def test_what_cannot_be_searched_is_looked_at() -> None:
    async with running() as (browser, _):
        for url in ("ftp://h.example/", "no url", "gopher://h.example/7x\r\n"):
            answer = await browser.ask(f"/search?{urlencode({'url': url, 'words': 'x'})}")
            assert (answer.header("location") or "").startswith("/look?"), url
