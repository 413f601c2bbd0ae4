"""The tools without their protocol: what bounds them, and what they let nobody have."""

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
from resolver.adapters.mcp import ToolGrant, bounded, tools
from resolver.adapters.mcp.tools import RECORD, Record, ToolAnswer, Tools, safe_text
from tests.hang import HANG

HERE = resolver.Policy(name="untrusted", allow_address=frozenset({"127.0.0.1"}))


async def listed(nursery: trio.Nursery, words: bytes) -> dict[str, object]:
    """What the tool `list` gives of a gopher server that says that to everything."""

    async def say(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            with suppress(trio.BrokenResourceError):  # enough was heard
                await stream.send_all(words)

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, say, listeners)
    grant = ToolGrant(policy=replace(HERE, allow_port=frozenset({port})), environment={})
    with trio.fail_after(HANG):
        async with grant.session() as session:
            answer = await Tools(grant, session).call("list", {"url": f"gopher://127.0.0.1:{port}/1"})
    nursery.cancel_scope.cancel()
    assert not answer.failed, answer.record
    return answer.record


async def test_a_listing_is_read_so_far(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "ENTRIES", 20)
    record = await listed(nursery, b"0a\t/a\th.example\t70\r\n" * 50 + b".\r\n")
    assert (record["total"], record["complete"]) == (20, False)


async def test_a_listing_of_long_names_is_read_so_far(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "ENTRY_CHARACTERS", 20_000)
    record = await listed(nursery, b"0" + b"a" * 5_000 + b"\t/a\th.example\t70\r\n.\r\n")
    entries = record["entries"]
    assert isinstance(entries, list)
    assert [entry["name"] for entry in entries] == ["a" * tools.NAME + "…"]
    assert record["complete"] is True


@pytest.mark.parametrize("name", ["default", "cautious"])
def test_a_milder_policy_is_no_grant(name: str) -> None:
    with pytest.raises(ValueError, match="untrusted"):
        ToolGrant(policy=resolver.Policy.named(name))


def test_a_body_is_always_bounded() -> None:
    assert bounded(resolver.Limits()).body == ToolGrant().limits.body == tools.BODY
    assert ToolGrant().limits.body_everywhere
    own = resolver.Limits(body=5, body_everywhere=True)
    assert bounded(own) is own


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
def test_text_is_safe_to_show_wherever_it_stands(text: str, shown: str) -> None:
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
def test_record_is_bounded_whatever_it_holds(told: dict[str, object]) -> None:
    record = Record(told)
    assert len(json.dumps(record)) < 3 * RECORD
    assert Record(record) == record


async def answered(nursery: trio.Nursery, site: dict[str, Page], tool: str, path: str) -> ToolAnswer:
    """Return what a tool gives of a page."""
    server = await fixtures.http.serve(nursery, site=site)
    grant = ToolGrant(policy=HERE, environment={})
    with trio.fail_after(HANG):
        async with grant.session() as session:
            answer = await Tools(grant, session).call(tool, {"url": server.url(path)})
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
async def test_record_of_long_words_is_bounded(page: Page, tool: str, nursery: trio.Nursery) -> None:
    answer = await answered(nursery, {"/": page}, tool, "/")
    assert len(json.dumps(answer.record)) < 2 * RECORD


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("fetch", {"url": "x:", "characters": 0}),
        ("fetch", {"url": "x:", "characters": tools.MOST_LENGTH + 1}),
        ("fetch", {"url": "x:", "characters": True}),
        ("list", {"url": "x:", "entries": "5"}),
        ("list", {"url": "x:", "entries": tools.MOST_WIDTH + 1}),
        ("list", {"cursor": "1-1"}),
        ("info", {"url": "x:", "policy": "default"}),
        ("check", {"url": "x:", "allow_address": "0.0.0.0/0"}),
        ("explain", {}),
        ("explain", {"url": ["x:"]}),
    ],
)
async def test_arguments_that_are_none(tool: str, arguments: dict[str, object]) -> None:
    grant = ToolGrant(environment={})
    async with grant.session() as session:
        answer = await Tools(grant, session).call(tool, arguments)
    assert answer.failed
    assert answer.record["exit"] == 2


async def test_a_variable_of_the_environment_is_no_way_round() -> None:
    """A proxy would look the names up itself (S09)."""
    grant = ToolGrant(environment={"http_proxy": "http://192.0.2.1:3128"})
    async with grant.session() as session:
        for tool in ("fetch", "info", "list"):
            answer = await Tools(grant, session).call(tool, {"url": "http://h.example/"})
            assert answer.record["error"]["rule"] == "S09"  # type: ignore[index]
        plan = await Tools(grant, session).call("explain", {"url": "http://h.example/"})
        verdict = await Tools(grant, session).call("check", {"url": "http://h.example/"})
    assert (plan.record["verdict"], verdict.record["action"]) == ("refuse", "refuse")
