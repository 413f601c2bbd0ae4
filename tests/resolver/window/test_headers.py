"""What answers say about themselves: all of them the same, whatever is asked."""

from __future__ import annotations

import pytest

from resolver.web import headers
from resolver.web.session import ContentDocument
from tests.resolver.window.client import Answer, Browser, running

ON_PAGES = (
    "content-security-policy",
    "x-content-type-options",
    "cache-control",
    "x-frame-options",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
)


def assert_guarded(answer: Answer) -> None:
    for name in ON_PAGES:
        assert answer.header(name) is not None, name
    policy = (answer.header("content-security-policy") or "").split("; ")
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"} < {
        *policy
    }
    assert "unsafe" not in " ".join(policy)
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("access-control-allow-origin") is None
    assert answer.header("server") is None


async def every_answer(browser: Browser) -> list[Answer]:
    """Pages, refusals, errors, and what the server itself answers."""
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    return [
        await browser.ask("/"),
        await browser.ask("/nothing"),
        await browser.ask("/static/window.css"),
        await browser.ask("/look?url=x"),
        await browser.ask("/u/x", elsewhere),
        await browser.ask("/", {**elsewhere, "Sec-Fetch-Mode": "cors"}),
        await browser.ask("/", {"Host": "evil.example"}),
        await browser.ask("/", {"Cookie": ""}),
        await browser.post("/open", {}),
        await browser.ask("/", method="PUT"),
        await browser.ask("/enter?t=x"),
        await browser.ask("/", {"Host": ""}),
        await browser.ask("/" + "x" * 400_000),
    ]


async def test_every_answer_of_a_page_says_it() -> None:
    async with running() as (browser, _):
        answers = await every_answer(browser)
    assert [each.status for each in answers[-2:]] == [400, 431]
    for answer in answers:
        assert_guarded(answer)
    referrers = {each.header("referrer-policy") for each in answers[:-2]}
    assert referrers == {"same-origin", "no-referrer"}
    closed = {each.status for each in answers if each.header("connection") == "close"}
    assert {403, 421} <= closed


@pytest.mark.parametrize("name", ["x-content-type-options", "content-security-policy"])
async def test_one_that_is_missing_is_missed(name: str) -> None:
    async with running(without=frozenset({name})) as (browser, _):
        with pytest.raises(AssertionError):
            assert_guarded(await browser.ask("/"))


async def test_a_document_says_that_it_does_nothing() -> None:
    async with running() as (browser, _):
        kept = ContentDocument(b"<script>x</script>", headers.OCTETS, 'a".html', inline=False)
        place = int(browser.server.content.rpartition(":")[2])
        document_id = browser.server.session.keep(kept)
        answer = await browser.ask(f"/d/{document_id}/a.html", port=place)
        assert (answer.status, answer.body) == (200, kept.content)
        policy = (answer.header("content-security-policy") or "").split("; ")
        assert {"sandbox", "default-src 'none'", f"frame-ancestors {browser.server.house.origin}"} < {*policy}
        assert (
            answer.header("content-disposition")
            == "attachment; filename=\"a_.html\"; filename*=UTF-8''a_.html"
        )
        assert (answer.header("x-content-type-options"), answer.header("referrer-policy")) == (
            "nosniff",
            "no-referrer",
        )
        for target in ("/", "/d/", "/d/x/a.html", f"/e/{document_id}", f"/D/{document_id}"):
            none = await browser.ask(target, port=place)
            assert (none.status, none.body) == (404, b"")
        assert (await browser.ask(f"/d/{document_id}", method="POST", port=place)).status == 404
        for name in ("evil.example", f"localhost:{place}", browser.server.house.place):
            assert (await browser.ask(f"/d/{document_id}", {"Host": name}, port=place)).status == 404


@pytest.mark.parametrize(
    ("name", "plain", "whole"),
    [
        ("a.txt", "a.txt", "a.txt"),
        ("é☃.txt", "__.txt", "%C3%A9%E2%98%83.txt"),
        ("../../etc/passwd", "passwd", "passwd"),
        ('x"; evil="1', "x__ evil=_1", "x_%3B%20evil%3D_1"),
        ("a\r\nSet-Cookie: x=1", "a__Set-Cookie_ x=1", "a__Set-Cookie_%20x%3D1"),
        ("50%41.txt", "50_41.txt", "50%2541.txt"),
        (".bashrc", "_bashrc", "_bashrc"),
        ("\u202egpj.exe", "_gpj.exe", "_gpj.exe"),
        ("..", "document", "document"),
    ],
)
def test_a_name_is_made_harmless_in_both_forms(name: str, plain: str, whole: str) -> None:
    said = headers.disposition(name, inline=True)
    assert said == f"inline; filename=\"{plain}\"; filename*=UTF-8''{whole}".replace("x__ evil", "x_; evil")


def test_a_name_is_cut() -> None:
    said = headers.disposition("☃" * 300, inline=False)
    assert len(said) < 900


@pytest.mark.parametrize("text", ["a\r\nb", "a\nb", "\x00", "☃", "\ud800", "\x7f", "é"])
def test_a_value_is_of_ascii_that_is_seen(text: str) -> None:
    _, value = headers.field("x", text)
    assert all(0x20 <= octet <= 0x7E for octet in value)
    assert value
