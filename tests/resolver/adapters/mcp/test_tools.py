"""The tools for agents, called without MCP: limits, refusals, and pagination of results."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import fixtures.http
import resolver
from fixtures.http import Page, moved
from fixtures.ports import serve_connections
from resolver.adapters.mcp import ToolGrant, limit_body, tools
from resolver.adapters.mcp.tools import (
    OCTETS,
    RECORD,
    Content,
    NoSuchPage,
    Record,
    ResultPage,
    ResultStore,
    StoredResult,
    ToolAnswer,
    Tools,
    safe_text,
)
from tests.hang import HANG

HERE = resolver.Policy(name="untrusted", allow_address=frozenset({"127.0.0.1"}))


async def listed(nursery: trio.Nursery, words: bytes) -> dict[str, object]:
    """Return the result of the tool `list` for a gopher server that sends these bytes to every request."""

    async def say(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            with suppress(trio.BrokenResourceError):  # the client stops reading at its limit
                await stream.send_all(words)

    port = await serve_connections(nursery, say)
    grant = ToolGrant(policy=replace(HERE, allow_port=frozenset({port})), environment={})
    with trio.fail_after(HANG):
        async with grant.session() as session:
            answer = await Tools(grant, session).call("list", {"url": f"gopher://127.0.0.1:{port}/1"})
    nursery.cancel_scope.cancel()
    assert not answer.failed, answer.record
    return answer.record


async def test_list_stops_at_entry_limit(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "ENTRIES", 20)
    record = await listed(nursery, b"0a\t/a\th.example\t70\r\n" * 50 + b".\r\n")
    assert (record["total"], record["complete"]) == (20, False)


async def test_list_shortens_long_names(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "ENTRY_CHARACTERS", 20_000)
    record = await listed(nursery, b"0" + b"a" * 5_000 + b"\t/a\th.example\t70\r\n.\r\n")
    entries = record["entries"]
    assert isinstance(entries, list)
    assert [entry["name"] for entry in entries] == ["a" * tools.NAME + "…"]
    assert record["complete"] is True


@pytest.mark.parametrize("name", ["default", "cautious"])
def test_grant_refuses_policy_weaker_than_untrusted(name: str) -> None:
    with pytest.raises(ValueError, match="untrusted"):
        ToolGrant(policy=resolver.Policy.named(name))


def test_grant_always_bounds_the_body() -> None:
    assert limit_body(resolver.Limits()).body == ToolGrant().limits.body == tools.BODY
    assert ToolGrant().limits.body_everywhere
    own = resolver.Limits(body=5, body_everywhere=True)
    assert limit_body(own) is own


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\nb\tc\n", "a\nb\tc\n"),
        ("\x1b[2J\x9b\x00\x7f\r", "\\x1b[2J\\x9b\\x00\\x7f\\x0d"),
        ("\u202e\u2066\u200f", "\\u202e\\u2066\\u200f"),
        ("\U000e0041\U000e0fff", "\\U000e0041\\U000e0fff"),
        ("\ud800", "\\ud800"),
        ("é \U0001f600", "é \U0001f600"),
    ],
)
def test_safe_text_escapes_control_characters(text: str, shown: str) -> None:
    assert safe_text(text) == shown
    assert Record({"a": [{text: (text, 1, None)}]}) == {"a": [{shown: [shown, 1, None]}]}


@given(
    st.dictionaries(
        st.just("a"),
        st.recursive(
            st.none() | st.integers() | st.sampled_from(("x" * 9_000, "\x1b" * 3_000, "y" * 40)),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    )
)
def test_record_is_bounded_for_any_content(content: dict[str, object]) -> None:
    record = Record(content)
    assert len(json.dumps(record)) < 3 * RECORD
    assert Record(record) == record


async def answered(
    nursery: trio.Nursery, site: dict[str, Page], tool: str, path: str, **more: object
) -> ToolAnswer:
    """Return a tool's answer for a page."""
    server = await fixtures.http.serve(nursery, site=site)
    grant = ToolGrant(policy=HERE, environment={})
    with trio.fail_after(HANG):
        async with grant.session() as session:
            answer = await Tools(grant, session).call(tool, {"url": server.url(path), **more})
    nursery.cancel_scope.cancel()
    return answer


async def test_record_of_long_redirects_is_bounded(nursery: trio.Nursery) -> None:
    long = "x" * 60_000
    site = {f"/{number}{long}": moved(f"/{number + 1}{long}") for number in range(9)}
    answer = await answered(nursery, {**site, f"/9{long}": Page(b"ok")}, "fetch", f"/0{long}")
    assert (answer.content, answer.record["total"], answer.record["shortened"]) == ("ok", 2, True)
    assert len(json.dumps(answer.record)) < 2 * RECORD


@pytest.mark.parametrize(
    "page",
    [
        Page(status=404, reason="x" * 60_000),
        Page(media_type=f"text/plain; charset=utf-8; x={'x' * 60_000}"),
        Page(headers=(("Content-Disposition", f'attachment; filename="{"x" * 60_000}"'),)),
        Page(headers=(("Content-Encoding", "x" * 60_000),)),
    ],
)
@pytest.mark.parametrize("tool", ["fetch", "list", "info"])
async def test_record_of_long_header_values_is_bounded(page: Page, tool: str, nursery: trio.Nursery) -> None:
    answer = await answered(nursery, {"/": page}, tool, "/")
    assert len(json.dumps(answer.record)) < 2 * RECORD


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("fetch", {"url": "x:", "characters": 0}),
        ("fetch", {"url": "x:", "characters": tools.MAX_LENGTH + 1}),
        ("fetch", {"url": "x:", "characters": True}),
        ("list", {"url": "x:", "entries": "5"}),
        ("list", {"url": "x:", "raw": True}),
        ("fetch", {"url": "x:", "raw": "yes"}),
        ("list", {"url": "x:", "entries": tools.MAX_WIDTH + 1}),
        ("list", {"cursor": "1-1"}),
        ("info", {"url": "x:", "policy": "default"}),
        ("check", {"url": "x:", "allow_address": "0.0.0.0/0"}),
        ("explain", {}),
        ("explain", {"url": ["x:"]}),
    ],
)
async def test_call_with_invalid_arguments_fails(tool: str, arguments: dict[str, object]) -> None:
    grant = ToolGrant(environment={})
    async with grant.session() as session:
        answer = await Tools(grant, session).call(tool, arguments)
    assert answer.failed
    assert answer.record["exit"] == 2


async def test_call_with_proxy_in_environment_is_refused() -> None:
    """A proxy makes its own DNS lookups, so a proxy from the environment is refused (S09)."""
    grant = ToolGrant(environment={"http_proxy": "http://192.0.2.1:3128"})
    async with grant.session() as session:
        for tool in ("fetch", "info", "list"):
            answer = await Tools(grant, session).call(tool, {"url": "http://h.example/"})
            assert answer.record["error"]["rule"] == "S09"  # type: ignore[index]
        plan = await Tools(grant, session).call("explain", {"url": "http://h.example/"})
        verdict = await Tools(grant, session).call("check", {"url": "http://h.example/"})
    assert (plan.record["verdict"], verdict.record["action"]) == ("refuse", "refuse")


HTML = Page(
    b"<title>T\x1b</title><nav>menu</nav><main><p>a <a href=b>c</a>&#x202e;</p></main>",
    "text/html; charset=utf-8",
)


async def test_fetch_html_returns_markdown(nursery: trio.Nursery) -> None:
    answer = await answered(nursery, {"/d/a": HTML}, "fetch", "/d/a")
    base = str(answer.record["url"]).removesuffix("a")
    assert answer.content == f"a [c]({base}b)\\u202e\n\n---\n\nmenu"
    assert (answer.record["form"], answer.record["format"]) == ("text", "markdown")
    assert (answer.record["title"], answer.record["size"]) == ("T\\x1b", len(HTML.content))


async def test_fetch_html_raw_returns_source(nursery: trio.Nursery) -> None:
    answer = await answered(nursery, {"/": HTML}, "fetch", "/", raw=True)
    assert answer.content == safe_text(HTML.content.decode())
    assert (answer.record["format"], answer.record["title"]) == ("source", None)


async def test_fetch_html_above_limits_returns_source(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def convert(source: str, url: str, limit: object) -> None:
        return None

    monkeypatch.setattr(tools, "convert_html", convert)
    answer = await answered(nursery, {"/": HTML}, "fetch", "/")
    assert (answer.content, answer.record["format"]) == (safe_text(HTML.content.decode()), "source")


async def test_fetch_text_is_not_converted(nursery: trio.Nursery) -> None:
    answer = await answered(nursery, {"/": Page(b"<p>a</p>", "text/plain")}, "fetch", "/")
    assert (answer.content, answer.record["format"]) == ("<p>a</p>", "source")


# Pagination: each page has a limited size, all pages together are the complete result, and memory is limited.

ENTRIES = st.lists(st.text(max_size=9).map(lambda name: {"name": name}), max_size=30).map(tuple)
LINES = st.lists(st.sampled_from(["a", "bc\n", "\n", "long enough to be cut off\n"]), max_size=30).map(
    "".join
)


def all_pages(content: Content, length: int, width: int) -> list[ResultPage]:
    shelf = ResultStore()
    pages = [shelf.store_first_page(StoredResult(Record({}), content, 1), length, width)]
    while (cursor := pages[-1].cursor) is not None:
        pages.append(shelf.find_page(cursor, length, width))
    return pages


@given(content=LINES | st.binary(max_size=9), length=st.integers(1, 40))
def test_pages_of_text_join_to_the_text(content: str | bytes, length: int) -> None:
    pages = all_pages(content, length, 1)
    whole = content[:0]
    for page in pages:
        assert page.position == len(whole)
        assert isinstance(content, bytes) or 0 < len(page.content) <= length or not content
        whole += page.content  # type: ignore[operator]
    assert whole == content


@given(content=ENTRIES, length=st.integers(1, 200), width=st.integers(1, 5))
def test_pages_of_entries_join_to_the_entries(
    content: tuple[dict[str, object], ...], length: int, width: int
) -> None:
    pages = all_pages(content, length, width)
    found: list[object] = []
    for page in pages:
        assert isinstance(page.content, tuple)
        assert len(page.content) <= width
        assert len(page.content) <= 1 or len("".join(map(str, page.content))) <= length
        found += page.content
    assert found == list(content)


def test_page_ends_after_word_or_between_characters() -> None:
    assert [page.content for page in all_pages("one two three", 6, 1)] == ["one ", "two ", "three"]
    assert [page.content for page in all_pages("abcde\u0301\u0302fg", 6, 1)] == ["abcd", "e\u0301\u0302fg"]
    assert [page.content for page in all_pages("abc\\u202edef", 6, 1)] == ["abc", "\\u202e", "def"]
    assert [page.content for page in all_pages("abc\\user-x", 6, 1)] == ["abc\\us", "er-x"]


@pytest.mark.parametrize("mark", ["\u0301", "\\", "\\u202e", "\\x1b"])
@pytest.mark.parametrize("length", [1, 2, 5, 40])
def test_pages_of_marks_join_to_the_text(mark: str, length: int) -> None:
    pages = all_pages(mark * 100, length, 1)
    assert "".join(str(page.content) for page in pages) == mark * 100
    assert all(0 < len(page.content) <= length for page in pages)


def test_page_says_how_to_get_the_next() -> None:
    first, second = all_pages("one two", 4, 1)
    assert first.facts["next"] == '4 of 7 returned; for more, call the same tool with {"cursor": "1-4"}'
    assert "next" not in second.facts


def test_pages_of_bytes_have_a_fixed_size() -> None:
    sizes = [len(page.content) for page in all_pages(bytes(OCTETS * 2 + 1), 1, 1)]
    assert sizes == [OCTETS, OCTETS, 1]


def test_page_ends_at_a_nearby_line_end() -> None:
    assert [page.content for page in all_pages("one\ntwo\nthree", 6, 1)] == ["one\n", "two\n", "three"]
    assert [page.content for page in all_pages("1\nlonger", 6, 1)] == ["1\nlong", "er"]


@pytest.mark.parametrize("cursor", ["", "1", "1-0", "1-3", "2-1", "-1-1", "1-1 ", "١-١", "1-1-1", "9" * 40])
def test_find_page_with_invalid_cursor_raises(cursor: str) -> None:
    shelf = ResultStore()
    shelf.store_first_page(StoredResult(Record({}), "abc", 1), 1, 1)
    assert shelf.find_page("1-1", 1, 1).content == "b"
    with pytest.raises(NoSuchPage):
        shelf.find_page(cursor, 1, 1)


def test_result_store_evicts_oldest_and_keeps_newest() -> None:
    shelf = ResultStore(max_size=10)
    cursors = [
        shelf.store_first_page(StoredResult(Record({}), "abc", weight), 1, 1).cursor
        for weight in (4, 4, 4, 40)
    ]
    assert cursors == ["1-1", "2-1", "3-1", "4-1"]
    for gone in ("1-1", "2-1", "3-1"):
        with pytest.raises(NoSuchPage):
            shelf.find_page(gone, 1, 1)
    assert shelf.find_page("4-1", 1, 1).content == "b"


def test_result_store_does_not_keep_single_pages() -> None:
    shelf = ResultStore()
    assert shelf.store_first_page(StoredResult(Record({}), "ab", 2), 2, 1).cursor is None
    with pytest.raises(NoSuchPage):
        shelf.find_page("1-1", 1, 1)
